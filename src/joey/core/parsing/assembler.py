"""One reply of the model, assembled from a provider's chunks while they stream in.

Chunks go in, events about the parts of the reply come out; `close` settles what is open, and then
`reply` is the whole. What each chunk costs depends on its own length, never on what came before.

In the native protocol text is text and calls are structured. In the XML protocol calls are found
in the text; structured calls that a server sends anyway are understood too. In both, a `<think>`
section that opens the text is reasoning, and so is all text before a `</think>` that nothing
opened (see `think_tags`); parts that were begun for it are recast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec.structs import replace

from joey.core.chunks import (
    CallChunk,
    CallEndChunk,
    Chunk,
    ReasoningChunk,
    StopChunk,
    TextChunk,
    UsageChunk,
)
from joey.core.messages import Reply, ToolCall, Usage, well_formed
from joey.core.parsing.call_ids import CallIds
from joey.core.parsing.native_calls import NativeCalls
from joey.core.parsing.parts import (
    PartEnded,
    PartEvent,
    PartGrew,
    PartRecast,
    Parts,
    PartStarted,
)
from joey.core.parsing.problems import ReplyEnd, quoted_end, thought_inside, unclosed_tag
from joey.core.parsing.think_tags import ThinkTags, UnopenedClosings
from joey.core.parsing.xml_stream import (
    XmlCallEnded,
    XmlCallGrew,
    XmlCallsDoubted,
    XmlCallStarted,
    XmlEvent,
    XmlStream,
    XmlText,
    XmlThoughtEnded,
)
from joey.core.protocol import ToolProtocol
from joey.errors import TaskStateError

__all__ = ["Assembler", "PartEnded", "PartEvent", "PartGrew", "PartRecast", "PartStarted"]


class Assembler:
    """Assembles one reply; a new reply needs a new one."""

    def __init__(
        self,
        *,
        protocol: ToolProtocol,
        tools: Mapping[str, frozenset[str]],
        taken_ids: Callable[[str], bool],
        make_id: Callable[[], str],
        understand_text_calls: bool = True,
    ) -> None:
        """`tools`: names and aliases, with the parameters that XML calls of them may have."""
        self._parts = Parts()
        self._ids = CallIds(taken_ids, make_id)
        self._calls = NativeCalls(self._parts, self._ids)
        self._think = ThinkTags()
        self._closings = UnopenedClosings()
        self._xml: _XmlCalls | None = None
        if protocol is ToolProtocol.XML:
            stream = XmlStream(tools, understand_text_calls=understand_text_calls)
            self._xml = _XmlCalls(stream, self._parts, self._ids)
        self._usage: Usage | None = None
        self._response_id: str | None = None
        self._stop_reason: str | None = None
        self._reply: Reply | None = None

    def feed(self, chunk: Chunk) -> list[PartEvent]:
        match chunk:
            case CallChunk():
                self._calls.feed(chunk)
            case TextChunk():
                self._feed_text(well_formed(chunk.text))
            case ReasoningChunk():
                self._feed_reasoning(chunk)
            case CallEndChunk():
                self._calls.end(chunk.index)
            case UsageChunk():
                self._usage = chunk.usage
            case StopChunk():
                self._stop_reason = chunk.reason or self._stop_reason
                self._response_id = chunk.response_id or self._response_id
        return self._parts.take_events()

    def close(self, complete: bool) -> list[PartEvent]:
        """The stream is over; `complete` is False when it broke or was cancelled.

        Only the first call counts: later ones change nothing.
        """
        if self._reply is not None:
            return []
        end = ReplyEnd(complete, self._stop_reason)
        for kind, text in self._think.close():
            self._take(kind, text)
        if self._xml is not None:
            self._xml.close(end)
        else:
            self._say(self._closings.close())
        self._parts.end_prose()
        self._calls.close(end)
        self._parts.finish()
        self._reply = Reply(
            parts=self._parts.ended(),
            raw=self._xml.raw if self._xml is not None else None,
            usage=self._usage,
            response_id=self._response_id,
            stop_reason=self._stop_reason,
        )
        return self._parts.take_events()

    @property
    def reply(self) -> Reply:
        if self._reply is None:
            raise TaskStateError("The reply is not complete: close the assembler first.")
        return self._reply

    def partial(self, index: int) -> dict[str, Any]:
        """The arguments of the call at `index`, as far as they can be read by now."""
        partial = self._xml.partial(index) if self._xml is not None else None
        if partial is None:
            partial = self._calls.partial(index)
        return self._parts.input_of(index) if partial is None else partial

    def _feed_text(self, text: str) -> None:
        if self._think.settled:
            self._take("text", text)
            return
        for kind, piece in self._think.feed(text):
            self._take(kind, piece)

    def _take(self, kind: Literal["text", "reasoning"], text: str) -> None:
        if kind == "reasoning":
            self._parts.say(kind, text)
        elif self._xml is not None:
            self._xml.feed(text)
        else:
            self._say(self._closings.feed(text))

    def _say(self, pieces: list[str | None]) -> None:
        for piece in pieces:
            if piece is None:
                self._parts.recast({})
            else:
                self._parts.say("text", piece)

    def _feed_reasoning(self, chunk: ReasoningChunk) -> None:
        self._parts.add_details(chunk.details)
        self._parts.say("reasoning", well_formed(chunk.text))
        if chunk.signature is not None:
            self._parts.seal(chunk.signature)
        if chunk.redacted is not None:
            self._parts.redact(chunk.redacted)


class _XmlCalls:
    """Text of an XML task, as parts of the reply.

    Calls end with the reply: until then the text behind them may show that they were cut short.
    """

    def __init__(self, stream: XmlStream, parts: Parts, ids: CallIds) -> None:
        self._stream = stream
        self._parts = parts
        self._ids = ids
        self._raw: list[str] = []
        self._raw_at = 0
        """The place of `raw` in all text so far; before it is reasoning."""
        self._places: dict[int, tuple[int, int | None]] = {}
        """Where each call is in all text so far."""
        self._open_part: int | None = None
        self._id = ""
        self._name = ""
        self._calls: dict[int, ToolCall] = {}
        self._doubts: dict[str, tuple[int, str]] = {}
        """By tool: how many calls there were when one was doubted, and the body it ended with."""

    @property
    def raw(self) -> str:
        raw = "".join(self._raw)
        return raw.lstrip() if self._raw_at else raw

    def feed(self, text: str) -> None:
        self._raw.append(text)
        for event in self._stream.feed(text):
            self._handle(event, None)

    def close(self, end: ReplyEnd) -> None:
        for event in self._stream.close():
            self._handle(event, end)
        problems = self._problems_of_doubted()
        for (part, call), problem in zip(self._calls.items(), problems, strict=True):
            doubted = problem is not None and call.problem is None
            self._parts.end_call(part, replace(call, problem=problem) if doubted else call)
        self._calls.clear()

    def partial(self, index: int) -> dict[str, Any] | None:
        """The arguments of a call; None when the part is none of these calls, or has ended."""
        if index == self._open_part:
            return self._stream.partial()
        call = self._calls.get(index)
        return call.input if call is not None else None

    def _handle(self, event: XmlEvent, end: ReplyEnd | None) -> None:
        match event:
            case XmlCallGrew():
                assert self._open_part is not None
                self._parts.grow(self._open_part, event.delta)
            case XmlText():
                self._parts.say("text", event.text)
            case XmlCallStarted():
                self._id, self._name = self._ids.claim(None), event.name
                self._open_part = self._parts.start_call(self._id, self._name)
                self._places[self._open_part] = event.at, None
            case XmlCallEnded():
                assert self._open_part is not None
                self._places[self._open_part] = self._places[self._open_part][0], event.end
                problem = self._problem(event, end)
                call = ToolCall(self._id, self._name, event.input, problem)
                self._calls[self._open_part] = call
                self._open_part = None
            case XmlCallsDoubted():
                self._doubts[event.tool] = len(self._calls), event.body
            case XmlThoughtEnded():
                self._recast(event)

    def _recast(self, thought: XmlThoughtEnded) -> None:
        raw, base = "".join(self._raw), self._raw_at
        self._parts.recast(
            {
                part: raw[at - base : (thought.at if end is None else end) - base].strip()
                for part, (at, end) in self._places.items()
            }
        )
        self._raw, self._raw_at = [raw[thought.end - base :]], thought.end
        self._open_part = None
        for known in (self._places, self._calls, self._doubts):
            known.clear()

    def _problem(self, event: XmlCallEnded, end: ReplyEnd | None) -> str | None:
        if event.thought_in is not None:
            return thought_inside(self._name, event.thought_in)
        if event.unclosed is None:
            return None
        cut_off = end.cut_off if end is not None else None
        return cut_off or unclosed_tag(self._name, event.unclosed)

    def _problems_of_doubted(self) -> list[str | None]:
        """What is wrong with each call: the first of the tool may be the one that was cut short,
        and then those between it and the text that is left over are quoted and not meant."""
        names = [call.name for call in self._calls.values()]
        problems: list[str | None] = [None] * len(names)
        for tool, (count, body) in self._doubts.items():
            first = names.index(tool)
            problems[first:count] = [quoted_end(tool, body)] * (count - first)
        return problems
