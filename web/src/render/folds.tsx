// Collapsible sections and clipped texts. Their state outlives rows that are scrolled out of the DOM.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

const foldStates = signal<ReadonlyMap<string, boolean>>(new Map());

interface FoldProps {
  /** Unique among all folds of the page. */
  foldId: string;
  title: ComponentChildren;
  defaultOpen?: boolean;
  class?: string;
  children: () => ComponentChildren;
}

export function Fold({ foldId, title, defaultOpen = false, class: className = "", children }: FoldProps) {
  const isOpen = foldStates.value.get(foldId) ?? defaultOpen;
  return (
    <div class={`fold ${className}`}>
      <button class="fold-head" aria-expanded={isOpen} onClick={() => setFoldOpen(foldId, !isOpen)}>
        <span class="chevron" aria-hidden="true">
          {isOpen ? "▾" : "▸"}
        </span>
        {title}
      </button>
      {isOpen && <div class="fold-body">{children()}</div>}
    </div>
  );
}

export function isFoldOpen(foldId: string, defaultOpen = false): boolean {
  return foldStates.value.get(foldId) ?? defaultOpen;
}

/** Opens and closes a section that is rendered elsewhere. */
export function FoldButton({ foldId, label }: { foldId: string; label: string }) {
  const isOpen = isFoldOpen(foldId);
  return (
    <button
      class="quiet small fold-button"
      aria-expanded={isOpen}
      onClick={() => setFoldOpen(foldId, !isOpen)}
    >
      {label} <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
    </button>
  );
}

export function setFoldOpen(foldId: string, isOpen: boolean): void {
  foldStates.value = new Map(foldStates.value).set(foldId, isOpen);
}

/** The beginning (or the end) of a long text, and all of it on request. */
export function ClippedLines(props: {
  foldId: string;
  lines: ComponentChildren[];
  limit: number;
  showTail?: boolean;
}) {
  const { foldId, lines, limit, showTail = false } = props;
  const isExpanded = foldStates.value.get(foldId) ?? false;
  const hiddenCount = lines.length - limit;
  if (hiddenCount <= 0) return <>{lines}</>;
  const toggleButton = (
    <button class="quiet small clip" onClick={() => setFoldOpen(foldId, !isExpanded)}>
      {isExpanded ? "Show less" : `Show ${hiddenCount} more ${hiddenCount === 1 ? "line" : "lines"}`}
    </button>
  );
  if (isExpanded)
    return (
      <>
        {toggleButton}
        {lines}
        {toggleButton}
      </>
    );
  return showTail ? (
    <>
      {toggleButton}
      {lines.slice(hiddenCount)}
    </>
  ) : (
    <>
      {lines.slice(0, limit)}
      {toggleButton}
    </>
  );
}
