from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from msgspec import structs

from joey.core.messages import (
    ImageBlock,
    Message,
    ReplySource,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnsignedReasoningBlock,
)
from joey.core.models import ModelRequest, ToolSpec
from joey.core.settings import Profile
from joey.providers.catalog import find_model_info
from joey.providers.factory import make_provider, resolve_model
from joey.providers.http_client import HttpClient
from joey.providers.openai_request import OpenAiRequestBuilder
from joey.providers.responses import ResponsesRequestBuilder
from tests.harness.providers.conversations import (
    CALL_ID,
    IMAGE_BLOCK,
    READ_FILE,
    SYSTEM,
    TASK,
    make_first_turn,
    make_native_request,
    make_second_turn,
)

PROFILE = Profile(provider="openai", model="gpt-6.1-sol", api_key="sk-1")
HOST = "api.openai.com"
OWN = ReplySource("openai/responses", "gpt-6.1-sol")
SUMMARY = {"type": "summary_text", "text": "Hm."}
IMAGE_PART = {
    "type": "input_image",
    "image_url": f"data:image/png;base64,{IMAGE_BLOCK.source.data}",
    "detail": "auto",
}


def body(
    request: ModelRequest,
    profile: Profile = PROFILE,
    refused: Collection[str] = (),
    host: str = HOST,
) -> dict[str, Any]:
    builder = ResponsesRequestBuilder(profile, resolve_model(profile), host, frozenset(refused))
    parsed: dict[str, Any] = msgspec.json.decode(b"".join(builder.build_body(request)))
    return parsed


def items(*messages: Message, host: str = HOST, refused: Collection[str] = ()) -> list[Any]:
    request = make_native_request([*make_first_turn(), *messages])
    found: list[Any] = body(request, refused=refused, host=host)["input"]
    return found[1:]


def make_reply(source: ReplySource | None = OWN, **fields: Any) -> Message:
    blocks = (
        UnsignedReasoningBlock("Hm.", (SUMMARY,), "gAAA+/=", "rs_1"),
        TextBlock("I look."),
        ToolUseBlock("call_1", "read_file", {"path": "ä"}),
        UnsignedReasoningBlock("", (), "gAAB", "rs_2"),
        ToolUseBlock("call_2", "list_files", {}),
    )
    given = fields if source is None else {"source": source, **fields}
    return Message("assistant", blocks, **given)


def test_a_request_has_exactly_its_fields() -> None:
    text = [{"type": "input_text", "text": part.text} for part in make_first_turn()[0].content]  # type: ignore[union-attr]
    assert body(make_native_request(make_first_turn())) == {
        "model": "gpt-6.1-sol",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "prompt_cache_key": "task",
        "instructions": SYSTEM,
        "input": [{"type": "message", "role": "user", "content": text}],
        "stream": True,
        "tools": [
            {
                "type": "function",
                "name": "read_file",
                "description": READ_FILE.description,
                "parameters": READ_FILE.parameters,
                "strict": True,
            }
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }


def test_a_profile_adds_its_choices() -> None:
    profile = structs.replace(
        PROFILE,
        reasoning_effort="high",
        max_tokens=5000,
        temperature=0.5,
        top_k=5,
        extra_body={
            "service_tier": "flex",
            "input": "mine",
            "store": True,
            "prompt_cache_key": None,
            "verbosity": "low",
        },
    )
    sent = body(make_native_request(make_first_turn()), profile)
    assert sent["reasoning"] == {"effort": "high", "summary": "auto"}
    assert (sent["max_output_tokens"], sent["service_tier"]) == (5000, "flex")
    assert sent["store"] is True
    assert sent["text"] == {"verbosity": "low"}
    assert isinstance(sent["input"], list)
    left_out = {"temperature", "top_k", "max_tokens", "verbosity", "prompt_cache_key"}
    assert not left_out & sent.keys()


@pytest.mark.parametrize(
    ("refused", "reasoning"),
    [(["summary"], {"effort": "high"}), (["effort", "summary"], None), (["reasoning"], None)],
)
def test_refused_options_of_reasoning_are_left_out(refused: list[str], reasoning: Any) -> None:
    profile = structs.replace(PROFILE, reasoning_effort="high")
    sent = body(make_native_request(make_first_turn()), profile, refused)
    assert sent.get("reasoning") == reasoning


def test_tools_say_whether_they_are_strict() -> None:
    loose = ToolSpec("mcp", "Any.", {"type": "object", "properties": {"a": {}}}, strict=False)
    request = ModelRequest(SYSTEM, make_first_turn(), (READ_FILE, loose))
    assert [tool["strict"] for tool in body(request)["tools"]] == [True, False]
    assert "strict" not in body(request, refused=["strict"])["tools"][0]


def test_calls_and_results_are_items_in_their_order() -> None:
    assert items(*make_second_turn()[1:]) == [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "First, package.json."}],
        },
        {
            "type": "function_call",
            "call_id": CALL_ID,
            "name": "read_file",
            "arguments": '{"path":"a"}',
        },
        {
            "type": "function_call_output",
            "call_id": CALL_ID,
            "output": '{\n  "name": "my-project"\n}',
        },
    ]


@pytest.mark.contract("services:responses")
def test_own_reasoning_goes_back_where_it_was() -> None:
    source = structs.replace(OWN, extra_content={"phases": ["commentary"]})
    sent = items(make_reply(source))
    assert [item["type"] for item in sent] == [
        "reasoning",
        "message",
        "function_call",
        "reasoning",
        "function_call",
    ]
    assert sent[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [SUMMARY],
        "encrypted_content": "gAAA+/=",
    }
    assert sent[1]["phase"] == "commentary"
    assert sent[3]["summary"] == []


@pytest.mark.parametrize(
    "source",
    [
        ReplySource("openai", "gpt-6.1-sol", extra_content={"phases": ["commentary"]}),
        ReplySource("openai/responses", "gpt-5.6"),
        ReplySource("openai@proxy.test/responses", "gpt-6.1-sol"),
    ],
)
def test_reasoning_of_another_model_or_address_is_dropped(source: ReplySource) -> None:
    sent = items(make_reply(source))
    assert [item["type"] for item in sent] == ["message", "function_call", "function_call"]
    assert "phase" not in sent[0]


def test_reasoning_of_an_unknown_source_is_tried() -> None:
    assert [item["type"] for item in items(make_reply(None))].count("reasoning") == 2
    unreadable = ["encrypted_content rs_1 rs_3"]
    sent = items(make_reply(None), refused=unreadable)
    assert [item["id"] for item in sent if item["type"] == "reasoning"] == ["rs_2"]


def test_reasoning_that_led_to_nothing_is_dropped() -> None:
    thought = UnsignedReasoningBlock("Hm.", (SUMMARY,), "gAAA", "rs_1")
    sent = items(Message("assistant", (TextBlock("Hi."), thought), source=OWN))
    assert [item["type"] for item in sent] == ["message"]


def test_plain_and_signed_reasoning_is_not_sent() -> None:
    blocks = (UnsignedReasoningBlock("Hm."), ThinkingBlock("Hm.", "sig"), TextBlock("Hi."))
    assert [item["type"] for item in items(Message("assistant", blocks, source=OWN))] == ["message"]


def test_chat_completions_get_nothing_of_it() -> None:
    for host in (HOST, "proxy.test"):
        source = ReplySource(
            "openai/responses" if host == HOST else f"openai@{host}/responses",
            "gpt-6.1-sol",
            extra_content={"phases": ["commentary"]},
        )
        builder = OpenAiRequestBuilder(PROFILE, resolve_model(PROFILE), host)
        request = make_native_request([*make_first_turn(), make_reply(source)])
        sent = msgspec.json.decode(b"".join(builder.build_body(request)))
        assert sent["messages"][-1].keys() == {"role", "content", "tool_calls"}


def test_images_are_parts_of_the_users_message() -> None:
    messages = (
        Message("assistant", (ToolUseBlock("call_1", "read_file", {}),)),
        Message("user", (ToolResultBlock("call_1", [TextBlock("See"), IMAGE_BLOCK]), IMAGE_BLOCK)),
    )
    assert items(*messages)[1:] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "See"},
        {"type": "message", "role": "user", "content": [IMAGE_PART, IMAGE_PART]},
    ]
    assert isinstance(IMAGE_BLOCK, ImageBlock)


def test_ids_of_other_services_are_shortened() -> None:
    name = "function-call-" + "1" * 60
    call, result = ToolUseBlock(name, "read_file", {}), ToolResultBlock(name, "ok")
    sent = items(Message("assistant", (call,)), Message("user", (result,)))
    assert sent[0]["call_id"] == sent[1]["call_id"]
    assert len(sent[0]["call_id"]) <= 64


def test_settled_items_are_sent_as_the_same_bytes() -> None:
    builder = ResponsesRequestBuilder(PROFILE, resolve_model(PROFILE), HOST)
    messages = make_second_turn()
    bodies = [
        b"".join(builder.build_body(make_native_request(messages[:count]))) for count in (1, 3)
    ]
    settled = bodies[0].partition(b'"input":[')[2].partition(b'],"stream"')[0]
    assert TASK.encode() in settled
    assert b'"input":[' + settled + b"," in bodies[1]


@pytest.mark.parametrize(
    ("provider", "model", "needed"),
    [
        ("openai", "gpt-6.1-sol", True),
        ("openai", "openai/gpt-6-luna-2026-10-01", True),
        ("openai", "gpt-5.6", True),
        ("openai", "gpt-5.4-mini", True),
        ("openai", "gpt-5.1-codex", True),
        ("openai", "gpt-7", True),
        ("openai", "o3-pro", True),
        ("openai", "gpt-5.2", False),
        ("openai", "gpt-5-2025-08-07", False),
        ("openai", "gpt-4o", False),
        ("openai", "gpt-35-turbo", False),
        ("openai", "gpt-oss-120b", False),
        ("openrouter", "openai/gpt-6.1-sol", False),
        ("vllm", "gpt-6.1-sol", False),
    ],
)
def test_the_catalogue_says_which_models_need_it(provider: str, model: str, needed: bool) -> None:
    assert find_model_info(provider, model).needs_responses is needed


@pytest.mark.parametrize(
    ("model", "url", "endpoint"),
    [
        ("gpt-6.1-sol", None, "https://api.openai.com/v1/responses"),
        ("gpt-4o", None, "https://api.openai.com/v1/chat/completions"),
        ("gpt-6.1-sol", "https://proxy.test/v1/", "https://proxy.test/v1/responses"),
        ("gpt-6.1-sol", "https://proxy.test/chat/completions", "https://proxy.test/responses"),
        ("gpt-6.1-sol", "https://proxy.test/v1/responses", "https://proxy.test/v1/responses"),
        (
            "gpt-6.1-sol",
            "https://openrouter.ai/api/v1",
            "https://openrouter.ai/api/v1/chat/completions",
        ),
    ],
)
async def test_the_model_chooses_the_endpoint_at_any_address(
    model: str, url: str | None, endpoint: str
) -> None:
    asked: list[str] = []

    class Client(HttpClient):
        async def post(self, url: str, *_: Any, **__: Any) -> Any:
            asked.append(url)
            raise ConnectionError

    profile = structs.replace(PROFILE, model=model, base_url=url)
    provider = make_provider(profile, Client(environ={}))
    with pytest.raises(ConnectionError):
        async for _ in provider.stream(make_native_request(make_first_turn())):
            pass
    assert asked == [endpoint]


def test_an_alias_of_the_provider_is_the_same_service() -> None:
    profile = structs.replace(PROFILE, provider="openai-native")
    source = ReplySource("openai@proxy.test/responses", "gpt-6.1-sol")
    request = make_native_request([*make_first_turn(), make_reply(source)])
    sent = body(request, profile, host="proxy.test")["input"]
    assert [item["type"] for item in sent].count("reasoning") == 2
    assert find_model_info("openai-native", "gpt-6.1-sol").needs_responses
