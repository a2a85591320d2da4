"""Arguments as models send them, made into a tool's parameters.

Models send numbers as strings, lists as JSON in a string, a text in a list of its own, and the
XML protocol sends nothing but strings. What can only mean one thing is taken to mean it. An object
is never a path or a command; where a whole text is asked for, its JSON may well be that text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo

from joey.errors import ArgumentError

S = TypeVar("S", bound=Struct)

_BODIES = frozenset({"content", "diff", "result"})
"""Here JSON is a text like any other: some models send `package.json` as an object."""


def convert(
    arguments: Mapping[str, Any],
    kind: type[S],
    tool: str,
    aliases: Mapping[str, str] | None = None,
) -> S:
    """The parameters of a call. `aliases` gives other names of parameters: `{old: real}`.

    Unknown arguments are passed over; null stands for the default.

    Raises:
        ArgumentError: a value is missing (then it has the `parameter`), or cannot be understood.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    for alias, name in (aliases or {}).items():
        if alias in given and name not in given:
            given[name] = given[alias]
    values: dict[str, Any] = {}
    for field in _fields(kind):
        if field.encode_name in given:
            _set(values, field, given[field.encode_name], tool)
        elif field.required:
            raise missing(tool, field.encode_name)
    return kind(**values)


def missing(tool: str, parameter: str) -> ArgumentError:
    return ArgumentError(
        f"Missing value for required parameter '{parameter}' of {tool}.", parameter
    )


@cache
def _fields(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _set(values: dict[str, Any], field: FieldInfo, value: Any, tool: str) -> None:
    problem: msgspec.ValidationError | None = None
    for reading in _readings(value, is_body=field.encode_name in _BODIES):
        try:
            values[field.name] = msgspec.convert(reading, field.type, strict=False)
        except msgspec.ValidationError as error:
            problem = problem or error
        else:
            return
    if isinstance(value, str) and not value.strip() and not field.required:
        return
    raise ArgumentError(
        f"The parameter '{field.encode_name}' of {tool} has a value of the wrong kind: {problem}."
    ) from problem


def _readings(value: Any, *, is_body: bool) -> Iterator[Any]:
    """What a value may have been meant to be, the most literal first."""
    yield value
    match value:
        case str():
            stripped = value.strip()
            yield stripped
            if stripped.startswith(("[", "{")) and (decoded := decode_json(stripped)) is not None:
                yield decoded
        case [str(text)] if not is_body:
            yield text
        case list() | dict() if not is_body:
            return
        case _:
            try:
                yield msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            except (UnicodeEncodeError, RecursionError):
                return  # half a surrogate pair, or endless nesting: not text in any reading


def decode_json(text: str) -> Any:
    """What a string holds as JSON, or None."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
