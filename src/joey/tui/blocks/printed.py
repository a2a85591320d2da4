"""A command of the person's own, and what it prints."""

from __future__ import annotations

from collections.abc import Sequence

from joey.presentation.text import one_line
from joey.tui.blocks.block import Block
from joey.tui.blocks.outputs import Output
from joey.tui.blocks.pieces import Line, Piece


class Printed(Block):
    def __init__(self, command: str) -> None:
        self._command = Line([("! ", "warning bold"), (one_line(command), "bold")], 4)
        self._output = Output()

    def hear(self, text: str) -> None:
        self._output.feed(text)
        self.grow()

    def size(self) -> tuple[int, int]:
        return 0, 2

    def settled(self, *, whole: bool) -> Sequence[Piece]:
        return [self._command, *self._output.settled(whole=whole)]

    def open(self, *, whole: bool) -> Sequence[Piece]:
        return self._output.open(whole=whole)
