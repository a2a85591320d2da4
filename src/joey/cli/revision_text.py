"""What going back changes, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from joey.cli.task_rows import is_told
from joey.core.rewind import RewindPreview
from joey.presentation.phrases import FATES, STAYING
from joey.presentation.text import one_line

Rows = Sequence[Mapping[str, Any]]
MOST = 10
"""Things of a kind that are named."""


def describe(changes: RewindPreview, rows: Rows) -> Iterator[str]:
    """One line for each thing that changes; nothing about what does not.

    Messages are counted as a person knows them. Those that would come back and are not among
    the rows yet are not counted.
    """
    yield from _counted("message goes", "messages go", _told(changes.rows, rows))
    if set(changes.returning) <= {row["ts"] for row in rows}:
        back = _told(changes.returning, rows)
        yield from _counted("message comes back", "messages come back", back)
    else:
        yield "  the messages come back"
    if changes.todos_before != changes.todos_after:
        yield f"  todos: {_todos(changes.todos_before)} → {_todos(changes.todos_after)}"
    if changes.mode_before != changes.mode_after:
        yield f"  mode: {changes.mode_before} → {changes.mode_after}"
    if changes.edits_asked:
        yield "  edits, which you accepted for this task, are asked about again"
    yield from _counted("summary is undone", "summaries are undone", changes.summaries)
    ran = ("command was run since, and stays done:", "commands were run since, and stay done:")
    yield from _named(*ran, changes.commands)
    begun = ("subtask was begun since, and stays:", "subtasks were begun since, and stay:")
    yield from _named(*begun, changes.subtasks)
    for kind, fate in FATES.items():
        paths = [each.path for each in changes.files if each.kind == kind]
        yield from _named(f"file is {fate}:", f"files are {fate}:", paths)
    others = "of these somebody else has changed:"
    yield from _named(others, others, changes.conflicts)
    for why, reason in STAYING.items():
        paths = [each.path for each in changes.files_left if each.why == why]
        is_left = f"taken back ({reason}):"
        yield from _named(f"file is not {is_left}", f"files are not {is_left}", paths)


def all_rows(before: Rows, after: Rows) -> list[Mapping[str, Any]]:
    """Those that were and those that are, in order of time."""
    return sorted({row["ts"]: row for row in (*before, *after)}.values(), key=itemgetter("ts"))


def last_told(changes: RewindPreview, rows: Rows) -> int | None:
    """The last message that stays, as a person knows them."""
    end = changes.message_ts
    if end is None or end not in (row["ts"] for row in rows):
        return end
    gone = set(changes.rows)
    told = [row["ts"] for row in rows if is_told(row) and row["ts"] not in gone]
    return max((ts for ts in told if ts <= end), default=end)


def words_of(rows: Rows, ts: int | None) -> str:
    """What a row says, in short."""
    row = next((row for row in rows if row["ts"] == ts), {})
    return one_line(str(row.get("path") or row.get("text") or ""), 60)


def _told(moments: Sequence[int], rows: Rows) -> int:
    wanted = set(moments)
    return sum(row["ts"] in wanted and is_told(row) for row in rows)


def _counted(one: str, many: str, count: int) -> Iterator[str]:
    if count:
        yield f"  {count} {one if count == 1 else many}"


def _named(one: str, many: str, things: Sequence[str]) -> Iterator[str]:
    yield from _counted(one, many, len(things))
    yield from (f"    {one_line(thing)}" for thing in things[:MOST])
    if len(things) > MOST:
        yield f"    and {len(things) - MOST} more"


def _todos(todos: Sequence[object]) -> str:
    done = sum(getattr(todo, "status", "") == "completed" for todo in todos)
    return f"{done} of {len(todos)} done" if todos else "none"
