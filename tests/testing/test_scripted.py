from __future__ import annotations

import asyncio

import pytest

from joey.core.messages import (
    CallChunk,
    CallEndChunk,
    Chunk,
    Message,
    ReasoningChunk,
    StopChunk,
    TextChunk,
    Usage,
    UsageChunk,
)
from joey.core.models import ModelInfo, ModelRequest
from joey.errors import ProviderError, ProviderFailureKind
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
from joey.testing.scripted_provider import ScriptedProvider, ScriptEndedError, ScriptItem

ASK = ModelRequest("Be brief.", [Message("user", "Hello?")])


async def play(provider: ScriptedProvider) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(ASK)]


@pytest.mark.contract("python:scripted-model")
async def test_a_turn_is_played_as_chunks_with_usage_and_a_reason_to_stop() -> None:
    turn = Turn(
        think("Hm.", signature="sig"),
        redacted("xx"),
        say("Hello.", chunk=4),
        call("read_file", {"path": "a"}, id="t1", chunk=8),
        usage(input=1, output=2, cache_writes=3, cache_reads=4),
    )
    assert await play(ScriptedProvider([turn])) == [
        ReasoningChunk("Hm."),
        ReasoningChunk(signature="sig"),
        ReasoningChunk(redacted="xx"),
        TextChunk("Hell"),
        TextChunk("o."),
        CallChunk(3, id="t1", name="read_file"),
        CallChunk(3, arguments='{"path":'),
        CallChunk(3, arguments='"a"}'),
        CallEndChunk(3),
        UsageChunk(Usage(input=8, output=2, cache_writes=3, cache_reads=4)),
        StopChunk("tool_use"),
    ]


@pytest.mark.contract("python:scripted-model")
async def test_a_bare_list_is_played_as_it_stands() -> None:
    script: list[ScriptItem] = [TextChunk("a"), say("b"), usage(output=1), stop("end_turn")]
    assert await play(ScriptedProvider([script])) == [
        TextChunk("a"),
        TextChunk("b"),
        UsageChunk(Usage(output=1)),
        StopChunk("end_turn"),
    ]


async def test_calls_without_an_id_get_ids_of_their_own() -> None:
    ids = [step.id for turn in (Turn(call("a"), call("a")), Turn(call("a"))) for step in turn.calls]
    assert len(set(ids)) == 3
    assert None not in ids


@pytest.mark.parametrize(
    ("step", "expected_failure"),
    [
        (fail(429, retry_after=3), ProviderFailureKind.RATE_LIMIT),
        (fail(401), ProviderFailureKind.AUTH),
        (fail(529), ProviderFailureKind.OVERLOAD),
        (fail(400, "prompt is too long"), ProviderFailureKind.CONTEXT_OVERFLOW),
        (disconnect(), ProviderFailureKind.NETWORK),
        (ProviderError("x", failure=ProviderFailureKind.QUOTA), ProviderFailureKind.QUOTA),
    ],
)
async def test_failures_are_raised_where_they_stand(
    step: object, expected_failure: ProviderFailureKind
) -> None:
    provider = ScriptedProvider([[say("Half"), step]])  # type: ignore[list-item]
    stream = provider.stream(ASK)
    assert await anext(stream) == TextChunk("Half")
    with pytest.raises(ProviderError) as caught:
        await anext(stream)
    assert caught.value.failure is expected_failure
    assert provider.open_stream_count == 0


async def test_a_gate_holds_the_stream_until_it_is_opened() -> None:
    gate = asyncio.Event()
    provider = ScriptedProvider([Turn(say("a"), pause(gate), pause(0.0), say("b"))])
    stream = provider.stream(ASK)
    assert await anext(stream) == TextChunk("a")
    after = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not after.done()
    gate.set()
    assert await after == TextChunk("b")
    await stream.aclose()


async def test_a_stream_that_is_closed_is_counted_out() -> None:
    provider = ScriptedProvider([Turn(say("a"), pause(asyncio.Event()))])
    stream = provider.stream(ASK)
    await anext(stream)
    assert provider.open_stream_count == 1
    await stream.aclose()
    assert provider.open_stream_count == 0


async def test_requests_are_remembered_and_may_choose_the_turn() -> None:
    model = ModelInfo(id="small", context_window=100)
    provider = ScriptedProvider([lambda request: Turn(say(request.system_prompt))], model, "openai")
    assert (await play(provider))[0] == TextChunk("Be brief.")
    assert provider.requests == [ASK]
    assert (provider.model, provider.api_protocol) == (model, "openai")


async def test_a_script_that_has_ended_says_so() -> None:
    provider = ScriptedProvider([Turn(say("a"))])
    await play(provider)
    with pytest.raises(ScriptEndedError, match=r"1 turns.*request 2.*Hello\?"):
        await play(provider)


async def test_raw_bytes_are_for_servers() -> None:
    with pytest.raises(TypeError, match="Raw"):
        await play(ScriptedProvider([Turn(raw(b"x"))]))
