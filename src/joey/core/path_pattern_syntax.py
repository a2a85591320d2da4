"""The syntax of `path_pattern`: from text to a tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from joey.core.regex import regex

LONGEST = 2000
DEEPEST = 50
MOST_REPEATS = 1000

_COUNT = regex(r"\{(\d{1,6})(?:(,)(\d{0,6}))?\}", re.ASCII)
_NAME = regex(r"\?<[A-Za-z_$][\w$]*>", re.ASCII)
_LOOKS = {"?=": (True, False), "?!": (True, True), "?<=": (False, False), "?<!": (False, True)}
_LINE_ENDS = "\n\r\u2028\u2029"
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "v": "\v", "f": "\f"}


class PatternError(ValueError):
    """The pattern cannot be used; the text says why."""


class One(Struct, frozen=True, gc=False):
    """One character that passes a test."""

    test: Callable[[str], bool]


class Edge(Struct, frozen=True):
    kind: str
    """`^`, `$`, `b` or `B`."""

    def holds(self, text: str, position: int) -> bool:
        match self.kind:
            case "^":
                return position == 0
            case "$":
                return position == len(text)
        before = position > 0 and is_word(text[position - 1])
        after = position < len(text) and is_word(text[position])
        return (before != after) == (self.kind == "b")


class Sequence(Struct, frozen=True):
    nodes: tuple[Node, ...]


class Choice(Struct, frozen=True):
    nodes: tuple[Node, ...]


class Repeat(Struct, frozen=True):
    node: Node
    least: int
    most: int | None


class Look(Struct, frozen=True):
    """A look-around: what stands before or behind, without going there."""

    node: Node
    ahead: bool
    negated: bool


Node = One | Edge | Sequence | Choice | Repeat | Look


def is_word(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


def parse(source: str) -> Node:
    """Raises PatternError."""
    if len(source) > LONGEST:
        raise PatternError(f"it is longer than {LONGEST} characters")
    parser = _Parser(source)
    node = parser.choice()
    if parser.position < len(source):
        raise PatternError("it closes a group that is not open")
    return node


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self.position = 0
        self._depth = 0

    def choice(self) -> Node:
        nodes = [self._sequence()]
        while self._take("|"):
            nodes.append(self._sequence())
        return nodes[0] if len(nodes) == 1 else Choice(tuple(nodes))

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self.position < len(self._source) and self._peek() not in "|)":
            nodes.append(self._quantified(self._atom()))
        return Sequence(tuple(nodes))

    def _quantified(self, node: Node) -> Node:
        count = self._count()
        if count is None:
            return node
        self._take("?")
        if self._count() is not None:
            raise PatternError("it repeats a repetition")
        if isinstance(node, Edge):
            raise PatternError("it repeats an edge")
        return Repeat(node, *count)

    def _count(self) -> tuple[int, int | None] | None:
        for sign, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return count
        found = _COUNT.match(self._source, self.position)
        if found is None:
            return None
        self.position = found.end()
        least = int(found[1])
        most = least if not found[2] else int(found[3]) if found[3] else None
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise PatternError(f"its count {found[0]} is not usable")
        return least, most

    def _atom(self) -> Node:
        char = self._next()
        match char:
            case "^" | "$":
                return Edge(char)
            case ".":
                return One(lambda seen: seen not in _LINE_ENDS)
            case "(":
                return self._group()
            case "[":
                return One(self._set())
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise PatternError("it repeats nothing")
        return One(_is(char))

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise PatternError(f"its groups are nested more than {DEEPEST} deep")
        look = next((sign for sign in _LOOKS if self._source.startswith(sign, self.position)), None)
        if look is not None:
            self.position += len(look)
        elif name := _NAME.match(self._source, self.position):
            self.position = name.end()
        elif not self._take("?:") and self._peek() == "?":
            raise PatternError("it has a kind of group that is not known")
        node = self.choice()
        if not self._take(")"):
            raise PatternError("it does not close a group")
        self._depth -= 1
        return node if look is None else Look(node, *_LOOKS[look])

    def _escape(self) -> Node:
        char = self._peek()
        if char in ("b", "B"):
            self.position += 1
            return Edge(char)
        if char in "123456789" or (char == "k" and self._source[self.position + 1 :][:1] == "<"):
            raise PatternError("it refers to what a group matched, which is not supported")
        return One(self._escaped_test())

    def _escaped_test(self) -> Callable[[str], bool]:
        """What is escaped here, in a set or outside: a class of characters, or one."""
        char = self._peek()
        test = _CLASSES.get(char)
        if test is not None:
            self.position += 1
            return test
        return _is(self._escaped_char())

    def _escaped_char(self) -> str:
        char = self._next()
        for letter, digits in (("x", 2), ("u", 4)):
            code = self._source[self.position : self.position + digits]
            if char == letter and re.fullmatch(rf"[0-9A-Fa-f]{{{digits}}}", code):
                self.position += digits
                return chr(int(code, 16))
        if char == "0":
            return "\0"
        return _CONTROLS.get(char, char)

    def _set(self) -> Callable[[str], bool]:
        negated = self._take("^")
        tests: list[Callable[[str], bool]] = []
        while not self._take("]"):
            first = self._member()
            if isinstance(first, str) and self._is_range():
                self.position += 1
                last = self._member()
                if isinstance(last, str):
                    tests.append(_between(first, last))
                    continue
                tests += [_is(first), _is("-"), last]
                continue
            tests.append(_is(first) if isinstance(first, str) else first)

        @lru_cache(maxsize=1024)
        def passes(seen: str) -> bool:
            """Remembered: a set may have a thousand members, and be asked at every step."""
            return any(test(seen) for test in tests) != negated

        return passes

    def _member(self) -> str | Callable[[str], bool]:
        char = self._next()
        if char != "\\":
            return char
        if self._peek() in _CLASSES:
            return self._escaped_test()
        if self._take("b"):
            return "\b"
        return self._escaped_char()

    def _is_range(self) -> bool:
        return self._peek() == "-" and self._source[self.position + 1 :][:1] not in ("", "]")

    def _peek(self) -> str:
        if self.position >= len(self._source):
            raise PatternError("it ends too early")
        return self._source[self.position]

    def _next(self) -> str:
        char = self._peek()
        self.position += 1
        return char

    def _take(self, text: str) -> bool:
        if not self._source.startswith(text, self.position):
            return False
        self.position += len(text)
        return True


def _is(char: str) -> Callable[[str], bool]:
    return lambda seen: seen == char


def _between(first: str, last: str) -> Callable[[str], bool]:
    if last < first:
        raise PatternError(f"its range {first}-{last} is the wrong way round")
    return lambda seen: first <= seen <= last


def _is_digit(char: str) -> bool:
    return "0" <= char <= "9"


def _is_space(char: str) -> bool:
    return char.isspace() or char == "\ufeff"


_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": _is_digit,
    "D": lambda char: not _is_digit(char),
    "w": is_word,
    "W": lambda char: not is_word(char),
    "s": _is_space,
    "S": lambda char: not _is_space(char),
}
