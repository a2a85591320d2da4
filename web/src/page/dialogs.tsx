// The modal dialogs: settings, keyboard shortcuts, rewind.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { SHORTCUTS } from "./keys";
import { RewindForm, rewindTarget } from "../conversation/rewind";
import { SettingsForm } from "../settings/settings";

type DialogName = "settings" | "keys" | "rewind";

export const activeDialogName = signal<DialogName | null>(null);

export function ActiveDialog() {
  const target = rewindTarget.value;
  if (target !== null) {
    return (
      <Dialog key="rewind" name="rewind" title="Go back to this message">
        <RewindForm target={target} onClose={() => (rewindTarget.value = null)} />
      </Dialog>
    );
  }
  switch (activeDialogName.value) {
    case "settings":
      return (
        <Dialog key="settings" name="settings" title="Settings">
          <SettingsForm />
        </Dialog>
      );
    case "keys":
      return (
        <Dialog key="keys" name="keys" title="Keyboard">
          <ShortcutList />
        </Dialog>
      );
    default:
      return null;
  }
}

function Dialog({ name, title, children }: { name: DialogName; title: string; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  // The browser closes it, gives the focus back, and tells us later: perhaps another one is open by then.
  const close = () => element.current?.close();
  const handleClose = () => {
    if (activeDialogName.value === name) activeDialogName.value = null;
    if (name === "rewind") rewindTarget.value = null;
  };
  return (
    <dialog
      ref={element}
      aria-labelledby="dialog-title"
      onClose={handleClose}
      onClick={(event) => {
        if (event.target === element.current) close();
      }}
    >
      <div class="dialog-body">
        <div class="dialog-head">
          <h2 id="dialog-title">{title}</h2>
          <button class="icon" aria-label="Close" onClick={close}>
            ✕
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}

function ShortcutList() {
  return (
    <dl class="shortcuts">
      {SHORTCUTS.map(([keys, meaning]) => (
        <div key={keys}>
          <dt>
            <kbd>{keys}</kbd>
          </dt>
          <dd>{meaning}</dd>
        </div>
      ))}
    </dl>
  );
}
