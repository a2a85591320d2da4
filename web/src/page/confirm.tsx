// The question before something is deleted for good. The safe answer has the focus.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

interface Confirmation {
  title: string;
  text: string;
  actionLabel: string;
  run(): void;
}

const confirmation = signal<Confirmation | null>(null);

export function askToConfirm(asked: Confirmation): void {
  confirmation.value = asked;
}

export function ConfirmDialog() {
  const asked = confirmation.value;
  return asked && <OpenConfirmDialog key={asked.title} {...asked} />;
}

function OpenConfirmDialog({ title, text, actionLabel, run }: Confirmation) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  const close = () => element.current?.close();
  return (
    <dialog
      ref={element}
      class="confirm"
      role="alertdialog"
      aria-labelledby="confirm-title"
      aria-describedby="confirm-text"
      onClose={() => (confirmation.value = null)}
    >
      <h2 id="confirm-title">{title}</h2>
      <p id="confirm-text">{text}</p>
      <div class="buttons">
        <button autofocus onClick={close}>
          Cancel
        </button>
        <button
          class="danger"
          onClick={() => {
            close();
            run();
          }}
        >
          {actionLabel}
        </button>
      </div>
    </dialog>
  );
}
