"""What going back changes, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from joey.cli.sanitise import one_line
from joey.core.file_changes import FileChange
from joey.core.rewinding import RewindPreview

MOST = 10
"""Things of a kind that are named."""
_MARKS = {"added": "+", "changed": "~", "removed": "-"}


def describe(changes: RewindPreview) -> Iterator[str]:
    """One line for each thing that changes; nothing about what does not."""
    yield from _counted("messages go", len(changes.rows))
    yield from _counted("messages come back", len(changes.returning))
    if changes.todos_before != changes.todos_after:
        yield f"  todos: {_todos(changes.todos_before)} → {_todos(changes.todos_after)}"
    if changes.mode_before != changes.mode_after:
        yield f"  mode: {changes.mode_before} → {changes.mode_after}"
    yield from _counted("summaries are undone", changes.summaries)
    yield from _named("commands were run since, and stay done", changes.commands)
    yield from _named("subtasks were begun since, and stay", changes.subtasks)
    yield from _named("files are brought back", [_file(each) for each in changes.files])
    yield from _named("of these somebody else has changed", changes.conflicts)


def words_of(rows: Sequence[Mapping[str, Any]], ts: int | None) -> str:
    """What a row says, in short."""
    row = next((row for row in rows if row["ts"] == ts), {})
    return one_line(str(row.get("path") or row.get("text") or ""), 60)


def _counted(what: str, count: int) -> Iterator[str]:
    if count:
        yield f"  {count} {what}"


def _named(what: str, things: Sequence[str]) -> Iterator[str]:
    yield from _counted(f"{what}:", len(things))
    yield from (f"    {one_line(thing)}" for thing in things[:MOST])
    if len(things) > MOST:
        yield f"    and {len(things) - MOST} more"


def _file(change: FileChange) -> str:
    return f"{_MARKS[change.kind]} {change.path}"


def _todos(todos: Sequence[object]) -> str:
    done = sum(getattr(todo, "status", "") == "completed" for todo in todos)
    return f"{done} of {len(todos)} done" if todos else "none"
