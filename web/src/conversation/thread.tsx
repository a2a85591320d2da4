// The conversation as a virtual list: only visible rows are in the DOM. It follows the newest row until
// the user scrolls up, and keeps the visible rows in place when rows above them change height. Sending
// a message or a new question scrolls it to the end.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Conversation } from "../state/conversation";
import { RowHeights } from "./heights";
import { isRowVisible, RowView } from "./rows";
import { scrollToLatestCounter, conversationRevision } from "../state/store";
import type { Ask, Row } from "../wire/protocol";

const OVERSCAN_PX = 600;
const FOLLOW_THRESHOLD_PX = 48;

export function Thread({ conversation }: { conversation: Conversation }) {
  const scrollElement = useRef<HTMLDivElement>(null);
  const heights = useMemo(() => new RowHeights(), [conversation]);
  const scrollState = useRef({ isFollowing: true, scrollTop: 0, pendingShift: 0 });
  const [isFollowing, setIsFollowing] = useState(true);
  const [, rerender] = useState(0);
  const version = conversationRevision.value;
  const rows = useMemo(
    () =>
      conversation.rows.filter((row, index, all) =>
        isRowVisible(row, conversation.status === "running" && index === all.length - 1),
      ),
    [conversation, version],
  );
  const firstTs = conversation.rows[0]?.ts;
  const latestRows = useRef<Row[]>(rows);
  latestRows.current = rows;
  heights.updateOffsets(rows);

  const rowObserver = useMemo(() => {
    const observer = new ResizeObserver((entries) => {
      const top = scrollElement.current?.scrollTop ?? 0;
      let changed = false;
      for (const { target } of entries) {
        const index = findRowIndex(latestRows.current, Number((target as HTMLElement).dataset["ts"]));
        const row = latestRows.current[index];
        if (row === undefined || !target.isConnected) continue;
        const change = heights.recordHeight(row, target.getBoundingClientRect().height);
        if (change === 0) continue;
        changed = true;
        if (heights.getTop(index) + heights.getHeight(row) - change <= top)
          scrollState.current.pendingShift += change;
      }
      if (changed) rerender((count) => count + 1);
    });
    return observer;
  }, [heights]);

  useLayoutEffect(() => () => rowObserver.disconnect(), [rowObserver]);
  useLayoutEffect(() => {
    scrollState.current = { isFollowing: true, scrollTop: 0, pendingShift: 0 };
    setIsFollowing(true);
    rerender((count) => count + 1);
  }, [conversation]);

  const followLatest = () => {
    scrollState.current.isFollowing = true;
    setIsFollowing(true);
    rerender((count) => count + 1);
  };

  useLayoutEffect(followLatest, [scrollToLatestCounter.value]);

  const urgentAskTs = getUrgentAskTs(conversation.ask);
  useLayoutEffect(() => {
    if (urgentAskTs !== undefined) followLatest();
  }, [urgentAskTs]);

  useLayoutEffect(() => {
    const element = scrollElement.current;
    if (element === null) return;
    if (scrollState.current.isFollowing) element.scrollTop = element.scrollHeight;
    else if (scrollState.current.pendingShift !== 0) element.scrollTop += scrollState.current.pendingShift;
    scrollState.current.pendingShift = 0;
    if (element.scrollTop !== scrollState.current.scrollTop) {
      scrollState.current.scrollTop = element.scrollTop;
      rerender((count) => count + 1);
    }
  });

  useLayoutEffect(() => {
    const element = scrollElement.current;
    if (element === null) return;
    const sizeObserver = new ResizeObserver(() => rerender((count) => count + 1));
    sizeObserver.observe(element);
    return () => sizeObserver.disconnect();
  }, []);

  const handleScroll = () => {
    const element = scrollElement.current;
    if (element === null) return;
    const distanceToEnd = element.scrollHeight - element.scrollTop - element.clientHeight;
    if (distanceToEnd < FOLLOW_THRESHOLD_PX) scrollState.current.isFollowing = true;
    else if (element.scrollTop < scrollState.current.scrollTop) scrollState.current.isFollowing = false;
    scrollState.current.scrollTop = element.scrollTop;
    setIsFollowing(scrollState.current.isFollowing);
    rerender((count) => count + 1);
  };

  const viewportHeight = scrollElement.current?.clientHeight ?? 800;
  const viewportTop = scrollState.current.isFollowing
    ? Math.max(0, heights.totalHeight - viewportHeight)
    : scrollState.current.scrollTop;
  const start = rows.length === 0 ? 0 : heights.findIndexAt(Math.max(0, viewportTop - OVERSCAN_PX));
  const end = rows.length === 0 ? 0 : heights.findIndexAt(viewportTop + viewportHeight + OVERSCAN_PX) + 1;

  return (
    <div class="thread-frame">
      <div
        class="thread"
        id="thread"
        ref={scrollElement}
        tabIndex={0}
        role="region"
        aria-label="Conversation"
        onScroll={handleScroll}
      >
        <div class="rows" role="feed" aria-label="Messages" aria-busy={conversation.status === "running"}>
          <div class="spacer" style={{ height: `${heights.getTop(start)}px` }} />
          {rows.slice(start, end).map((row, index) => (
            <MeasuredRow
              key={row.ts}
              row={row}
              rowId={`${conversation.id}/${row.ts}`}
              isFirst={row.ts === firstTs}
              position={start + index + 1}
              rowCount={rows.length}
              observer={rowObserver}
            />
          ))}
          <div class="spacer" style={{ height: `${heights.totalHeight - heights.getTop(end)}px` }} />
        </div>
      </div>
      {!isFollowing && (
        <button class="latest" onClick={followLatest}>
          ↓ Latest
        </button>
      )}
    </div>
  );
}

interface MeasuredRowProps {
  row: Row;
  rowId: string;
  isFirst: boolean;
  position: number;
  rowCount: number;
  observer: ResizeObserver;
}

function MeasuredRow({ row, rowId, isFirst, position, rowCount, observer }: MeasuredRowProps) {
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
      aria-posinset={position}
      aria-setsize={rowCount}
      aria-label={getSpeakerLabel(row, isFirst)}
    >
      <RowView row={row} rowId={rowId} isFirst={isFirst} />
    </article>
  );
}

/** A question has to be visible; a result can be read later, and a stopped task has nothing new. */
function getUrgentAskTs(ask: Ask | null): number | undefined {
  const canWait = ask?.ask === "completion_result" || ask?.ask.startsWith("resume_");
  return canWait ? undefined : ask?.ts;
}

function getSpeakerLabel(row: Row, isFirst: boolean): string {
  if (isFirst || row.say?.startsWith("user_feedback")) return "You";
  return row.type === "ask" ? "joey asks" : "joey";
}

function findRowIndex(rows: readonly Row[], ts: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] as Row).ts < ts) low = middle + 1;
    else high = middle;
  }
  return rows[low]?.ts === ts ? low : -1;
}
