"""Recorded conversations in other forms: a script for the scripted model, Anthropic messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from joey.core import messages as msg
from joey.core.parsing.parts import is_output_limit
from joey.errors import UserError
from joey.providers.errors import JSON_DECODE_ERRORS
from joey.proxy.conversations import RequestKind
from joey.proxy.exchange import Exchange, ExchangeState
from joey.proxy.recordings import RecordedTurn, Recordings
from joey.proxy.reply_decoder import ReplyChunks, decode_reply, decompress
from joey.proxy.request_blocks import ModelApi, ModelRequestBody

Step = dict[str, Any]


class ConversationMessage(Struct, frozen=True):
    role: str
    content: list[dict[str, Any]]
    """Content blocks in the format of Anthropic's API."""
    at: int
    """When the message was first sent, or when the reply was complete; milliseconds since 1970."""


def build_script(recordings: Recordings, session: int) -> dict[str, Any]:
    """Build a script for `joey.testing.server`: the replies in the order of the requests. Raises
    UserError if there is no such session, or its bodies were not recorded."""
    turns = []
    for turn in recordings.list_turns(session):
        request = recordings.request(turn)
        if request is not None:
            exchange = recordings.exchange(turn)
            body = recordings.book.response_body(exchange.id)
            turns.append(list(_iter_steps(request.api, exchange, body)))
    if not turns:
        raise UserError(f"no request to a model with its body is recorded in session {session}")
    return {"turns": turns}


def list_messages(recordings: Recordings, session: int) -> list[ConversationMessage]:
    """List the messages of the latest request, and its reply. Raises UserError."""
    chain = _find_chain(recordings, session)
    messages: list[ConversationMessage] = []
    ended = 0
    for turn, request in chain:
        exchange = recordings.exchange(turn)
        replied = min(ended, exchange.at - 1)
        ended = exchange.at + int(exchange.seconds * 1000)
        given = list(_iter_messages(request))
        if request.continued_reply:
            known = 0
        else:
            known, messages = min(len(messages), len(given)), messages[: len(given)]
            messages = [
                ConversationMessage(role, content, old.at)
                for old, (role, content) in zip(messages, given, strict=False)
            ]
        messages += [
            ConversationMessage(role, content, replied if role == "assistant" else exchange.at)
            for role, content in given[known:]
        ]
        if (request.continued_reply or turn is chain[-1][0]) and (
            content := _build_reply_blocks(recordings, turn, request)
        ):
            messages.append(ConversationMessage("assistant", content, ended))
    return _merge_roles(messages)


def _find_chain(
    recordings: Recordings, session: int
) -> list[tuple[RecordedTurn, ModelRequestBody]]:
    """Find the requests that led to the latest one, each continued by the next."""
    turns = recordings.list_turns(session)
    by_exchange = {turn.exchange_id: turn for turn in turns}
    main = [turn for turn in turns if turn.kind not in (RequestKind.SIDE, RequestKind.OTHER)]
    turn = main[-1] if main else None
    chain = []
    while turn is not None:
        request = recordings.request(turn)
        if request is not None:
            chain.append((turn, request))
        turn = by_exchange.get(turn.parent or 0)
    if not chain:
        raise UserError(f"no request to a model with its body is recorded in session {session}")
    return chain[::-1]


# Scripts --------------------------------------------------------------------------------------


def _iter_steps(api: ModelApi, exchange: Exchange, body: bytes) -> Iterator[Step]:
    if exchange.status >= 400:
        reply = decode_reply(api, exchange, body)
        text = decompress(body, exchange.content_encoding).decode("utf-8", "replace")
        yield {"type": "fail", "status": exchange.status, "message": reply.error, "body": text}
        return
    chunks = ReplyChunks(api, exchange, body)
    steps = _StepBuilder()
    for chunk in chunks:
        steps.add(chunk)
    yield from steps.build()
    if chunks.error:
        yield {"type": "fail", "message": chunks.error}
    elif not chunks.is_complete:
        is_clean = exchange.state is ExchangeState.DONE
        yield {"type": "disconnect", **({"clean": True} if is_clean else {})}


class _StepBuilder:
    """Joins the pieces of a reply into steps, in their order."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._calls: dict[int, Step] = {}
        self._usage: msg.Usage | None = None
        self._stop: str | None = None

    def add(self, chunk: msg.Chunk) -> None:
        match chunk:
            case msg.TextChunk():
                self._extend("say", chunk.text)
            case msg.ReasoningChunk():
                self._add_reasoning(chunk)
            case msg.CallChunk():
                self._add_call(chunk)
            case msg.UsageChunk():
                self._usage = chunk.usage
            case msg.StopChunk():
                self._stop = chunk.reason or self._stop
            case _:
                pass

    def build(self) -> Iterator[Step]:
        for step in self._steps:
            if step["type"] == "call":
                step["input"] = _parse_arguments(step["input"])
            yield step
        if self._usage is not None:
            usage = self._usage
            fresh = usage.input - usage.cache_reads - usage.cache_writes
            yield {
                "type": "usage",
                "input": max(0, fresh),
                "output": usage.output,
                "cache_writes": usage.cache_writes,
                "cache_reads": usage.cache_reads,
            }
        if is_output_limit(self._stop):
            yield {"type": "stop", "reason": self._stop}

    def _extend(self, kind: str, text: str) -> None:
        last = self._steps[-1] if self._steps else {}
        if last.get("type") == kind and "signature" not in last:
            last["text"] += text
        elif text:
            self._steps.append({"type": kind, "text": text})

    def _add_reasoning(self, chunk: msg.ReasoningChunk) -> None:
        if chunk.redacted is not None:
            self._steps.append({"type": "redacted", "data": chunk.redacted})
            return
        self._extend("think", chunk.text)
        if chunk.signature is not None:
            if not (self._steps and self._steps[-1]["type"] == "think"):
                self._steps.append({"type": "think"})
            self._steps[-1]["signature"] = chunk.signature

    def _add_call(self, chunk: msg.CallChunk) -> None:
        step = self._calls.get(chunk.index)
        if step is None:
            step = self._calls[chunk.index] = {"type": "call", "name": "", "input": ""}
            self._steps.append(step)
        step["name"] = step["name"] or chunk.name or ""
        step["input"] += chunk.arguments or ""
        if chunk.id and "id" not in step:
            step["id"] = chunk.id


def _parse_arguments(text: str) -> dict[str, Any] | str:
    """Parse arguments; invalid ones stay text, which a script sends unchanged."""
    try:
        value = msgspec.json.decode(text) if text.strip() else {}
    except JSON_DECODE_ERRORS:
        return text
    return value if isinstance(value, dict) else text


# Messages -------------------------------------------------------------------------------------


def _build_reply_blocks(
    recordings: Recordings, turn: RecordedTurn, request: ModelRequestBody
) -> list[dict[str, Any]]:
    exchange = recordings.exchange(turn)
    if exchange.status >= 400:
        return []
    steps = _iter_steps(request.api, exchange, recordings.book.response_body(exchange.id))
    return [block for step in steps if (block := _build_reply_block(step)) is not None]


def _build_reply_block(step: Step) -> dict[str, Any] | None:
    match step:
        case {"type": "say", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "think", "signature": signature}:
            text = step.get("text", "")
            return {"type": "thinking", "thinking": text, "signature": signature}
        case {"type": "think", "text": text}:
            return {"type": "reasoning", "text": text}
        case {"type": "redacted", "data": data}:
            return {"type": "redacted_thinking", "data": data}
        case {"type": "call", "name": name, "input": arguments}:
            given = arguments if isinstance(arguments, dict) else {}
            return _build_call(step.get("id", ""), name, given)
        case _:
            return None


def _build_call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _iter_messages(request: ModelRequestBody) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Iterate over role and blocks of each message, without system prompts."""
    listed = request.body.get("input" if request.api is ModelApi.RESPONSES else "messages")
    if isinstance(listed, str):
        listed = [{"role": "user", "content": listed}]
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, dict):
            continue
        role, blocks = _convert_item(item)
        if role in ("user", "assistant") and blocks:
            yield role, blocks


def _convert_item(item: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Convert a message of any of the three APIs."""
    match item:
        case {"type": "function_call" | "custom_tool_call", "name": str(name)}:
            arguments = _parse_arguments(str(item.get("arguments") or item.get("input") or ""))
            given = arguments if isinstance(arguments, dict) else {"input": arguments}
            return "assistant", [_build_call(str(item.get("call_id", "")), name, given)]
        case {"type": "function_call_output" | "custom_tool_call_output"}:
            return "user", [_build_result(item.get("call_id"), item.get("output"))]
        case {"type": "reasoning", "summary": list(summary)}:
            text = "\n\n".join(str(p.get("text", "")) for p in summary if isinstance(p, dict))
            return "assistant", [{"type": "reasoning", "text": text}] if text else []
        case {"role": "tool"}:
            return "user", [_build_result(item.get("tool_call_id"), item.get("content"))]
    blocks = _convert_content(item.get("content"))
    calls = item.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
            parsed = _parse_arguments(str(function.get("arguments") or ""))
            given = parsed if isinstance(parsed, dict) else {}
            blocks.append(
                _build_call(str(call.get("id", "")), str(function.get("name", "")), given)
            )
    return str(item.get("role", "")), blocks


def _convert_content(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    blocks = []
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                blocks.append({"type": "text", "text": text})
            case {"type": "image_url", "image_url": {"url": str(url)}} | {
                "type": "input_image",
                "image_url": str(url),
            }:
                blocks.append(_convert_image(url))
            case dict():
                blocks.append({k: v for k, v in part.items() if k != "cache_control"})
    return blocks


def _convert_image(url: str) -> dict[str, Any]:
    head, _, data = url.partition(";base64,")
    if head.startswith("data:") and data:
        source = {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": f"[image: {url[:200]}]"}


def _build_result(call_id: Any, content: Any) -> dict[str, Any]:
    text = content if isinstance(content, str) else _convert_content(content)
    return {"type": "tool_result", "tool_use_id": str(call_id or ""), "content": text}


def _merge_roles(messages: list[ConversationMessage]) -> list[ConversationMessage]:
    """Merge adjacent messages of one role, as Anthropic's API requires."""
    merged: list[ConversationMessage] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            content = [*merged[-1].content, *message.content]
            merged[-1] = ConversationMessage(message.role, content, message.at)
        else:
            merged.append(message)
    return merged
