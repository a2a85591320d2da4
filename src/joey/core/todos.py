"""The todo list, as the model writes it (a Markdown checklist) and as clients read it."""

from __future__ import annotations

import hashlib
from typing import Literal

from msgspec import Struct

from joey.core.regex import regex

Status = Literal["pending", "in_progress", "completed"]
_LINE = regex(r"(?:[-*+]\s*+|\d{1,9}[.)]\s*+)?\[\s{0,9}([xX~-]?)\s{0,9}\]\s++(.+)")
_STATUS: dict[str, Status] = {
    "": "pending",
    "x": "completed",
    "X": "completed",
    "-": "in_progress",
    "~": "in_progress",
}


class Todo(Struct, frozen=True):
    id: str
    content: str
    status: Status


def parse_todos(markdown: str) -> tuple[Todo, ...]:
    """The items of a checklist; lines that are not items are passed over."""
    todos: list[Todo] = []
    for line in markdown.splitlines():
        if match := _LINE.match(line.strip()):
            status = _STATUS[match[1]]
            digest = hashlib.md5(f"{match[2]}{status}".encode(), usedforsecurity=False)
            todos.append(Todo(id=digest.hexdigest(), content=match[2], status=status))
    return tuple(todos)
