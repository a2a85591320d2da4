"""Regular expressions over paths: JavaScript's syntax, as modes of Roo Code are written with it.

A pattern comes with the workspace, and the path from the model: neither may decide how long the
match takes. So a pattern becomes a small machine that walks the path once, with all the places it
may be in at the same time, and its steps are counted. Beyond the count, or with something that
such a machine cannot do (references to what a group matched), nothing matches.

Only whether there is a match counts here, so groups do not capture and lazy quantifiers are like
greedy ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from joey.core.path_pattern_syntax import (
    Choice,
    Edge,
    Look,
    Node,
    One,
    PatternError,
    Repeat,
    Sequence,
    parse,
)

MOST_STEPS = 100_000
LONGEST_PATH = 4096
"""A longer one names no file."""
LARGEST_PROGRAM = 2000

Test = Callable[[str], bool]


class _Fork:
    def __init__(self) -> None:
        self.targets: list[int] = []


class _Assert:
    def __init__(self, node: Edge | Look, entry: int = -1) -> None:
        self.node = node
        self.entry = entry
        """Where the program of a look-around begins."""


Instruction = Test | _Fork | _Assert | None
"""None: a match ends here."""


class PathPattern:
    def __init__(self, source: str) -> None:
        """Raises PatternError: the text says what is wrong with it."""
        self._program: list[Instruction] = []
        self._emit(parse(source))
        self._add(None)

    def matches(self, path: str) -> bool:
        """Whether the pattern is found anywhere in the path."""
        if len(path) > LONGEST_PATH:
            return False
        return _Walk(self._program, path).find(0, 0, len(path), floating=True)

    def _add(self, instruction: Instruction) -> int:
        if len(self._program) >= LARGEST_PROGRAM:
            raise PatternError("it is too long")
        self._program.append(instruction)
        return len(self._program) - 1

    def _fork(self) -> tuple[int, _Fork]:
        fork = _Fork()
        return self._add(fork), fork

    def _emit(self, node: Node) -> None:
        match node:
            case One(test):
                self._add(test)
            case Edge():
                self._add(_Assert(node))
            case Sequence(nodes):
                for inner in nodes:
                    self._emit(inner)
            case Choice(nodes):
                self._emit_choice(nodes)
            case Repeat(inner, least, most):
                self._emit_repeat(inner, least, most)
            case Look(inner):
                _, over = self._fork()
                entry = len(self._program)
                self._emit(inner)
                self._add(None)
                over.targets.append(self._add(_Assert(node, entry)))

    def _emit_choice(self, nodes: tuple[Node, ...]) -> None:
        _, choose = self._fork()
        ends: list[_Fork] = []
        for inner in nodes:
            choose.targets.append(len(self._program))
            self._emit(inner)
            ends.append(self._fork()[1])
        for end in ends:
            end.targets.append(len(self._program))

    def _emit_repeat(self, inner: Node, least: int, most: int | None) -> None:
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


class _Walk:
    """One match: what was found out on the way, and how many steps are left."""

    def __init__(self, program: list[Instruction], text: str) -> None:
        self._program = program
        self._text = text
        self._looked: dict[tuple[int, int], bool] = {}
        self._steps = MOST_STEPS

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

    def _reach(self, places: set[int], position: int) -> tuple[list[tuple[Test, int]], bool] | None:
        """The tests that can be made from here, each with the place behind it, and whether a
        match ends here; None when the steps are used up."""
        tests: list[tuple[Test, int]] = []
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
                case _Fork():
                    onward = instruction.targets
                case _Assert():
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

    def _holds(self, assertion: _Assert, position: int) -> bool:
        node = assertion.node
        if isinstance(node, Edge):
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
