"""The assembler of a model's reply: text, reasoning and native calls from a provider's chunks.

Chunks go in, events about the parts of the reply come out; `close` settles the open parts, and
then `reply` is complete. The cost of a chunk depends on its own length, never on earlier ones.

In the native protocol text is text and calls are structured. In the XML protocol calls are found
in the text; structured calls that a server sends anyway are accepted too. In both, sections such
as `<think>…</think>` are reasoning, and so is all text before a `</think>` that nothing opened
(see `tags`); parts that were begun for it are recast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from joey.core import messages as msg
from joey.core.models import ToolProtocol
from joey.core.parsing.call_arguments import parse_bare_text
from joey.core.parsing.call_names import ToolNames, rename_parameters
from joey.core.parsing.imitations import describe_call_after_imitation, find_imitation
from joey.core.parsing.leaked_call_finder import FoundCalls, LeakedCallFinder
from joey.core.parsing.leaked_calls import LeakedCall
from joey.core.parsing.lenient_json import Repair
from joey.core.parsing.native_calls import NativeCalls
from joey.core.parsing.parts import (
    REPETITION_STOP_REASON,
    CallIdAllocator,
    PartEvent,
    ReplyEnd,
    ReplyParts,
)
from joey.core.parsing.repetition import cut_repetition
from joey.core.parsing.tags import (
    ProseEvent,
    ReasoningEnded,
    ReasoningFinder,
    ReasoningSection,
    ReasoningText,
    ReplyText,
    strip_end_tokens,
)
from joey.core.parsing.xml_argument_parser import StreamTrimmer
from joey.core.parsing.xml_stream import (
    XmlCallClosedEarly,
    XmlCallDelta,
    XmlCallEnded,
    XmlCallStarted,
    XmlEvent,
    XmlStream,
)
from joey.errors import TaskStateError

_STRAY_FENCE = "```"
"""After a call, the end of a fence that nothing opened."""


class ReplyAssembler:
    """Assembles one reply; a new reply needs a new one."""

    def __init__(
        self,
        *,
        protocol: ToolProtocol,
        tools: ToolNames,
        taken_ids: Callable[[str], bool],
        make_id: Callable[[], str],
        understand_text_calls: bool = True,
    ) -> None:
        """`understand_text_calls`: calls in formats of other programs count too."""
        self._parts = ReplyParts()
        self._call_ids = CallIdAllocator(taken_ids, make_id)
        self._text = _ReplyText(
            self._parts,
            self._call_ids,
            LeakedCallFinder(tools) if understand_text_calls else None,
            tools,
            is_trimmed=protocol is ToolProtocol.XML,
        )
        self._native_calls = NativeCalls(self._parts, self._call_ids, tools)
        self._reasoning_finder = ReasoningFinder()
        self._xml_calls: _XmlCalls | None = None
        if protocol is ToolProtocol.XML:
            self._xml_calls = _XmlCalls(tools, self._parts, self._text, self._call_ids)
        self._usage: msg.Usage | None = None
        self._response_id: str | None = None
        self._stop_reason: str | None = None
        self._source: msg.ReplySource | None = None
        self._reply: msg.Reply | None = None

    def feed(self, chunk: msg.Chunk) -> list[PartEvent]:
        match chunk:
            case msg.CallChunk():
                self._text.flush()
                self._native_calls.feed(chunk)
            case msg.TextChunk():
                self._feed_text(msg.replace_lone_surrogates(chunk.text))
            case msg.ReasoningChunk():
                self._feed_reasoning(chunk)
            case msg.CallEndChunk():
                self._native_calls.end_call(chunk.index)
            case msg.UsageChunk():
                self._usage = chunk.usage
            case msg.StopChunk():
                self._stop_reason = chunk.reason or self._stop_reason
                self._response_id = chunk.response_id or self._response_id
            case msg.SourceChunk():
                self._source = chunk.source
        return self._parts.drain_events()

    def stop_repetition(self) -> bool:
        """Cut a reply whose text repeats itself without end. Returns whether it did; then no more
        of the stream is wanted."""
        is_stopped = self._parts.stop_repetition()
        if is_stopped:
            self._stop_reason = REPETITION_STOP_REASON
        return is_stopped

    def close(self, complete: bool) -> list[PartEvent]:
        """The stream is over; `complete` is False when it broke or was cancelled.

        Only the first call counts: later ones change nothing.
        """
        if self._reply is not None:
            return []
        end = ReplyEnd(complete, self._stop_reason)
        if self._xml_calls is not None:
            self._xml_calls.close(end)
        else:
            self._text.extend(self._reasoning_finder.close())
        unusable_call = self._text.close(end)
        self._native_calls.close(end)
        self._parts.finish()
        self._reply = msg.Reply(
            parts=self._parts.list_ended_parts(),
            raw=self._xml_calls.raw if self._xml_calls is not None else None,
            usage=self._usage,
            response_id=self._response_id,
            stop_reason=self._stop_reason,
            unusable_call=unusable_call,
            source=self._source,
        )
        return self._parts.drain_events()

    @property
    def reply(self) -> msg.Reply:
        if self._reply is None:
            raise TaskStateError("The reply is not complete: close the assembler first.")
        return self._reply

    def get_partial_arguments(self, index: int) -> dict[str, Any]:
        """The arguments of the call at `index`, as far as they can be read by now."""
        for calls in (self._xml_calls, self._native_calls):
            if calls and (partial := calls.get_partial_arguments(index)) is not None:
                return partial
        return self._parts.get_call_input(index)

    def _feed_text(self, text: str) -> None:
        if self._xml_calls is not None:
            self._xml_calls.feed(text)
        else:
            self._text.extend(self._reasoning_finder.feed(text))

    def _feed_reasoning(self, chunk: msg.ReasoningChunk) -> None:
        self._text.flush()
        self._parts.add_reasoning_details(chunk.details)
        self._parts.append_prose("reasoning", msg.replace_lone_surrogates(chunk.text))
        if chunk.signature is not None or chunk.item is not None:
            self._parts.end_reasoning(chunk.signature, chunk.item)
        if chunk.redacted is not None:
            self._parts.add_redacted_reasoning(chunk.redacted)


class _ReplyText:
    """The text of a reply, and the calls that leaked into its end."""

    def __init__(
        self,
        parts: ReplyParts,
        ids: CallIdAllocator,
        finder: LeakedCallFinder | None,
        tools: ToolNames,
        *,
        is_trimmed: bool,
    ) -> None:
        """`is_trimmed`: text between calls is shown without the white space around it, as in XML
        tasks."""
        self._parts = parts
        self._call_ids = ids
        self._finder = finder
        self._tools = tools
        self._is_trimmed = is_trimmed
        self.imitation = ""
        """Text before the latest call that imitates a result or a message."""
        self._trimmer = StreamTrimmer(verbatim=False)
        self._is_after_thought = False
        self._unusable_call: msg.UnusableCall | None = None
        """What stands before a call and was meant as one."""

    def extend(self, events: list[ProseEvent]) -> None:
        """Text that is nothing but text, and reasoning in it."""
        for event in events:
            match event:
                case ReplyText():
                    self.append(event.text)
                case ReasoningEnded():
                    self.flush(is_reasoning=True)
                    self._parts.reclassify_as_reasoning({})
                case _:
                    self.append_reasoning(event)

    def append_reasoning(self, event: ReasoningText | ReasoningSection) -> None:
        self.flush()
        if isinstance(event, ReasoningText):
            self._parts.append_prose("reasoning", event.text)
        else:
            self._parts.end_prose()

    def append(self, text: str, *, is_thought: bool = False) -> None:
        """`is_thought`: it is inside a section of reasoning, so nothing in it is a call."""
        if self._finder is None:
            self._show(text)
        elif is_thought:
            self._show(self._finder.flush() + text)
            self._is_after_thought = True
        else:
            if self._is_after_thought:
                self._end_text()
            self._show(self._finder.feed(text))

    def flush(self, *, is_reasoning: bool = False) -> None:
        """Something else than text follows; or all text so far turns out to be reasoning."""
        if self._finder is not None:
            rest = self._finder.restart() if is_reasoning else self._finder.flush()
            self._show(rest)
        if is_reasoning:
            self.imitation, self._unusable_call = "", None
        self._trimmer = StreamTrimmer(verbatim=False)

    def end_before_call(self) -> tuple[LeakedCall, ...]:
        """A call with tags follows. Returns the calls in other forms that stand right before it;
        one in a code block counts only at the end of a reply."""
        if self._finder is None:
            self.flush()
            return ()
        found = self._finder.close(is_before_call=True)
        if found.calls and not found.is_fenced:
            self._finder.flush()
            self._parts.end_text_as(found.text.strip())
            self._end_text()
        else:
            self.flush()
        if found.calls and found.is_fenced:
            self._unusable_call = describe_fenced_call(found.calls[0].tool.name)
        elif found.unusable is not None and found.unusable.unknown_tool:
            self._unusable_call = self._unusable_call or found.unusable
        return () if found.is_fenced else found.calls

    def close(self, end: ReplyEnd) -> msg.UnusableCall | None:
        """End the text, and add the calls. Returns what was meant as a call and is none."""
        found = FoundCalls("") if self._finder is None else self._finder.close()
        is_cut = end.cut_off_message is not None
        if not found.calls or is_cut:
            rest = "" if self._finder is None else strip_end_tokens(self._finder.flush())
            if found.text.strip() != _STRAY_FENCE:
                self._show(rest)
            self._end_text()
            return None if is_cut else self._unusable_call or found.unusable
        text = found.text.strip() if self._is_trimmed else found.text
        self._parts.end_text_as(text)
        self.imitation = self.imitation or find_imitation(text, self._tools.by_name)
        for leaked in found.calls:
            call = build_leaked_call(self._call_ids.allocate(None), leaked, self.imitation)
            part = self._parts.start_whole_call(call.id, call.name, call.input)
            self._parts.end_call(part, call)
        return self._unusable_call or found.unusable

    def _show(self, text: str) -> None:
        self._parts.append_prose("text", self._trimmer.feed(text) if self._is_trimmed else text)

    def _end_text(self) -> None:
        self._parts.end_prose()
        self._trimmer = StreamTrimmer(verbatim=False)
        self._is_after_thought = False


class _XmlCalls:
    """Text of an XML task, as parts of the reply.

    Calls end with the reply: until then the text behind them may show that they were cut short.
    """

    def __init__(
        self, tools: ToolNames, parts: ReplyParts, text: _ReplyText, ids: CallIdAllocator
    ) -> None:
        self._tools = tools
        self._stream = XmlStream({name: tool.parameters for name, tool in tools.by_name.items()})
        self._parts = parts
        self._text = text
        self._call_ids = ids
        self._raw_pieces: list[str] = []
        self._raw_offset = 0
        """The place of `raw` in all text so far; before it is reasoning."""
        self._sections: list[ReasoningSection] = []
        """Reasoning between the pieces of `raw`."""
        self._call_offsets: dict[int, tuple[int, int | None]] = {}
        self._open_part_index: int | None = None
        self._open_call_id = ""
        self._open_call_name = ""
        self._calls: dict[int, msg.ToolCall] = {}
        self._early_closed_calls: dict[str, tuple[int, str]] = {}
        """By tool: how many calls there were when one was doubted, and the body it ended with."""

    @property
    def raw(self) -> str:
        text, place, raw = "".join(self._raw_pieces), self._raw_offset, ""
        for section in self._sections:
            raw += text[place - self._raw_offset : section.start_offset - self._raw_offset].lstrip()
            place = section.end_offset
        rest = strip_end_tokens(text[place - self._raw_offset :])
        if self._parts.stopped_period:
            rest = cut_repetition(rest, self._parts.stopped_period)
        return raw + rest.lstrip() if place else rest

    def feed(self, text: str) -> None:
        self._raw_pieces.append(text)
        for event in self._stream.feed(text):
            self._handle(event, None)

    def close(self, end: ReplyEnd) -> None:
        for event in self._stream.close():
            self._handle(event, end)
        problems = self._list_early_close_problems()
        if problems:
            problems[-1] = problems[-1] or end.cut_off_message
        for (part, call), problem in zip(self._calls.items(), problems, strict=True):
            doubted = problem is not None and call.problem is None
            self._parts.end_call(part, replace(call, problem=problem) if doubted else call)
        self._calls.clear()

    def get_partial_arguments(self, index: int) -> dict[str, Any] | None:
        """The arguments of a call; None when the part is none of these calls, or has ended."""
        if index == self._open_part_index:
            return self._stream.get_partial_arguments()
        call = self._calls.get(index)
        return call.input if call is not None else None

    def _handle(self, event: XmlEvent, end: ReplyEnd | None) -> None:
        match event:
            case XmlCallDelta():
                assert self._open_part_index is not None
                self._parts.emit_delta(self._open_part_index, event.delta)
            case ReplyText():
                self._text.append(event.text, is_thought=event.is_thought)
            case ReasoningText():
                self._text.append_reasoning(event)
            case ReasoningSection():
                self._text.append_reasoning(event)
                self._sections.append(event)
            case XmlCallStarted():
                for leaked in self._text.end_before_call():
                    self._add_leaked_call(leaked, event)
                self._text.imitation = event.imitation
                self._open_call_id, self._open_call_name = self._call_ids.allocate(None), event.name
                self._open_part_index = self._parts.start_call(
                    self._open_call_id, self._open_call_name
                )
                self._call_offsets[self._open_part_index] = event.start_offset, None
            case XmlCallEnded():
                assert self._open_part_index is not None
                self._call_offsets[self._open_part_index] = (
                    self._call_offsets[self._open_part_index][0],
                    event.end_offset,
                )
                self._calls[self._open_part_index] = self._build_call(event, end)
                self._open_part_index = None
            case XmlCallClosedEarly():
                self._early_closed_calls[event.tool] = len(self._calls), event.body
            case ReasoningEnded():
                self._reclassify(event)

    def _add_leaked_call(self, leaked: LeakedCall, following: XmlCallStarted) -> None:
        call = build_leaked_call(self._call_ids.allocate(None), leaked, following.imitation)
        part = self._parts.start_whole_call(call.id, call.name, call.input)
        self._calls[part] = call
        self._call_offsets[part] = following.start_offset, following.start_offset

    def _build_call(self, event: XmlCallEnded, end: ReplyEnd | None) -> msg.ToolCall:
        tool = self._tools.by_name[self._open_call_name]
        arguments = rename_parameters(tool, event.input)
        repairs = (Repair.PARAMETER_NAME,) if arguments.keys() != event.input.keys() else ()
        if event.bare_text:
            arguments |= parse_bare_text(event.bare_text, tool)
        problem = self._find_problem(event, end)
        return msg.ToolCall(self._open_call_id, tool.name, arguments, problem, repairs)

    def _reclassify(self, thought: ReasoningEnded) -> None:
        self._text.flush(is_reasoning=True)
        raw, base = "".join(self._raw_pieces), self._raw_offset
        self._parts.reclassify_as_reasoning(
            {
                part: raw[
                    at - base : (thought.closing_tag_start if end is None else end) - base
                ].strip()
                for part, (at, end) in self._call_offsets.items()
            }
        )
        self._raw_pieces, self._raw_offset = (
            [raw[thought.closing_tag_end - base :]],
            thought.closing_tag_end,
        )
        self._open_part_index = None
        for known in (self._sections, self._call_offsets, self._calls, self._early_closed_calls):
            known.clear()

    def _find_problem(self, event: XmlCallEnded, end: ReplyEnd | None) -> str | None:
        if self._text.imitation:
            return describe_call_after_imitation(self._open_call_name, self._text.imitation)
        if event.reasoning_parameter is not None:
            return describe_reasoning_inside(self._open_call_name, event.reasoning_parameter)
        if event.unclosed_tag is None:
            return None
        cut_off = end.cut_off_message if end is not None else None
        if event.lacks_only_end and event.input and cut_off is None:
            return None
        return cut_off or describe_unclosed_tag(self._open_call_name, event.unclosed_tag)

    def _list_early_close_problems(self) -> list[str | None]:
        """What is wrong with each call: the first of the tool may be the one that was cut short,
        and then those between it and the text that is left over are quoted and not meant."""
        names = [call.name for call in self._calls.values()]
        problems: list[str | None] = [None] * len(names)
        for tool, (count, body) in self._early_closed_calls.items():
            first = names.index(tool)
            problems[first:count] = [describe_quoted_closing(tool, body)] * (count - first)
        return problems


def build_leaked_call(call_id: str, leaked: LeakedCall, imitation: str) -> msg.ToolCall:
    name, repairs = leaked.tool.name, tuple(sorted(leaked.repairs))
    problem = describe_call_after_imitation(name, imitation) if imitation else None
    return msg.ToolCall(call_id, name, leaked.arguments, problem, repairs)


def describe_fenced_call(tool: str) -> msg.UnusableCall:
    problem = (
        f"The call of {tool} is in a code block, and another call follows it. Write it again,"
        " without the code block."
    )
    return msg.UnusableCall(problem, tool=tool)


def describe_unclosed_tag(tool: str, tag: str) -> str:
    return (
        f"The call of {tool} was not executed: its <{tag}> was never closed with </{tag}>, "
        "so that everything after it belongs to it and was not run either. "
        "Write the whole call again, with all its closing tags."
    )


def describe_reasoning_inside(tool: str, parameter: str) -> str:
    return (
        f"The call of {tool} was not executed: its <{parameter}> closes a section of reasoning and "
        f"then opens <{parameter}> again, so it seems to have been begun in the reasoning and "
        "given up there. Write the whole call again, after the reasoning."
    )


def describe_quoted_closing(tool: str, body: str) -> str:
    return (
        f"The call of {tool} was not executed: the text behind it closes </{body}> and </{tool}> "
        f"once more, so its <{body}> seems to quote these two tags itself and to be cut short. "
        "Write it again without quoting them, and put what is missing in with another tool."
    )
