"""Calls in the text of an XML task, as parts of the reply."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from joey.core import messages as msg
from joey.core.parsing.call_arguments import parse_bare_text
from joey.core.parsing.call_names import ToolNames, rename_parameters
from joey.core.parsing.imitations import describe_call_after_imitation
from joey.core.parsing.leaked_calls import LeakedCall, is_quoted_in_line
from joey.core.parsing.lenient_json import Repair
from joey.core.parsing.parts import CallIdAllocator, ReplyEnd, ReplyParts
from joey.core.parsing.repetition import cut_repetition
from joey.core.parsing.reply_text import ReplyTextBuilder, build_leaked_call
from joey.core.parsing.tags import (
    ReasoningEnded,
    ReasoningSection,
    ReasoningText,
    ReplyText,
    strip_end_tokens,
)
from joey.core.parsing.xml_stream import (
    XmlCallClosedEarly,
    XmlCallDelta,
    XmlCallEnded,
    XmlCallStarted,
    XmlEvent,
    XmlStream,
)


class XmlCalls:
    """Text of an XML task, as parts of the reply.

    Calls end with the reply: until then the text after them may show that they ended early.
    """

    def __init__(
        self, tools: ToolNames, parts: ReplyParts, text: ReplyTextBuilder, ids: CallIdAllocator
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
        quoted = self._list_sentence_problems()
        problems = [a or b for a, b in zip(self._list_early_close_problems(), quoted, strict=True)]
        if problems:
            problems[-1] = problems[-1] or end.cut_off_message
        for (part, call), problem in zip(self._calls.items(), problems, strict=True):
            doubted = problem is not None and call.problem is None
            self._parts.end_call(part, replace(call, problem=problem) if doubted else call)
        self._calls.clear()

    def get_partial_arguments(self, index: int) -> dict[str, Any] | None:
        """Return the arguments of an open call; None for any other part."""
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

    def _list_sentence_problems(self) -> list[str | None]:
        """Return the problem of each call within a sentence, where it is only quoted. Calls on one
        line share the text before and after them."""
        texts = self._list_texts_around_calls()
        befores = accumulate(texts[:-1], _choose_line_edge)
        afters = accumulate(texts[:0:-1], _choose_line_edge)
        return [
            describe_call_in_sentence(call.name) if is_quoted_in_line(before, after) else None
            for call, before, after in zip(
                self._calls.values(), befores, reversed([*afters]), strict=True
            )
        ]

    def _list_texts_around_calls(self) -> list[str]:
        """Return the text before the first call, between calls, and after the last."""
        raw, base, place = "".join(self._raw_pieces), self._raw_offset, self._raw_offset
        texts = [""]
        offsets = [self._call_offsets[part] for part in self._calls]
        spans = [(start, start if end is None else end, "") for start, end in offsets]
        spans += [(section.start_offset, section.end_offset, "\n") for section in self._sections]
        for start, end, separator in sorted(spans):
            texts[-1] += raw[place - base : start - base] + separator
            place = end
            if not separator:
                texts.append("")
        texts[-1] += raw[place - base :]
        return texts

    def _list_early_close_problems(self) -> list[str | None]:
        """Return the problem of each call if one closed early: the first call of the tool may be
        the one that did, and calls between it and the remaining text are then quoted."""
        names = [call.name for call in self._calls.values()]
        problems: list[str | None] = [None] * len(names)
        for tool, (count, body) in self._early_closed_calls.items():
            first = names.index(tool)
            problems[first:count] = [describe_quoted_closing(tool, body)] * (count - first)
        return problems


def _choose_line_edge(edge: str, text: str) -> str:
    """Return `text` as the end or beginning of a line, unless it has no line break of its own."""
    return text if "\n" in text else edge


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


def describe_call_in_sentence(tool: str) -> str:
    return (
        f"The call of {tool} was not executed: it stands within a sentence, as if it were quoted. "
        "To make it, write it again on lines of its own. To quote it, put it in backquotes."
    )


def describe_quoted_closing(tool: str, body: str) -> str:
    return (
        f"The call of {tool} was not executed: the text behind it closes </{body}> and </{tool}> "
        f"once more, so its <{body}> seems to quote these two tags itself and to be cut short. "
        "Write it again without quoting them, and put what is missing in with another tool."
    )
