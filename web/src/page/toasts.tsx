// Short-lived messages at the edge of the page, mostly errors.

import { signal } from "@preact/signals";

interface Toast {
  id: number;
  text: string;
}

const SHOWN_FOR = 8_000;
const toasts = signal<Toast[]>([]);
let count = 0;

/** Say something in passing; most of all what went wrong. */
export function toast(text: string): void {
  if (toasts.value.some((known) => known.text === text)) return;
  const id = ++count;
  toasts.value = [...toasts.value.slice(-3), { id, text }];
  setTimeout(() => dismiss(id), SHOWN_FOR);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((known) => known.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text }) => (
        <div class="toast" key={id}>
          <span>{text}</span>
          <button class="icon" aria-label="Dismiss this message" onClick={() => dismiss(id)}>
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}
