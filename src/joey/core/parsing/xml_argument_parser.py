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

from msgspec import Struct

from joey.core.parsing.tags import (
    THINK_CLOSING_TAGS,
    THINK_OPENING_TAGS,
    TagMatcher,
    get_tag_matcher,
    has_tag_after_reasoning_end,
)
from joey.core.text import compile_regex

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

THINK_TAGS_BETWEEN_PARAMETERS = THINK_CLOSING_TAGS | THINK_OPENING_TAGS
"""Reasoning may open, or turn out to have been open, between parameters."""
_MULTI_VALUE_MARKER_PARAMETER = "line_range"
"""A tool that takes line ranges takes several of everything; their values become lists."""
_CDATA_OPENING, _CDATA_CLOSING = "<![CDATA[", "]]>"


class StreamTrimmer:
    """Streamed text without the white space around it; or, verbatim, without a newline there."""

    def __init__(self, verbatim: bool) -> None:
        self._is_verbatim = verbatim
        self._has_begun = False
        self._pending_space: list[str] = []

    def feed(self, text: str) -> str:
        """What is certain now: white space counts once something follows it."""
        stripped = text.rstrip()
        if not stripped:
            self._pending_space.append(text)
            return ""
        certain = "".join(self._pending_space) + stripped
        self._pending_space = [text[len(stripped) :]]
        if self._has_begun:
            return certain
        self._has_begun = True
        return strip_first_newline(certain) if self._is_verbatim else certain.lstrip()

    def close(self) -> str:
        if not self._is_verbatim:
            return ""
        rest = "".join(self._pending_space)
        return strip_last_newline(rest if self._has_begun else strip_first_newline(rest))


class _StreamedValue:
    """A parameter that is being written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closing_tag = f"</{name}>"
        self._trimmer = StreamTrimmer(verbatim=name in VERBATIM_PARAMETERS)
        self._pieces: list[str] = []
        self._is_plain = False
        self._is_blank = True
        self._possible_cdata_pieces: list[str] = []
        """The value so far, while it is or may be a CDATA section."""

    def feed(self, text: str) -> str:
        if self._is_plain:
            return self._append_piece(self._trimmer.feed(text))
        self._possible_cdata_pieces.append(text)
        self._is_blank = self._is_blank and not text.strip()
        if self._is_blank or self._can_be_cdata():
            return ""
        self._is_plain = True
        return self._append_piece(self._trimmer.feed(self._drain_pending()))

    def close(self) -> str:
        rest = "" if self._is_plain else self._trimmer.feed(_unwrap_cdata(self._drain_pending()))
        return self._append_piece(rest + self._trimmer.close())

    def _can_be_cdata(self) -> bool:
        if len(self._possible_cdata_pieces) > 1 and self._possible_cdata_pieces[0].startswith(
            _CDATA_OPENING
        ):
            return True
        begun = "".join(self._possible_cdata_pieces).lstrip()
        if begun.startswith(_CDATA_OPENING):
            self._possible_cdata_pieces = [begun]
            return True
        return _CDATA_OPENING.startswith(begun)

    def _drain_pending(self) -> str:
        pending = "".join(self._possible_cdata_pieces)
        self._possible_cdata_pieces = []
        return pending

    def _append_piece(self, text: str) -> str:
        self._pieces.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._pieces) + "".join(self._possible_cdata_pieces).strip()


class _SuspendedBody(Struct, frozen=True):
    """A body behind which a short parameter has begun, if that is not a quotation in the body."""

    value: _StreamedValue
    values_before: dict[str, Any]
    expected_before: frozenset[str]


class XmlCall:
    """A call that is being written: which tags matter in it now, what it has so far."""

    def __init__(self, tool: str, parameters: frozenset[str]) -> None:
        self.tool = tool
        self.closing_tag = f"</{tool}>"
        self.values: dict[str, Any] = {}
        self.current_value: _StreamedValue | None = None
        self.suspended_body: _SuspendedBody | None = None
        several = parameters if _MULTI_VALUE_MARKER_PARAMETER in parameters else frozenset()
        self._multi_value_parameters = several - WRAPPER_PARAMETERS
        self._has_json_begun = False
        self._expected_parameters = parameters.union(
            *(LEGACY_PARAMETER_NAMES.get(name, ()) for name in parameters)
        )
        self.tag_matcher = self._build_tag_matcher(*THINK_TAGS_BETWEEN_PARAMETERS)

    def open_parameter(self, name: str) -> str:
        """A parameter begins. Returns the JSON that says so, as the methods below."""
        ended = self.end_value()
        if name in WRAPPER_PARAMETERS:
            self._expected_parameters = frozenset()
        elif name not in self._multi_value_parameters:
            self._expected_parameters -= {name}
        self.current_value = _StreamedValue(name)
        self.tag_matcher = get_tag_matcher(
            frozenset({self.current_value.closing_tag, *self._list_suspended_tags()})
        )
        return (
            ended
            if name in self._multi_value_parameters
            else f'{ended}{self._encode_next_name(name)}"'
        )

    def feed(self, text: str) -> str:
        return self._encode_delta(self.current_value.feed(text)) if self.current_value else ""

    def pause_value(self) -> None:
        """The open body met its closing tag; a later one may still prove that it goes on."""
        assert self.current_value is not None
        self.tag_matcher = self._build_tag_matcher(self.current_value.closing_tag)

    def suspend_body(self) -> None:
        """A parameter begins behind the closed body; the body may still prove to go on."""
        assert self.current_value is not None
        before, expected = dict(self.values), self._expected_parameters
        self.suspended_body = _SuspendedBody(self.current_value, before, expected)
        self.current_value = None

    def resume_body(self, text: str) -> str:
        """The body was closed once more: what seemed to follow it, `text`, belongs to it."""
        assert self.suspended_body is not None
        self.current_value = self.suspended_body.value
        self.values = self.suspended_body.values_before
        self._expected_parameters = self.suspended_body.expected_before
        self.suspended_body = None
        self.pause_value()
        return self.feed(text)

    def settle_suspended_body(self) -> str:
        """The call ends, and so did the body."""
        if self.suspended_body is None:
            return ""
        value, self.suspended_body = self.suspended_body.value, None
        rest = encode_basestring(value.close())[1:-1]
        self.values[value.name] = value.text
        return f'{rest}"'

    def end_value(self) -> str:
        value = self.current_value
        if value is None:
            return ""
        rest = self._encode_delta(value.close())
        if value.name not in self._multi_value_parameters:
            self.values[value.name] = value.text
            rest += '"'
        else:
            self._append_value(value.name, value.text)
        self.current_value = None
        self.tag_matcher = self._build_tag_matcher(*THINK_TAGS_BETWEEN_PARAMETERS)
        return rest

    def close(self) -> str:
        ended = self.end_value()
        for name in sorted(self._multi_value_parameters & self.values.keys()):
            value = self.values[name]
            encoded = (
                encode_basestring(value)
                if isinstance(value, str)
                else f"[{', '.join(map(encode_basestring, value))}]"
            )
            ended += f"{self._encode_next_name(name)}{encoded}"
        return f"{ended}}}" if self._has_json_begun else "{}"

    def get_partial_arguments(self) -> dict[str, Any]:
        suspended = self.suspended_body.value if self.suspended_body is not None else None
        open_values = (value for value in (suspended, self.current_value) if value is not None)
        return {**self.values, **{value.name: value.text for value in open_values}}

    def _append_value(self, name: str, text: str) -> None:
        match self.values.get(name):
            case None:
                self.values[name] = text
            case list() as texts:
                texts.append(text)
            case first:
                self.values[name] = [first, text]

    def _encode_next_name(self, name: str) -> str:
        opened = ", " if self._has_json_begun else "{"
        self._has_json_begun = True
        return f"{opened}{encode_basestring(name)}: "

    def _encode_delta(self, text: str) -> str:
        assert self.current_value is not None
        return (
            ""
            if self.current_value.name in self._multi_value_parameters
            else encode_basestring(text)[1:-1]
        )

    def is_reopened_after_reasoning(self, name: str) -> bool:
        """Whether a value closes a section of reasoning and then opens its parameter again."""
        value = self.values[name]
        texts = value if isinstance(value, list) else [value]
        return any(has_tag_after_reasoning_end(text, f"<{name}>") for text in texts)

    def _build_tag_matcher(self, *more: str) -> TagMatcher:
        return get_tag_matcher(
            frozenset(
                {
                    *(self.closing_tag, *more, *self._list_suspended_tags()),
                    *(f"<{name}>" for name in self._expected_parameters),
                }
            )
        )

    def _list_suspended_tags(self) -> tuple[str, ...]:
        return () if self.suspended_body is None else (self.suspended_body.value.closing_tag,)


def _unwrap_cdata(text: str) -> str:
    """What a CDATA section holds, if the text is one as a whole."""
    section = text.strip()
    end = len(section) - len(_CDATA_CLOSING)
    if section.startswith(_CDATA_OPENING) and section.find(_CDATA_CLOSING) == end >= len(
        _CDATA_OPENING
    ):
        return section[len(_CDATA_OPENING) : end]
    return text


XmlElement = Union[str, "dict[str, list[XmlElement]]"]
"""The text of a leaf, or children by name, each name with all its occurrences in order."""

_WHITESPACE_RE = compile_regex(r"\s*+")
_TAG_RE = compile_regex(r"<(/?)([A-Za-z_][\w.-]*+)(?:\s[^<>]*+)?(?<!/)(/?)>")
_MAX_DEPTH = 100
_MAX_LOOKAHEAD_CHARS = 10_000_000
"""For ends of literal elements that fit better than the first."""
_ENTITY_RE = compile_regex(r"&(lt|gt|amp|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_NAMED_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def parse_args_xml(raw: str) -> dict[str, list[XmlElement]]:
    """The elements in the raw text of an `args` parameter, by name.

    `<file><path>a</path><line_range>1-2</line_range><line_range>5-9</line_range></file>` gives
    `{"file": [{"path": ["a"], "line_range": ["1-2", "5-9"]}]}`. Leaves are trimmed and their
    entities decoded; `content` (and a `diff` that holds text rather than elements) is taken as
    it stands, less one newline at each end, and so is CDATA. A tag that is never closed is text.
    """
    return _ElementParser(raw).parse()


def skip_whitespace(text: str, pos: int) -> int:
    match = _WHITESPACE_RE.match(text, pos)
    return match.end() if match else pos


def strip_first_newline(text: str) -> str:
    return text[2:] if text.startswith("\r\n") else text.removeprefix("\n")


def strip_last_newline(text: str) -> str:
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
        self.content_start = start
        self.children: dict[str, list[XmlElement]] = {}

    def add_child(self, name: str, *values: XmlElement) -> None:
        self.children.setdefault(name, []).extend(values)


class _ElementParser:
    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._stack = [_OpenElement("", 0)]
        self._open_counts: Counter[str] = Counter()
        self._find_cache: dict[str, tuple[int, int]] = {}
        """Where each text was looked for last, and where it is."""
        self._lookahead_budget = _MAX_LOOKAHEAD_CHARS

    def parse(self) -> dict[str, list[XmlElement]]:
        pos = 0
        while match := _TAG_RE.search(self._raw, pos):
            pos = match.end()
            name = match[2]
            if match[1]:
                self._close_element(name, match.start())
            elif match[3]:
                self._stack[-1].add_child(name, "")
            else:
                pos = self._open_element(name, pos)
        self._flatten_unclosed_elements(0)
        return self._stack[0].children

    def _open_element(self, name: str, pos: int) -> int:
        """Open an element, or take the whole of one that is not made of elements."""
        if (taken := self._read_literal(name, pos)) is not None:
            value, pos = taken
            self._stack[-1].add_child(name, value)
        elif len(self._stack) <= _MAX_DEPTH:
            self._stack.append(_OpenElement(name, pos))
            self._open_counts[name] += 1
        return pos

    def _read_literal(self, name: str, pos: int) -> tuple[str, int] | None:
        """The value of a literal element that begins at `pos`, and where its closing tag ends."""
        closing = f"</{name}>"
        first_word = skip_whitespace(self._raw, pos)
        if self._raw.startswith(_CDATA_OPENING, first_word):
            return self._read_cdata(closing, first_word + len(_CDATA_OPENING))
        holds_elements = self._raw.startswith("<content>", first_word)
        if name != "content" and (name != "diff" or holds_elements):
            return None
        end = self._find_literal_end(closing, pos)
        if end < 0:
            return None
        value = strip_last_newline(strip_first_newline(self._raw[pos:end]))
        return value, end + len(closing)

    def _read_cdata(self, closing: str, start: int) -> tuple[str, int] | None:
        end = self._find_cached(_CDATA_CLOSING, start)
        if end < 0 or self._lookahead_budget <= 0:
            return None
        after = skip_whitespace(self._raw, end + len(_CDATA_CLOSING))
        if self._raw.startswith(closing, after):
            return self._raw[start:end], after + len(closing)
        self._lookahead_budget -= after - end
        return None

    def _find_literal_end(self, closing: str, pos: int) -> int:
        """The first closing tag that its parent's end or a line number follows, else the first."""
        first = at = self._find_cached(closing, pos)
        followers = (f"</{self._stack[-1].name}>", "<start_line>", "<end_line>")
        while at >= 0 and self._lookahead_budget > 0:
            after = skip_whitespace(self._raw, at + len(closing))
            if after == len(self._raw) or self._raw.startswith(followers, after):
                return at
            at, before = self._raw.find(closing, after), at
            self._lookahead_budget -= (at if at >= 0 else len(self._raw)) - before
        return first

    def _find_cached(self, search: str, pos: int) -> int:
        """Like `str.find`, but without reading the same text again and again as `pos` grows."""
        begin, at = self._find_cache.get(search, (pos + 1, 0))
        if begin <= pos and (at < 0 or pos <= at):
            return at
        at = self._raw.find(search, pos)
        self._find_cache[search] = pos, at
        return at

    def _close_element(self, name: str, end: int) -> None:
        if not self._open_counts[name]:
            return
        depth = len(self._stack) - 1
        while self._stack[depth].name != name:
            depth -= 1
        self._flatten_unclosed_elements(depth)
        node = self._stack.pop()
        self._open_counts[name] -= 1
        leaf = "" if node.children else self._raw[node.content_start : end]
        self._stack[-1].add_child(name, node.children or decode_entities(leaf).strip())

    def _flatten_unclosed_elements(self, depth: int) -> None:
        """Tags that were never closed are text; what they seemed to hold belongs around them."""
        parent, forgotten = self._stack[depth], self._stack[depth + 1 :]
        del self._stack[depth + 1 :]
        for node in forgotten:
            self._open_counts[node.name] -= 1
            for name, values in node.children.items():
                parent.add_child(name, *values)
