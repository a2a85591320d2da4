"""Which files and lines a call of `read_file` asks for, in all the ways it may say so.

{"files": [{"path": "a", "line_ranges": [[1, 5]]}]}      what is offered
{"files": [{"path": "a", "indentation": {"anchor_line": 9}}]}            the same, for a block
{"files": "[{\\"path\\": \\"a\\"}]"}                         the same, encoded twice
{"path": "a", "start_line": 1, "end_line": 5}            the oldest form
{"path": "a", "mode": "slice", "offset": 1, "limit": 5}                  the newest form
{"path": "a", "mode": "indentation", "indentation": {"anchor_line": 9}}  the same, for a block
{"args": "<file><path>a</path><line_range>1-5</line_range></file>"}      XML
{"file": "<path>a</path></file><file><path>b</path>"}    XML without its wrapping
{"path": ["a", "b"]}                                     XML with a tag for each

What says which lines may stand beside a path wherever the path stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from joey.core.parsing.xml_arguments import parse_args_xml
from joey.core.text import regex
from joey.errors import ArgumentError
from joey.tools.arguments import convert, decode_json, missing
from joey.tools.line_block import MOST_LINES, Block

DEFAULT_LIMIT = 2000
INDENTATION = "indentation"
BLOCK_KEYS = ("anchor_line", "max_levels", "max_lines", "include_siblings", "include_header")
_RANGE = regex(r"(\d{1,15})\s*-\s*(\d{1,15})")
_NUMBER = regex(r"-?\d{1,15}")
_WRAPPERS = ("files", "args", "file")
_LINE_KEYS = ("start_line", "end_line", "offset", "limit", INDENTATION, *BLOCK_KEYS)
_RANGE_KEYS = ("line_ranges", "line_range", "lineRanges", "lineRange")

Range = tuple[int, int]


class WantedFile(Struct, frozen=True):
    path: str
    ranges: tuple[Range, ...] = ()
    pages: bool = False
    """Asked for by offset and limit, so that is how it is told to read on."""
    block: Block | None = None
    """The lines around one, instead of ranges."""


class ReadRequest(Struct, frozen=True):
    files: tuple[WantedFile, ...]


class _Slice(Struct, frozen=True):
    mode: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    offset: int | None = None
    limit: int | None = None


class _Indentation(Struct, frozen=True):
    anchor_line: int | None = None
    max_levels: int | None = None
    max_lines: int | None = None
    include_siblings: bool | None = None
    include_header: bool | None = None


def parse_request(arguments: Mapping[str, Any], tool: str) -> ReadRequest:
    """What a call asks for.

    Raises:
        ArgumentError: no file is named, or a range makes no sense.
    """
    wanted = [file for key in _WRAPPERS for file in _wrapped(key, arguments.get(key), tool)]
    named = {file.path for file in wanted}
    wanted += (file for file in _described(arguments, tool) if file.path not in named)
    if not wanted:
        raise missing(tool, "args" if "args" in arguments else "files")
    return ReadRequest(tuple(wanted))


def _wrapped(key: str, given: Any, tool: str) -> Iterator[WantedFile]:
    """The files in a parameter that holds them, in order."""
    given = _decoded(given)
    if isinstance(given, str):
        given = parse_args_xml(f"<file>{given}</file>" if key == "file" else given)
    pending = [given]
    while pending:
        match pending.pop():
            case str(path) if path:
                yield WantedFile(path)
            case list() as items:
                pending += reversed(items)
            case dict() as element:
                yield from _described(element, tool)
                pending += (element[key] for key in reversed(_WRAPPERS) if key in element)


def _described(element: Mapping[str, Any], tool: str) -> Iterator[WantedFile]:
    """What an element with a path, or several, asks for."""
    given = element.get("path")
    texts = given if isinstance(given, list) else [given]
    if isinstance(given, dict):
        raise ArgumentError(f"The parameter 'path' of {tool} has a value of the wrong kind.")
    paths = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    if not paths:
        return
    wanted = _lines_of(paths[0], element, tool)
    if len(paths) == 1:
        yield wanted
        return
    if wanted.ranges or any(element.get(key) for key in _LINE_KEYS):
        raise ArgumentError(
            "It is not clear to which of several paths the lines belong: give each path a file"
            " element of its own, with its lines in it."
        )
    yield from map(WantedFile, paths)


def _lines_of(path: str, element: Mapping[str, Any], tool: str) -> WantedFile:
    """The path with what stands beside it about lines."""
    wanted = convert(element, _Slice, tool)
    around = _indentation(element, tool)
    by_block = wanted.mode is None and around.anchor_line is not None
    if by_block or (wanted.mode or "").strip().lower() == INDENTATION:
        return WantedFile(path, block=_block(wanted, around))
    if wanted.offset is not None or wanted.limit is not None:
        offset = 1 if wanted.offset is None else wanted.offset
        limit = wanted.limit or DEFAULT_LIMIT
        if offset < 1 or limit < 1:
            raise ArgumentError(
                f"Lines are 1-indexed: offset and limit must be at least 1, not {offset} and"
                f" {limit}."
            )
        return WantedFile(path, ((offset, offset + limit - 1),), pages=True)
    start, end = wanted.start_line or 0, wanted.end_line or 0
    if start > 0 and end > 0:
        return WantedFile(path, ((start, end),))
    return WantedFile(path, tuple(_all_ranges(element)))


def _indentation(element: Mapping[str, Any], tool: str) -> _Indentation:
    """What stands in a parameter of its own, in whatever form, or beside the path."""
    given = _decoded(element.get(INDENTATION))
    if isinstance(given, list) and len(given) == 1:
        given = _decoded(given[0])
    if isinstance(given, str):
        given = parse_args_xml(given)
    inside = given if isinstance(given, dict) else {}
    return convert({**{key: element.get(key) for key in BLOCK_KEYS}, **inside}, _Indentation, tool)


def _block(wanted: _Slice, around: _Indentation) -> Block:
    anchor = wanted.offset if around.anchor_line is None else around.anchor_line
    anchor = 1 if anchor is None else anchor
    levels = around.max_levels or 0
    most = min(wanted.limit or MOST_LINES, around.max_lines or MOST_LINES, MOST_LINES)
    if anchor < 1 or levels < 0 or most < 1:
        raise ArgumentError(
            f"Lines are 1-indexed: anchor_line must be at least 1, not {anchor}; max_levels must"
            " not be negative, and max_lines and limit at least 1."
        )
    return Block(
        anchor_line=anchor,
        max_levels=levels,
        max_lines=most,
        include_siblings=bool(around.include_siblings),
        include_header=around.include_header is not False,
    )


def _all_ranges(element: Mapping[str, Any]) -> Iterator[Range]:
    for key in _RANGE_KEYS:
        yield from _ranges(_decoded(element.get(key)))


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


def _decoded(value: Any) -> Any:
    """A value that was encoded as JSON once more than needed, as it was meant."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    decoded = decode_json(value)
    return value if decoded is None else decoded
