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
from typing import TYPE_CHECKING, Any

from joey.core import messages as msg
from joey.core.models import ToolProtocol
from joey.core.parsing.call_names import ToolNames
from joey.core.parsing.leaked_call_finder import LeakedCallFinder
from joey.core.parsing.native_calls import NativeCalls
from joey.core.parsing.parts import (
    REPETITION_STOP_REASON,
    CallIdAllocator,
    PartEvent,
    ReplyEnd,
    ReplyParts,
)
from joey.core.parsing.reply_text import ReplyTextBuilder
from joey.core.parsing.tags import ReasoningFinder
from joey.errors import TaskStateError

if TYPE_CHECKING:
    from joey.core.parsing.xml_calls import XmlCalls


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
        """With `understand_text_calls`, calls in other programs' formats count too."""
        self._parts = ReplyParts()
        self._call_ids = CallIdAllocator(taken_ids, make_id)
        self._text = ReplyTextBuilder(
            self._parts,
            self._call_ids,
            LeakedCallFinder(tools) if understand_text_calls else None,
            tools,
            is_trimmed=protocol is ToolProtocol.XML,
        )
        self._native_calls = NativeCalls(self._parts, self._call_ids, tools)
        self._reasoning_finder = ReasoningFinder()
        self._xml_calls: XmlCalls | None = None
        if protocol is ToolProtocol.XML:
            from joey.core.parsing.xml_calls import XmlCalls  # on demand: most tasks are native

            self._xml_calls = XmlCalls(tools, self._parts, self._text, self._call_ids)
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
        """Cut a reply whose text repeats endlessly. Returns whether it did; then the rest of the
        stream is not needed."""
        is_stopped = self._parts.stop_repetition()
        if is_stopped:
            self._stop_reason = REPETITION_STOP_REASON
        return is_stopped

    def close(self, complete: bool) -> list[PartEvent]:
        """End the stream; `complete` is False if it broke or was cancelled.

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
        """Return the arguments of the call at `index`, as far as they can be read by now."""
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
