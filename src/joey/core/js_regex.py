"""JavaScript regular expressions over paths, matched within a bounded number of steps.

Modes of Roo Code restrict edits with such patterns. The pattern comes with the workspace and the
path from the model: neither may decide how long a match takes. So a pattern is compiled into a
small machine that walks the path once, in all its states at the same time, and counts its steps.
Beyond the limit, or with syntax that such a machine cannot support (references to the match of a
group), nothing matches.

Only the existence of a match counts, so groups do not capture and lazy quantifiers equal greedy
ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from joey.core.text import regex

MAX_STEPS = 100_000
MAX_PATH_CHARS = 4096
"""A longer one names no file."""
MAX_PROGRAM_INSTRUCTIONS = 2000

CharTest = Callable[[str], bool]


class _ForkInstruction:
    def __init__(self) -> None:
        self.targets: list[int] = []


class _AssertInstruction:
    def __init__(self, node: AnchorNode | LookaroundNode, entry: int = -1) -> None:
        self.node = node
        self.entry = entry


Instruction = CharTest | _ForkInstruction | _AssertInstruction | None
"""None: a match ends here."""


class PathPattern:
    def __init__(self, source: str) -> None:
        """Raises PatternError: the text says what is wrong with it."""
        self._program: list[Instruction] = []
        self._emit(parse(source))
        self._add(None)

    def matches(self, path: str) -> bool:
        """Whether the pattern is found anywhere in the path."""
        if len(path) > MAX_PATH_CHARS:
            return False
        return _Matcher(self._program, path).find(0, 0, len(path), floating=True)

    def _add(self, instruction: Instruction) -> int:
        if len(self._program) >= MAX_PROGRAM_INSTRUCTIONS:
            raise PatternError("it is too long")
        self._program.append(instruction)
        return len(self._program) - 1

    def _fork(self) -> tuple[int, _ForkInstruction]:
        fork = _ForkInstruction()
        return self._add(fork), fork

    def _emit(self, node: RegexNode) -> None:
        match node:
            case CharNode(test):
                self._add(test)
            case AnchorNode():
                self._add(_AssertInstruction(node))
            case SequenceNode(nodes):
                for inner in nodes:
                    self._emit(inner)
            case AlternationNode(nodes):
                self._emit_choice(nodes)
            case RepeatNode(inner, least, most):
                self._emit_repeat(inner, least, most)
            case LookaroundNode(inner):
                _, over = self._fork()
                entry = len(self._program)
                self._emit(inner)
                self._add(None)
                over.targets.append(self._add(_AssertInstruction(node, entry)))

    def _emit_choice(self, nodes: tuple[RegexNode, ...]) -> None:
        _, choose = self._fork()
        ends: list[_ForkInstruction] = []
        for inner in nodes:
            choose.targets.append(len(self._program))
            self._emit(inner)
            ends.append(self._fork()[1])
        for end in ends:
            end.targets.append(len(self._program))

    def _emit_repeat(self, inner: RegexNode, least: int, most: int | None) -> None:
        for _ in range(least):
            before = len(self._program)
            self._emit(inner)
            if len(self._program) == before:
                return  # nothing, however often it is repeated
        if most is None:
            loop, fork = self._fork()
            fork.targets.append(len(self._program))
            self._emit(inner)
            _, back = self._fork()
            back.targets.append(loop)
            fork.targets.append(len(self._program))
            return
        forks = []
        for _ in range(most - least):
            _, fork = self._fork()
            fork.targets.append(len(self._program))
            forks.append(fork)
            self._emit(inner)
        for fork in forks:
            fork.targets.append(len(self._program))


class _Matcher:
    """One match: what was found out on the way, and how many steps are left."""

    def __init__(self, program: list[Instruction], text: str) -> None:
        self._program = program
        self._text = text
        self._looked: dict[tuple[int, int], bool] = {}
        self._steps = MAX_STEPS

    def find(
        self, entry: int, start: int, stop: int, *, floating: bool, up_to_stop: bool = False
    ) -> bool:
        """`floating` may begin anywhere; `up_to_stop` must end exactly there."""
        places = {entry}
        for position in range(start, stop + 1):
            reached = self._reach(places, position)
            if reached is None:
                return False
            tests, is_match = reached
            if is_match and (not up_to_stop or position == stop):
                return True
            if position == stop:
                return False
            char = self._text[position]
            places = {place for test, place in tests if test(char)}
            if floating:
                places.add(entry)
            elif not places:
                return False
        return False

    def _reach(
        self, places: set[int], position: int
    ) -> tuple[list[tuple[CharTest, int]], bool] | None:
        """The tests that can be made from here, each with the place behind it, and whether a
        match ends here; None when the steps are used up."""
        tests: list[tuple[CharTest, int]] = []
        is_match = False
        seen = set(places)
        pending = list(places)
        while pending:
            self._steps -= 1
            if self._steps < 0:
                return None
            place = pending.pop()
            instruction = self._program[place]
            match instruction:
                case _ForkInstruction():
                    onward = instruction.targets
                case _AssertInstruction():
                    onward = [place + 1] if self._holds(instruction, position) else []
                case None:
                    is_match = True
                    continue
                case test:
                    tests.append((test, place + 1))
                    continue
            fresh = [target for target in onward if target not in seen]
            seen.update(fresh)
            pending += fresh
        return tests, is_match

    def _holds(self, assertion: _AssertInstruction, position: int) -> bool:
        node = assertion.node
        if isinstance(node, AnchorNode):
            return node.holds(self._text, position)
        key = (assertion.entry, position)
        if key not in self._looked:
            self._looked[key] = (
                self.find(assertion.entry, position, len(self._text), floating=False)
                if node.ahead
                else self.find(assertion.entry, 0, position, floating=True, up_to_stop=True)
            )
        # Out of steps, nothing is found; a negated look-around must not take that for a yes.
        return self._steps >= 0 and self._looked[key] != node.negated


@lru_cache(maxsize=256)
def path_pattern(source: str) -> PathPattern:
    """The pattern, compiled once.

    Raises:
        PatternError
    """
    return PathPattern(source)


MAX_PATTERN_CHARS = 2000
MAX_GROUP_DEPTH = 50
MAX_REPEATS = 1000

_QUANTIFIER_RE = regex(r"\{(\d{1,6})(?:(,)(\d{0,6}))?\}", re.ASCII)
_GROUP_NAME_RE = regex(r"\?<[A-Za-z_$][\w$]*>", re.ASCII)
_LOOKAROUNDS = {
    "?=": (True, False),
    "?!": (True, True),
    "?<=": (False, False),
    "?<!": (False, True),
}
_LINE_TERMINATORS = "\n\r\u2028\u2029"
_CONTROL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "v": "\v", "f": "\f"}


class PatternError(ValueError):
    """The pattern cannot be used; the text says why."""


class CharNode(Struct, frozen=True, gc=False):
    """One character that passes a test."""

    test: Callable[[str], bool]


class AnchorNode(Struct, frozen=True):
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


class SequenceNode(Struct, frozen=True):
    nodes: tuple[RegexNode, ...]


class AlternationNode(Struct, frozen=True):
    nodes: tuple[RegexNode, ...]


class RepeatNode(Struct, frozen=True):
    node: RegexNode
    least: int
    most: int | None


class LookaroundNode(Struct, frozen=True):
    """A look-around: what stands before or behind, without going there."""

    node: RegexNode
    ahead: bool
    negated: bool


RegexNode = CharNode | AnchorNode | SequenceNode | AlternationNode | RepeatNode | LookaroundNode


def is_word(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


def parse(source: str) -> RegexNode:
    """Raises PatternError."""
    if len(source) > MAX_PATTERN_CHARS:
        raise PatternError(f"it is longer than {MAX_PATTERN_CHARS} characters")
    parser = _PatternParser(source)
    node = parser.choice()
    if parser.position < len(source):
        raise PatternError("it closes a group that is not open")
    return node


class _PatternParser:
    def __init__(self, source: str) -> None:
        self._source = source
        self.position = 0
        self._depth = 0

    def choice(self) -> RegexNode:
        nodes = [self._sequence()]
        while self._take("|"):
            nodes.append(self._sequence())
        return nodes[0] if len(nodes) == 1 else AlternationNode(tuple(nodes))

    def _sequence(self) -> RegexNode:
        nodes: list[RegexNode] = []
        while self.position < len(self._source) and self._peek() not in "|)":
            nodes.append(self._quantified(self._atom()))
        return SequenceNode(tuple(nodes))

    def _quantified(self, node: RegexNode) -> RegexNode:
        count = self._count()
        if count is None:
            return node
        self._take("?")
        if self._count() is not None:
            raise PatternError("it repeats a repetition")
        if isinstance(node, AnchorNode):
            raise PatternError("it repeats an edge")
        return RepeatNode(node, *count)

    def _count(self) -> tuple[int, int | None] | None:
        for sign, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return count
        found = _QUANTIFIER_RE.match(self._source, self.position)
        if found is None:
            return None
        self.position = found.end()
        least = int(found[1])
        most = least if not found[2] else int(found[3]) if found[3] else None
        if max(least, most or 0) > MAX_REPEATS or (most is not None and most < least):
            raise PatternError(f"its count {found[0]} is not usable")
        return least, most

    def _atom(self) -> RegexNode:
        char = self._next()
        match char:
            case "^" | "$":
                return AnchorNode(char)
            case ".":
                return CharNode(lambda seen: seen not in _LINE_TERMINATORS)
            case "(":
                return self._group()
            case "[":
                return CharNode(self._set())
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise PatternError("it repeats nothing")
        return CharNode(_is(char))

    def _group(self) -> RegexNode:
        self._depth += 1
        if self._depth > MAX_GROUP_DEPTH:
            raise PatternError(f"its groups are nested more than {MAX_GROUP_DEPTH} deep")
        look = next(
            (sign for sign in _LOOKAROUNDS if self._source.startswith(sign, self.position)), None
        )
        if look is not None:
            self.position += len(look)
        elif name := _GROUP_NAME_RE.match(self._source, self.position):
            self.position = name.end()
        elif not self._take("?:") and self._peek() == "?":
            raise PatternError("it has a kind of group that is not known")
        node = self.choice()
        if not self._take(")"):
            raise PatternError("it does not close a group")
        self._depth -= 1
        return node if look is None else LookaroundNode(node, *_LOOKAROUNDS[look])

    def _escape(self) -> RegexNode:
        char = self._peek()
        if char in ("b", "B"):
            self.position += 1
            return AnchorNode(char)
        if char in "123456789" or (char == "k" and self._source[self.position + 1 :][:1] == "<"):
            raise PatternError("it refers to what a group matched, which is not supported")
        return CharNode(self._escaped_test())

    def _escaped_test(self) -> Callable[[str], bool]:
        """What is escaped here, in a set or outside: a class of characters, or one."""
        char = self._peek()
        test = _CHAR_CLASSES.get(char)
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
        return _CONTROL_ESCAPES.get(char, char)

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
        if self._peek() in _CHAR_CLASSES:
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


_CHAR_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": _is_digit,
    "D": lambda char: not _is_digit(char),
    "w": is_word,
    "W": lambda char: not is_word(char),
    "s": _is_space,
    "S": lambda char: not _is_space(char),
}
