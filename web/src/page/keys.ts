// The keyboard shortcuts: their list, and one listener that asks the handlers of visible components.

type KeyHandler = (event: KeyboardEvent) => boolean;

const keyHandlers: KeyHandler[] = [];

export const SHORTCUTS: [string, string][] = [
  ["Enter", "send the message"],
  ["Shift+Enter", "new line in the message"],
  ["/ in a message", "slash commands"],
  ["Alt+Y", "approve, accept, continue"],
  ["Alt+N", "reject"],
  ["Alt+1 … Alt+9", "take a suggested answer"],
  ["Alt+S", "stop the task, or resume it"],
  ["Alt+↑ / Alt+↓", "previous or next task"],
  ["c", "write a message"],
  ["n", "new task"],
  ["/", "search tasks"],
  ["l", "show or hide the list of tasks"],
  ["g", "go to the latest message"],
  ["t", "light, dark or as the system"],
  [",", "settings"],
  ["Esc", "leave a field, close a dialog"],
  ["?", "this list"],
];

/** Listen until the returned function is called; the newest listener is asked first. */
export function addKeyHandler(handler: KeyHandler): () => void {
  keyHandlers.unshift(handler);
  return () => {
    keyHandlers.splice(keyHandlers.indexOf(handler), 1);
  };
}

export function isTextFieldFocused(): boolean {
  const active = document.activeElement;
  return (
    active instanceof HTMLElement && (active.matches("input, textarea, select") || active.isContentEditable)
  );
}

/**
 * The letter of a shortcut: that of the key as it is labelled, or of its place where other letters are
 * written. Where Alt writes characters (¥ on a Mac), it is no shortcut inside a text.
 */
export function getShortcutLetter({ key, code }: KeyboardEvent): string {
  if (/^[a-z]$/i.test(key)) return key.toLowerCase();
  const writesCharacters = navigator.platform.startsWith("Mac") && isTextFieldFocused();
  return writesCharacters ? "" : code.replace(/^Key/, "").toLowerCase();
}

export function startKeyListener(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    if (keyHandlers.some((handler) => handler(event))) event.preventDefault();
  });
}
