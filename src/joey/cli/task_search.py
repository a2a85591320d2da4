"""What a search of tasks has found: lines for people, fields for pipes, JSON for programs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from joey.cli.task_table import as_told, status_of, task_table
from joey.ports import Store
from joey.ports.storage import HIGHLIGHT, FoundTask
from joey.presentation.text import cells, one_line

_FOUND = re.compile(f"({HIGHLIGHT[0]}[^{HIGHLIGHT[1]}]*{HIGHLIGHT[1]})")
_MARKS = str.maketrans(dict.fromkeys(HIGHLIGHT))
_LEAD = "    "
_LONGEST_FIELD = 400


def found_lines(
    found: Sequence[FoundTask], store: Store, *, with_folder: bool, width: int
) -> list[str]:
    """The table of tasks, each with its snippet below."""
    heading, *lines = task_table(found, store, with_folder=with_folder, width=width)
    shown = [heading]
    for each, line in zip(found, lines, strict=True):
        shown.append(line)
        if each.snippet:
            shown.append(_LEAD + highlighted(each.snippet, width - len(_LEAD)))
    return shown


def found_fields(found: Sequence[FoundTask], store: Store) -> list[str]:
    """Id, time, status, folder, title and snippet, with tabs between them."""
    lines: list[str] = []
    for each in found:
        task = each.task
        changed = datetime.fromtimestamp((task.updated or task.created) / 1000).astimezone()
        texts = (task.workspace, task.title, plain(each.snippet))
        fields = [task.id, changed.isoformat(timespec="seconds"), status_of(task, store)]
        lines.append("\t".join([*fields, *(one_line(text, _LONGEST_FIELD) for text in texts)]))
    return lines


def found_objects(found: Sequence[FoundTask], store: Store) -> list[dict[str, Any]]:
    return [
        {**msgspec.to_builtins(as_told(each.task, store)), "snippet": plain(each.snippet)}
        for each in found
    ]


def plain(snippet: str) -> str:
    return snippet.translate(_MARKS)


def highlighted(snippet: str, width: int) -> str:
    """On one line of a terminal, the found words bright."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    line, room = "", width
    for piece in _FOUND.split(" ".join(snippet.split())):
        is_found = piece.startswith(HIGHLIGHT[0])
        text = one_line(f"|{plain(piece)}|", len(piece) + 2)[1:-1]
        while text and cells(text) > room:
            text = text[:-1]
        line += f"\x1b[1;33m{text}\x1b[0m" if text and is_found and coloured else text
        room -= cells(text)
    return line
