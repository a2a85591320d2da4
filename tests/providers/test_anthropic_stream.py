from __future__ import annotations

import asyncio
import itertools
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.messages import (
    CallChunk,
    CallEndChunk,
    ReasoningChunk,
    StopChunk,
    TextChunk,
    Usage,
    UsageChunk,
)
from joey.errors import ProviderError, ProviderFailureKind
from joey.providers.anthropic import AnthropicStreamDecoder
from joey.providers.catalog import find_model_info
from joey.providers.errors import ServiceInfo
from joey.providers.sse import SseReader
from joey.testing import provider_streams
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
    connect_provider,
    make_event_turn,
    stream_chunks,
    stream_until_error,
)

SERVICE = ServiceInfo("anthropic", "model.test:443", "claude", "default")


@pytest.mark.contract("services:anthropic")
async def test_thinking_text_and_calls_come_as_they_are_streamed() -> None:
    turn = Turn(
        think("Let me see.", signature="sig", chunk=4),
        redacted("opaque"),
        say("I'll read it.", chunk=5),
        call("read_file", {"path": "a.py"}, id="toolu_1", chunk=6),
        call("list_files", {}, id="toolu_2"),
        usage(input=10, output=25, cache_writes=300, cache_reads=2000),
    )
    assert await stream_chunks("anthropic", turn) == [
        UsageChunk(Usage(input=2310, output=1, cache_writes=300, cache_reads=2000)),
        ReasoningChunk("Let me see."),
        ReasoningChunk(signature="sig"),
        ReasoningChunk(redacted="opaque"),
        TextChunk("I'll read it."),
        CallChunk(3, id="toolu_1", name="read_file"),
        CallChunk(3, arguments='{"path":"a.py"}'),
        CallEndChunk(3),
        CallChunk(4, id="toolu_2", name="list_files"),
        CallChunk(4, arguments="{}"),
        CallEndChunk(4),
        UsageChunk(Usage(input=2310, output=25, cache_writes=300, cache_reads=2000)),
        StopChunk("tool_use", "msg_000001"),
    ]


@pytest.mark.contract("services:anthropic")
async def test_the_output_reported_at_the_end_is_part_of_the_cost() -> None:
    turn = Turn(say("Hi."), usage(input=1000, output=500, cache_writes=2000, cache_reads=4000))
    totals = [
        chunk.usage
        for chunk in await stream_chunks("anthropic", turn)
        if isinstance(chunk, UsageChunk)
    ]
    model = find_model_info("anthropic", "claude-sonnet-4-5")
    expected = (1000 * 3 + 500 * 15 + 2000 * 3.75 + 4000 * 0.3) / 1_000_000
    assert model.compute_cost(totals[-1]) == pytest.approx(expected)


async def test_thoughts_that_are_not_shown_still_have_their_seal() -> None:
    chunks = await stream_chunks("anthropic", Turn(think("", signature="sig"), say("So.")))
    assert [chunk for chunk in chunks if isinstance(chunk, ReasoningChunk)] == [
        ReasoningChunk(signature="sig")
    ]


async def test_two_blocks_of_text_do_not_run_together() -> None:
    chunks = await stream_chunks(
        "anthropic", Turn(say("One."), say("Two."), think("hm"), say("Three."))
    )
    texts = [chunk.text for chunk in chunks if isinstance(chunk, TextChunk)]
    assert texts == ["One.\nTwo.", "Three."]


async def test_the_reason_to_stop_is_given_in_the_terms_of_the_service() -> None:
    chunks = await stream_chunks("anthropic", Turn(say("…"), stop("max_tokens")))
    assert chunks[-1] == StopChunk("max_tokens", "msg_000001")


async def test_pings_and_events_of_tomorrow_are_passed_over() -> None:
    turn = Turn(
        raw('event: ping\ndata: {"type": "ping"}\n\n'),
        raw(": keep-alive\n\n"),
        raw('event: news\ndata: {"type": "news", "delta": "not an object", "index": "x"}\n\n'),
        raw(
            'data: {"type":"content_block_delta","index":0,"delta":{"type":"citations_delta"}}\n\n'
        ),
        raw(
            'data: {"type":"content_block_start","index":9,"content_block":{"type":"new_tool"}}\n\n'
        ),
        raw('data: {"type":"content_block_stop","index":9}\n\n'),
        raw('data: {"type":"content_block_stop","index":77}\n\n'),
        say("Still here."),
    )
    texts = [
        chunk.text
        for chunk in await stream_chunks("anthropic", turn)
        if isinstance(chunk, TextChunk)
    ]
    assert texts == ["Still here."]


async def test_a_call_whose_input_comes_whole_at_its_start_is_taken() -> None:
    turn = Turn(
        raw(
            'data: {"type":"content_block_start","index":0,"content_block":'
            '{"type":"tool_use","id":"t","name":"read_file","input":{"path":"a"}}}\n\n'
            'data: {"type":"content_block_stop","index":0}\n\n'
        )
    )
    calls = [
        chunk for chunk in await stream_chunks("anthropic", turn) if isinstance(chunk, CallChunk)
    ]
    assert calls == [
        CallChunk(0, id="t", name="read_file"),
        CallChunk(0, arguments='{"path":"a"}'),
    ]


@pytest.mark.contract("services:errors")
@pytest.mark.parametrize(
    ("failure", "expected_failure", "status"),
    [
        (fail(529, "Overloaded"), ProviderFailureKind.OVERLOAD, 529),
        (fail(429, "Slow down"), ProviderFailureKind.RATE_LIMIT, 429),
        (
            fail(400, "prompt is too long: 210000 tokens > 200000 maximum"),
            ProviderFailureKind.CONTEXT_OVERFLOW,
            400,
        ),
        (fail(500, "Internal"), ProviderFailureKind.OVERLOAD, 500),
    ],
)
async def test_an_error_in_the_stream_comes_after_the_text_before_it(
    failure: object, expected_failure: ProviderFailureKind, status: int
) -> None:
    chunks, error = await stream_until_error("anthropic", Turn(say("Half a"), failure))  # type: ignore[arg-type]
    assert TextChunk("Half a") in chunks
    assert error is not None
    assert (error.failure, error.status) == (expected_failure, status)


@pytest.mark.contract("services:errors")
@pytest.mark.parametrize("clean", [False, True])
async def test_a_stream_that_ends_without_its_end_is_an_error(clean: bool) -> None:
    chunks, error = await stream_until_error(
        "anthropic", Turn(say("Half a"), disconnect(clean=clean))
    )
    assert TextChunk("Half a") in chunks
    assert error is not None
    assert error.failure is ProviderFailureKind.NETWORK
    assert "127.0.0.1" in str(error)


@pytest.mark.parametrize(
    "data", [b"{nonsense", b'{"type":"\xff"}', b'{"error":' + b"[" * 9999, b'{"index":"x","a":']
)
async def test_events_that_are_not_json_are_an_error(data: bytes) -> None:
    turn = Turn(say("Half a"), raw(b"data: " + data + b"\n\n"))
    chunks, error = await stream_until_error("anthropic", turn)
    assert TextChunk("Half a") in chunks
    assert error is not None
    assert error.failure is ProviderFailureKind.MALFORMED_STREAM


async def test_known_events_of_the_wrong_shape_are_an_error() -> None:
    _, error = await stream_until_error(
        "anthropic", make_event_turn('{"type":"content_block_delta","delta":7}')
    )
    assert error is not None
    assert error.failure is ProviderFailureKind.MALFORMED_STREAM
    assert "content_block_delta" in str(error)


async def test_silence_in_the_middle_is_an_error() -> None:
    chunks, error = await stream_until_error(
        "anthropic", Turn(say("Half a"), pause(asyncio.Event())), silence=0.5
    )
    assert TextChunk("Half a") in chunks
    assert error is not None
    assert error.failure is ProviderFailureKind.NETWORK
    assert "sent nothing" in str(error)


@pytest.mark.contract("services:streams")
async def test_closing_the_stream_closes_the_connection_at_the_server() -> None:
    turn = Turn(say("Half a"), pause(asyncio.Event()))
    async with asyncio.timeout(60), connect_provider("anthropic", turn) as (provider, server):
        stream = provider.stream(MODEL_REQUEST)
        async for chunk in stream:
            if chunk == TextChunk("Half a"):
                break
        assert server.open_connections == 1
        await stream.aclose()  # type: ignore[attr-defined]
        await server.wait_for_connections(0)


@pytest.mark.contract("services:streams")
async def test_cancelling_the_reader_closes_the_connection_at_the_server() -> None:
    turn = Turn(say("Half a"), pause(asyncio.Event()))
    async with asyncio.timeout(60), connect_provider("anthropic", turn) as (provider, server):
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in provider.stream(MODEL_REQUEST):
                begun.set()

        reader = asyncio.create_task(read())
        await begun.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await server.wait_for_connections(0)


async def test_turns_share_one_connection_and_find_another_after_a_restart() -> None:
    turns = [Turn(say(str(number))) for number in range(3)]
    async with asyncio.timeout(60), connect_provider("anthropic", *turns) as (provider, server):
        for _ in range(2):
            async for _ in provider.stream(MODEL_REQUEST):
                pass
        assert server.connections_made == 1
        server.drop_connections()
        texts = [c.text async for c in provider.stream(MODEL_REQUEST) if isinstance(c, TextChunk)]
        assert texts == ["2"]
        assert server.connections_made == 2


async def test_a_provider_that_is_closed_leaves_no_connection() -> None:
    async with (
        asyncio.timeout(60),
        connect_provider("anthropic", Turn(say("Hi."))) as (provider, server),
    ):
        async for _ in provider.stream(MODEL_REQUEST):
            pass
        assert server.open_connections == 1
        await provider.close()
        await server.wait_for_connections(0)


@given(st.lists(st.integers(0, 100_000), max_size=10), st.integers(1, 9))
def test_however_the_bytes_are_split_the_chunks_say_the_same(places: list[int], size: int) -> None:
    turn = Turn(
        think("Größe", "sig", size), say("Wörter 🦘", size), call("x", {"a": "ü\n"}, chunk=size)
    )
    body = provider_streams.encode_opening_event(turn, "anthropic", 1, "m") + b"".join(
        frame
        for frame in provider_streams.build_playback(turn, "anthropic")
        if isinstance(frame, bytes)
    )
    data = b"".join(line for line in body.split(b"\r\n") if line.startswith(b"event"))
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    reader, stream = SseReader(), AnthropicStreamDecoder(SERVICE)
    text, thought, arguments = "", "", ""
    for start, end in itertools.pairwise(edges):
        for event in reader.feed(data[start:end]):
            for chunk in stream.feed(event):
                match chunk:
                    case TextChunk():
                        text += chunk.text
                    case ReasoningChunk():
                        thought += chunk.text
                    case CallChunk():
                        arguments += chunk.arguments or ""
    assert stream.is_answer_complete
    assert (text, thought, json.loads(arguments)) == ("Wörter 🦘", "Größe", {"a": "ü\n"})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["text", "x", "tool_use"]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "delta", "index", "usage", "message", "content_block", "text"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_at_all_is_either_read_or_a_provider_error(body: object) -> None:
    reader = SseReader()
    stream = AnthropicStreamDecoder(SERVICE)
    for event in reader.feed(b"data: " + msgspec.json.encode(body) + b"\n\n"):
        try:
            list(stream.feed(event))
        except ProviderError as error:
            assert error.failure is ProviderFailureKind.MALFORMED_STREAM
