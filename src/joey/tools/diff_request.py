"""Which files a call of `apply_diff` changes, and how: one file, or several in `<args>`.

Models leave the wrapping out at times; then the elements come in `file`, which holds all of them:
`<path>…</path><diff>…</diff></file><file>…`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from joey.core.parsing.xml_arguments import parse_args_xml
from joey.core.text import regex
from joey.errors import ArgumentError
from joey.tools.arguments import convert, missing

_WRAPPERS = ("args", "file")
_SEARCH_LINE = regex(r"^[ \t]*<{7,8} SEARCH>?[ \t]*\r?\n", re.MULTILINE)


class FileDiff(Struct, frozen=True):
    path: str
    diff: str


class DiffRequest(Struct, frozen=True):
    files: tuple[FileDiff, ...]


def parse_request(arguments: Mapping[str, Any], tool: str) -> DiffRequest:
    """The diffs of a call; those for the same file become one.

    Raises:
        ArgumentError: a path or a diff is missing, or `args` has another structure.
    """
    diffs: dict[str, list[str]] = {}
    wrapped = any(arguments.get(key) for key in _WRAPPERS)
    named = arguments.get("path") or arguments.get("file_path")
    if not wrapped or (named and arguments.get("diff")):
        single = convert(arguments, FileDiff, tool, {"file_path": "path"})
        if not single.path.strip():
            raise missing(tool, "path")
        if not single.diff.strip():
            raise missing(tool, "diff")
        diffs[single.path] = [single.diff]
    for key in _WRAPPERS:
        for path, diff in _diffs(_elements(key, arguments.get(key))):
            diffs.setdefault(path, []).append(diff)
    if not diffs:
        raise ArgumentError(
            "Nothing to apply was found in args. Each file must look like"
            " <file><path>…</path><diff><content>…</content></diff></file>."
        )
    return DiffRequest(tuple(FileDiff(path, "\n".join(parts)) for path, parts in diffs.items()))


def _elements(key: str, given: Any) -> Any:
    if key == "args" and not isinstance(given, list):
        return parse_args_xml(given) if isinstance(given, str) else given
    return parse_args_xml(f"<file>{given}</file>") if isinstance(given, str) else {"file": given}


def _diffs(elements: Any) -> Iterator[tuple[str, str]]:
    files = elements.get("file", ()) if isinstance(elements, dict) else ()
    for file in _listed(files):
        if not isinstance(file, dict) or not isinstance(path := _first(file, "path"), str):
            continue
        for diff in _listed(file.get("diff", ())):
            text = diff if isinstance(diff, str) else _first(diff, "content")
            if isinstance(text, str) and text:
                yield path, _with_start_line(text, diff)


def _with_start_line(text: str, diff: Any) -> str:
    """A start line beside the content, put where a block has it."""
    line = _first(diff, "start_line") if isinstance(diff, dict) else None
    line = str(line) if isinstance(line, int) else line
    if not isinstance(line, str) or not line.isdecimal() or ":start_line:" in text:
        return text
    return _SEARCH_LINE.sub(lambda match: f"{match[0]}:start_line:{line}\n", text, count=1)


def _first(element: Any, name: str) -> Any:
    values = _listed(element.get(name, ())) if isinstance(element, dict) else []
    return values[0] if values else None


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
