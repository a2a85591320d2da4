// The conversation as a virtual list: only visible rows are in the DOM. It follows the newest row until
// the user scrolls up, and keeps the visible rows in place when rows above them change height. Sending
// a message or a new question scrolls it to the end.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Conversation } from "../state/conversation";
import { Heights } from "./heights";
import { isVisible, RowView } from "./rows";
import { latestWanted, revision } from "../state/store";
import type { Ask, Row } from "../wire/protocol";

const BEYOND = 600;
const NEAR = 48;

export function Thread({ conversation }: { conversation: Conversation }) {
  const box = useRef<HTMLDivElement>(null);
  const heights = useMemo(() => new Heights(), [conversation]);
  const view = useRef({ stick: true, top: 0, shift: 0 });
  const [stuck, setStuck] = useState(true);
  const [, redraw] = useState(0);
  const version = revision.value;
  const rows = useMemo(
    () => conversation.rows.filter((row, index, all) => isVisible(row, conversation.status === "running" && index === all.length - 1)),
    [conversation, version],
  );
  const firstTs = conversation.rows[0]?.ts;
  const shown = useRef<Row[]>(rows);
  shown.current = rows;
  heights.arrange(rows);

  const observer = useMemo(() => {
    const sizes = new ResizeObserver((entries) => {
      const top = box.current?.scrollTop ?? 0;
      let changed = false;
      for (const { target } of entries) {
        const index = place(shown.current, Number((target as HTMLElement).dataset["ts"]));
        const row = shown.current[index];
        if (row === undefined || !target.isConnected) continue;
        const change = heights.measure(row, target.getBoundingClientRect().height);
        if (change === 0) continue;
        changed = true;
        if (heights.top(index) + heights.of(row) - change <= top) view.current.shift += change;
      }
      if (changed) redraw((count) => count + 1);
    });
    return sizes;
  }, [heights]);

  useLayoutEffect(() => () => observer.disconnect(), [observer]);
  useLayoutEffect(() => {
    view.current = { stick: true, top: 0, shift: 0 };
    setStuck(true);
    redraw((count) => count + 1);
  }, [conversation]);

  const follow = () => {
    view.current.stick = true;
    setStuck(true);
    redraw((count) => count + 1);
  };

  useLayoutEffect(follow, [latestWanted.value]);

  const question = questionOf(conversation.ask);
  useLayoutEffect(() => {
    if (question !== undefined) follow();
  }, [question]);

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    if (view.current.stick) element.scrollTop = element.scrollHeight;
    else if (view.current.shift !== 0) element.scrollTop += view.current.shift;
    view.current.shift = 0;
    if (element.scrollTop !== view.current.top) {
      view.current.top = element.scrollTop;
      redraw((count) => count + 1);
    }
  });

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const size = new ResizeObserver(() => redraw((count) => count + 1));
    size.observe(element);
    return () => size.disconnect();
  }, []);

  const scrolled = () => {
    const element = box.current;
    if (element === null) return;
    const left = element.scrollHeight - element.scrollTop - element.clientHeight;
    if (left < NEAR) view.current.stick = true;
    else if (element.scrollTop < view.current.top) view.current.stick = false;
    view.current.top = element.scrollTop;
    setStuck(view.current.stick);
    redraw((count) => count + 1);
  };

  const height = box.current?.clientHeight ?? 800;
  const top = view.current.stick ? Math.max(0, heights.total - height) : view.current.top;
  const start = rows.length === 0 ? 0 : heights.at(Math.max(0, top - BEYOND));
  const end = rows.length === 0 ? 0 : heights.at(top + height + BEYOND) + 1;

  return (
    <div class="thread-frame">
      <div
        class="thread"
        id="thread"
        ref={box}
        tabIndex={0}
        role="region"
        aria-label="Conversation"
        onScroll={scrolled}
      >
        <div class="rows" role="feed" aria-label="Messages" aria-busy={conversation.status === "running"}>
          <div class="spacer" style={{ height: `${heights.top(start)}px` }} />
          {rows.slice(start, end).map((row, index) => (
            <Measured
              key={row.ts}
              row={row}
              name={`${conversation.id}/${row.ts}`}
              first={row.ts === firstTs}
              place={start + index + 1}
              size={rows.length}
              observer={observer}
            />
          ))}
          <div class="spacer" style={{ height: `${heights.total - heights.top(end)}px` }} />
        </div>
      </div>
      {!stuck && (
        <button class="latest" onClick={follow}>
          ↓ Latest
        </button>
      )}
    </div>
  );
}

interface MeasuredProps {
  row: Row;
  name: string;
  first: boolean;
  place: number;
  size: number;
  observer: ResizeObserver;
}

function Measured({ row, name, first, place, size, observer }: MeasuredProps) {
  const element = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) return;
    observer.observe(target);
    return () => observer.unobserve(target);
  }, [observer]);
  return (
    <article
      class="row"
      ref={element}
      data-ts={row.ts}
      data-kind={row.say ?? row.ask}
      aria-posinset={place}
      aria-setsize={size}
      aria-label={speaker(row, first)}
    >
      <RowView row={row} name={name} first={first} />
    </article>
  );
}

/** What is asked about has to be in sight; a result can be read later, and a task at rest has nothing new. */
function questionOf(ask: Ask | null): number | undefined {
  const waits = ask?.ask === "completion_result" || ask?.ask.startsWith("resume_");
  return waits ? undefined : ask?.ts;
}

function speaker(row: Row, first: boolean): string {
  if (first || row.say?.startsWith("user_feedback")) return "You";
  return row.type === "ask" ? "joey asks" : "joey";
}

function place(rows: readonly Row[], ts: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] as Row).ts < ts) low = middle + 1;
    else high = middle;
  }
  return rows[low]?.ts === ts ? low : -1;
}
