"""An adopted history, cut at one of its rows.

Its two halves were stamped apart from each other: rows before the messages that they show. So
the messages go back to the first of the person's that is not earlier than the first row that
goes; what a summary or a marker among them hid is visible again, because it is gone.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from joey.core.events import TaskAdopted
from joey.core.messages import Message


def cut_adopted(event: TaskAdopted, row_ts: int) -> TaskAdopted:
    """The event as if the history had ended with this row."""
    gone = [row for row in event.rows if int(row["ts"]) > row_ts]
    if not gone:
        return event
    rows = tuple(row for row in event.rows if int(row["ts"]) <= row_ts)
    cutoff = _cutoff(event.messages, min(int(row["ts"]) for row in gone))
    undone = _hiding_ids(gone)
    messages = tuple(
        message
        for message in event.messages
        if (not isinstance(message.ts, int) or message.ts < cutoff)
        and message.condense_id not in undone
        and message.truncation_id not in undone
    )
    return structs.replace(event, rows=rows, messages=messages)


def _cutoff(messages: tuple[Message, ...], ts: int) -> int:
    stamped = [m for m in messages if isinstance(m.ts, int)]
    exact = any(m.ts == ts for m in stamped)
    earlier = any(m.ts < ts for m in stamped if isinstance(m.ts, int))
    if exact or not earlier:
        return ts
    later = (m.ts for m in stamped if m.role == "user" and isinstance(m.ts, int) and m.ts >= ts)
    return min(later, default=ts)


def _hiding_ids(rows: list[dict[str, Any]]) -> set[str]:
    """The summaries and markers that these rows tell of."""
    told = [row.get("contextCondense") or row.get("contextTruncation") or {} for row in rows]
    ids = (it.get("condenseId") or it.get("truncationId") for it in told if isinstance(it, dict))
    return {name for name in ids if isinstance(name, str)}
