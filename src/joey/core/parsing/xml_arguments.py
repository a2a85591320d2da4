"""Arguments of XML calls: parameter values as they stream in, elements inside `<args>`.

Values are trimmed, except *verbatim* ones, which lose one newline at each end, so that file
content keeps its indentation. A value that is one CDATA section is the content of that section.
Every change is also reported as JSON text, so that the arguments of an XML call grow like those of
a native call; text whose meaning is still open is reported when it is known.

`parse_args_xml` reads elements such as `<file><path>…</path></file>` as models write them. It is
not an XML parser: models forget to escape, and they write code into `<content>`. Nothing is an
error here; the tool reports missing elements. Reading takes time in proportion to the length of
the text, whatever it contains.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any, Union

from joey.core.parsing.tags import (
    THINK_CLOSING_BY_OPENING,
    THINK_CLOSING_TAGS,
    TagMatcher,
    closes_before,
    tags_of,
)
from joey.core.text import regex

VERBATIM_PARAMETERS = frozenset(
    {"content", "file_text", "diff", "patch", "old_string", "new_string"}
)
BODY_PARAMETERS = VERBATIM_PARAMETERS | {
    *("args", "arguments", "command", "file", "follow_up", "message", "operations", "replace"),
    *("result", "search", "todos"),
}
WRAPPER_PARAMETERS = frozenset({"args", "file"})
"""They hold the parameters as elements of their own, so beside them no other tag counts."""
LEGACY_PARAMETER_NAMES: Mapping[str, frozenset[str]] = {
    "content": frozenset({"file_text", "line_count"})
}
"""Older names that models still write beside or instead of a parameter."""

THINK_TAGS_BETWEEN_PARAMETERS = THINK_CLOSING_TAGS | THINK_CLOSING_BY_OPENING.keys()
"""Reasoning may open, or turn out to have been open, between parameters."""
_MULTI_VALUE_MARKER_PARAMETER = "line_range"
"""A tool that takes line ranges takes several of everything; their values become lists."""
_CDATA_OPENING, _CDATA_CLOSING = "<![CDATA[", "]]>"


class StreamTrimmer:
    """Streamed text without the white space around it; or, verbatim, without a newline there."""

    def __init__(self, verbatim: bool) -> None:
        self._verbatim = verbatim
        self._begun = False
        self._space: list[str] = []

    def grow(self, text: str) -> str:
        """What is certain now: white space counts once something follows it."""
        stripped = text.rstrip()
        if not stripped:
            self._space.append(text)
            return ""
        certain = "".join(self._space) + stripped
        self._space = [text[len(stripped) :]]
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


class _StreamedValue:
    """A parameter that is being written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closing = f"</{name}>"
        self._trimmed = StreamTrimmer(verbatim=name in VERBATIM_PARAMETERS)
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
        if len(self._pending) > 1 and self._pending[0].startswith(_CDATA_OPENING):
            return True
        begun = "".join(self._pending).lstrip()
        if begun.startswith(_CDATA_OPENING):
            self._pending = [begun]
            return True
        return _CDATA_OPENING.startswith(begun)

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
        self.value: _StreamedValue | None = None
        several = parameters if _MULTI_VALUE_MARKER_PARAMETER in parameters else frozenset()
        self._several = several - WRAPPER_PARAMETERS
        self._has_json_begun = False
        self._missing = parameters.union(
            *(LEGACY_PARAMETER_NAMES.get(name, ()) for name in parameters)
        )
        self.tags = self._tags_between(*THINK_TAGS_BETWEEN_PARAMETERS)

    def open(self, name: str) -> str:
        """A parameter begins. Returns the JSON that says so, as the methods below."""
        ended = self.end_value()
        if name in WRAPPER_PARAMETERS:
            self._missing = frozenset()
        elif name not in self._several:
            self._missing -= {name}
        self.value = _StreamedValue(name)
        self.tags = tags_of(frozenset({self.value.closing}))
        return ended if name in self._several else f'{ended}{self._next_name(name)}"'

    def grow(self, text: str) -> str:
        return "" if self.value is None else self._encode_delta(self.value.grow(text))

    def pause_value(self) -> None:
        """The open body met its closing tag; a later one may still prove that it goes on."""
        assert self.value is not None
        self.tags = self._tags_between(self.value.closing)

    def end_value(self) -> str:
        value = self.value
        if value is None:
            return ""
        rest = self._encode_delta(value.end())
        if value.name not in self._several:
            self.values[value.name] = value.text
            rest += '"'
        else:
            self._add(value.name, value.text)
        self.value = None
        self.tags = self._tags_between(*THINK_TAGS_BETWEEN_PARAMETERS)
        return rest

    def end(self) -> str:
        ended = self.end_value()
        for name in sorted(self._several & self.values.keys()):
            ended += f"{self._next_name(name)}{_json(self.values[name])}"
        return f"{ended}}}" if self._has_json_begun else "{}"

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
        opened = ", " if self._has_json_begun else "{"
        self._has_json_begun = True
        return f"{opened}{encode_basestring(name)}: "

    def _encode_delta(self, text: str) -> str:
        assert self.value is not None
        return "" if self.value.name in self._several else encode_basestring(text)[1:-1]

    def begins_anew(self, name: str) -> bool:
        """Whether a value closes a section of reasoning and then opens its parameter again."""
        value = self.values[name]
        texts = value if isinstance(value, list) else [value]
        return any(closes_before(text, f"<{name}>") for text in texts)

    def _tags_between(self, *more: str) -> TagMatcher:
        return tags_of(frozenset({self.closing, *more, *(f"<{name}>" for name in self._missing)}))


def _unwrapped(text: str) -> str:
    """What a CDATA section holds, if the text is one as a whole."""
    section = text.strip()
    end = len(section) - len(_CDATA_CLOSING)
    if section.startswith(_CDATA_OPENING) and section.find(_CDATA_CLOSING) == end >= len(
        _CDATA_OPENING
    ):
        return section[len(_CDATA_OPENING) : end]
    return text


def _json(value: str | list[str]) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    return f"[{', '.join(map(encode_basestring, value))}]"


XmlElement = Union[str, "dict[str, list[XmlElement]]"]
"""The text of a leaf, or children by name, each name with all its occurrences in order."""

_WHITESPACE_RE = regex(r"\s*+")
_TAG_RE = regex(r"<(/?)([A-Za-z_][\w.-]*+)(?:\s[^<>]*+)?(?<!/)(/?)>")
_CDATA_START = "<![CDATA["
_MAX_DEPTH = 100
_MAX_LOOKAHEAD_CHARS = 10_000_000
"""Characters that may be looked at for ends of literal elements that fit better than the first."""
_ENTITY_RE = regex(r"&(lt|gt|amp|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_NAMED_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def parse_args_xml(raw: str) -> dict[str, list[XmlElement]]:
    """The elements in the raw text of an `args` parameter, by name.

    `<file><path>a</path><line_range>1-2</line_range><line_range>5-9</line_range></file>` gives
    `{"file": [{"path": ["a"], "line_range": ["1-2", "5-9"]}]}`. Leaves are trimmed and their
    entities decoded; `content` (and a `diff` that holds text rather than elements) is taken as
    it stands, less one newline at each end, and so is CDATA. A tag that is never closed is text.
    """
    return _ElementParser(raw).read()


def without_first_newline(text: str) -> str:
    return text[2:] if text.startswith("\r\n") else text.removeprefix("\n")


def without_last_newline(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def decode_entities(text: str) -> str:
    """XML's five names and numeric references; anything else stays as it is written."""
    return _ENTITY_RE.sub(_decode_entity, text)


def _decode_entity(match: re.Match[str]) -> str:
    body = match[1]
    if body in _NAMED_ENTITIES:
        return _NAMED_ENTITIES[body]
    code = int(body[2:], 16) if body[1] in "xX" else int(body[1:])
    is_character = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else match[0]


class _OpenElement:
    """An element whose closing tag has not been met yet."""

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = start
        self.children: dict[str, list[XmlElement]] = {}

    def add(self, name: str, *values: XmlElement) -> None:
        self.children.setdefault(name, []).extend(values)


class _ElementParser:
    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._stack = [_OpenElement("", 0)]
        self._open: Counter[str] = Counter()
        self._found: dict[str, tuple[int, int]] = {}
        """Where each text was looked for last, and where it is."""
        self._patience = _MAX_LOOKAHEAD_CHARS

    def read(self) -> dict[str, list[XmlElement]]:
        pos = 0
        while match := _TAG_RE.search(self._raw, pos):
            pos = match.end()
            name = match[2]
            if match[1]:
                self._close(name, match.start())
            elif match[3]:
                self._stack[-1].add(name, "")
            else:
                pos = self._begin(name, pos)
        self._forget_above(0)
        return self._stack[0].children

    def _begin(self, name: str, pos: int) -> int:
        """Open an element, or take the whole of one that is not made of elements."""
        taken = self._literal(name, pos)
        if taken is None and len(self._stack) > _MAX_DEPTH:
            return pos
        if taken is None:
            self._stack.append(_OpenElement(name, pos))
            self._open[name] += 1
            return pos
        value, end = taken
        self._stack[-1].add(name, value)
        return end

    def _literal(self, name: str, pos: int) -> tuple[str, int] | None:
        """The value of a literal element that begins at `pos`, and where its closing tag ends."""
        closing = f"</{name}>"
        first_word = self._skip_space(pos)
        if self._raw.startswith(_CDATA_START, first_word):
            return self._cdata(closing, first_word + len(_CDATA_START))
        holds_elements = self._raw.startswith("<content>", first_word)
        if name != "content" and (name != "diff" or holds_elements):
            return None
        end = self._literal_end(closing, pos)
        if end < 0:
            return None
        value = without_last_newline(without_first_newline(self._raw[pos:end]))
        return value, end + len(closing)

    def _cdata(self, closing: str, start: int) -> tuple[str, int] | None:
        end = self._find("]]>", start)
        if end < 0 or self._patience <= 0:
            return None
        after = self._skip_space(end + len("]]>"))
        if self._raw.startswith(closing, after):
            return self._raw[start:end], after + len(closing)
        self._patience -= after - end
        return None

    def _literal_end(self, closing: str, pos: int) -> int:
        """The first closing tag that its parent's end or a line number follows, else the first."""
        first = at = self._find(closing, pos)
        followers = (f"</{self._stack[-1].name}>", "<start_line>", "<end_line>")
        while at >= 0 and self._patience > 0:
            after = self._skip_space(at + len(closing))
            if after == len(self._raw) or self._raw.startswith(followers, after):
                return at
            at, before = self._raw.find(closing, after), at
            self._patience -= (at if at >= 0 else len(self._raw)) - before
        return first

    def _find(self, wanted: str, pos: int) -> int:
        """Like `str.find`, but without reading the same text again and again as `pos` grows."""
        begin, at = self._found.get(wanted, (pos + 1, 0))
        if begin <= pos and (at < 0 or pos <= at):
            return at
        at = self._raw.find(wanted, pos)
        self._found[wanted] = pos, at
        return at

    def _skip_space(self, pos: int) -> int:
        match = _WHITESPACE_RE.match(self._raw, pos)
        return match.end() if match else pos

    def _close(self, name: str, end: int) -> None:
        if not self._open[name]:
            return
        depth = len(self._stack) - 1
        while self._stack[depth].name != name:
            depth -= 1
        self._forget_above(depth)
        node = self._stack.pop()
        self._open[name] -= 1
        leaf = decode_entities(self._raw[node.start : end]).strip() if not node.children else ""
        self._stack[-1].add(name, node.children or leaf)

    def _forget_above(self, depth: int) -> None:
        """Tags that were never closed are text; what they seemed to hold belongs around them."""
        parent, forgotten = self._stack[depth], self._stack[depth + 1 :]
        del self._stack[depth + 1 :]
        for node in forgotten:
            self._open[node.name] -= 1
            for name, values in node.children.items():
                parent.add(name, *values)
