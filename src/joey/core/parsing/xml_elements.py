"""Elements inside the `<args>` of a call, such as `<file><path>…</path></file>`.

They are read leniently. This is not an XML parser: models forget to escape, and they write code
into `<content>`. Nothing is an error here; the tool reports missing elements. Reading takes linear
time for any text.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Union

from joey.core.text import compile_regex, strip_first_newline, strip_last_newline

CDATA_OPENING, CDATA_CLOSING = "<![CDATA[", "]]>"
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
    entities decoded; `content` (and a `diff` that holds text rather than elements) is taken
    verbatim except for one newline at each end, and so is CDATA. A tag that is never closed is
    text.
    """
    return _ElementParser(raw).parse()


def skip_whitespace(text: str, pos: int) -> int:
    match = _WHITESPACE_RE.match(text, pos)
    return match.end() if match else pos


def decode_entities(text: str) -> str:
    """Decode XML's five named entities and numeric references; anything else stays unchanged."""
    return _ENTITY_RE.sub(_decode_entity, text)


def _decode_entity(match: re.Match[str]) -> str:
    body = match[1]
    if body in _NAMED_ENTITIES:
        return _NAMED_ENTITIES[body]
    code = int(body[2:], 16) if body[1] in "xX" else int(body[1:])
    is_character = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else match[0]


class _OpenElement:
    """An element without its closing tag so far."""

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
        """Open an element, or read a whole one that has no child elements."""
        if (taken := self._read_literal(name, pos)) is not None:
            value, pos = taken
            self._stack[-1].add_child(name, value)
        elif len(self._stack) <= _MAX_DEPTH:
            self._stack.append(_OpenElement(name, pos))
            self._open_counts[name] += 1
        return pos

    def _read_literal(self, name: str, pos: int) -> tuple[str, int] | None:
        """Read the value of a literal element that begins at `pos`, and where its closing tag
        ends."""
        closing = f"</{name}>"
        first_word = skip_whitespace(self._raw, pos)
        if self._raw.startswith(CDATA_OPENING, first_word):
            return self._read_cdata(closing, first_word + len(CDATA_OPENING))
        holds_elements = self._raw.startswith("<content>", first_word)
        if name != "content" and (name != "diff" or holds_elements):
            return None
        end = self._find_literal_end(closing, pos)
        if end < 0:
            return None
        value = strip_last_newline(strip_first_newline(self._raw[pos:end]))
        return value, end + len(closing)

    def _read_cdata(self, closing: str, start: int) -> tuple[str, int] | None:
        end = self._find_cached(CDATA_CLOSING, start)
        if end < 0 or self._lookahead_budget <= 0:
            return None
        after = skip_whitespace(self._raw, end + len(CDATA_CLOSING))
        if self._raw.startswith(closing, after):
            return self._raw[start:end], after + len(closing)
        self._lookahead_budget -= after - end
        return None

    def _find_literal_end(self, closing: str, pos: int) -> int:
        """Find the first closing tag before its parent's end or a line number, else the first."""
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
        """Like `str.find`, but does not read the same text again as `pos` grows."""
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
        """Treat unclosed tags as text; their content belongs around them."""
        parent, forgotten = self._stack[depth], self._stack[depth + 1 :]
        del self._stack[depth + 1 :]
        for node in forgotten:
            self._open_counts[node.name] -= 1
            for name, values in node.children.items():
                parent.add_child(name, *values)
