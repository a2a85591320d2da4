"""The structured calls of a reply, put together from deltas.

A delta belongs to the open call at its `index`. Everything but the index may arrive late or never:
a call becomes a part of the reply when its name is known, and earlier arguments follow at once.
Servers differ in how they start the next call, so a delta also begins a new one at an index already
in use when

- its id differs and it names a tool, or the call before it is over (a bare id that changes with
  every delta is a habit of some servers and means nothing);
- it names a tool again, without an id, after complete arguments;
- the call before it was ended and the delta brings something new.

A call whose arguments parse when the provider ends it is final; all others are settled when the
reply ends, because only then is the reason for incomplete arguments known. An interrupted reply
leaves only its last call open. Call ids are valid for every provider and unique within the task
(decision D16). A call that cannot be executed carries the message for the model (decision D14).
"""

from __future__ import annotations

from typing import Any

from joey.core import messages as msg
from joey.core.parsing.call_arguments import CallArguments, parse_arguments, repair_value
from joey.core.parsing.call_names import KnownTool, ToolNames
from joey.core.parsing.json_stream import JsonStream
from joey.core.parsing.lenient_json import Repair
from joey.core.parsing.parts import CallIdAllocator, ReplyEnd, ReplyParts


class _NativeCall:
    def __init__(self) -> None:
        self.arguments = JsonStream()
        self.provider_id: str | None = None
        self.name = ""
        self.extra_content: dict[str, Any] | None = None
        self.tool: KnownTool | None = None
        """What the name means; None until it is known, or when it means nothing."""
        self.part_index: int | None = None
        """Position in the reply; None until the name is known."""
        self.id = ""
        self.is_ended_by_provider = False
        self.is_finalized = False

    @property
    def tool_name(self) -> str:
        return self.name if self.tool is None else self.tool.name

    @property
    def has_all_arguments(self) -> bool:
        return self.is_ended_by_provider or self.arguments.is_complete

    def is_continued_by(self, chunk: msg.CallChunk) -> bool:
        if self.is_ended_by_provider:
            return self._is_repeated_by(chunk)
        if chunk.id and self.provider_id and chunk.id != self.provider_id:
            return not chunk.name and not self.has_all_arguments
        if chunk.name and self.name and chunk.arguments and not chunk.id:
            return not self.has_all_arguments
        return True

    def _is_repeated_by(self, chunk: msg.CallChunk) -> bool:
        """Whether a delta after the end adds nothing new."""
        if not self.name:
            return True
        if chunk.id:
            return chunk.id == self.provider_id and chunk.name in (None, "", self.name)
        return not chunk.name and not (chunk.arguments and chunk.arguments.strip())


class NativeCalls:
    """The structured calls of one reply."""

    def __init__(self, parts: ReplyParts, ids: CallIdAllocator, tools: ToolNames) -> None:
        self._parts = parts
        self._call_ids = ids
        self._tools = tools
        self._open_calls_by_index: dict[int, _NativeCall] = {}
        self._calls: list[_NativeCall] = []

    def feed(self, chunk: msg.CallChunk) -> None:
        call = self._open_calls_by_index.get(chunk.index)
        if call is None or (
            (chunk.id or chunk.name or call.is_ended_by_provider)
            and not call.is_continued_by(chunk)
        ):
            call = self._open_calls_by_index[chunk.index] = _NativeCall()
            self._calls.append(call)
        if chunk.extra_content:
            call.extra_content = chunk.extra_content
        if call.is_finalized:
            return
        if chunk.arguments:
            arguments = msg.replace_lone_surrogates(chunk.arguments)
            call.arguments.feed(arguments)
            if call.part_index is not None:
                self._parts.emit_delta(call.part_index, arguments)
        if chunk.id and not call.provider_id:
            call.provider_id = chunk.id
        if chunk.name and not call.name:
            call.name = msg.replace_lone_surrogates(chunk.name)
            self._start_part(call)

    def end_call(self, index: int) -> None:
        """End the call at `index`, as reported by the provider."""
        call = self._open_calls_by_index.get(index)
        if call is None or call.is_ended_by_provider:
            return
        call.is_ended_by_provider = True
        if call.part_index is None or call.arguments.is_blank:
            return
        try:
            self._finalize_call(call, call.part_index, self._read_arguments(call))
        except ValueError:
            return

    def close(self, end: ReplyEnd) -> None:
        """Settle the remaining calls in order."""
        for call in self._calls:
            if call.is_finalized:
                continue
            part = call.part_index
            if part is None:
                if not call.provider_id and call.arguments.is_blank:
                    continue
                part = self._start_part(call)
            try:
                self._finalize_call(call, part, self._read_final_arguments(call, end))
            except ValueError as error:
                call.is_finalized = True
                self._parts.end_call(
                    part,
                    msg.ToolCall(
                        call.id,
                        call.tool_name,
                        problem=str(error),
                        extra_content=call.extra_content,
                    ),
                )

    def get_partial_arguments(self, part: int) -> dict[str, Any] | None:
        """Return the arguments so far of the open call at this index, if there is one."""
        for call in self._calls:
            if call.part_index == part and not call.is_finalized:
                return call.arguments.parse_partial()
        return None

    def _start_part(self, call: _NativeCall) -> int:
        call.id = self._call_ids.allocate(call.provider_id)
        call.tool = self._tools.find(call.name)
        call.part_index = part = self._parts.start_call(call.id, call.tool_name)
        if arguments := call.arguments.text:
            self._parts.emit_delta(part, arguments)
        return part

    def _read_final_arguments(self, call: _NativeCall, end: ReplyEnd) -> tuple[CallArguments, ...]:
        """Read the final arguments. Raises ValueError with the message for the model."""
        cut_off = end.cut_off_message if call is self._calls[-1] else None
        never_began = call.arguments.is_blank and call.part_index == len(self._parts) - 1
        if cut_off and (not call.is_ended_by_provider or never_began):
            raise ValueError(cut_off)
        if not call.name:
            raise ValueError(NO_TOOL_NAME_MESSAGE)
        try:
            return self._read_arguments(call)
        except ValueError as error:
            problem = describe_malformed_arguments(call.tool_name, error)
            raise ValueError(cut_off or problem) from None

    def _read_arguments(self, call: _NativeCall) -> tuple[CallArguments, ...]:
        """Read arguments, usually of one call; two objects in a row are two calls. Raises
        ValueError."""
        try:
            arguments = call.arguments.close()
        except ValueError as error:
            if call.tool is None:
                raise
            try:
                return parse_arguments(call.arguments.text, call.tool)
            except ValueError:
                raise error from None
        return (
            CallArguments(arguments) if call.tool is None else repair_value(arguments, call.tool),
        )

    def _finalize_call(
        self, call: _NativeCall, part: int, arguments: tuple[CallArguments, ...]
    ) -> None:
        call.is_finalized = True
        call_id, name = call.id, call.tool_name
        renamed = {Repair.TOOL_NAME} if name != call.name else set()
        for number, read in enumerate(arguments):
            if number:
                call_id = self._call_ids.allocate(None)
                part = self._parts.start_whole_call(call_id, name, read.values)
            self._parts.end_call(
                part,
                msg.ToolCall(
                    call_id,
                    name,
                    read.values,
                    repairs=tuple(sorted(read.repairs | renamed)),
                    extra_content=None if number else call.extra_content,
                ),
            )


NO_TOOL_NAME_MESSAGE = (
    "The call does not name a tool, so it was not executed. Call again, with the tool's name and "
    "its arguments."
)


def describe_malformed_arguments(name: str, error: ValueError) -> str:
    return (
        f"The arguments of {name} are not valid JSON: {error}. The call was not executed. "
        "Call again with complete, well-formed arguments."
    )
