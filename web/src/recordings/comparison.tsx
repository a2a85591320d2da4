// Two requests side by side, block by block, with the first difference marked.

import { describeMiss } from "./misses";
import { escapeHiddenChars } from "../render/format";
import { compareRequests } from "../state/recordings";
import type { RecordedComparison, RecordedPair } from "../wire/protocol";

const STATES: Record<RecordedPair["state"], string> = {
  same: "the same",
  changed: "changed",
  added: "only in the later one",
  removed: "only in the earlier one",
};

export function Comparison({ comparison, count }: { comparison: RecordedComparison; count: number }) {
  const { session, turn, other, miss, pairs, total } = comparison;
  const others = Array.from({ length: count }, (_, index) => index + 1).filter((number) => number !== turn);
  const firstChange = pairs.find((pair) => pair.state !== "same")?.block;
  return (
    <div class="comparison">
      <div class="comparison-head">
        <label>
          Compared with request{" "}
          <select
            value={String(other ?? "")}
            onChange={(event) => compareRequests(session, turn, Number(event.currentTarget.value))}
          >
            {other === null && <option value="">none</option>}
            {others.map((number) => (
              <option key={number} value={String(number)}>
                {session}.{number}
              </option>
            ))}
          </select>
        </label>
        <span class={miss.reason === "none" ? "muted" : "miss"}>{describeMiss(miss)}</span>
      </div>
      {other === null && <p class="muted">There is no earlier request that could have filled the cache.</p>}
      {pairs.map((pair) => (
        <Pair key={`${turn}/${other}/${pair.block}`} pair={pair} isFirst={pair.block === firstChange} />
      ))}
      {total > pairs.length && <p class="muted">{total - pairs.length} more blocks are not shown.</p>}
    </div>
  );
}

function Pair({ pair, isFirst }: { pair: RecordedPair; isFirst: boolean }) {
  const label = `Block ${pair.block} · ${pair.kind}${pair.role ? ` · ${pair.role}` : ""}`;
  if (pair.state === "same") {
    return (
      <details class="block">
        <summary>
          {label} <span class="muted">· {STATES.same} · {pair.afterChars.toLocaleString()} characters</span>
        </summary>
        <pre dir="auto">
          {escapeHiddenChars(pair.after)}
          {pair.after.length < pair.afterChars && "…"}
        </pre>
      </details>
    );
  }
  return (
    <section class={`block different ${isFirst ? "first" : ""}`}>
      <h2>
        {label} <span class="muted">· {isFirst ? "first difference, " : ""}{STATES[pair.state]}</span>
      </h2>
      <div class="sides">
        <Side title="Earlier" text={pair.before} chars={pair.beforeChars} pair={pair} isMarked={isFirst} />
        <Side title="Later" text={pair.after} chars={pair.afterChars} pair={pair} isMarked={isFirst} />
      </div>
    </section>
  );
}

interface SideProps {
  title: string;
  text: string;
  chars: number;
  pair: RecordedPair;
  isMarked: boolean;
}

function Side({ title, text, chars, pair, isMarked }: SideProps) {
  const isThere = title === "Earlier" ? pair.state !== "added" : pair.state !== "removed";
  const isAligned = pair.beforeChars - getEnd(pair.before, pair) === pair.afterChars - getEnd(pair.after, pair);
  const tail = isAligned && pair.state === "changed" ? countSharedTail(pair) : 0;
  const rest = text.slice(pair.shared, text.length - tail);
  const end = getEnd(text, pair);
  return (
    <div class={`side ${title.toLowerCase()}`}>
      <h3 class="muted">
        {title}
        {isThere && ` · ${chars.toLocaleString()} characters`}
      </h3>
      {isThere ? (
        <pre tabIndex={0} dir="auto">
          {pair.beforeStart > 0 && <span class="muted">… {pair.beforeStart.toLocaleString()} the same …{"\n"}</span>}
          {escapeHiddenChars(text.slice(0, pair.shared))}
          {isMarked || rest ? <mark>{escapeHiddenChars(rest) || "⌟"}</mark> : null}
          {escapeHiddenChars(text.slice(text.length - tail))}
          {end < chars && <span class="muted">{"\n"}… {(chars - end).toLocaleString()} more …</span>}
        </pre>
      ) : (
        <p class="muted">not there</p>
      )}
    </div>
  );
}

/** Where a text ends that was cut out of a block. */
function getEnd(text: string, pair: RecordedPair): number {
  return pair.beforeStart + text.length;
}

/** Characters at the end of both texts that are the same, and not counted at their beginning. */
function countSharedTail({ before, after, shared }: RecordedPair): number {
  const longest = Math.min(before.length, after.length) - shared;
  let count = 0;
  while (count < longest && before.at(-1 - count) === after.at(-1 - count)) count++;
  return count;
}
