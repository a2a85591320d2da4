"""The preview of a rewind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from joey.core import events as ev
from joey.core.file_state import FileChange, LeftFile
from joey.core.history.api import ApiHistory
from joey.core.history.state import TaskProjection
from joey.core.history.ui import AnyRow, UiHistory, get_ts
from joey.core.task_types import AskKind, RowKind, Todo
from joey.core.tool_calls import COMMAND_TOOL_NAME


class RewindPreview(Struct, frozen=True, rename="camel", kw_only=True):
    """The effect of a rewind, or of undoing one."""

    last_row_ts: int | None = field(name="messageTs")
    """The last row that stays; None when none does."""
    removed_row_timestamps: tuple[int, ...] = field(name="rows")
    restored_row_timestamps: tuple[int, ...] = field(name="returning")
    removed_message_count: int = field(name="messages")
    todos_before: tuple[Todo, ...]
    todos_after: tuple[Todo, ...]
    mode_before: str
    mode_after: str
    unreverted_commands: tuple[str, ...] = field(name="commands")
    """Those that were run since; what they did is not undone."""
    detached_subtasks: tuple[str, ...] = field(name="subtasks")
    """Those that were begun since; they stay, as tasks of their own."""
    removed_summary_count: int = field(name="summaries")
    """How many summaries and cuts of the history go: what they hid is visible again."""
    target_checkpoint: str | None = field(default=None, name="checkpoint")
    """What the files are brought back to; None when they stay as they are."""
    files: tuple[FileChange, ...] = ()
    conflicting_paths: tuple[str, ...] = field(default=(), name="conflicts")
    """Those of them that somebody else has changed: their changes would be lost."""
    unrestorable_files: tuple[LeftFile, ...] = field(default=(), name="filesLeft")
    """Where files are brought back: those that the task has changed since, and that stay so."""
    revokes_edit_grant: bool = field(default=False, name="editsAsked")
    """Edits were accepted for the task by an answer that goes: they are asked about again."""


class FoldedHistory:
    """The history folded from a path."""

    def __init__(self, records: Sequence[ev.Record]) -> None:
        self.records = records
        self.api, self.ui, self.projection = ApiHistory(), UiHistory(), TaskProjection()
        for record in records:
            self.projection.apply_branch_event(record.event)
            self.api.tool_protocol = self.projection.tool_protocol
            self.api.apply(record.event)
            self.ui.apply(record.event)

    @property
    def row_timestamps(self) -> list[int]:
        return [get_ts(row) for row in self.ui.rows]

    @property
    def summary_count(self) -> int:
        count = 0
        for record in self.records:
            match record.event:
                case ev.ContextCondensed() | ev.ContextTruncated():
                    count += 1
                case ev.TaskImported(messages=messages):
                    count += sum(m.is_summary or m.is_truncation_marker for m in messages)
        return count


def build_rewind_preview(before: Sequence[ev.Record], after: Sequence[ev.Record]) -> RewindPreview:
    """Build the difference between the history and one made of other records."""
    old, new = FoldedHistory(before), FoldedHistory(after)
    known = {record.seq for record in after}
    gone = [record for record in before if record.seq not in known]
    rows = new.row_timestamps
    return RewindPreview(
        last_row_ts=rows[-1] if rows else None,
        removed_row_timestamps=tuple(ts for ts in old.row_timestamps if ts not in set(rows)),
        restored_row_timestamps=tuple(ts for ts in rows if ts not in set(old.row_timestamps)),
        removed_message_count=max(
            0, len(old.api.list_stored_messages()) - len(new.api.list_stored_messages())
        ),
        todos_before=old.projection.todos,
        todos_after=new.projection.todos,
        mode_before=old.projection.mode,
        mode_after=new.projection.mode,
        unreverted_commands=tuple(_iter_started_commands(gone)),
        detached_subtasks=tuple(
            r.event.child_id for r in gone if isinstance(r.event, ev.SubtaskSpawned)
        ),
        removed_summary_count=max(0, old.summary_count - new.summary_count),
    )


def _iter_started_commands(records: Sequence[ev.Record]) -> Iterator[str]:
    """Iterate over started commands in order."""
    asked: dict[int, str] = {}
    for record in records:
        match record.event:
            case ev.ToolStarted(tool=tool, text=text) if tool == COMMAND_TOOL_NAME:
                yield text
            case ev.AskOpened(ask=AskKind.COMMAND, ts=ts, text=text):
                asked[ts] = text
            case ev.AskAnswered(ask_ts=ts, answer=answer) if answer.approves and ts in asked:
                yield asked.pop(ts)


def get_row_say(row: AnyRow) -> str | None:
    return row.get("say") if isinstance(row, dict) else row.say


def find_user_row_ts(rows: Sequence[AnyRow], row_ts: int) -> int | None:
    """Find the user's message at this row, or the nearest one before it; None if there is no such
    row."""
    until = [row for row in rows if get_ts(row) <= row_ts]
    if not until or get_ts(until[-1]) != row_ts:
        return None
    said = (get_ts(row) for row in reversed(until) if get_row_say(row) == RowKind.USER_FEEDBACK)
    return next(said, get_ts(until[0]))


def find_row_ts_before_last_message(rows: Sequence[AnyRow]) -> int | None:
    """Find the last row that stays when the user's latest message is taken back; the first message
    of a task always stays. None if there are no rows."""
    if not rows:
        return None
    latest = find_user_row_ts(rows, get_ts(rows[-1]))
    earlier = [ts for row in rows if (ts := get_ts(row)) < (latest or 0)]
    return earlier[-1] if earlier else get_ts(rows[0])
