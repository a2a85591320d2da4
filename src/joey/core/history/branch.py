"""The branch of the journal that makes up the history.

A journal is append-only, so a rewind is a record too: it names the record that the history
continues from. Going back from the last record, each has a predecessor (that of a rewind is the
record it names), and this chain is the *path*: records on it are the history, all others are
hidden. Undoing a rewind is a rewind to the record before it.

A reply and an imported history create several rows with one record; after a rewind between these,
the record counts without the later rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from joey.core import events as ev
from joey.core.history.api import render_call_as_xml
from joey.core.history.imported import cut_imported_history
from joey.core.history.ui import UiHistory
from joey.core.messages import CallPart, ReasoningPart, TextPart
from joey.core.task_types import Answer
from joey.errors import TaskStateError

_FILE_STATE_EVENTS = (ev.CheckpointSaved, ev.FilesRestored, ev.TaskRewound)


class BranchTracker:
    """Tracks the records of a task as they are appended."""

    def __init__(self) -> None:
        self._records: list[ev.Record] = []

    def add(self, record: ev.Record) -> Sequence[ev.Record] | None:
        """Add a record; return the whole path from the start unless it simply extends the current
        one."""
        self._records.append(record)
        return find_live_branch(self._records) if isinstance(record.event, ev.TaskRewound) else None


def find_live_branch(records: Sequence[ev.Record]) -> Sequence[ev.Record]:
    """Find the records on the path that ends with the last one."""
    if not any(isinstance(record.event, ev.TaskRewound) for record in records):
        return records
    first = records[0].seq
    path: list[ev.Record] = []
    at, shown = len(records) - 1, None
    while at >= 0:
        record = records[at]
        path.append(record if shown is None else _truncate_record(record, shown))
        at -= 1
        if isinstance(record.event, ev.TaskRewound):
            at = min(at, record.event.to_seq - first)  # a damaged journal may name a later one
            last = record.event.last_row_ts
            if last is not None:
                shown = last if shown is None else min(shown, last)
    path.reverse()
    return path


class CutPoint(Struct, frozen=True):
    """The place where a history is cut: the last record and the last row that stay."""

    last_seq: int
    last_row_ts: int


def find_cut_point(path: Sequence[ev.Record], row_ts: int, *, keep: bool = True) -> CutPoint:
    """Find where to rewind to so that a row is the last one or, with `keep` false, the first one
    removed.

    A checkpoint goes with the records that it was saved before or after. If the task came to rest
    after the row, the cut is there: the next run is not included. Raises TaskStateError if there is
    no such row, or nothing would be left.
    """
    made = _list_row_origins(path)
    maker = {ts: seq for seq, ts, _ in made}
    if row_ts not in maker:
        raise TaskStateError(f"there is no message {row_ts} in this task")
    if keep:
        return _find_cut_after(path, made, row_ts)
    # A row may have been shown late, with a number that it got before.
    earlier = [ts for ts in maker if ts < row_ts and maker[ts] <= maker[row_ts]]
    if not earlier:
        raise TaskStateError("the first message of a task cannot be taken back")
    last = max(earlier)
    if maker[last] == maker[row_ts]:
        return _find_cut_after(path, made, last)
    return CutPoint(_find_last_seq_on_branch(path, maker[row_ts] - 1), last)


def _find_cut_after(
    path: Sequence[ev.Record], made: Sequence[tuple[int, int, bool]], last: int
) -> CutPoint:
    maker = next(seq for seq, ts, _ in made if ts == last)
    beyond = [seq for seq, ts, saved in made if ts > last and seq > maker and not saved]
    beyond += (r.seq for r in path if r.seq > maker and isinstance(r.event, ev.TaskStarted))
    to = min(beyond, default=path[-1].seq + 1) - 1
    return CutPoint(_find_last_seq_on_branch(path, to), last)


def find_checkpoint_at(
    path: Sequence[ev.Record], seq: int, journal: Sequence[ev.Record]
) -> str | None:
    """Find the files as they were when the history had reached a record of the path.

    A checkpoint saved before the next change also includes changes that users made meanwhile.
    Without one, nothing was changed after the last checkpoint, since one is saved after each
    change. Subtasks that were running then are resumed in their current state, so their changes are
    included.
    """
    until = [r for r in path if r.seq <= seq]
    before = next((r for r in reversed(until) if isinstance(r.event, _FILE_STATE_EVENTS)), None)
    since = 0 if before is None else before.seq
    spawned = any(isinstance(r.event, ev.SubtaskSpawned) and r.seq > since for r in until)
    later = (r.event for r in path if r.seq > seq)
    match next((e for e in later if isinstance(e, _FILE_STATE_EVENTS)), None):
        case ev.CheckpointSaved(is_own_change=own, id=saved) if spawned or not own:
            return saved
    match before:
        case ev.Record(seq=rewound, event=ev.TaskRewound()):
            # They stayed unchanged, whatever the history was.
            return find_last_checkpoint([r for r in journal if r.seq < rewound])
        case _:
            return find_last_checkpoint(until)


def find_last_checkpoint(records: Sequence[ev.Record]) -> str | None:
    """Find the last checkpoint among these records."""
    for record in reversed(records):
        match record.event:
            case ev.CheckpointSaved(id=checkpoint) | ev.FilesRestored(checkpoint=checkpoint):
                return checkpoint
    return None


def _list_row_origins(path: Sequence[ev.Record]) -> list[tuple[int, int, bool]]:
    """List each row with the number of the record that created it, and whether it shows a
    checkpoint."""
    ui = UiHistory()
    made: list[tuple[int, int, bool]] = []
    answered: tuple[int, Answer] | None = None
    for record in path:
        maker = record.seq
        match record.event:
            case ev.AskAnswered(answer=answer) if answer.has_content:
                answered = record.seq, answer
            case ev.UserMessage() as said if answered is not None and said.matches_answer(
                answered[1]
            ):
                # The message of an answer belongs to it.
                maker, answered = answered[0], None
        saved = isinstance(record.event, ev.CheckpointSaved)
        changes = ui.apply(record.event)
        made += ((maker, change.ts, saved) for change in changes if change.action == "created")
    return made


def _find_last_seq_on_branch(path: Sequence[ev.Record], seq: int) -> int:
    """Find the last record of the path up to this number; the path may skip some."""
    return max(record.seq for record in path if record.seq <= seq)


def _truncate_record(record: ev.Record, row_ts: int) -> ev.Record:
    event: ev.Durable = record.event
    match event:
        case ev.ReplyReceived() if any(placed.ts > row_ts for placed in event.parts):
            kept = tuple(placed for placed in event.parts if placed.ts <= row_ts)
            parts = [placed.part for placed in kept]
            # XML protocol: the remaining text, with the calls in it written out.
            texts = [
                part.text if isinstance(part, TextPart) else render_call_as_xml(part.call)
                for part in parts
                if isinstance(part, TextPart | CallPart)
            ]
            raw = None if event.raw is None else "\n".join(texts)
            # No service accepts a reply that ends with reasoning.
            ends_in_thought = bool(parts) and isinstance(parts[-1], ReasoningPart)
            interrupted = event.interrupted or ends_in_thought
            event = structs.replace(event, parts=kept, raw=raw, interrupted=interrupted)
        case ev.TaskImported():
            event = cut_imported_history(event, row_ts)
        case _:
            return record
    return structs.replace(record, event=event)
