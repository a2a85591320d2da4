"""What the model reads of files: sections in native tasks, `<file>` elements in XML ones."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from joey.core.models import ToolProtocol
from joey.core.text import number_lines

_DEFINITIONS = "list_code_definition_names"


class Passage(Struct, frozen=True):
    first: int
    last: int
    lines: tuple[str, ...]

    @property
    def numbered(self) -> str:
        return number_lines("\n".join(self.lines) + "\n", self.first)


class Entry(Struct, frozen=True):
    """One file of a call."""

    path: str
    passages: tuple[Passage, ...] = ()
    definitions: str | None = None
    """What the file defines, and where."""
    note: str | None = None
    binary: str | None = None
    """The kind of a file that cannot be shown."""
    error: str | None = None
    image: str | None = None
    """A data URI."""
    is_empty: bool = False


def render(entries: Sequence[Entry], protocol: ToolProtocol) -> str:
    if protocol is ToolProtocol.NATIVE:
        return "\n\n---\n\n".join(map(_section, entries))
    return "\n".join(["<files>", *map(_element, entries), "</files>"])


def _section(entry: Entry) -> str:
    if entry.error is not None:
        return f"File: {entry.path}\nError: {entry.error}"
    parts = [f"Lines {part.first}-{part.last}:\n{part.numbered}" for part in entry.passages]
    if entry.definitions is not None:
        parts.append(f"Code Definitions:\n{entry.definitions}\n")
    if entry.binary is not None:
        parts.append(_binary(entry.binary))
    if entry.note is not None:
        parts.append(f"Note: {entry.note}")
    return f"File: {entry.path}\n" + "\n".join(parts)


def _element(entry: Entry) -> str:
    path = f"<file><path>{entry.path}</path>"
    if entry.error is not None:
        return f"{path}<error>{entry.error}</error></file>"
    if entry.is_empty:
        return f"{path}\n<content/><notice>{entry.note}</notice>\n</file>"
    parts = [
        f'<content lines="{part.first}-{part.last}">\n{part.numbered}</content>'
        for part in entry.passages
    ]
    if entry.definitions is not None:
        parts.append(f"<{_DEFINITIONS}>\n{entry.definitions}\n</{_DEFINITIONS}>")
    notices = [_binary(entry.binary)] if entry.binary is not None else []
    notices += [entry.note] if entry.note is not None else []
    parts += [f"<notice>{notice}</notice>" for notice in notices]
    return "\n".join([path, *parts, "</file>"])


def _binary(kind: str) -> str:
    return f"Binary file ({kind}) - content not displayed"
