from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from joey.core.messages import (
    Message,
    RedactedThinkingBlock,
    ReplySource,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnsignedReasoningBlock,
)
from joey.core.models import ModelInfo, ModelRequest
from joey.core.settings import Profile
from joey.providers.anthropic import AnthropicRequestBuilder
from joey.providers.factory import resolve_model
from joey.providers.services import MISSING_REASONING
from tests.harness.providers.conversations import (
    CALL_ID,
    DETAILS,
    IMAGE_BLOCK,
    READ_FILE,
    SYSTEM,
    TASK,
    capture_requests,
    get_messages,
    make_first_turn,
    make_native_request,
    make_second_turn,
    make_xml_request,
)

MARK = {"cache_control": {"type": "ephemeral"}}
SONNET = Profile(
    provider="anthropic", model="claude-sonnet-4-5-20250929", max_tokens=8096, api_key="sk-1"
)


def body(profile: Profile, request: ModelRequest, *, legacy: bool = True) -> dict[str, Any]:
    requests = AnthropicRequestBuilder(profile, resolve_model(profile), legacy=legacy)
    parsed: dict[str, Any] = msgspec.json.decode(b"".join(requests.build_body(request)))
    return parsed


@pytest.mark.contract("services:anthropic")
async def test_the_first_request_of_the_seed_is_sent_as_it_stands_there() -> None:
    (request,) = await capture_requests(SONNET, make_native_request(make_first_turn()))
    assert request.path == "/v1/messages"
    assert request.body == {
        "model": "claude-sonnet-4-5-20250929",
        "max_tokens": 8096,
        "temperature": 0,
        "system": [{"type": "text", "text": SYSTEM, **MARK}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": TASK},
                    {"type": "text", "text": DETAILS, **MARK},
                ],
            }
        ],
        "tools": [
            {
                "name": "read_file",
                "description": READ_FILE.description,
                "input_schema": READ_FILE.parameters,
            }
        ],
        "tool_choice": {"type": "auto"},
        "stream": True,
    }
    assert request.headers["x-api-key"] == "sk-1"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["anthropic-beta"] == (
        "prompt-caching-2024-07-31,fine-grained-tool-streaming-2025-05-14"
    )
    assert "authorization" not in request.headers


@pytest.mark.contract("services:anthropic")
async def test_the_second_request_of_the_seed_holds_call_and_result() -> None:
    (request,) = await capture_requests(SONNET, make_native_request(make_second_turn()))
    assert get_messages(request) == [
        {
            "role": "user",
            "content": [{"type": "text", "text": TASK}, {"type": "text", "text": DETAILS, **MARK}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "First, package.json."},
                {"type": "tool_use", "id": CALL_ID, "name": "read_file", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": CALL_ID,
                    "content": '{\n  "name": "my-project"\n}',
                    **MARK,
                }
            ],
        },
    ]


async def test_the_official_service_gets_the_current_form() -> None:
    (request,) = await capture_requests(
        SONNET, make_native_request(make_first_turn()), official=True
    )
    assert request.headers["authorization"] == "Bearer sk-1"
    assert request.headers["anthropic-version"] == "2026-10-21"
    assert not {"x-api-key", "anthropic-beta"} & set(request.headers)
    assert "temperature" not in request.body
    assert request.body["tools"][0]["eager_input_streaming"] is True


async def test_headers_of_the_profile_are_sent_too_and_win() -> None:
    profile = structs.replace(SONNET, headers={"Anthropic-Beta": "none", "X-Team": "blue"})
    (request,) = await capture_requests(profile, make_native_request(make_first_turn()))
    assert request.headers["anthropic-beta"] == "none"
    assert request.headers["x-team"] == "blue"


@pytest.mark.contract("services:anthropic")
async def test_marks_move_on_with_the_last_two_user_messages() -> None:
    messages = make_second_turn()
    later = [
        *messages,
        Message("assistant", (ToolUseBlock("t2", "read_file", {"path": "b"}),)),
        Message(
            "user", (ToolResultBlock("t2", [TextBlock("one"), IMAGE_BLOCK]), TextBlock(DETAILS))
        ),
        Message("assistant", "A last word."),
        Message("user", "Go on."),
    ]
    _, request = await capture_requests(
        SONNET, make_native_request(messages), make_native_request(later)
    )
    marked = [
        (number, place)
        for number, message in enumerate(get_messages(request))
        if isinstance(message["content"], list)
        for place, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert marked == [(4, 0), (6, 0)]
    assert get_messages(request)[6]["content"] == [{"type": "text", "text": "Go on.", **MARK}]
    assert get_messages(request)[5]["content"] == "A last word."


def test_a_result_with_an_image_carries_the_mark_itself() -> None:
    message = Message(
        "user", (ToolResultBlock("t", [TextBlock("seen"), IMAGE_BLOCK], is_error=True),)
    )
    (sent,) = body(SONNET, make_native_request([message]))["messages"]
    (block,) = sent["content"]
    assert block["cache_control"] == MARK["cache_control"]
    assert block["is_error"] is True
    assert [part["type"] for part in block["content"]] == ["text", "image"]
    assert block["content"][1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": IMAGE_BLOCK.source.data,
    }


def test_a_model_without_a_cache_gets_no_marks() -> None:
    model = ModelInfo(id="plain", supports_prompt_cache=False)
    requests = AnthropicRequestBuilder(SONNET, model, legacy=True)
    assert b"cache_control" not in b"".join(
        requests.build_body(make_native_request(make_second_turn()))
    )


def test_an_unknown_model_gets_marks() -> None:
    request = body(
        structs.replace(SONNET, model="my-own-claude"), make_native_request(make_first_turn())
    )
    assert "cache_control" in request["system"][0]


def test_no_tools_are_sent_for_the_xml_protocol() -> None:
    request = body(SONNET, make_xml_request(make_first_turn()))
    assert not {"tools", "tool_choice"} & set(request)


def test_signed_thinking_goes_back_and_other_reasoning_does_not() -> None:
    answer = Message(
        "assistant",
        (
            ThinkingBlock("Hm.", "sig"),
            ThinkingBlock("", "sig of hidden thoughts"),
            RedactedThinkingBlock("opaque"),
            UnsignedReasoningBlock("unsigned"),
            TextBlock("So."),
        ),
    )
    sent = body(SONNET, make_native_request([*make_first_turn(), answer]))["messages"][1]
    assert sent["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "thinking", "thinking": "", "signature": "sig of hidden thoughts"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "So."},
    ]


def test_what_the_service_would_refuse_as_empty_is_left_out() -> None:
    messages = [
        *make_first_turn(),
        Message("assistant", (UnsignedReasoningBlock("only thoughts"),)),
        Message("user", (TextBlock(" \n"), TextBlock("Well?"))),
        Message("assistant", ""),
    ]
    sent = body(SONNET, make_native_request(messages))["messages"]
    assert [message["role"] for message in sent] == ["user", "user"]
    assert sent[1]["content"] == [{"type": "text", "text": "Well?", **MARK}]


def test_a_model_without_image_support_gets_text_for_images() -> None:
    model = ModelInfo(id="blind", supports_images=False)
    message = Message("user", (ToolResultBlock("t", [IMAGE_BLOCK]), IMAGE_BLOCK))
    sent = b"".join(
        AnthropicRequestBuilder(SONNET, model, legacy=True).build_body(
            make_native_request([message])
        )
    )
    assert sent.count(b"takes no images") == 2
    assert b"base64" not in sent


@pytest.mark.parametrize(
    ("max_tokens", "budget", "expected_budget"),
    [(16_000, 4096, 4096), (4096, 100_000, 3276), (1000, 500, 1024)],
)
def test_a_thinking_budget_leaves_room_for_the_answer(
    max_tokens: int, budget: int, expected_budget: int
) -> None:
    profile = structs.replace(SONNET, thinking_budget=budget, max_tokens=max_tokens)
    request = body(profile, make_native_request(make_first_turn()))
    assert request["thinking"] == {"type": "enabled", "budget_tokens": expected_budget}
    assert request["max_tokens"] > expected_budget
    assert "temperature" not in request


def test_a_budget_beyond_the_usual_output_raises_the_limit() -> None:
    profile = Profile(model="my-own-claude", thinking_budget=30_000)
    request = body(profile, make_native_request(make_first_turn()))
    assert request["thinking"]["budget_tokens"] == 30_000
    assert request["max_tokens"] == 38_192


def test_a_model_that_thinks_by_itself_is_asked_to_without_a_budget() -> None:
    profile = Profile(model="claude-opus-4-8", thinking_budget=8000, reasoning_effort="high")
    request = body(profile, make_native_request(make_first_turn()))
    assert request["thinking"] == {"type": "adaptive"}
    assert request["output_config"] == {"effort": "high"}
    assert "temperature" not in request


def test_a_stated_temperature_is_sent() -> None:
    assert (
        body(structs.replace(SONNET, temperature=0.7), make_xml_request(make_first_turn()))[
            "temperature"
        ]
        == 0.7
    )


def build(profile: Profile, messages: list[Message], host: str = "api.anthropic.com") -> Any:
    builder = AnthropicRequestBuilder(profile, resolve_model(profile), legacy=False, host=host)
    return msgspec.json.decode(b"".join(builder.build_body(ModelRequest("s", messages))))


def make_thinking_turn(source: ReplySource) -> list[Message]:
    blocks = (ThinkingBlock("Hm.", "sig"), ToolUseBlock("t1", "x", {}, {"google": {}}))
    return [
        Message("user", "go"),
        Message("assistant", blocks, source=source),
        Message("user", (ToolResultBlock("t1", "ok"),)),
    ]


def test_thoughts_go_back_only_to_the_model_that_had_them() -> None:
    profile = Profile(model="claude-opus-4-6", thinking_budget=2048)
    own = build(profile, make_thinking_turn(ReplySource("anthropic", "claude-opus-4-6")))
    called = {"type": "tool_use", "id": "t1", "name": "x", "input": {}}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
    assert own["messages"][1]["content"] == [thought, called]
    assert own["thinking"]["type"] == "enabled"
    for source in (
        ReplySource("anthropic", "claude-sonnet-4-5"),
        ReplySource("anthropic@gateway.test", "claude-opus-4-6"),
    ):
        other = build(profile, make_thinking_turn(source))
        assert other["messages"][1]["content"] == [called]
        # A reply with calls that does not begin with thoughts is refused where thinking is on.
        assert "thinking" not in other


def test_thoughts_without_a_signature_go_back_to_the_gateway_that_sent_them() -> None:
    source = ReplySource("anthropic@gateway.test", "deepseek-v4-pro", "thinking")
    reply = Message("assistant", (UnsignedReasoningBlock("Hm."), TextBlock("Yes.")), source=source)
    profile = Profile(model="deepseek-v4-pro")
    sent = build(profile, [Message("user", "go"), reply], "gateway.test")["messages"][1]
    assert sent["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": ""}
    sent = build(profile, [Message("user", "go"), reply])["messages"][1]
    assert sent["content"] == [{"type": "text", "text": "Yes."}]


def test_a_gateway_that_misses_thoughts_gets_empty_ones_with_calls() -> None:
    profile = Profile(model="deepseek-v4-pro")
    builder = AnthropicRequestBuilder(
        profile,
        resolve_model(profile),
        legacy=True,
        host="api.deepseek.com",
        refused=frozenset({MISSING_REASONING}),
    )
    request = ModelRequest("s", make_thinking_turn(ReplySource("anthropic", "claude-opus-5-5")))
    sent = msgspec.json.decode(b"".join(builder.build_body(request)))["messages"]
    assert sent[1]["content"][0] == {"type": "thinking", "thinking": "", "signature": ""}


def test_no_temperature_is_added_to_a_stated_top_p() -> None:
    """Models from Claude Opus 4.1 on refuse both together."""
    request = body(structs.replace(SONNET, top_p=0.9), make_xml_request(make_first_turn()))
    assert request["top_p"] == 0.9
    assert "temperature" not in request
