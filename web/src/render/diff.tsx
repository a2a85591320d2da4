// A diff with colored lines. Each line keeps its sign, so that color is never the only cue.

import { Clipped } from "./folds";
import { memo } from "./memo";

const SHOWN = 60;

interface Line {
  kind: "add" | "del" | "hunk" | "meta" | "same";
  text: string;
}

export const Diff = memo(function Diff({ name, text }: { name: string; text: string }) {
  const lines = diffLines(text).map(({ kind, text: line }, index) => (
    <div class={`line ${kind}`} key={index}>
      {line || " "}
    </div>
  ));
  return (
    <div class="diff" tabIndex={0} role="region" aria-label="Change">
      <div class="lines">
        <Clipped name={name} lines={lines} limit={SHOWN} />
      </div>
    </div>
  );
});

export function diffLines(text: string): Line[] {
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => ({ kind: kindOf(line), text: line }));
}

function kindOf(line: string): Line["kind"] {
  if (/^(\+\+\+|---|diff |index )/.test(line)) return "meta";
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "add";
  if (line.startsWith("-")) return "del";
  return "same";
}
