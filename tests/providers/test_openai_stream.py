from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from joey.core.messages import (
    CallChunk,
    CallEndChunk,
    Chunk,
    ReasoningChunk,
    SourceChunk,
    StopChunk,
    TextChunk,
    Usage,
    UsageChunk,
)
from joey.errors import ProviderError, ProviderFailureKind
from joey.providers.errors import ServiceInfo
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from joey.providers.openai import OpenAiStreamDecoder
from joey.providers.sse import ServerSentEvent
from joey.testing.provider_streams import encode_http_chunk
from joey.testing.script import (
    Turn,
    call,
    disconnect,
    fail,
    pause,
    raw,
    redacted,
    say,
    stop,
    think,
    usage,
)
from tests.harness.providers.provider_connection import (
    MODEL_REQUEST,
    PROFILES,
    connect_provider,
    make_event_turn,
    stream_chunks,
    stream_until_error,
)
from tests.harness.providers.sockets import Reader, Writer, read_request, run_server

SERVICE = ServiceInfo("openai", "model.test:443", "gpt", "default")


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields}]}


def read(*bodies: object) -> list[Chunk]:
    """The chunks of a stream of these JSON bodies."""
    stream = OpenAiStreamDecoder(SERVICE)
    return [
        chunk
        for body in bodies
        for chunk in stream.feed(ServerSentEvent("", msgspec.json.encode(body)))
    ]


def piece(index: int | None, id: str | None, name: str | None, arguments: object) -> object:
    entry: dict[str, object] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        entry["index"] = index
    if id is not None:
        entry["id"] = id
    return delta(tool_calls=[entry])


END = {"id": "c1", "choices": [{"delta": {}, "finish_reason": "tool_calls"}]}


@pytest.mark.contract("services:openai")
async def test_reasoning_text_and_calls_come_as_they_are_streamed() -> None:
    turn = Turn(
        think("Let me see.", chunk=6),
        say("I'll read it.", chunk=5),
        call("read_file", {"path": "a.py"}, id="call_1", chunk=6),
        call("list_files", {}, id="call_2"),
        usage(input=10, output=25, cache_writes=300, cache_reads=2000),
    )
    assert await stream_chunks("openai", turn) == [
        ReasoningChunk("Let me see."),
        TextChunk("I'll read it."),
        CallChunk(0, id="call_1", name="read_file"),
        CallChunk(0, arguments='{"path":"a.py"}'),
        CallChunk(1, id="call_2", name="list_files"),
        CallChunk(1, arguments="{}"),
        CallEndChunk(0),
        CallEndChunk(1),
        StopChunk("tool_calls", "chatcmpl-scripted"),
        UsageChunk(Usage(input=2310, output=25, cache_writes=300, cache_reads=2000)),
    ]


@pytest.mark.contract("services:openai")
async def test_a_stream_without_its_closing_mark_is_complete() -> None:
    chunks = await stream_chunks("openai", Turn(say("Hi."), done=False))
    assert TextChunk("Hi.") in chunks
    assert any(isinstance(chunk, UsageChunk) for chunk in chunks)


@pytest.mark.contract("services:openai")
async def test_a_connection_lost_after_the_answer_is_no_loss() -> None:
    turn = Turn(
        say("Hi."),
        raw('data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'),
        disconnect(),
    )
    chunks = await stream_chunks("openai", turn)
    assert chunks == [TextChunk("Hi."), StopChunk("stop")]


@pytest.mark.contract("services:openai")
async def test_missing_null_and_empty_choices_are_passed_over() -> None:
    turn = make_event_turn(
        '{"choices":null}',
        "{}",
        '{"choices":[]}',
        '{"choices":[{"delta":null}]}',
        '{"choices":[{"delta":{"content":null,"tool_calls":null}}]}',
        '{"choices":[{"delta":{"content":"Hi."},"logprobs":null,"extra":{"a":[1]}}]}',
        '{"choices":[{"delta":{"content":""},"finish_reason":"stop"}],"usage":null}',
        '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}',
        "[DONE]",
    )
    assert await stream_chunks("openai", turn) == [
        TextChunk("Hi."),
        StopChunk("stop"),
        UsageChunk(Usage(input=7, output=3)),
    ]


@pytest.mark.contract("services:openai")
async def test_a_closing_mark_alone_ends_a_stream() -> None:
    turn = make_event_turn('{"choices":[{"delta":{"content":"Hi."}}]}', "[DONE]")
    assert await stream_chunks("openai", turn) == [TextChunk("Hi.")]


async def test_a_server_that_does_not_stream_is_understood() -> None:
    turn = make_event_turn('{"choices":[{"message":{"content":"Hi."},"finish_reason":"stop"}]}')
    assert await stream_chunks("openai", turn) == [TextChunk("Hi."), StopChunk("stop")]


def test_a_call_may_come_with_its_name_after_its_arguments() -> None:
    assert read(piece(0, "c", None, "{"), piece(0, None, "read_file", "}"), END) == [
        CallChunk(0, id="c", arguments="{"),
        CallChunk(0, name="read_file", arguments="}"),
        CallEndChunk(0),
        StopChunk("tool_calls", "c1"),
    ]


def test_interleaved_calls_keep_their_numbers() -> None:
    chunks = read(
        piece(0, "a", "one", ""),
        piece(1, "b", "two", ""),
        piece(0, None, None, "{}"),
        piece(1, None, None, "[]"),
        END,
    )
    assert [(c.index, c.arguments) for c in chunks if isinstance(c, CallChunk)] == [
        (0, None),
        (1, None),
        (0, "{}"),
        (1, "[]"),
    ]


@pytest.mark.parametrize("index", [0, None])
def test_calls_that_share_a_number_or_have_none_are_distinguished_by_id(index: int | None) -> None:
    chunks = read(
        piece(index, "a", "one", '{"x":'),
        piece(index, None, None, "1}"),
        piece(index, "b", "two", "{}"),
        piece(index, "c", "two", "{}"),
        END,
    )
    found: dict[int, tuple[str | None, str]] = {}
    for chunk in chunks:
        if isinstance(chunk, CallChunk):
            id, arguments = found.get(chunk.index, (None, ""))
            found[chunk.index] = (id or chunk.id, arguments + (chunk.arguments or ""))
    assert sorted(found.values(), key=str) == [("a", '{"x":1}'), ("b", "{}"), ("c", "{}")]
    assert sorted(c.index for c in chunks if isinstance(c, CallEndChunk)) == sorted(found)


def test_an_id_that_is_repeated_with_every_piece_begins_no_new_call() -> None:
    chunks = read(piece(0, "a", "one", "{"), piece(0, "a", "one", "}"), END)
    assert {c.index for c in chunks if isinstance(c, CallChunk)} == {0}


def test_arguments_that_come_as_an_object_are_text_again() -> None:
    chunks = read(piece(0, "a", "one", {"x": 1}))
    assert chunks == [CallChunk(0, id="a", name="one", arguments='{"x":1}')]


async def test_a_call_that_was_cut_off_for_length_is_not_said_to_be_complete() -> None:
    chunks = await stream_chunks("openai", Turn(call("write", '{"a": "b'), stop("length")))
    assert not any(isinstance(chunk, CallEndChunk) for chunk in chunks)
    assert StopChunk("length", "chatcmpl-scripted") in chunks


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_has_two_names(field: str) -> None:
    assert read(delta(**{field: "Hm."})) == [ReasoningChunk("Hm.")]


def test_reasoning_under_both_names_is_not_doubled() -> None:
    assert read(delta(reasoning="Hm.", reasoning_content="Hm.")) == [ReasoningChunk("Hm.")]


def test_reasoning_items_are_put_together_to_go_back_whole() -> None:
    def item(kind: str, **fields: object) -> dict[str, object]:
        return {"type": kind, "index": 0, **fields}

    chunks = read(
        delta(reasoning="Let", reasoning_details=[item("reasoning.text", text="Let", id="r")]),
        delta(reasoning_details=[item("reasoning.text", text=" me", id=None)]),
        delta(reasoning_details=[item("reasoning.text", signature="sig")]),
        delta(reasoning_details=[item("reasoning.encrypted", data="xx")]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1}]),
        END,
    )
    assert chunks == [
        ReasoningChunk("Let"),
        ReasoningChunk(" me"),
        ReasoningChunk(
            details=(
                {
                    "type": "reasoning.text",
                    "index": 0,
                    "text": "Let me",
                    "id": "r",
                    "signature": "sig",
                },
                {"type": "reasoning.encrypted", "index": 0, "data": "xx"},
            )
        ),
        StopChunk("tool_calls", "c1"),
    ]


async def test_encrypted_reasoning_of_a_script_arrives_as_details() -> None:
    chunks = await stream_chunks("openai", Turn(redacted("xx"), say("Hi.")))
    details = [c.details for c in chunks if isinstance(c, ReasoningChunk)]
    assert details == [({"type": "reasoning.encrypted", "data": "xx", "index": 0},)]


def test_text_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": "."}, 7]
    assert read(delta(content=parts)) == [TextChunk("Hi.")]


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (
            {"prompt_tokens_details": {"cached_tokens": 4}},
            Usage(input=10, output=2, cache_reads=4),
        ),
        (
            {"cache_creation_input_tokens": 3, "cache_read_input_tokens": 4},
            Usage(input=10, output=2, cache_writes=3, cache_reads=4),
        ),
        ({"prompt_cache_hit_tokens": 6}, Usage(input=10, output=2, cache_reads=6)),
        ({"cached_tokens": 6}, Usage(input=10, output=2, cache_reads=6)),
        (
            {"cost": 0.5, "cost_details": {"upstream_inference_cost": 0.25}},
            Usage(input=10, output=2, cost=0.75),
        ),
        ({"prompt_tokens_details": None, "cost": None}, Usage(input=10, output=2)),
    ],
)
def test_usage_is_read_in_the_terms_of_each_service(
    stated: dict[str, object], expected: Usage
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, **stated}
    assert read({"choices": [], "usage": usage}) == [UsageChunk(expected)]
    choice = {"index": 0, "delta": {}, "usage": usage}  # as Moonshot sends it
    assert read({"choices": [choice]}) == [UsageChunk(expected)]


@pytest.mark.contract("services:errors")
@pytest.mark.parametrize(
    ("body", "expected_failure", "status"),
    [
        ({"error": {"message": "Overloaded", "code": 503}}, ProviderFailureKind.OVERLOAD, 503),
        ({"error": {"message": "Slow down", "code": 429}}, ProviderFailureKind.RATE_LIMIT, 429),
        ({"error": {"message": "x", "type": "server_error"}}, ProviderFailureKind.OVERLOAD, 500),
        (
            {"error": {"message": "too long", "code": "context_length_exceeded"}},
            ProviderFailureKind.CONTEXT_OVERFLOW,
            400,
        ),
        ({"error": "just words"}, ProviderFailureKind.OVERLOAD, 500),
    ],
)
async def test_an_error_in_a_chunk_comes_after_the_text_before_it(
    body: object, expected_failure: ProviderFailureKind, status: int
) -> None:
    turn = Turn(say("Half a"), raw(b"data: " + msgspec.json.encode(body) + b"\n\n"))
    chunks, error = await stream_until_error("openai", turn)
    assert chunks == [TextChunk("Half a")]
    assert error is not None
    assert (error.failure, error.status) == (expected_failure, status)


async def test_an_error_event_is_an_error() -> None:
    _, error = await stream_until_error(
        "openai", Turn(raw('event: error\ndata: {"error": {"code": 429}}\n\n'))
    )
    assert error is not None
    assert error.failure is ProviderFailureKind.RATE_LIMIT


async def test_a_failure_in_the_middle_of_a_script_is_an_error_in_the_stream() -> None:
    chunks, error = await stream_until_error("openai", Turn(say("Half a"), fail(500, "Broken")))
    assert chunks == [TextChunk("Half a")]
    assert error is not None
    assert error.failure is ProviderFailureKind.OVERLOAD


@pytest.mark.contract("services:errors")
@pytest.mark.parametrize("clean", [False, True])
async def test_a_stream_that_ends_without_its_end_is_an_error(clean: bool) -> None:
    chunks, error = await stream_until_error("openai", Turn(say("Half a"), disconnect(clean=clean)))
    assert chunks == [TextChunk("Half a")]
    assert error is not None
    assert error.failure is ProviderFailureKind.NETWORK


@pytest.mark.parametrize("data", [b"{nonsense", b'{"id":"\xff"}', b'{"error":' + b"[" * 9999])
async def test_chunks_that_are_not_json_are_an_error(data: bytes) -> None:
    _, error = await stream_until_error("openai", Turn(raw(b"data: " + data + b"\n\n")))
    assert error is not None
    assert error.failure is ProviderFailureKind.MALFORMED_STREAM


@pytest.mark.contract("services:streams")
async def test_closing_the_stream_closes_the_connection_at_the_server() -> None:
    turn = Turn(say("Half a"), pause(asyncio.Event()))
    async with asyncio.timeout(60), connect_provider("openai", turn) as (provider, server):
        stream = provider.stream(MODEL_REQUEST)
        assert isinstance(await anext(stream), SourceChunk)
        assert await anext(stream) == TextChunk("Half a")
        await stream.aclose()  # type: ignore[attr-defined]
        await server.wait_for_connections(0)


ANSWER = b'data: {"choices":[{"delta":{"content":"Hi."}}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def ask_twice(port: int) -> list[list[Chunk]]:
    http = HttpClient(environ={})
    profile = structs.replace(PROFILES["openai"], base_url=f"http://127.0.0.1:{port}/v1")
    provider = make_provider(profile, http)
    answers: list[list[Chunk]] = [
        [c async for c in provider.stream(MODEL_REQUEST) if not isinstance(c, SourceChunk)]
        for _ in range(2)
    ]
    await http.close()
    return answers


async def test_a_connection_whose_body_ends_a_little_late_is_kept() -> None:
    connections = 0

    async def handler(reader: Reader, writer: Writer) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(HEAD + encode_http_chunk(ANSWER))
            await asyncio.sleep(0.01)  # so that it travels alone
            writer.write(b"0\r\n\r\n")

    async with asyncio.timeout(60), run_server(handler) as port:
        assert await ask_twice(port) == [[TextChunk("Hi.")]] * 2
    assert connections == 1


async def test_a_body_that_never_ends_does_not_hold_up_its_answer() -> None:
    connections = 0

    async def handler(reader: Reader, writer: Writer) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(HEAD + encode_http_chunk(ANSWER))
        assert await reader.read() == b""

    async with asyncio.timeout(60), run_server(handler) as port:
        assert await ask_twice(port) == [[TextChunk("Hi.")]] * 2
    assert connections == 2


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["stop", "x", ""]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "index", "usage", "tool_calls", "function", "id"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    )
)
def test_any_json_at_all_is_either_read_or_a_provider_error(body: object) -> None:
    try:
        read(body)
    except ProviderError as error:
        assert error.failure is ProviderFailureKind.MALFORMED_STREAM


@pytest.mark.parametrize(
    "reason",
    ["error", "abort", "network_error", "insufficient_system_resource", "function_call_filter: X"],
)
def test_a_reply_that_the_service_gave_up_is_tried_again(reason: str) -> None:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    with pytest.raises(ProviderError, match=reason) as caught:
        read(delta(content="Half a"), end)
    assert caught.value.failure is ProviderFailureKind.OVERLOAD


def test_the_text_of_a_refusal_is_shown() -> None:
    assert read(delta(content=None, refusal="I cannot do that.")) == [
        TextChunk("I cannot do that.")
    ]


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (1002, ProviderFailureKind.RATE_LIMIT),
        (1008, ProviderFailureKind.QUOTA),
        (1013, ProviderFailureKind.OVERLOAD),
        (1039, ProviderFailureKind.CONTEXT_OVERFLOW),
    ],
)
def test_an_error_of_minimax_is_one_with_any_status(
    status: int, failure: ProviderFailureKind
) -> None:
    base_resp = {"status_code": status, "status_msg": "sorry"}
    with pytest.raises(ProviderError, match=rf"sorry \({status}\)") as caught:
        read({"choices": None, "base_resp": base_resp})
    assert caught.value.failure is failure
    assert read({"choices": None, "base_resp": {"status_code": 0, "status_msg": ""}}) == []
