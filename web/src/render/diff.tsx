// A diff with colored lines. Each line keeps its sign, so that color is never the only cue.

import { ClippedLines } from "./folds";
import { memo } from "./memo";

const MAX_VISIBLE_LINES = 60;

interface DiffLine {
  kind: "add" | "del" | "hunk" | "meta" | "same";
  text: string;
}

export const Diff = memo(function Diff({ foldId, text }: { foldId: string; text: string }) {
  const lines = parseDiffLines(text).map(({ kind, text: line }, index) => (
    <div class={`line ${kind}`} key={index}>
      {line || " "}
    </div>
  ));
  return (
    <div class="diff" tabIndex={0} role="region" aria-label="Change">
      <div class="lines">
        <ClippedLines foldId={foldId} lines={lines} limit={MAX_VISIBLE_LINES} />
      </div>
    </div>
  );
});

export function parseDiffLines(text: string): DiffLine[] {
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => ({ kind: classifyLine(line), text: line }));
}

function classifyLine(line: string): DiffLine["kind"] {
  if (/^(\+\+\+|---|diff |index )/.test(line)) return "meta";
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "add";
  if (line.startsWith("-")) return "del";
  return "same";
}
