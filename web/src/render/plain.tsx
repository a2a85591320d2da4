// Plain text in lines, clipped to a limit.

import { ClippedLines } from "./folds";

export function PlainText(props: { foldId: string; text: string; limit: number; showTail?: boolean }) {
  const lines = props.text.split("\n").map((line, index) => <div key={index}>{line || " "}</div>);
  return (
    <div class="plain" tabIndex={0} role="region" aria-label="Output">
      <div class="lines">
        <ClippedLines foldId={props.foldId} lines={lines} limit={props.limit} showTail={props.showTail} />
      </div>
    </div>
  );
}
