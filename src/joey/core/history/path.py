"""Which records the history is made of now.

A journal is only added to, so going back is a record too: a rewind names the record that the
history goes on from. Seen from the last record, each has one before it (a rewind has the one it
names), and this chain is the *path*: what is on it is the history, what is not is out of sight.
Undoing a rewind is a rewind to the record before it.

A reply and an adopted history make several rows with one record; where a rewind goes between
them, that record counts without the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from joey.core.events import Durable, Record, ReplyReceived, TaskAdopted
from joey.core.history.adopted import cut_adopted
from joey.core.history.ui import UiHistory
from joey.core.messages import Part, TextPart
from joey.core.revisions import TaskRewound
from joey.errors import TaskStateError


class Path:
    """The records of a task as they come in."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = list(records)

    def add(self, record: Record) -> Sequence[Record] | None:
        """Take in the next record; if it does not simply go on, the whole path from the start."""
        self._records.append(record)
        return self.records if isinstance(record.event, TaskRewound) else None

    @property
    def records(self) -> Sequence[Record]:
        """What the history is made of now."""
        return live_path(self._records)


def live_path(records: Sequence[Record]) -> Sequence[Record]:
    """The records on the path that ends with the last one."""
    if not any(isinstance(record.event, TaskRewound) for record in records):
        return records
    first = records[0].seq
    path: list[Record] = []
    at, shown = len(records) - 1, None
    while at >= 0:
        record = records[at]
        path.append(record if shown is None else _until(record, shown))
        at -= 1
        if isinstance(record.event, TaskRewound):
            at = record.event.to - first
            if record.event.row_ts is not None:
                shown = min(shown or record.event.row_ts, record.event.row_ts)
    path.reverse()
    return path


class Cut(Struct, frozen=True):
    """Where a history is cut: the last record and the last row that stay."""

    to: int
    row_ts: int


def find_cut(path: Sequence[Record], row_ts: int, *, keep: bool = True) -> Cut:
    """Where to go back to so that a row is the last one, or (`keep` false) the first one gone.

    Raises:
        TaskStateError: there is no such row, or nothing would be left.
    """
    made = _rows_made(path)
    rows = sorted(ts for _, ts in made)
    if row_ts not in rows:
        raise TaskStateError(f"there is no message {row_ts} in this task")
    last = row_ts if keep else max((ts for ts in rows if ts < row_ts), default=None)
    if last is None:
        raise TaskStateError("the first message of a task cannot be taken back")
    maker = next(seq for seq, ts in made if ts == last)
    beyond = (seq for seq, ts in made if ts > last and seq > maker)
    to = min(beyond, default=path[-1].seq + 1) - 1
    return Cut(_on_path(path, to), last)


def _rows_made(path: Sequence[Record]) -> list[tuple[int, int]]:
    """Each row with the number of the record that made it."""
    ui = UiHistory()
    return [
        (record.seq, change.ts)
        for record in path
        for change in ui.apply(record.event)
        if change.action == "created"
    ]


def _on_path(path: Sequence[Record], seq: int) -> int:
    """The last record of the path that is not later; the path may leave some out."""
    return max(record.seq for record in path if record.seq <= seq)


def _until(record: Record, row_ts: int) -> Record:
    event: Durable = record.event
    match event:
        case ReplyReceived() if any(placed.ts > row_ts for placed in event.parts):
            kept = tuple(placed for placed in event.parts if placed.ts <= row_ts)
            raw = None if event.raw is None else _raw(placed.part for placed in kept)
            event = structs.replace(event, parts=kept, raw=raw)
        case TaskAdopted():
            event = cut_adopted(event, row_ts)
        case _:
            return record
    return structs.replace(record, event=event)


def _raw(parts: Iterable[Part]) -> str:
    """XML protocol: what is left of the text; the calls in it are written out by the history."""
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return "\n".join(texts)
