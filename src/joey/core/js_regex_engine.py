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
from typing import NamedTuple

from msgspec import Struct

from joey.core.text import compile_regex

MAX_STEPS = 100_000
MAX_PATH_CHARS = 4096
"""A longer one names no file."""
MAX_PROGRAM_INSTRUCTIONS = 2000

CharTest = Callable[[str], bool]


class _Assertion(NamedTuple):
    node: AnchorNode | LookaroundNode
    lookaround_entry: int = -1


Instruction = CharTest | list[int] | _Assertion | None
"""A list: the match goes on at each of these places. None: it ends here."""


class PathPattern:
    def __init__(self, source: str) -> None:
        """Raises PatternError: the text says what is wrong with it."""
        self._program: list[Instruction] = []
        self._emit_node(parse_pattern(source))
        self._add_instruction(None)

    def matches(self, path: str) -> bool:
        """Whether the pattern is found anywhere in the path."""
        if len(path) > MAX_PATH_CHARS:
            return False
        return _Matcher(self._program, path).has_match(0, 0, len(path), floating=True)

    def _add_instruction(self, instruction: Instruction) -> None:
        if len(self._program) >= MAX_PROGRAM_INSTRUCTIONS:
            raise PatternError("it is too long")
        self._program.append(instruction)

    def _add_fork(self, *targets: int) -> list[int]:
        fork = list(targets)
        self._add_instruction(fork)
        return fork

    def _emit_node(self, node: RegexNode) -> None:
        match node:
            case CharNode(test):
                self._add_instruction(test)
            case AnchorNode():
                self._add_instruction(_Assertion(node))
            case SequenceNode(nodes):
                for inner in nodes:
                    self._emit_node(inner)
            case AlternationNode(nodes):
                self._emit_alternation(nodes)
            case RepeatNode(inner, least, most):
                self._emit_repeat(inner, least, most)
            case LookaroundNode(inner):
                over = self._add_fork()
                entry = len(self._program)
                self._emit_node(inner)
                self._add_instruction(None)
                over.append(len(self._program))
                self._add_instruction(_Assertion(node, entry))

    def _emit_alternation(self, nodes: tuple[RegexNode, ...]) -> None:
        choose = self._add_fork()
        ends = []
        for inner in nodes:
            choose.append(len(self._program))
            self._emit_node(inner)
            ends.append(self._add_fork())
        for end in ends:
            end.append(len(self._program))

    def _emit_repeat(self, inner: RegexNode, least: int, most: int | None) -> None:
        for _ in range(least):
            before = len(self._program)
            self._emit_node(inner)
            if len(self._program) == before:
                return  # nothing, however often it is repeated
        forks = []
        for _ in range(1 if most is None else most - least):
            start = len(self._program)
            forks.append(self._add_fork(start + 1))
            self._emit_node(inner)
            if most is None:
                self._add_fork(start)
        for fork in forks:
            fork.append(len(self._program))


class _Matcher:
    """One match: what was found out on the way, and how many steps are left."""

    def __init__(self, program: list[Instruction], text: str) -> None:
        self._program = program
        self._text = text
        self._lookaround_cache: dict[tuple[int, int], bool] = {}
        self._steps_left = MAX_STEPS

    def has_match(
        self, entry: int, start: int, stop: int, *, floating: bool, up_to_stop: bool = False
    ) -> bool:
        """`floating` may begin anywhere; `up_to_stop` must end exactly there."""
        states = {entry}
        for position in range(start, stop + 1):
            reached = self._collect_reachable_tests(states, position)
            if reached is None:
                return False
            tests, is_match = reached
            if is_match and (not up_to_stop or position == stop):
                return True
            if position == stop:
                return False
            char = self._text[position]
            states = {state for test, state in tests if test(char)}
            if floating:
                states.add(entry)
            elif not states:
                return False
        return False

    def _collect_reachable_tests(
        self, states: set[int], position: int
    ) -> tuple[list[tuple[CharTest, int]], bool] | None:
        """The tests that can be made from here, each with the place behind it, and whether a
        match ends here; None when the steps are used up."""
        tests: list[tuple[CharTest, int]] = []
        is_match = False
        seen = set(states)
        pending = list(states)
        while pending:
            self._steps_left -= 1
            if self._steps_left < 0:
                return None
            state = pending.pop()
            instruction = self._program[state]
            match instruction:
                case list():
                    onward = instruction
                case _Assertion():
                    onward = [state + 1] if self._is_satisfied(instruction, position) else []
                case None:
                    is_match = True
                    continue
                case test:
                    tests.append((test, state + 1))
                    continue
            fresh = [target for target in onward if target not in seen]
            seen.update(fresh)
            pending += fresh
        return tests, is_match

    def _is_satisfied(self, assertion: _Assertion, position: int) -> bool:
        node, entry = assertion
        if isinstance(node, AnchorNode):
            return node.is_satisfied_at(self._text, position)
        key = (entry, position)
        if key not in self._lookaround_cache:
            start, stop = (position, len(self._text)) if node.is_ahead else (0, position)
            self._lookaround_cache[key] = self.has_match(
                entry, start, stop, floating=not node.is_ahead, up_to_stop=not node.is_ahead
            )
        # Out of steps, nothing is found; a negated look-around must not take that for a yes.
        return self._steps_left >= 0 and self._lookaround_cache[key] != node.is_negated


@lru_cache(maxsize=256)
def compile_path_pattern(source: str) -> PathPattern:
    """The pattern, compiled once. Raises PatternError."""
    return PathPattern(source)


MAX_PATTERN_CHARS = 2000
MAX_GROUP_DEPTH = 50
MAX_REPEATS = 1000

_QUANTIFIER_RE = compile_regex(r"\{(\d{1,6})(?:(,)(\d{0,6}))?\}", re.ASCII)
_GROUP_NAME_RE = compile_regex(r"\?<[A-Za-z_$][\w$]*>", re.ASCII)
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

    test: CharTest


class AnchorNode(Struct, frozen=True):
    kind: str
    """`^`, `$`, `b` or `B`."""

    def is_satisfied_at(self, text: str, position: int) -> bool:
        match self.kind:
            case "^":
                return position == 0
            case "$":
                return position == len(text)
        before = position > 0 and is_word_char(text[position - 1])
        after = position < len(text) and is_word_char(text[position])
        return (before != after) == (self.kind == "b")


class SequenceNode(Struct, frozen=True):
    nodes: tuple[RegexNode, ...]


class AlternationNode(Struct, frozen=True):
    nodes: tuple[RegexNode, ...]


class RepeatNode(Struct, frozen=True):
    node: RegexNode
    min_count: int
    max_count: int | None


class LookaroundNode(Struct, frozen=True):
    """A look-around: what stands before or behind, without going there."""

    node: RegexNode
    is_ahead: bool
    is_negated: bool


RegexNode = CharNode | AnchorNode | SequenceNode | AlternationNode | RepeatNode | LookaroundNode


def is_word_char(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


def parse_pattern(source: str) -> RegexNode:
    """Raises PatternError."""
    if len(source) > MAX_PATTERN_CHARS:
        raise PatternError(f"it is longer than {MAX_PATTERN_CHARS} characters")
    parser = _RegexSyntaxParser(source)
    node = parser.parse_alternation()
    if parser.position < len(source):
        raise PatternError("it closes a group that is not open")
    return node


class _RegexSyntaxParser:
    def __init__(self, source: str) -> None:
        self._source = source
        self.position = 0
        self._depth = 0

    def parse_alternation(self) -> RegexNode:
        nodes = [self._parse_sequence()]
        while self._accept("|"):
            nodes.append(self._parse_sequence())
        return nodes[0] if len(nodes) == 1 else AlternationNode(tuple(nodes))

    def _parse_sequence(self) -> RegexNode:
        nodes: list[RegexNode] = []
        while self.position < len(self._source) and self._peek() not in "|)":
            nodes.append(self._parse_quantifier(self._parse_atom()))
        return SequenceNode(tuple(nodes))

    def _parse_quantifier(self, node: RegexNode) -> RegexNode:
        count = self._parse_count()
        if count is None:
            return node
        self._accept("?")
        if self._parse_count() is not None:
            raise PatternError("it repeats a repetition")
        if isinstance(node, AnchorNode):
            raise PatternError("it repeats an edge")
        return RepeatNode(node, *count)

    def _parse_count(self) -> tuple[int, int | None] | None:
        for sign, count in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(sign):
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

    def _parse_atom(self) -> RegexNode:
        char = self._read_char()
        match char:
            case "^" | "$":
                return AnchorNode(char)
            case ".":
                return CharNode(lambda seen: seen not in _LINE_TERMINATORS)
            case "(":
                return self._parse_group()
            case "[":
                return CharNode(self._parse_char_set())
            case "\\":
                return self._parse_escape()
            case "*" | "+" | "?":
                raise PatternError("it repeats nothing")
        return CharNode(_build_range_test(char, char))

    def _parse_group(self) -> RegexNode:
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
        elif not self._accept("?:") and self._peek() == "?":
            raise PatternError("it has a kind of group that is not known")
        node = self.parse_alternation()
        if not self._accept(")"):
            raise PatternError("it does not close a group")
        self._depth -= 1
        return node if look is None else LookaroundNode(node, *_LOOKAROUNDS[look])

    def _parse_escape(self) -> RegexNode:
        char = self._peek()
        if char in ("b", "B"):
            self.position += 1
            return AnchorNode(char)
        if char in "123456789" or (char == "k" and self._source[self.position + 1 :][:1] == "<"):
            raise PatternError("it refers to what a group matched, which is not supported")
        member = self._parse_escaped_member()
        return CharNode(member if callable(member) else _build_range_test(member, member))

    def _parse_escaped_char(self) -> str:
        char = self._read_char()
        for letter, digits in (("x", 2), ("u", 4)):
            code = self._source[self.position : self.position + digits]
            if char == letter and re.fullmatch(rf"[0-9A-Fa-f]{{{digits}}}", code):
                self.position += digits
                return chr(int(code, 16))
        if char == "0":
            return "\0"
        return _CONTROL_ESCAPES.get(char, char)

    def _parse_char_set(self) -> CharTest:
        negated = self._accept("^")
        tests: list[CharTest] = []
        while not self._accept("]"):
            first = last = self._parse_set_member()
            if isinstance(first, str) and self._is_at_range():
                self.position += 1
                last = self._parse_set_member()
            if isinstance(first, str) and isinstance(last, str):
                tests.append(_build_range_test(first, last))
            elif isinstance(first, str):  # `[a-\d]`: the class does not end a range
                tests += [_build_range_test(char, char) for char in (first, "-")]
            if callable(last):
                tests.append(last)

        @lru_cache(maxsize=1024)
        def passes(seen: str) -> bool:
            """Remembered: a set may have a thousand members, and be asked at every step."""
            return any(test(seen) for test in tests) != negated

        return passes

    def _parse_set_member(self) -> str | CharTest:
        char = self._read_char()
        if char != "\\":
            return char
        return "\b" if self._accept("b") else self._parse_escaped_member()

    def _parse_escaped_member(self) -> str | CharTest:
        """A class of characters, or one."""
        test = _CHAR_CLASSES.get(self._peek())
        if test is None:
            return self._parse_escaped_char()
        self.position += 1
        return test

    def _is_at_range(self) -> bool:
        return self._peek() == "-" and self._source[self.position + 1 :][:1] not in ("", "]")

    def _peek(self) -> str:
        if self.position >= len(self._source):
            raise PatternError("it ends too early")
        return self._source[self.position]

    def _read_char(self) -> str:
        char = self._peek()
        self.position += 1
        return char

    def _accept(self, text: str) -> bool:
        if not self._source.startswith(text, self.position):
            return False
        self.position += len(text)
        return True


def _build_range_test(first: str, last: str) -> CharTest:
    if last < first:
        raise PatternError(f"its range {first}-{last} is the wrong way round")
    return lambda seen: first <= seen <= last


def _is_space(char: str) -> bool:
    return char.isspace() or char == "\ufeff"


_CHAR_CLASSES: dict[str, CharTest] = {
    "d": lambda char: "0" <= char <= "9",
    "D": lambda char: not "0" <= char <= "9",
    "w": is_word_char,
    "W": lambda char: not is_word_char(char),
    "s": _is_space,
    "S": lambda char: not _is_space(char),
}
