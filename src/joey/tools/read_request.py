"""Which files and lines a call of `read_file` asks for, in all the ways it may say so.

{"files": [{"path": "a", "line_ranges": [[1, 5]]}]}      what is offered
{"files": "[{\"path\": \"a\"}]"}                         the same, encoded twice
{"path": "a", "start_line": 1, "end_line": 5}            the oldest form
{"path": "a", "offset": 1, "limit": 5}                   the newest form
{"args": "<file><path>a</path><line_range>1-5</line_range></file>"}      XML
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from joey.core.parsing.xml_args import parse_args_xml
from joey.errors import ArgumentError
from joey.tools.arguments import convert, decode_json, missing

DEFAULT_LIMIT = 2000
_RANGE = re.compile(r"(\d{1,15})\s*-\s*(\d{1,15})")
_NUMBER = re.compile(r"-?\d{1,15}")
_RANGE_KEYS = ("line_ranges", "line_range", "lineRanges", "lineRange")

Range = tuple[int, int]


class WantedFile(Struct, frozen=True):
    path: str
    ranges: tuple[Range, ...] = ()
    pages: bool = False
    """Asked for by offset and limit, so that is how it is told to read on."""


class ReadRequest(Struct, frozen=True):
    files: tuple[WantedFile, ...]


class _Slice(Struct, frozen=True):
    path: str
    start_line: int | None = None
    end_line: int | None = None
    offset: int | None = None
    limit: int | None = None


def parse_request(arguments: Mapping[str, Any], tool: str) -> ReadRequest:
    """What a call asks for.

    Raises:
        ArgumentError: no file is named, or a range makes no sense.
    """
    if entries := tuple(_files(arguments)):
        return ReadRequest(entries)
    if arguments.get("path"):
        return ReadRequest((_single(arguments, tool),))
    raise missing(tool, "args" if "args" in arguments else "files")


def _files(arguments: Mapping[str, Any]) -> Iterator[WantedFile]:
    files = _decoded(arguments.get("files"))
    if files is None:
        files = _decoded(arguments.get("args"))
    if isinstance(files, str):
        files = parse_args_xml(files)
    if isinstance(files, dict) and "path" not in files:
        files = files.get("file") or files.get("files")
    for entry in files if isinstance(files, list) else [files]:
        if isinstance(entry, str) and entry:
            yield WantedFile(entry)
        elif isinstance(entry, dict) and (path := _first(entry.get("path"))):
            given = next((entry[key] for key in _RANGE_KEYS if entry.get(key)), None)
            yield WantedFile(path, tuple(_ranges(_decoded(given))))


def _single(arguments: Mapping[str, Any], tool: str) -> WantedFile:
    wanted = convert(arguments, _Slice, tool)
    if wanted.offset is not None or wanted.limit is not None:
        offset = 1 if wanted.offset is None else wanted.offset
        limit = wanted.limit or DEFAULT_LIMIT
        if offset < 1 or limit < 1:
            raise ArgumentError(
                f"Lines are 1-indexed: offset and limit must be at least 1, not {offset} and"
                f" {limit}."
            )
        return WantedFile(wanted.path, ((offset, offset + limit - 1),), pages=True)
    start, end = wanted.start_line or 0, wanted.end_line or 0
    if start > 0 and end > 0:
        return WantedFile(wanted.path, ((start, end),))
    given = next((arguments[key] for key in _RANGE_KEYS if arguments.get(key)), None)
    return WantedFile(wanted.path, tuple(_ranges(_decoded(given))))


def _ranges(value: Any) -> Iterator[Range]:
    """Ranges as `[a, b]`, `{start, end}` or `a-b`, one or several; what is none is passed over."""
    single = _pair(value) is not None or not isinstance(value, list)
    for item in [value] if single else value:
        if isinstance(item, str):
            yield from ((int(match[1]), int(match[2])) for match in _RANGE.finditer(item))
        elif pair := _pair(item):
            yield pair


def _pair(value: Any) -> Range | None:
    match value:
        case {"start": start, "end": end} | [start, end]:
            first, last = _number(start), _number(end)
            return (first, last) if first is not None and last is not None else None
    return None


def _number(value: Any) -> int | None:
    match value:
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if _NUMBER.fullmatch(value.strip()):
            return int(value)
    return None


def _first(value: Any) -> str:
    """The text of an element, which the XML parser gives as a list."""
    if isinstance(value, list) and value:
        value = value[0]
    return value.strip() if isinstance(value, str) else ""


def _decoded(value: Any) -> Any:
    """A value that was encoded as JSON once more than needed, as it was meant."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    decoded = decode_json(value)
    return value if decoded is None else decoded
