"""The API history: the messages that the model is shown, rendered from turns.

A turn is one reply of the model and, by call id, the outcomes of its calls. Outcomes may arrive in
any order and at any time; the history is always valid because it is *rendered*: a reply is followed
by one user message that holds exactly one result for each of its calls (a call without an outcome
counts as interrupted), then the content of the next request.

With one exception: a turn whose only open call is a completion ends the history with the
assistant's message. Its result is written when the task is continued.

Nothing is ever removed: a summary or a marker hides earlier messages (see `visible`).

Of a task with thousands of turns, only the last few are read, but all are saved. Messages before
the latest summary can no longer change, so they are held as compressed JSON (`CompressedList`)
until they are needed.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from joey.core import events as ev
from joey.core import messages as msg
from joey.core.history.imported import (
    build_first_message,
    convert_calls_to_text,
    convert_text_to_calls,
    format_argument,
    repair_history,
)
from joey.core.history.visible import append_visible, build_request_messages, truncate_middle
from joey.core.models import ToolProtocol
from joey.core.parsing.lenient_json import Repair
from joey.core.prompts.environment import restate_tool_format, strip_environment_details
from joey.core.prompts.messages_to_model import (
    EMPTY_RESULT_TEXT,
    INTERRUPTED_CALL_TEXT,
    render_hidden_messages_marker,
    render_result_header,
)

COMPLETION_TOOL_NAME = "attempt_completion"
INTERRUPTED_TEXT = "[Response interrupted by the user]"
ONLY_REASONING_TEXT = "[No response]"
"""In place of a reply that was only reasoning: services refuse empty messages."""


class OpenTurn(Struct):
    """The latest reply, while its calls may still be answered."""

    ts: int
    calls: tuple[msg.ToolCall, ...]
    outcomes: dict[str, ev.ToolFinished]
    max_result_chars: int | None = None


class _VisibleMessages(Sequence[msg.Message]):
    """Some messages of a list, by their indices; nothing is copied until it is accessed."""

    def __init__(self, messages: Sequence[msg.Message], indices: Sequence[int]) -> None:
        self._messages = messages
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, place: int) -> msg.Message: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[msg.Message]: ...
    def __getitem__(self, place: int | slice) -> msg.Message | Sequence[msg.Message]:
        if isinstance(place, slice):
            return _VisibleMessages(self._messages, self._indices[place])
        return self._messages[self._indices[place]]


class ApiHistory:
    """Folds durable events into messages. Closed messages keep their identity."""

    def __init__(self, protocol: ToolProtocol = ToolProtocol.NATIVE) -> None:
        self.tool_protocol = protocol
        self._compressed_messages = CompressedList(msg.Message)
        """The messages before the latest summary."""
        self._closed_messages: list[msg.Message] = []
        self._visible_indices: list[int] = []
        """Places of the closed messages that nothing hides."""
        self._request_messages: list[msg.Message] = []
        """What `build_request_messages` makes of them."""
        self._latest_turn: OpenTurn | None = None
        self._call_ids: set[str] = set()

    def apply(self, event: ev.Durable) -> None:
        match event:
            case ev.RequestStarted():
                self._close_turn(event.ts, event.content)
            case ev.ReplyReceived():
                self._open_turn(event)
            case ev.ToolFinished() if self._latest_turn is not None:
                self._latest_turn.outcomes.setdefault(event.call_id, event)
            case ev.ContextCondensed():
                self._apply_condense(event)
            case ev.ContextTruncated():
                self._apply_truncation(event)
            case ev.TaskImported():
                self._import_history(event)

    def has_call(self, call_id: str) -> bool:
        """Whether this task ever had a call with this id."""
        return call_id in self._call_ids

    def find_outcome(self, call_id: str) -> ev.ToolFinished | None:
        """Return the outcome of a call of the latest reply, once it is known."""
        return None if self._latest_turn is None else self._latest_turn.outcomes.get(call_id)

    @property
    def open_calls(self) -> tuple[msg.ToolCall, ...]:
        """Return the calls of the latest reply that have no outcome yet."""
        if self._latest_turn is None:
            return ()
        return tuple(
            call for call in self._latest_turn.calls if call.id not in self._latest_turn.outcomes
        )

    @property
    def request_messages(self) -> Sequence[msg.Message]:
        """The messages of the next request: all that are closed and not hidden."""
        return self._request_messages

    @property
    def visible_messages(self) -> Sequence[msg.Message]:
        """The closed messages that are not hidden, not joined."""
        return _VisibleMessages(self._closed_messages, self._visible_indices)

    @property
    def first_message(self) -> msg.Message | None:
        """The first message of the history, hidden or not."""
        return next(itertools.chain(self._compressed_messages, self._closed_messages), None)

    def iter_stored_messages(self, *, with_interrupted: bool = True) -> Iterator[msg.Message]:
        """Iterate over the history as it would be found if the process ended now, hidden messages
        included. A message with waiting or running calls is the last, unless `with_interrupted`."""
        sealed = iter(self._compressed_messages)  # a copy, because another thread reads it later
        return itertools.chain(
            sealed,
            tuple(self._closed_messages),
            tuple(self.open_result_messages) if with_interrupted or not self.open_calls else (),
        )

    def list_stored_messages(self) -> list[msg.Message]:
        return list(self.iter_stored_messages())

    def build_current_messages(self) -> list[msg.Message]:
        """Build the messages that show the model everything that has happened so far."""
        shown = list(self._request_messages)
        for message in self.open_result_messages:
            append_visible(shown, message)
        return shown

    @property
    def open_result_messages(self) -> Sequence[msg.Message]:
        """Build the message that would answer the latest reply now, if there is one."""
        turn = self._latest_turn
        if turn is None or not turn.calls:
            return ()
        if not turn.outcomes and all(call.name == COMPLETION_TOOL_NAME for call in turn.calls):
            return ()
        ts = max((outcome.ts for outcome in turn.outcomes.values()), default=turn.ts + 1)
        return (msg.Message(role="user", content=tuple(self._iter_result_blocks(turn)), ts=ts),)

    def _open_turn(self, event: ev.ReplyReceived) -> None:
        calls = tuple(p.part.call for p in event.parts if isinstance(p.part, msg.CallPart))
        content = tuple(self._build_reply_blocks(event))
        if not content:
            return  # interrupted before the first text
        details = tuple(
            item
            for placed in event.parts
            if isinstance(placed.part, msg.ReasoningPart)
            for item in placed.part.details
        )
        self._append_message(
            msg.Message(
                role="assistant",
                content=content,
                ts=event.ts,
                id=event.response_id or UNSET,
                reasoning_details=details or UNSET,
                source=event.source or UNSET,
            )
        )
        self._call_ids.update(call.id for call in calls)
        self._latest_turn = OpenTurn(event.ts, calls, {})

    def _build_reply_blocks(self, event: ev.ReplyReceived) -> Iterator[msg.Block]:
        for placed in event.parts:
            match placed.part:
                case msg.ReasoningPart() as reasoning:
                    yield from _build_reasoning_blocks(reasoning)
                case msg.TextPart(text=text) if (
                    self.tool_protocol is ToolProtocol.NATIVE and text.strip()
                ):
                    yield msg.TextBlock(text)
                case msg.CallPart(call=call) if self.tool_protocol is ToolProtocol.NATIVE:
                    yield msg.ToolUseBlock(
                        id=call.id,
                        name=msg.sanitize_tool_name(call.name),
                        input=call.input,
                        extra_content=call.extra_content,
                    )
        if self.tool_protocol is ToolProtocol.XML:
            yield from _build_xml_blocks(event)
        if event.interrupted and event.parts:
            yield msg.TextBlock(INTERRUPTED_TEXT)
        elif event.parts and all(isinstance(each.part, msg.ReasoningPart) for each in event.parts):
            yield msg.TextBlock(ONLY_REASONING_TEXT)

    def _close_turn(self, ts: int, content: tuple[msg.UserBlock, ...]) -> None:
        turn, self._latest_turn = self._latest_turn, None
        blocks: list[msg.Block] = list(self._iter_result_blocks(turn)) if turn is not None else []
        blocks.extend(restate_tool_format(content, self.tool_protocol))
        last = self._closed_messages[-1] if self._closed_messages else None
        is_unanswered = last is not None and last.role == "user" and not last.is_summary
        if content and last is not None and is_unanswered and last.max_text_chars is UNSET:
            # The model never answered the previous message: send both together.
            self._closed_messages.pop()
            self._visible_indices.pop()
            fresh = len(strip_environment_details(content)) < len(content)
            before = msg.get_blocks(last)
            blocks = [*(strip_environment_details(before) if fresh else before), *blocks]
            both = msg.Message(role="user", content=tuple(blocks), ts=ts)
            self._append_message(both, rebuild=True)
        elif blocks:
            self._append_message(msg.Message(role="user", content=tuple(blocks), ts=ts))

    def _append_message(self, message: msg.Message, *, rebuild: bool = False) -> None:
        self._visible_indices.append(len(self._closed_messages))
        self._closed_messages.append(message)
        if rebuild:
            self._request_messages = build_request_messages(self.visible_messages)
        else:
            append_visible(self._request_messages, message)

    def _apply_condense(self, event: ev.ContextCondensed) -> None:
        """Hide everything closed, and the open turn, in favour of the summary."""
        self._close_turn(event.ts, ())
        for place in self._visible_indices:
            hidden = replace(self._closed_messages[place], condense_parent=event.condense_id)
            self._closed_messages[place] = hidden
        self._compressed_messages.extend(self._closed_messages)
        self._closed_messages.clear()
        self._visible_indices.clear()
        self._request_messages.clear()
        self._append_message(
            msg.Message(
                role="user",
                content=event.content,
                ts=event.ts,
                is_summary=True,
                condense_id=event.condense_id,
            )
        )

    def _apply_truncation(self, event: ev.ContextTruncated) -> None:
        """Hide the oldest messages after the first, earlier markers too; a new marker says so."""
        if event.hidden_message_count:
            self._hide_oldest(event)
        if event.max_text_chars is not None:
            for place in self._visible_indices:
                self._closed_messages[place] = replace(
                    self._closed_messages[place], max_text_chars=event.max_text_chars
                )
            if self._latest_turn is not None:
                self._latest_turn.max_result_chars = event.max_text_chars
        self._request_messages = build_request_messages(self.visible_messages)

    def _hide_oldest(self, event: ev.ContextTruncated) -> None:
        first, *others = self._visible_indices
        markers = [place for place in others if self._closed_messages[place].is_truncation_marker]
        turns = [place for place in others if place not in markers]
        gone, kept = turns[: event.hidden_message_count], turns[event.hidden_message_count :]
        for place in (*gone, *markers):
            hidden = replace(self._closed_messages[place], truncation_parent=event.truncation_id)
            self._closed_messages[place] = hidden
        at = kept[0] if kept else len(self._closed_messages)
        before = self._closed_messages[at].ts if kept else event.ts
        marker = msg.Message(
            role="user",
            content=render_hidden_messages_marker(event.hidden_message_count),
            ts=before - 1 if isinstance(before, int) else UNSET,
            is_truncation_marker=True,
            truncation_id=event.truncation_id,
        )
        self._closed_messages.insert(at, marker)
        self._visible_indices = [first, at, *(place + 1 for place in kept)]

    def _iter_result_blocks(self, turn: OpenTurn) -> Iterator[msg.Block]:
        """Iterate over one result per call, in the order of the calls, then their images."""
        images: list[msg.Block] = []
        for call in turn.calls:
            outcome = turn.outcomes.get(call.id)
            text = (
                INTERRUPTED_CALL_TEXT if outcome is None else outcome.content or EMPTY_RESULT_TEXT
            )
            if turn.max_result_chars is not None:
                text = truncate_middle(text, turn.max_result_chars)
            if self.tool_protocol is ToolProtocol.NATIVE:
                failed = outcome is not None and outcome.is_error
                yield msg.ToolResultBlock(tool_use_id=call.id, content=text, is_error=failed)
            else:
                header = outcome.result_header if outcome is not None else None
                yield msg.TextBlock(header or render_result_header(f"[{call.name}]"))
                yield msg.TextBlock(text)
            if outcome is not None:
                images.extend(msg.build_image_block(uri) for uri in outcome.images)
        yield from images

    def _import_history(self, event: ev.TaskImported) -> None:
        """Import a history written by another program: its last reply may still be open."""
        mended = repair_history(event.messages, event.tool_protocol, build_first_message(event))
        self._closed_messages, self._visible_indices = mended.messages, mended.visible_indices
        self._request_messages = build_request_messages(self.visible_messages)
        for message in {*event.messages, *self._closed_messages}:
            self._call_ids.update(
                block.id for block in msg.get_blocks(message) if isinstance(block, msg.ToolUseBlock)
            )
        last = self._request_messages[-1] if self._request_messages else None
        if last is not None and last.role == "assistant":
            calls = tuple(
                msg.ToolCall(id=block.id, name=block.name, input=block.input)
                for block in msg.get_blocks(last)
                if isinstance(block, msg.ToolUseBlock)
            )
            self._latest_turn = OpenTurn(event.ts, calls, {})
        if self.tool_protocol is not event.tool_protocol:
            is_xml = self.tool_protocol is ToolProtocol.XML
            convert = convert_calls_to_text if is_xml else convert_text_to_calls
            shown = tuple(convert(self.visible_messages))
            for place, message in zip(self._visible_indices, shown, strict=True):
                self._closed_messages[place] = message
            self._request_messages = build_request_messages(shown)


def _build_xml_blocks(event: ev.ReplyReceived) -> Iterator[msg.TextBlock]:
    """Return the text as streamed, with structured calls written out."""
    raw = event.raw or ""
    if raw.strip():
        yield msg.TextBlock(raw)
    for placed in event.parts:
        match placed.part:
            case msg.TextPart(text=text) if event.raw is None and text.strip():
                yield msg.TextBlock(text)
            case msg.CallPart(call=call) if not _is_written(call, raw):
                yield msg.TextBlock(render_call_as_xml(call))


def _is_written(call: msg.ToolCall, raw: str) -> bool:
    """Whether the text of a reply contains the call: as tags, or in another program's format,
    possibly under another name. Early journals do not record the latter, which was JSON then."""
    is_leaked = Repair.CALL_IN_TEXT in call.repairs
    return is_leaked or f"<{call.name}" in raw or f'"{call.name}"' in raw


def render_call_as_xml(call: msg.ToolCall) -> str:
    """Render a call as tags in the text. Under strict schemas, parameters that are left out are
    sent as null."""
    given = {key: value for key, value in call.input.items() if value is not None}
    lines = [f"<{key}>\n{format_argument(value)}\n</{key}>" for key, value in given.items()]
    name = msg.sanitize_tool_name(call.name)
    return "\n".join([f"<{name}>", *lines, f"</{name}>"])


def _build_reasoning_blocks(part: msg.ReasoningPart) -> Iterator[msg.Block]:
    if part.redacted is not None:
        yield msg.RedactedThinkingBlock(part.redacted)
    elif part.signature is not None:
        yield msg.ThinkingBlock(thinking=part.text, signature=part.signature)
    elif part.item is not None:
        item = part.item
        yield msg.UnsignedReasoningBlock(part.text, item.summary, item.encrypted_content, item.id)
    elif part.text and not part.details:
        yield msg.UnsignedReasoningBlock(text=part.text)


T = TypeVar("T")
_COMPRESSION_LEVEL = 1


class CompressedList(Generic[T]):
    """Elements of one type, in insertion order."""

    def __init__(self, element_type: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(list[element_type])  # type: ignore[valid-type]
        self._chunks: list[bytes] = []

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the current elements, unaffected by later additions."""
        chunks = tuple(self._chunks)
        decode = self._decoder.decode
        return (element for chunk in chunks for element in decode(zlib.decompress(chunk)))

    def extend(self, elements: Sequence[T]) -> None:
        if elements:
            self._chunks.append(zlib.compress(msgspec.json.encode(elements), _COMPRESSION_LEVEL))
