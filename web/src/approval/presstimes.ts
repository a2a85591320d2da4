// The times at which presses began, which neither a click nor a repeated key event tells.

interface PressedKey {
  name: string;
  startedAt: number;
  isRepeating: boolean;
}

/** Keys that click the button in focus. */
const CLICK_KEYS = new Set(["Enter", " "]);

let pointerDownAt = 0;
let pressedKey: PressedKey | null = null;

export function trackPresses(): void {
  const options = { capture: true, passive: true };
  window.addEventListener("pointerdown", (event) => (pointerDownAt = event.timeStamp), options);
  window.addEventListener("keydown", handleKeyDown, options);
  // Releasing the space bar clicks only after this event.
  window.addEventListener("keyup", ({ key }) => setTimeout(() => handleKeyUp(key)), options);
  window.addEventListener("blur", () => (pressedKey = null));
}

function handleKeyDown({ key, repeat, timeStamp }: KeyboardEvent): void {
  if (!CLICK_KEYS.has(key)) return;
  const startedAt = pressedKey?.name === key ? pressedKey.startedAt : -Infinity;
  pressedKey = { name: key, startedAt: repeat ? startedAt : timeStamp, isRepeating: repeat };
}

function handleKeyUp(key: string): void {
  if (pressedKey?.name === key) pressedKey = null;
}

/** On the clock of `performance.now()`; null for what only a key's repetition has caused. */
export function getPressStart(event: MouseEvent | KeyboardEvent): number | null {
  if (event instanceof KeyboardEvent) return event.repeat ? null : event.timeStamp;
  if (event.detail > 0) return pointerDownAt;
  // Without a key it is assistive technology that clicks.
  if (pressedKey === null) return event.timeStamp;
  return pressedKey.name === "Enter" && pressedKey.isRepeating ? null : pressedKey.startedAt;
}
