"""The rows of a task as a list to choose from: numbered from the end, with their first words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from joey.cli.exit_codes import UsageError
from joey.cli.table import table
from joey.cli.transcript import todo_items
from joey.presentation.text import one_line

LONGEST = 200
_UNTOLD = frozenset({"api_req_started", "api_req_finished", "checkpoint_saved"})
"""Rows that say nothing to a person."""
_EMPTY = frozenset({"completion_result", "resume_task", "resume_completed_task"})
"""Questions that only follow what was said before."""
_KINDS = {
    "text": "joey",
    "reasoning": "thoughts",
    "user_feedback": "you",
    "completion_result": "result",
    "command_output": "output",
    "followup": "question",
}


class Listed(Struct, frozen=True):
    number: int
    """From the end; the last is 1."""
    ts: int
    kind: str
    text: str


def listed_rows(rows: Sequence[Mapping[str, Any]]) -> list[Listed]:
    """Those that a person knows, the first one first."""
    told = [(row, place == 0) for place, row in enumerate(rows) if is_told(row)]
    return [
        Listed(len(told) - place, int(row["ts"]), _kind(row, first), _words(row))
        for place, (row, first) in enumerate(told)
    ]


def is_told(row: Mapping[str, Any]) -> bool:
    """Whether a person knows this row."""
    if row.get("partial") or row.get("say") in _UNTOLD:
        return False
    return not (row.get("ask") in _EMPTY and not row.get("text"))


def row_table(rows: Sequence[Listed], width: int | None) -> list[str]:
    zone = datetime.now().astimezone().tzname()
    heading = ["number", "message", f"time ({zone})", "what", "words"]
    cells = [
        [str(row.number), str(row.ts), _time(row.ts), row.kind, one_line(row.text, LONGEST)]
        for row in rows
    ]
    return table([heading, *cells], width, firm={0, 1, 2, 3})


def find_row(rows: Sequence[Mapping[str, Any]], name: str, task_id: str) -> int:
    """The row that a person means: its number from the end, or its `ts`.

    Raises:
        UsageError
    """
    listed = listed_rows(rows)
    if name.isascii() and name.isdigit():
        wanted = int(name)
        if wanted in (int(row["ts"]) for row in rows):
            return wanted
        for row in listed:
            if row.number == wanted:
                return row.ts
    raise UsageError(
        f"there is no message {one_line(name, 40)!r} in task {task_id};"
        f" joey tasks show {task_id} --rows lists them"
    )


def _kind(row: Mapping[str, Any], first: bool) -> str:
    if first:
        return "you"
    name = str(row.get("say") or row.get("ask") or "")
    if name in ("tool", "command"):
        return str(row.get("tool") or name)
    return _KINDS.get(name, name)


def _words(row: Mapping[str, Any]) -> str:
    if row.get("path"):
        return str(row["path"])
    text = str(row.get("text") or "")
    if not text.startswith("{"):
        return text
    try:
        facts = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if isinstance(todos := facts.get("todos"), list):
        return " ".join(todo_items(todos)) or "(the list is empty)"
    named = (facts.get(name) for name in ("question", "path", "content", "mode"))
    return next((word for word in named if isinstance(word, str) and word), text)


def _time(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).astimezone().strftime("%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return ""
