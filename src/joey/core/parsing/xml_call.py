"""One XML call while it is written: its values, and which tags matter next.

Values are trimmed, except *verbatim* ones, which lose one newline at each end, so that what goes
into a file keeps its indentation. Every change is also told as JSON text, so that the arguments
of an XML call grow as those of a native call do.
"""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from joey.core.parsing.tags import Tags, tags_of
from joey.core.parsing.xml_args import without_first_newline, without_last_newline

VERBATIM = frozenset(
    {"content", "file_text", "diff", "patch", "old_string", "new_string", "search", "replace"}
)
BODIES = VERBATIM | {
    *("args", "arguments", "command", "follow_up", "message", "operations", "result", "todos"),
}
COMPANIONS: Mapping[str, frozenset[str]] = {"content": frozenset({"file_text", "line_count"})}
"""Older names that models still write beside or instead of a parameter."""


class Trimmed:
    """Streamed text without the white space around it; or, verbatim, without a newline there."""

    def __init__(self, verbatim: bool) -> None:
        self._verbatim = verbatim
        self._begun = False
        self._space: list[str] = []

    def grow(self, text: str) -> str:
        """What is certain now: white space counts once something follows it."""
        words = text.rstrip()
        if not words:
            self._space.append(text)
            return ""
        certain = "".join(self._space) + words
        self._space = [text[len(words) :]]
        if self._begun:
            return certain
        self._begun = True
        return without_first_newline(certain) if self._verbatim else certain.lstrip()

    def end(self) -> str:
        if not self._verbatim:
            return ""
        rest = "".join(self._space)
        if not self._begun:
            rest = without_first_newline(rest)
        return without_last_newline(rest)


class _Value:
    """A parameter that is being written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closing = f"</{name}>"
        self._trimmed = Trimmed(verbatim=name in VERBATIM)
        self._pieces: list[str] = []

    def grow(self, text: str) -> str:
        return self._keep(self._trimmed.grow(text))

    def end(self) -> str:
        return self._keep(self._trimmed.end())

    def _keep(self, text: str) -> str:
        self._pieces.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._pieces)


class XmlCall:
    """A call that is being written: which tags matter in it now, what it has so far."""

    def __init__(self, tool: str, parameters: frozenset[str]) -> None:
        self.tool = tool
        self.closing = f"</{tool}>"
        self.values: dict[str, str] = {}
        self.value: _Value | None = None
        self._missing = parameters.union(*(COMPANIONS.get(name, ()) for name in parameters))
        self.tags = self._tags_between()

    def open(self, name: str) -> str:
        """A parameter begins. Returns the JSON that says so, as the methods below."""
        ended = self.end_value()
        opened = ", " if self.values else "{"
        self._missing -= {name}
        self.value = _Value(name)
        self.tags = tags_of(frozenset({self.value.closing}))
        return f'{ended}{opened}{encode_basestring(name)}: "'

    def grow(self, text: str) -> str:
        return "" if self.value is None else _json_characters(self.value.grow(text))

    def pause_value(self) -> None:
        """The open body met its closing tag; a later one may still prove that it goes on."""
        assert self.value is not None
        self.tags = self._tags_between(self.value.closing)

    def end_value(self) -> str:
        if self.value is None:
            return ""
        rest = _json_characters(self.value.end())
        self.values[self.value.name] = self.value.text
        self.value = None
        self.tags = self._tags_between()
        return f'{rest}"'

    def end(self) -> str:
        ended = self.end_value()
        return f"{ended}}}" if self.values else "{}"

    def partial(self) -> dict[str, Any]:
        return {**self.values, self.value.name: self.value.text} if self.value else {**self.values}

    def _tags_between(self, *more: str) -> Tags:
        return tags_of(frozenset({self.closing, *more, *(f"<{name}>" for name in self._missing)}))


def _json_characters(text: str) -> str:
    return encode_basestring(text)[1:-1]
