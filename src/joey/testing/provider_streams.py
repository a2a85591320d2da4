"""Wire formats of a scripted turn: the bytes that each service would send.

The result is a list of frames, each ready to be written to the socket, with the steps that are not
bytes (pauses, gates, disconnections, failures before the first text) left in between. It depends
only on the turn, so it is built once and kept with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from joey.testing import responses_stream, script

ANTHROPIC = "anthropic"
OPENAI = "openai"
RESPONSES = "responses"
RAW = "raw"
"""Of turns that are nothing but `Raw`, control steps and failures."""

ControlStep = script.Pause | script.Gate | script.Disconnect | script.Fail
PlaybackItem = bytes | ControlStep

_encode_json = msgspec.json.Encoder().encode
_LAST_HTTP_CHUNK = b"0\r\n\r\n"


def build_playback(turn: script.Turn, wire: str) -> list[PlaybackItem]:
    """Build what to play for a turn, after the opening event and including the end of the body."""
    if wire not in turn.encoded_playback:
        iter_events = {
            ANTHROPIC: _iter_anthropic_events,
            RESPONSES: _iter_responses_events,
            RAW: _iter_raw_events,
        }
        events = iter_events.get(wire, _iter_openai_events)(turn)
        turn.encoded_playback[wire] = _add_http_framing(events, coalesce=turn.coalesce)
    result: list[PlaybackItem] = turn.encoded_playback[wire]
    return result


def encode_opening_event(turn: script.Turn, wire: str, number: int, model: str) -> bytes:
    """Encode the first event of an answer; only it differs between answers."""
    if wire == RAW:
        return b""
    if wire == ANTHROPIC:
        return encode_http_chunk(_encode_message_start(turn.tokens, f"msg_{number:06}", model))
    if wire == RESPONSES:
        return encode_http_chunk(responses_stream.encode_created_event(model))
    delta: dict[str, Any] = {"role": "assistant", "content": ""}
    return encode_http_chunk(_encode_openai_chunk(delta, id=f"chatcmpl-{number:06}", model=model))


def encode_error_body(step: script.Fail, wire: str) -> bytes:
    return _encode_json(_build_error(step, wire)) if step.body is None else step.body.encode()


def encode_http_chunk(data: bytes) -> bytes:
    """One chunk of an HTTP/1.1 body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _add_http_framing(events: Iterator[PlaybackItem], *, coalesce: bool) -> list[PlaybackItem]:
    """Add HTTP framing; the end of the body is sent with the last bytes."""
    result: list[PlaybackItem] = []
    for event in events:
        if not isinstance(event, bytes):
            result.append(event)
        elif coalesce and result and isinstance(result[-1], bytes):
            result[-1] += encode_http_chunk(event)
        else:
            result.append(encode_http_chunk(event))
        if isinstance(event, script.Disconnect):
            break
    else:
        if result and isinstance(result[-1], bytes):
            result[-1] += _LAST_HTTP_CHUNK
        else:
            result.append(_LAST_HTTP_CHUNK)
    return result


def _is_before_output(turn: script.Turn, position: int) -> bool:
    return all(isinstance(step, ControlStep) for step in turn.steps[:position])


def _build_error(step: script.Fail, wire: str) -> dict[str, Any]:
    if wire == ANTHROPIC:
        kind = step.code or _ANTHROPIC_ERROR_TYPES.get(step.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": step.message}}
    kind = "invalid_request_error" if step.status < 500 else "server_error"
    return {"error": {"message": step.message, "type": kind, "code": step.code}}


_ANTHROPIC_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


# Anthropic ------------------------------------------------------------------------------------


def _iter_anthropic_events(turn: script.Turn) -> Iterator[PlaybackItem]:
    index = 0
    for position, step in enumerate(turn.steps):
        match step:
            case script.Say() | script.Think() | script.Redacted() | script.Call():
                yield from _iter_anthropic_block_events(step, index)
                index += 1
            case script.Raw():
                yield step.content
            case script.Fail() if not _is_before_output(turn, position):
                yield _encode_sse_event("error", _build_error(step, ANTHROPIC))
                yield script.Disconnect(clean=True)
                return
            case script.Tokens() | script.Stop():
                continue
            case _:
                yield step
    reason = turn.stop or ("tool_use" if turn.calls else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": None}
    usage = {"output_tokens": turn.tokens.output}
    yield _encode_sse_event(
        "message_delta", {"type": "message_delta", "delta": delta, "usage": usage}
    )
    yield _encode_sse_event("message_stop", {"type": "message_stop"})


def _iter_anthropic_block_events(
    step: script.Say | script.Think | script.Redacted | script.Call, index: int
) -> Iterator[bytes]:
    deltas: list[dict[str, Any]] = []
    match step:
        case script.Say():
            start: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [
                {"type": "text_delta", "text": text}
                for text in script.split_text(step.text, step.chunk)
            ]
        case script.Think():
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": text}
                for text in script.split_text(step.text, step.chunk)
            ]
            if step.signature is not None:
                deltas.append({"type": "signature_delta", "signature": step.signature})
        case script.Redacted():
            start = {"type": "redacted_thinking", "data": step.data}
        case script.Call():
            start = {"type": "tool_use", "id": step.id, "name": step.name, "input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": text}
                for text in script.split_text(step.arguments, step.chunk)
            ]
    body = {"type": "content_block_start", "index": index, "content_block": start}
    yield _encode_sse_event("content_block_start", body)
    for delta in deltas:
        body = {"type": "content_block_delta", "index": index, "delta": delta}
        yield _encode_sse_event("content_block_delta", body)
    yield _encode_sse_event("content_block_stop", {"type": "content_block_stop", "index": index})


def _encode_message_start(tokens: script.Tokens, message_id: str, model: str) -> bytes:
    message: dict[str, Any] = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens.input,
            "cache_creation_input_tokens": tokens.cache_writes,
            "cache_read_input_tokens": tokens.cache_reads,
            "output_tokens": 1,
        },
    }
    return _encode_sse_event("message_start", {"type": "message_start", "message": message})


def _encode_sse_event(name: str, body: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode_json(body))


def _iter_raw_events(turn: script.Turn) -> Iterator[PlaybackItem]:
    for step in turn.steps:
        if isinstance(step, script.Raw):
            yield step.content
        elif isinstance(step, ControlStep):
            yield step


def _iter_responses_events(turn: script.Turn) -> Iterator[PlaybackItem]:
    for position, event in enumerate(responses_stream.iter_responses_events(turn)):
        if isinstance(event, script.Fail) and position:
            yield b"event: error\ndata: %b\n\n" % _encode_json(
                {"type": "error", "message": event.message, "code": event.code}
            )
            yield script.Disconnect(clean=True)
            return
        yield event


# OpenAI ---------------------------------------------------------------------------------------


def _iter_openai_events(turn: script.Turn) -> Iterator[PlaybackItem]:
    index = 0
    for position, step in enumerate(turn.steps):
        match step:
            case script.Say():
                for text in script.split_text(step.text, step.chunk):
                    yield _encode_openai_chunk({"content": text})
            case script.Think():
                for text in script.split_text(step.text, step.chunk):
                    yield _encode_openai_chunk({"reasoning_content": text})
            case script.Redacted():
                detail = {"type": "reasoning.encrypted", "data": step.data, "index": 0}
                yield _encode_openai_chunk({"reasoning_details": [detail]})
            case script.Call():
                yield from _iter_openai_call_chunks(step, index)
                index += 1
            case script.Raw():
                yield step.content
            case script.Fail() if not _is_before_output(turn, position):
                yield b"data: %b\n\n" % _encode_json(_build_error(step, OPENAI))
                yield script.Disconnect(clean=True)
                return
            case script.Tokens() | script.Stop():
                continue
            case _:
                yield step
    yield _encode_openai_chunk({}, finish=turn.stop or ("tool_calls" if turn.calls else "stop"))
    yield _encode_openai_usage(turn.tokens)
    if turn.done:
        yield b"data: [DONE]\n\n"


def _iter_openai_call_chunks(step: script.Call, index: int) -> Iterator[bytes]:
    function = {"name": step.name, "arguments": ""}
    head = {"index": index, "id": step.id, "type": "function", "function": function}
    yield _encode_openai_chunk({"tool_calls": [head]})
    for text in script.split_text(step.arguments, step.chunk):
        piece = {"index": index, "function": {"arguments": text}}
        yield _encode_openai_chunk({"tool_calls": [piece]})


def _encode_openai_usage(tokens: script.Tokens) -> bytes:
    prompt = tokens.input + tokens.cache_writes + tokens.cache_reads
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output,
        "total_tokens": prompt + tokens.output,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cache_reads,
            "cache_write_tokens": tokens.cache_writes,
        },
    }
    return _encode_openai_event({"choices": [], "usage": usage})


def _encode_openai_chunk(delta: dict[str, Any], finish: str | None = None, **fields: str) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _encode_openai_event({"choices": [choice], **fields})


def _encode_openai_event(fields: dict[str, Any]) -> bytes:
    body = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 1_767_225_600,
        "model": "scripted",
        **fields,
    }
    return b"data: %b\n\n" % _encode_json(body)
