"""XML as a stream of events: nothing is kept, and nothing that could multiply is accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NoReturn
from xml.parsers import expat

from joey.errors import ToolError


class Kind(Enum):
    START = "start"
    END = "end"
    TEXT = "text"


Event = tuple[Kind, str, dict[str, str]]
"""A name (or the text), and attributes; names are without their namespace."""


def events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Raises ToolError when it is not well-formed, or declares types or entities of its own."""
    pending: list[Event] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: pending.append(
        (Kind.START, _local(name), {_local(key): value for key, value in attributes.items()})
    )
    parser.EndElementHandler = lambda name: pending.append((Kind.END, _local(name), {}))
    parser.CharacterDataHandler = lambda text: pending.append((Kind.TEXT, text, {}))
    parser.StartDoctypeDeclHandler = _refuse
    try:
        for chunk in chunks:
            parser.Parse(chunk)
            yield from pending
            pending.clear()
        parser.Parse(b"", True)
        yield from pending
    except expat.ExpatError as error:
        raise ToolError(f"it is damaged: {error}.") from error


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _refuse(*_: object) -> NoReturn:
    raise ToolError("it declares types or entities in its XML, which documents never do.")
