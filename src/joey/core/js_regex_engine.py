"""JavaScript regular expressions over paths, matched within a bounded number of steps.

Modes of Roo Code restrict edits with such patterns. The pattern comes from the workspace and the
path from the model, so neither may determine how long a match takes. A pattern is compiled into a
small automaton that reads the path once, in all its states at the same time, and counts its steps.
Beyond the limit, or with syntax that such an automaton cannot support (back-references), nothing
matches.

Only the existence of a match counts, so groups do not capture and lazy quantifiers equal greedy
ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from joey.core.text import compile_regex

MAX_STEPS = 100_000
MAX_PATH_CHARS = 4096
"""A longer one names no file."""
MAX_PROGRAM_INSTRUCTIONS = 2000

CharTest = Callable[[str], bool]


class _Assertion(Struct, frozen=True):
    kind: str
    """`^`, `$`, `b`, `B`, or what a look-around begins with."""
    entry: int = 0
    """Where the program of a look-around begins, seen from here."""


Instruction = CharTest | tuple[int, ...] | _Assertion | None
"""Integers: the match goes on at each of these places, seen from here. None: it ends here."""


class PathPattern:
    def __init__(self, source: str) -> None:
        """Raises PatternError, which names the problem."""
        self._program = [*_compile_pattern(source), None]
        _check_size(len(self._program))

    def matches(self, path: str) -> bool:
        """Whether the pattern matches anywhere in the path."""
        if len(path) > MAX_PATH_CHARS:
            return False
        return _Matcher(self._program, path).has_match(0, 0, len(path), floating=True)


class _Matcher:
    """One match: cached results and the remaining steps."""

    def __init__(self, program: list[Instruction], text: str) -> None:
        self._program = program
        self._text = text
        self._lookaround_cache: dict[tuple[int, int], bool] = {}
        self._steps_left = MAX_STEPS

    def has_match(
        self, entry: int, start: int, stop: int, *, floating: bool, up_to_stop: bool = False
    ) -> bool:
        """Whether it matches; with `floating` it may begin anywhere, with `up_to_stop` it must end
        exactly there."""
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
        """Collect the tests reachable from here, each with the position after it, and whether a
        match ends here; None if the steps are used up."""
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
                case _Assertion():
                    onward = [state + 1] if self._is_satisfied(instruction, state, position) else []
                case tuple():
                    onward = [state + step for step in instruction]
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

    def _is_satisfied(self, assertion: _Assertion, state: int, position: int) -> bool:
        kind = assertion.kind
        match kind:
            case "^":
                return position == 0
            case "$":
                return position == len(self._text)
            case "b" | "B":
                before, after = self._text[:position][-1:], self._text[position : position + 1]
                return (_is_word_char(before) != _is_word_char(after)) == (kind == "b")
        is_ahead, is_negated = "<" not in kind, kind.endswith("!")
        key = (state, position)
        if key not in self._lookaround_cache:
            start, stop = (position, len(self._text)) if is_ahead else (0, position)
            self._lookaround_cache[key] = self.has_match(
                state + assertion.entry, start, stop, floating=not is_ahead, up_to_stop=not is_ahead
            )
        # Out of steps, nothing matches; a negated look-around must not treat that as a success.
        return self._steps_left >= 0 and self._lookaround_cache[key] != is_negated


@lru_cache(maxsize=256)
def compile_path_pattern(source: str) -> PathPattern:
    """Compile a pattern, cached. Raises PatternError."""
    return PathPattern(source)


MAX_PATTERN_CHARS = 2000
MAX_GROUP_DEPTH = 50
MAX_REPEATS = 1000

_QUANTIFIER_RE = compile_regex(r"\{(\d{1,6})(?:(,)(\d{0,6}))?\}", re.ASCII)
_GROUP_NAME_RE = compile_regex(r"\?<[A-Za-z_$][\w$]*>", re.ASCII)
_LOOKAROUNDS = ("?=", "?!", "?<=", "?<!")
_LINE_TERMINATORS = "\n\r\u2028\u2029"
_CONTROL_ESCAPES = {"0": "\0", "t": "\t", "n": "\n", "r": "\r", "v": "\v", "f": "\f"}


class PatternError(ValueError):
    """The pattern cannot be used; the text says why."""


def _check_size(instructions: int) -> None:
    if instructions > MAX_PROGRAM_INSTRUCTIONS:
        raise PatternError("it is too long")


def _compile_pattern(source: str) -> list[Instruction]:
    if len(source) > MAX_PATTERN_CHARS:
        raise PatternError(f"it is longer than {MAX_PATTERN_CHARS} characters")
    compiler = _RegexCompiler(source)
    program = compiler.compile_alternation()
    if compiler.position < len(source):
        raise PatternError("it closes a group that is not open")
    return program


class _RegexCompiler:
    """Compiles each part of a pattern to a program that can be embedded in another one."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.position = 0
        self._depth = 0

    def compile_alternation(self) -> list[Instruction]:
        branches = [self._compile_sequence()]
        while self._accept("|"):
            branches.append(self._compile_sequence())
        if len(branches) == 1:
            return branches[0]
        size = sum(len(branch) + 1 for branch in branches)
        _check_size(size)
        starts: list[int] = []
        program: list[Instruction] = []
        for branch in branches:
            starts.append(len(program) + 1)
            program += branch
            program.append((size - len(program),))
        return [tuple(starts), *program]

    def _compile_sequence(self) -> list[Instruction]:
        program: list[Instruction] = []
        while self.position < len(self._source) and self._peek() not in "|)":
            begin = self.position
            atom = self._compile_atom()
            is_edge = self._source[begin : self.position] in ("^", "$", r"\b", r"\B")
            count = self._parse_count()
            if count is not None:
                self._accept("?")
                if self._parse_count() is not None:
                    raise PatternError("it repeats a repetition")
                if is_edge:
                    raise PatternError("it repeats an edge")
                atom = _repeat_program(atom, *count)
            program += atom
            _check_size(len(program))
        return program

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

    def _compile_atom(self) -> list[Instruction]:
        char = self._read_char()
        match char:
            case "^" | "$":
                return [_Assertion(char)]
            case ".":
                return [lambda seen: seen not in _LINE_TERMINATORS]
            case "(":
                return self._compile_group()
            case "[":
                return [self._parse_char_set()]
            case "\\":
                return [self._parse_escape()]
            case "*" | "+" | "?":
                raise PatternError("it repeats nothing")
        return [_build_range_test(char, char)]

    def _compile_group(self) -> list[Instruction]:
        self._depth += 1
        if self._depth > MAX_GROUP_DEPTH:
            raise PatternError(f"its groups are nested more than {MAX_GROUP_DEPTH} deep")
        look = next((sign for sign in _LOOKAROUNDS if self._accept(sign)), None)
        if look is None and (name := _GROUP_NAME_RE.match(self._source, self.position)):
            self.position = name.end()
        elif look is None and not self._accept("?:") and self._peek() == "?":
            raise PatternError("it has a kind of group that is not known")
        inner = self.compile_alternation()
        if not self._accept(")"):
            raise PatternError("it does not close a group")
        self._depth -= 1
        if look is None:
            return inner
        return [(len(inner) + 2,), *inner, None, _Assertion(look, -len(inner) - 1)]

    def _parse_escape(self) -> CharTest | _Assertion:
        char = self._peek()
        if char in ("b", "B"):
            self.position += 1
            return _Assertion(char)
        if char in "123456789" or (char == "k" and self._source[self.position + 1 :][:1] == "<"):
            raise PatternError("it refers to what a group matched, which is not supported")
        member = self._parse_escaped_member()
        return member if callable(member) else _build_range_test(member, member)

    def _parse_escaped_char(self) -> str:
        char = self._read_char()
        if char == "c":
            return self._parse_control_char()
        for letter, digits in (("x", 2), ("u", 4)):
            code = self._source[self.position : self.position + digits]
            if char == letter and re.fullmatch(rf"[0-9A-Fa-f]{{{digits}}}", code):
                self.position += digits
                return chr(int(code, 16))
        return _CONTROL_ESCAPES.get(char, char)

    def _parse_control_char(self) -> str:
        r"""`\cA` is U+0001. Before anything but a letter, the backslash stands for itself."""
        letter = self._source[self.position : self.position + 1]
        if letter.isascii() and letter.isalpha():
            self.position += 1
            return chr(ord(letter) % 32)
        self.position -= 1
        return "\\"

    def _parse_char_set(self) -> CharTest:
        negated = self._accept("^")
        tests: list[CharTest] = []
        while not self._accept("]"):
            first = last = self._parse_set_member()
            ends_at = self._source[self.position + 1 :][:1]
            if isinstance(first, str) and ends_at not in ("", "]") and self._accept("-"):
                last = self._parse_set_member()
            if isinstance(first, str) and isinstance(last, str):
                tests.append(_build_range_test(first, last))
            elif isinstance(first, str):  # `[a-\d]`: the class does not end a range
                tests += [_build_range_test(char, char) for char in (first, "-")]
            if callable(last):
                tests.append(last)

        @lru_cache(maxsize=1024)
        def passes(seen: str) -> bool:
            """Whether a character is in the set; cached, because a set may have a thousand members
            and is tested at every step."""
            return any(test(seen) for test in tests) != negated

        return passes

    def _parse_set_member(self) -> str | CharTest:
        char = self._read_char()
        if char != "\\":
            return char
        return "\b" if self._accept("b") else self._parse_escaped_member()

    def _parse_escaped_member(self) -> str | CharTest:
        """Parse an escaped class of characters, or one character."""
        test = _CHAR_CLASSES.get(self._peek())
        if test is None:
            return self._parse_escaped_char()
        self.position += 1
        return test

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


def _repeat_program(inner: list[Instruction], least: int, most: int | None) -> list[Instruction]:
    if not inner:
        return []  # empty, however often it is repeated
    step = len(inner) + 1
    _check_size(least * len(inner) + max(0, (most or 0) - least) * step)
    program = inner * least
    if most is None:
        return [*program, (1, step + 1), *inner, (-step,)]
    for left in range(most - least, 0, -1):
        program += [(1, left * step), *inner]
    return program


def _build_range_test(first: str, last: str) -> CharTest:
    if last < first:
        raise PatternError(f"its range {first}-{last} is the wrong way round")
    return lambda seen: first <= seen <= last


def _is_word_char(char: str) -> bool:
    return char == "_" or (char.isascii() and char.isalnum())


def _is_space(char: str) -> bool:
    return char.isspace() or char == "\ufeff"


_CHAR_CLASSES: dict[str, CharTest] = {
    "d": lambda char: "0" <= char <= "9",
    "D": lambda char: not "0" <= char <= "9",
    "w": _is_word_char,
    "W": lambda char: not _is_word_char(char),
    "s": _is_space,
    "S": lambda char: not _is_space(char),
}
