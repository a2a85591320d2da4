"""One task that speaks in a conversation: which of its rows are which blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import structs

from joey.core.history.ui import Approval, Row
from joey.tui.blocks.block import Block
from joey.tui.blocks.calls import Call, ComingCall
from joey.tui.blocks.words import ComingResult, Passing, Thinking

LONGEST_THOUGHT = 3_600
"""Seconds; what took longer was not thinking, but somebody who was away."""


MOST_OPEN = 100
"""Blocks of one reply, and some more."""


class Voice:
    def __init__(self, name: str) -> None:
        self.name = name
        self.blocks: dict[int, Block] = {}
        """By the `ts` of their rows."""
        self.opened: dict[int, str] = {}
        """Rows that began to stream and have shown nothing yet: what they are."""
        self.was_interrupted = False
        """The last request was stopped, and that is still to be told."""
        self.trouble = ""
        """Why a request failed last, as it was told already."""
        self._call: Call | None = None
        self._outputs: dict[int, Call] = {}
        """Whose output a row shows."""
        self._begun: dict[int, int] = {}
        """When calls began to run."""
        self._thought: tuple[int, Thinking] | None = None

    def keep(self, row: Row, block: Block) -> None:
        """This block shows the row."""
        self.blocks[row.ts] = block
        if isinstance(block, Call):
            self._call = block
        if isinstance(block, Thinking):
            self._thought = (row.ts, block)

    @property
    def call(self) -> Call | None:
        """The last one."""
        return self._call

    def call_of_output(self, ts: int) -> Call | None:
        """The call whose output a row shows: the last one when the output began."""
        if self._call is not None:
            self._outputs.setdefault(ts, self._call)
        return self._outputs.get(ts)

    def begin_call(self, row_ts: int, now: int) -> None:
        self._begun[row_ts] = now

    def settle_ask(self, ts: int, approval: Approval, *, answered: bool) -> Call | None:
        call = self.blocks.get(ts)
        if not isinstance(call, Call) or call.row.approval_state is None:
            return None
        said = True if answered else None
        call.put(structs.replace(call.row, approval_state=approval, is_answered=said))
        return call

    def finish_call(self, row_ts: int, result: str, now: int) -> Call | None:
        call = self.blocks.get(row_ts)
        if not isinstance(call, Call):
            return None
        call.put(structs.replace(call.row, result=result))
        if (begun := self._begun.pop(row_ts, None)) is not None:
            call.took((now - begun) / 1000)
        return call

    def end_thought(self, now: int) -> Thinking | None:
        """Something else begins: how long the model has thought is known."""
        if self._thought is None:
            return None
        (begun, block), self._thought = self._thought, None
        seconds = (now - begun) // 1000
        block.end(seconds if 0 < seconds < LONGEST_THOUGHT else 0)
        return block

    def unfinished(self) -> Iterator[tuple[int, Block]]:
        """Blocks of what was announced, and will not come any more."""
        self.opened.clear()
        for ts, block in [*islice(reversed(self.blocks.items()), MOST_OPEN)]:
            coming = isinstance(block, ComingResult) and not block.is_over
            if coming or isinstance(block, ComingCall | Passing):
                yield ts, block
