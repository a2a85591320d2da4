// Collapsible sections and clipped texts. Their state outlives rows that are scrolled out of the DOM.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

const folds = signal<ReadonlyMap<string, boolean>>(new Map());

interface FoldProps {
  /** Names this fold among all others. */
  name: string;
  title: ComponentChildren;
  open?: boolean;
  class?: string;
  children: () => ComponentChildren;
}

export function Fold({ name, title, open = false, class: kind = "", children }: FoldProps) {
  const shown = folds.value.get(name) ?? open;
  return (
    <div class={`fold ${kind}`}>
      <button class="fold-head" aria-expanded={shown} onClick={() => setFold(name, !shown)}>
        <span class="chevron" aria-hidden="true">
          {shown ? "▾" : "▸"}
        </span>
        {title}
      </button>
      {shown && <div class="fold-body">{children()}</div>}
    </div>
  );
}

export function isUnfolded(name: string, unlessChosen = false): boolean {
  return folds.value.get(name) ?? unlessChosen;
}

/** Unfolds something that stands elsewhere. */
export function FoldButton({ name, label }: { name: string; label: string }) {
  const shown = isUnfolded(name);
  return (
    <button class="quiet small fold-button" aria-expanded={shown} onClick={() => setFold(name, !shown)}>
      {label} <span aria-hidden="true">{shown ? "▾" : "▸"}</span>
    </button>
  );
}

export function setFold(name: string, open: boolean): void {
  folds.value = new Map(folds.value).set(name, open);
}

/** A long text: its end (or its beginning), and the whole on request. */
export function Clipped(props: { name: string; lines: ComponentChildren[]; limit: number; tail?: boolean }) {
  const { name, lines, limit, tail = false } = props;
  const all = folds.value.get(name) ?? false;
  const hidden = lines.length - limit;
  if (hidden <= 0) return <>{lines}</>;
  const more = (
    <button class="quiet small clip" onClick={() => setFold(name, !all)}>
      {all ? "Show less" : `Show ${hidden} more ${hidden === 1 ? "line" : "lines"}`}
    </button>
  );
  if (all)
    return (
      <>
        {more}
        {lines}
        {more}
      </>
    );
  return tail ? (
    <>
      {more}
      {lines.slice(hidden)}
    </>
  ) : (
    <>
      {lines.slice(0, limit)}
      {more}
    </>
  );
}
