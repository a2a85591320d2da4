// Plain text in lines, clipped to a limit.

import { Clipped } from "./folds";

export function Plain(props: { name: string; text: string; limit: number; tail?: boolean }) {
  const lines = props.text.split("\n").map((line, index) => <div key={index}>{line || " "}</div>);
  return (
    <div class="plain" tabIndex={0} role="region" aria-label="Output">
      <div class="lines">
        <Clipped name={props.name} lines={lines} limit={props.limit} tail={props.tail} />
      </div>
    </div>
  );
}
