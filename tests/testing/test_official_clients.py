"""The wires of the scripted server, proven by somebody else's clients."""

from __future__ import annotations

import anthropic
import openai
import pytest

from joey.testing.script import Turn, call, fail, say, think, usage
from joey.testing.server import ModelServer

TURN = Turn(
    think("Let me see.", signature="sig", chunk=4),
    say("I'll read it.", chunk=5),
    call("read_file", {"path": "a.py"}, id="toolu_1", chunk=6),
    usage(input=10, output=25, cache_writes=300, cache_reads=2000),
)


@pytest.mark.contract("python:scripted-model")
async def test_the_anthropic_client_reads_thinking_text_a_call_and_usage() -> None:
    async with (
        ModelServer([TURN]) as server,
        anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client,
        client.messages.stream(
            model="claude-sonnet-5-5",
            max_tokens=100,
            messages=[{"role": "user", "content": "Read a.py"}],
        ) as stream,
    ):
        message = await stream.get_final_message()
        assert server.requests[0].path == "/v1/messages"
    thinking, text, tool_use = message.content
    assert isinstance(thinking, anthropic.types.ThinkingBlock)
    assert (thinking.thinking, thinking.signature) == ("Let me see.", "sig")
    assert isinstance(text, anthropic.types.TextBlock)
    assert text.text == "I'll read it."
    assert isinstance(tool_use, anthropic.types.ToolUseBlock)
    assert (tool_use.id, tool_use.name, tool_use.input) == (
        "toolu_1",
        "read_file",
        {"path": "a.py"},
    )
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (10, 25)
    assert message.usage.cache_creation_input_tokens == 300
    assert message.usage.cache_read_input_tokens == 2000


@pytest.mark.contract("python:scripted-model")
async def test_the_anthropic_client_understands_a_refusal() -> None:
    async with (
        ModelServer([Turn(fail(429, "Slow down.", retry_after=3))]) as server,
        anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client,
    ):
        with pytest.raises(anthropic.RateLimitError, match="Slow down") as caught:
            await client.messages.create(
                model="any",
                max_tokens=9,
                stream=True,
                messages=[{"role": "user", "content": "Hi"}],
            )
    assert caught.value.response.headers["retry-after"] == "3"


@pytest.mark.contract("python:scripted-model")
async def test_the_openai_client_reads_text_a_call_and_usage() -> None:
    text, name, arguments, call_id = "", "", "", ""
    reasons: list[str | None] = []
    async with ModelServer([TURN]) as server:
        async with openai.AsyncOpenAI(
            api_key="k", base_url=f"{server.url}/v1", max_retries=0
        ) as client:
            stream = await client.chat.completions.create(
                model="gpt-4.1",
                stream=True,
                stream_options={"include_usage": True},
                messages=[{"role": "user", "content": "Read a.py"}],
            )
            async for chunk in stream:
                if not chunk.choices:
                    assert chunk.usage is not None
                    counted = chunk.usage
                    continue
                delta = chunk.choices[0].delta
                text += delta.content or ""
                reasons.append(chunk.choices[0].finish_reason)
                for piece in delta.tool_calls or []:
                    assert (piece.index, piece.function is None) == (0, False)
                    assert piece.function is not None
                    call_id += piece.id or ""
                    name += piece.function.name or ""
                    arguments += piece.function.arguments or ""
        assert server.requests[0].path == "/v1/chat/completions"
    assert (text, name, arguments) == ("I'll read it.", "read_file", '{"path":"a.py"}')
    assert call_id == "toolu_1"
    assert reasons[-1] == "tool_calls"
    assert (counted.prompt_tokens, counted.completion_tokens) == (2310, 25)
    assert counted.prompt_tokens_details is not None
    assert counted.prompt_tokens_details.cached_tokens == 2000


@pytest.mark.contract("python:scripted-model")
async def test_the_openai_client_understands_a_refusal() -> None:
    async with (
        ModelServer([Turn(fail(401, "Wrong key."))]) as server,
        openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        with pytest.raises(openai.AuthenticationError, match="Wrong key"):
            await client.chat.completions.create(
                model="any", stream=True, messages=[{"role": "user", "content": "Hi"}]
            )


@pytest.mark.contract("python:scripted-model")
async def test_the_openai_client_reads_a_response() -> None:
    async with (
        ModelServer([TURN]) as server,
        openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
        client.responses.stream(model="gpt-5", input="Read a.py") as stream,
    ):
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()
        assert server.requests[0].path == "/v1/responses"
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert response.output_text == "I'll read it."
    reasoning, message, call_item = response.output
    assert (reasoning.type, message.type, call_item.type) == (
        "reasoning",
        "message",
        "function_call",
    )
    assert call_item.type == "function_call"
    assert (call_item.call_id, call_item.name, call_item.arguments) == (
        "toolu_1",
        "read_file",
        '{"path":"a.py"}',
    )
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (2310, 25)
    assert response.usage.input_tokens_details.cached_tokens == 2000
