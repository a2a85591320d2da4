"""The preview of a rewind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from joey.core.events import (
    AskAnswered,
    AskOpened,
    ContextCondensed,
    ContextTruncated,
    Record,
    SubtaskSpawned,
    TaskImported,
    ToolStarted,
)
from joey.core.file_state import FileChange, LeftFile
from joey.core.history.api import ApiHistory
from joey.core.history.state import TaskProjection
from joey.core.history.ui import Row, UiHistory
from joey.core.task import AskKind, Todo

COMMAND_TOOL = "execute_command"
USER_FEEDBACK_ROW_KIND = "user_feedback"
CHECKPOINT_ROW_KIND = "checkpoint_saved"


class RewindPreview(Struct, frozen=True, rename="camel", kw_only=True):
    """Of a rewind, or of the undoing of one."""

    message_ts: int | None
    """The last row that stays; None when none does."""
    rows: tuple[int, ...]
    """Those that go."""
    returning: tuple[int, ...]
    """Those that come back."""
    messages: int
    """How many messages of the model's history go."""
    todos_before: tuple[Todo, ...]
    todos_after: tuple[Todo, ...]
    mode_before: str
    mode_after: str
    commands: tuple[str, ...]
    """Those that were run since; what they did is not undone."""
    subtasks: tuple[str, ...]
    """Those that were begun since; they stay, as tasks of their own."""
    summaries: int
    """How many summaries and cuts of the history go: what they hid is visible again."""
    checkpoint: str | None = None
    """What the files are brought back to; None when they stay as they are."""
    files: tuple[FileChange, ...] = ()
    """What is done to the files."""
    conflicts: tuple[str, ...] = ()
    """Those of them that somebody else has changed: their changes would be lost."""
    files_left: tuple[LeftFile, ...] = ()
    """Where files are brought back: those that the task has changed since, and that stay so."""
    edits_asked: bool = False
    """Edits were accepted for the task by an answer that goes: they are asked about again."""


class FoldedHistory:
    """All that a path tells."""

    def __init__(self, path: Sequence[Record]) -> None:
        self.path = path
        self.api, self.ui, self.facts = ApiHistory(), UiHistory(), TaskProjection()
        for record in path:
            self.facts.follow(record.event)
            self.api.protocol = self.facts.protocol
            self.api.apply(record.event)
            self.ui.apply(record.event)

    @property
    def rows(self) -> list[int]:
        return [ts_of(row) for row in self.ui.rows]

    @property
    def summaries(self) -> int:
        count = 0
        for record in self.path:
            match record.event:
                case ContextCondensed() | ContextTruncated():
                    count += 1
                case TaskImported(messages=messages):
                    count += sum(m.is_summary or m.is_truncation_marker for m in messages)
        return count


def compare(before: Sequence[Record], after: Sequence[Record]) -> RewindPreview:
    """What is different when the history is made of other records."""
    old, new = FoldedHistory(before), FoldedHistory(after)
    known = {record.seq for record in after}
    gone = [record for record in before if record.seq not in known]
    rows = new.rows
    return RewindPreview(
        message_ts=rows[-1] if rows else None,
        rows=tuple(ts for ts in old.rows if ts not in set(rows)),
        returning=tuple(ts for ts in rows if ts not in set(old.rows)),
        messages=max(0, len(old.api.rendered()) - len(new.api.rendered())),
        todos_before=old.facts.todos,
        todos_after=new.facts.todos,
        mode_before=old.facts.mode,
        mode_after=new.facts.mode,
        commands=tuple(_commands(gone)),
        subtasks=tuple(r.event.child_id for r in gone if isinstance(r.event, SubtaskSpawned)),
        summaries=max(0, old.summaries - new.summaries),
    )


def _commands(records: Sequence[Record]) -> Iterator[str]:
    """Those that were begun, in order."""
    asked: dict[int, str] = {}
    for record in records:
        match record.event:
            case ToolStarted(tool=tool, text=text) if tool == COMMAND_TOOL:
                yield text
            case AskOpened(ask=AskKind.COMMAND, ts=ts, text=text):
                asked[ts] = text
            case AskAnswered(ask_ts=ts, answer=answer) if answer.approves and ts in asked:
                yield asked.pop(ts)


def ts_of(row: Row | dict[str, Any]) -> int:
    return int(row["ts"]) if isinstance(row, dict) else row.ts


def say_of(row: Row | dict[str, Any]) -> str | None:
    return row.get("say") if isinstance(row, dict) else row.say


def user_row(rows: Sequence[Row | dict[str, Any]], row_ts: int) -> int | None:
    """The person's words at this row, or the nearest before it; None when there is no such row."""
    until = [row for row in rows if ts_of(row) <= row_ts]
    if not until or ts_of(until[-1]) != row_ts:
        return None
    said = (ts_of(row) for row in reversed(until) if say_of(row) == USER_FEEDBACK_ROW_KIND)
    return next(said, ts_of(until[0]))


def find_row_before_last_message(rows: Sequence[Row | dict[str, Any]]) -> int | None:
    """The last row that stays when the person's latest words are taken back; the first of a task
    always stay. None when there are no rows."""
    if not rows:
        return None
    latest = user_row(rows, ts_of(rows[-1]))
    earlier = [ts for row in rows if (ts := ts_of(row)) < (latest or 0)]
    return earlier[-1] if earlier else ts_of(rows[0])
