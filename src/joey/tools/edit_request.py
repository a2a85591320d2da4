"""What a call of `edit` asks for: one replacement, or one of the forms that it had before.

`search_and_replace` took a list of `operations`, and in XML a `search` with flags and lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from joey.errors import ArgumentError
from joey.tools.arguments import convert, missing
from joey.tools.replacement import refuse_identical


class OneText(Struct, frozen=True):
    """A text that is there once, or `replace_all` of them."""

    file_path: str
    old_string: str
    new_string: str
    replace_all: bool = False


class Operation(Struct, frozen=True):
    search: str
    replace: str


class SeveralTexts(Struct, frozen=True):
    """Texts that are there once each, replaced one after the other."""

    path: str
    operations: tuple[Operation, ...]


class Everywhere(Struct, frozen=True):
    """A text or an expression, wherever it is in these lines."""

    path: str
    search: str
    replace: str
    start_line: int | None = None
    end_line: int | None = None
    use_regex: bool = False
    ignore_case: bool = False


class EditRequest(Struct, frozen=True):
    path: str
    wanted: OneText | SeveralTexts | Everywhere


def parse_request(arguments: Mapping[str, Any], tool: str) -> EditRequest:
    """Raises ArgumentError: something is missing, or is not what it should be."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if "operations" in given:
        return _several(given, tool)
    if "search" in given and "old_string" not in given:
        everywhere = convert(given, Everywhere, tool, {"file_path": "path"})
        _require(everywhere.search, "search", tool)
        return EditRequest(_path(everywhere.path, "path", tool), everywhere)
    one = convert(given, OneText, tool, {"path": "file_path"})
    _require(one.old_string, "old_string", tool)
    refuse_identical(one.old_string, one.new_string)
    return EditRequest(_path(one.file_path, "file_path", tool), one)


class _Listed(Struct, frozen=True):
    path: str
    operations: tuple[dict[str, Any], ...]


def _several(given: Mapping[str, Any], tool: str) -> EditRequest:
    listed = convert(given, _Listed, tool, {"file_path": "path"})
    if not listed.operations:
        raise missing(tool, "operations")
    operations = tuple(
        _operation(number, given, tool) for number, given in enumerate(listed.operations, 1)
    )
    path = _path(listed.path, "path", tool)
    return EditRequest(path, SeveralTexts(path, operations))


def _operation(number: int, given: dict[str, Any], tool: str) -> Operation:
    for name in ("search", "replace"):
        if given.get(name) is None:
            raise ArgumentError(f"Operation {number} of {tool} has no value for '{name}'.")
    operation = convert(given, Operation, tool)
    if not operation.search:
        raise ArgumentError(f"Operation {number} of {tool} has an empty 'search'.")
    return operation


def _path(path: str, name: str, tool: str) -> str:
    if not path.strip():
        raise missing(tool, name)
    return path


def _require(value: str, name: str, tool: str) -> None:
    if not value:
        raise missing(tool, name)
