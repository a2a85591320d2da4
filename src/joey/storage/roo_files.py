"""Lenient reader of task files written by Roo Code, Cline or an earlier joey.

Every function returns what could be read, possibly nothing; skipped parts are logged.

History items are what Roo and Cline store about a task outside of its conversation. Since April
2026 Roo keeps one next to each conversation. Before that they were all in one list: in the editor's
own database, in Cline in a file, for the command line in its copy of that database. Only they name
the protocol of an older task.
"""

from __future__ import annotations

import codecs
import json
import logging
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from joey.core.task_types import AskKind
from joey.core.text import compile_regex
from joey.storage.task_directory import HISTORY_ITEM_FILE
from joey.system.files import read_regular_file

_log = logging.getLogger(__name__)
_MAX_SAFE_INTEGER = 2**53
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WHITESPACE_RE = compile_regex(r"[ \t\r\n]*")


class JsonArray(Struct, frozen=True):
    values: list[Any] = []
    is_complete: bool = True
    """False: the file is broken, and these are the elements before the break."""


def read_json_array(directory: Path, name: str) -> JsonArray:
    """Read the JSON array of that name; empty if none can be read.

    Roo saves by writing `.<name>.new_…`, moving the old file to `.<name>.bak_…` and the new one
    into its place; if that was interrupted, one of the two is the best version. Without a complete
    file, the elements at the beginning of a truncated one are used.
    """
    paths = [directory / name, *find_interrupted_saves(directory, name)]
    for path in paths:
        value = read_json_value(path)
        if isinstance(value, list) and value:
            return JsonArray(value)
        if value is not None:
            _log.warning("%s does not contain a list of messages", path)
    for path in paths:
        if whole := _read_intact_elements(path):
            _log.warning("%s is broken; its first %s entries are used", path, len(whole))
            return JsonArray(whole, is_complete=False)
    return JsonArray()


def find_interrupted_saves(directory: Path, name: str) -> list[Path]:
    """Find files left by interrupted saves, the newest first."""
    paths = [*directory.glob(f".{name}.bak_*"), *directory.glob(f".{name}.new_*")]
    return sorted(paths, key=os.path.getmtime, reverse=True)


def read_json_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file; empty if it is missing or something else."""
    value = read_json_value(path)
    return value if isinstance(value, dict) else {}


def to_integer(value: Any) -> int | None:
    """Convert a count or a time as JavaScript may have written it; None for anything else."""
    if not isinstance(value, int | float) or not 0 <= value < _MAX_SAFE_INTEGER:
        return None
    return int(value)


def get_text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def decode_lenient_json(data: bytes) -> Any:
    """Decode JSON leniently, as JavaScript writes it or editors save it: lone surrogates, a
    byte-order mark and UTF-16 are accepted. Raises ValueError, RecursionError if it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = json.loads(decode_text(data), parse_constant=lambda _: None)
        valid = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        return msgspec.json.decode(valid)


def _read_intact_elements(path: Path) -> list[Any]:
    """Read the elements of a JSON array up to the first truncated or damaged one."""
    try:
        data = read_regular_file(path)
    except OSError:
        return []  # logged before, when the whole file was tried
    text = decode_text(data or b"")
    place = _skip_whitespace(text, 0)
    elements: list[Any] = []
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    while text.startswith("," if elements else "[", place):
        try:
            element, place = decoder.raw_decode(text, _skip_whitespace(text, place + 1))
        except (ValueError, RecursionError):
            break
        elements.append(element)
        place = _skip_whitespace(text, place)
    try:
        value = decode_lenient_json(json.dumps(elements).encode())
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def decode_text(data: bytes, errors: str = "replace") -> str:
    """Decode the text of a file in any encoding that editors use."""
    encoding = "utf-16" if data.startswith(_UTF16_BOMS) else "utf-8-sig"
    return data.decode(encoding, errors)


def _skip_whitespace(text: str, place: int) -> int:
    match = _WHITESPACE_RE.match(text, place)
    return match.end() if match else place


def read_json_value(path: Path) -> Any:
    """Read the JSON in a file; None if it is missing or cannot be read."""
    try:
        data = read_regular_file(path)
        return None if data is None else decode_lenient_json(data)
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s cannot be read: %s", path, error)
        return None


HistoryItem = dict[str, Any]


def load_history_items(tasks: Path) -> dict[str, HistoryItem]:
    """Load the history items of a task directory, by id, from all lists; the most reliable list
    wins."""
    storage = tasks.parent
    lists = [
        _read_editor_task_history(storage.parent / "state.vscdb", storage.name),
        read_json_object(storage / "global-state.json").get("taskHistory"),
        read_json_value(storage / "state" / "taskHistory.json"),
        read_json_object(tasks / "_index.json").get("entries"),
    ]
    items: dict[str, HistoryItem] = {}
    for each in lists:
        for item in each if isinstance(each, list) else ():
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                items[item["id"]] = items.get(item["id"], {}) | item
    return items


def load_history_item(directory: Path, listed: dict[str, HistoryItem]) -> HistoryItem:
    """Load the history item of one task."""
    return listed.get(directory.name, {}) | read_json_object(directory / HISTORY_ITEM_FILE)


def parse_parent_and_children(item: HistoryItem) -> tuple[str | None, tuple[str, ...]]:
    """Parse the ids of parent and child tasks, with Roo's or joey's field names."""
    parent = get_text(item, "parentTaskId") or get_text(item, "parentId") or None
    children = item.get("childIds")
    named = children if isinstance(children, list) else []
    return parent, tuple(name for name in named if isinstance(name, str))


def _read_editor_task_history(database: Path, extension: str) -> Any:
    """Read an extension's data from the editor's database, opened read-only."""
    if not database.is_file():
        return None
    import sqlite3

    address = f"file:{quote(str(database))}?mode=ro&immutable=1"
    query = "SELECT value FROM ItemTable WHERE lower(key) = ?"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            row = connection.execute(query, (extension.lower(),)).fetchone()
        value = row[0] if row else "{}"
        state = decode_lenient_json(value if isinstance(value, bytes) else str(value).encode())
    except (sqlite3.Error, ValueError, RecursionError) as error:
        _log.warning("%s cannot be read: %s", database, error)
        return None
    return state.get("taskHistory") if isinstance(state, dict) else None


RooRow = dict[str, Any]


def is_task_finished(rows: Sequence[RooRow]) -> bool:
    """Whether a task came to rest with a result: no message followed it."""
    return bool(rows) and rows[-1].get("ask") == AskKind.COMPLETION_RESULT
