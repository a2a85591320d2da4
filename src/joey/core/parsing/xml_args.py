"""The elements inside `<args>`: `<file><path>…</path></file>`, as models write them.

This is not an XML parser: models forget to escape, and what they write into `<content>` is code.
Nothing is an error here; what is missing is for the tool to say. Whatever is written, reading it
takes time in proportion to its length.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Union

from joey.core.regex import regex

Element = Union[str, "dict[str, list[Element]]"]
"""The text of a leaf, or children by name, each name with all its occurrences in order."""

_SPACE = regex(r"\s*+")
_TAG = regex(r"<(/?)([A-Za-z_][\w.-]*+)(?:\s[^<>]*+)?(?<!/)(/?)>")
_CDATA = "<![CDATA["
_DEEPEST = 100
_LOOKED_AHEAD = 10_000_000
"""Characters that may be looked at for ends of literal elements that fit better than the first."""
_ENTITY = regex(r"&(lt|gt|amp|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def parse_args_xml(raw: str) -> dict[str, list[Element]]:
    """The elements in the raw text of an `args` parameter, by name.

    `<file><path>a</path><line_range>1-2</line_range><line_range>5-9</line_range></file>` gives
    `{"file": [{"path": ["a"], "line_range": ["1-2", "5-9"]}]}`. Leaves are trimmed and their
    entities decoded; `content` (and a `diff` that holds text rather than elements) is taken as
    it stands, less one newline at each end, and so is CDATA. A tag that is never closed is text.
    """
    return _Reader(raw).read()


def without_first_newline(text: str) -> str:
    return text[2:] if text.startswith("\r\n") else text.removeprefix("\n")


def without_last_newline(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def decode_entities(text: str) -> str:
    """XML's five names and numeric references; anything else stays as it is written."""
    return _ENTITY.sub(_decode_entity, text)


def _decode_entity(match: re.Match[str]) -> str:
    body = match[1]
    if body in _NAMED:
        return _NAMED[body]
    code = int(body[2:], 16) if body[1] in "xX" else int(body[1:])
    is_character = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_character else match[0]


class _Node:
    """An element whose closing tag has not been met yet."""

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = start
        self.children: dict[str, list[Element]] = {}

    def add(self, name: str, *values: Element) -> None:
        self.children.setdefault(name, []).extend(values)


class _Reader:
    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._stack = [_Node("", 0)]
        self._open: Counter[str] = Counter()
        self._found: dict[str, tuple[int, int]] = {}
        """Where each text was looked for last, and where it is."""
        self._patience = _LOOKED_AHEAD

    def read(self) -> dict[str, list[Element]]:
        pos = 0
        while match := _TAG.search(self._raw, pos):
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
        if taken is None and len(self._stack) > _DEEPEST:
            return pos
        if taken is None:
            self._stack.append(_Node(name, pos))
            self._open[name] += 1
            return pos
        value, end = taken
        self._stack[-1].add(name, value)
        return end

    def _literal(self, name: str, pos: int) -> tuple[str, int] | None:
        """The value of a literal element that begins at `pos`, and where its closing tag ends."""
        closing = f"</{name}>"
        first_word = self._skip_space(pos)
        if self._raw.startswith(_CDATA, first_word):
            return self._cdata(closing, first_word + len(_CDATA))
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
        match = _SPACE.match(self._raw, pos)
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
        keeper, forgotten = self._stack[depth], self._stack[depth + 1 :]
        del self._stack[depth + 1 :]
        for node in forgotten:
            self._open[node.name] -= 1
            for name, values in node.children.items():
                keeper.add(name, *values)
