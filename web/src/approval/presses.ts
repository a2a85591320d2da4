// The times at which presses began, which neither a click nor a repeated key event tells.

interface Key {
  name: string;
  at: number;
  repeats: boolean;
}

/** Keys that click the button in focus. */
const CLICKING = new Set(["Enter", " "]);

let pointerDownAt = 0;
let held: Key | null = null;

export function listenToPresses(): void {
  const early = { capture: true, passive: true };
  window.addEventListener("pointerdown", (event) => (pointerDownAt = event.timeStamp), early);
  window.addEventListener("keydown", keyDown, early);
  // Releasing the space bar clicks only after this event.
  window.addEventListener("keyup", ({ key }) => setTimeout(() => release(key)), early);
  window.addEventListener("blur", () => (held = null));
}

function keyDown({ key, repeat, timeStamp }: KeyboardEvent): void {
  if (!CLICKING.has(key)) return;
  const began = held?.name === key ? held.at : -Infinity;
  held = { name: key, at: repeat ? began : timeStamp, repeats: repeat };
}

function release(key: string): void {
  if (held?.name === key) held = null;
}

/** On the clock of `performance.now()`; null for what only a key's repetition has caused. */
export function pressedAt(event: MouseEvent | KeyboardEvent): number | null {
  if (event instanceof KeyboardEvent) return event.repeat ? null : event.timeStamp;
  if (event.detail > 0) return pointerDownAt;
  // Without a key it is assistive technology that clicks.
  if (held === null) return event.timeStamp;
  return held.name === "Enter" && held.repeats ? null : held.at;
}
