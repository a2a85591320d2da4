// Short-lived messages at the edge of the page, mostly errors.

import { signal } from "@preact/signals";

interface Toast {
  id: number;
  text: string;
}

const TOAST_DURATION_MS = 8_000;
const toasts = signal<Toast[]>([]);
let lastToastId = 0;

/** Show a short-lived message, mostly an error. */
export function showToast(text: string): void {
  if (toasts.value.some((toast) => toast.text === text)) return;
  const id = ++lastToastId;
  toasts.value = [...toasts.value.slice(-3), { id, text }];
  setTimeout(() => dismissToast(id), TOAST_DURATION_MS);
}

function dismissToast(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text }) => (
        <div class="toast" key={id}>
          <span>{text}</span>
          <button class="icon" aria-label="Dismiss this message" onClick={() => dismissToast(id)}>
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}
