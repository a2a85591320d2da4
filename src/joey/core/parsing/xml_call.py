"""One XML call while it is written: its values, and which tags matter next.

Values are trimmed, except *verbatim* ones, which lose one newline at each end, so that what goes
into a file keeps its indentation. A value that is one CDATA section is what the section holds.
Every change is also told as JSON text, so that the arguments of an XML call grow as those of a
native call do; what may yet turn out to be something else is told when that is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from joey.core.parsing.tags import Tags, tags_of
from joey.core.parsing.think_tags import CLOSINGS, SECTIONS, closes_before
from joey.core.parsing.xml_args import without_first_newline, without_last_newline

VERBATIM = frozenset({"content", "file_text", "diff", "patch", "old_string", "new_string"})
BODIES = VERBATIM | {
    *("args", "arguments", "command", "file", "follow_up", "message", "operations", "replace"),
    *("result", "search", "todos"),
}
WRAPPERS = frozenset({"args", "file"})
"""They hold the parameters as elements of their own, so beside them no other tag counts."""
COMPANIONS: Mapping[str, frozenset[str]] = {"content": frozenset({"file_text", "line_count"})}
"""Older names that models still write beside or instead of a parameter."""

BETWEEN = CLOSINGS | SECTIONS.keys()
"""Reasoning may open, or turn out to have been open, between parameters."""
_SIGN_OF_SEVERAL = "line_range"
"""A tool that takes line ranges takes several of everything; their values become lists."""
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


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
        self._plain = False
        self._blank = True
        self._pending: list[str] = []
        """The value so far, while it is or may be a CDATA section."""

    def grow(self, text: str) -> str:
        if self._plain:
            return self._keep(self._trimmed.grow(text))
        self._pending.append(text)
        self._blank = self._blank and not text.strip()
        if self._blank or self._may_be_cdata():
            return ""
        self._plain = True
        return self._keep(self._trimmed.grow(self._take_pending()))

    def end(self) -> str:
        rest = "" if self._plain else self._trimmed.grow(_unwrapped(self._take_pending()))
        return self._keep(rest + self._trimmed.end())

    def _may_be_cdata(self) -> bool:
        if len(self._pending) > 1 and self._pending[0].startswith(_CDATA):
            return True
        begun = "".join(self._pending).lstrip()
        if begun.startswith(_CDATA):
            self._pending = [begun]
            return True
        return _CDATA.startswith(begun)

    def _take_pending(self) -> str:
        pending = "".join(self._pending)
        self._pending = []
        return pending

    def _keep(self, text: str) -> str:
        self._pieces.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._pieces) + "".join(self._pending).strip()


class XmlCall:
    """A call that is being written: which tags matter in it now, what it has so far."""

    def __init__(self, tool: str, parameters: frozenset[str]) -> None:
        self.tool = tool
        self.closing = f"</{tool}>"
        self.values: dict[str, Any] = {}
        self.value: _Value | None = None
        several = parameters if _SIGN_OF_SEVERAL in parameters else frozenset()
        self._several = several - WRAPPERS
        self._told = False
        self._missing = parameters.union(*(COMPANIONS.get(name, ()) for name in parameters))
        self.tags = self._tags_between(*BETWEEN)

    def open(self, name: str) -> str:
        """A parameter begins. Returns the JSON that says so, as the methods below."""
        ended = self.end_value()
        if name in WRAPPERS:
            self._missing = frozenset()
        elif name not in self._several:
            self._missing -= {name}
        self.value = _Value(name)
        self.tags = tags_of(frozenset({self.value.closing}))
        return ended if name in self._several else f'{ended}{self._next_name(name)}"'

    def grow(self, text: str) -> str:
        return "" if self.value is None else self._tell(self.value.grow(text))

    def pause_value(self) -> None:
        """The open body met its closing tag; a later one may still prove that it goes on."""
        assert self.value is not None
        self.tags = self._tags_between(self.value.closing)

    def end_value(self) -> str:
        value = self.value
        if value is None:
            return ""
        rest = self._tell(value.end())
        if value.name not in self._several:
            self.values[value.name] = value.text
            rest += '"'
        else:
            self._add(value.name, value.text)
        self.value = None
        self.tags = self._tags_between(*BETWEEN)
        return rest

    def end(self) -> str:
        ended = self.end_value()
        for name in sorted(self._several & self.values.keys()):
            ended += f"{self._next_name(name)}{_json(self.values[name])}"
        return f"{ended}}}" if self._told else "{}"

    def partial(self) -> dict[str, Any]:
        return {**self.values, self.value.name: self.value.text} if self.value else {**self.values}

    def _add(self, name: str, text: str) -> None:
        match self.values.get(name):
            case None:
                self.values[name] = text
            case list() as texts:
                texts.append(text)
            case first:
                self.values[name] = [first, text]

    def _next_name(self, name: str) -> str:
        opened = ", " if self._told else "{"
        self._told = True
        return f"{opened}{encode_basestring(name)}: "

    def _tell(self, text: str) -> str:
        assert self.value is not None
        return "" if self.value.name in self._several else encode_basestring(text)[1:-1]

    def begins_anew(self, name: str) -> bool:
        """Whether a value closes a section of reasoning and then opens its parameter again."""
        value = self.values[name]
        texts = value if isinstance(value, list) else [value]
        return any(closes_before(text, f"<{name}>") for text in texts)

    def _tags_between(self, *more: str) -> Tags:
        return tags_of(frozenset({self.closing, *more, *(f"<{name}>" for name in self._missing)}))


def _unwrapped(text: str) -> str:
    """What a CDATA section holds, if the text is one as a whole."""
    section = text.strip()
    end = len(section) - len(_CDATA_END)
    if section.startswith(_CDATA) and section.find(_CDATA_END) == end >= len(_CDATA):
        return section[len(_CDATA) : end]
    return text


def _json(value: str | list[str]) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    return f"[{', '.join(map(encode_basestring, value))}]"
