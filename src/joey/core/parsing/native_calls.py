"""Structured calls, put together from the deltas that providers send.

A delta belongs to the call that is open at its `index`. Anything but the index may come late or
never: a call becomes a part of the reply when its name is known, and what came before the name
follows at once. Servers differ in how they start the next call, so a delta also begins a new one
at an index already in use when

- its id differs and it names a tool, or the call before it is over (a bare id that changes with
  every delta is a habit of some servers and means nothing);
- it names a tool again, without an id, after whole arguments;
- the call before it was ended and it brings something new.

A call whose arguments parse when the provider ends it is final then; everything else is settled
when the reply ends, because only then is it known why the arguments are not whole.
"""

from __future__ import annotations

from typing import Any

from joey.core.chunks import CallChunk
from joey.core.messages import ToolCall, well_formed
from joey.core.parsing.call_ids import CallIds
from joey.core.parsing.json_stream import JsonStream
from joey.core.parsing.parts import Parts
from joey.core.parsing.problems import NO_NAME, ReplyEnd, malformed_arguments


class _NativeCall:
    def __init__(self) -> None:
        self.arguments = JsonStream()
        self.wire_id: str | None = None
        self.name = ""
        self.part: int | None = None
        """Position in the reply; None until the name is known."""
        self.id = ""
        self.ended = False
        """The provider said that no more arguments follow."""
        self.settled = False

    @property
    def is_over(self) -> bool:
        return self.ended or self.arguments.is_whole

    def continued_by(self, chunk: CallChunk) -> bool:
        if self.ended:
            return self._repeated_by(chunk)
        if chunk.id and self.wire_id and chunk.id != self.wire_id:
            return not chunk.name and not self.is_over
        if chunk.name and self.name and chunk.arguments and not chunk.id:
            return not self.is_over
        return True

    def _repeated_by(self, chunk: CallChunk) -> bool:
        """Whether a delta behind the end says nothing that is new."""
        if not self.name:
            return True
        if chunk.id:
            return chunk.id == self.wire_id and chunk.name in (None, "", self.name)
        return not chunk.name and not (chunk.arguments and chunk.arguments.strip())


class NativeCalls:
    """The structured calls of one reply."""

    def __init__(self, parts: Parts, ids: CallIds) -> None:
        self._parts = parts
        self._ids = ids
        self._at: dict[int, _NativeCall] = {}
        self._calls: list[_NativeCall] = []

    def feed(self, chunk: CallChunk) -> None:
        call = self._at.get(chunk.index)
        if call is None or (
            (chunk.id or chunk.name or call.ended) and not call.continued_by(chunk)
        ):
            call = self._at[chunk.index] = _NativeCall()
            self._calls.append(call)
        if call.settled:
            return
        if chunk.arguments:
            arguments = well_formed(chunk.arguments)
            call.arguments.feed(arguments)
            if call.part is not None:
                self._parts.grow(call.part, arguments)
        if chunk.id and not call.wire_id:
            call.wire_id = chunk.id
        if chunk.name and not call.name:
            call.name = well_formed(chunk.name)
            self._start(call)

    def end(self, index: int) -> None:
        """The provider ends the call at `index`."""
        call = self._at.get(index)
        if call is None or call.ended:
            return
        call.ended = True
        if call.part is None or call.arguments.is_blank:
            return
        try:
            arguments = call.arguments.close()
        except ValueError:
            return
        self._settle(call, call.part, arguments)

    def close(self, end: ReplyEnd) -> None:
        """Settle what is left, in the order in which it began."""
        for call in self._calls:
            if call.settled:
                continue
            if call.part is None:
                if not call.wire_id and call.arguments.is_blank:
                    continue
                self._start(call)
            assert call.part is not None
            arguments, problem = self._outcome(call, end)
            self._settle(call, call.part, arguments, problem)

    def partial(self, part: int) -> dict[str, Any] | None:
        """The arguments so far of the open call at this position, if there is one."""
        for call in self._calls:
            if call.part == part and not call.settled:
                return call.arguments.partial()
        return None

    def _start(self, call: _NativeCall) -> None:
        call.id = self._ids.claim(call.wire_id)
        call.part = self._parts.start_call(call.id, call.name)
        if arguments := call.arguments.text:
            self._parts.grow(call.part, arguments)

    def _outcome(self, call: _NativeCall, end: ReplyEnd) -> tuple[dict[str, Any], str | None]:
        """The arguments, or none and why."""
        never_began = call.arguments.is_blank and call.part == len(self._parts) - 1
        if end.cut_off and (not call.ended or never_began):
            return {}, end.cut_off
        if not call.name:
            return {}, NO_NAME
        try:
            return call.arguments.close(), None
        except ValueError as error:
            return {}, end.cut_off or malformed_arguments(call.name, error)

    def _settle(
        self,
        call: _NativeCall,
        part: int,
        arguments: dict[str, Any],
        problem: str | None = None,
    ) -> None:
        call.settled = True
        self._parts.end_call(part, ToolCall(call.id, call.name, arguments, problem))
