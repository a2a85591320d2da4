from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from msgspec import structs

from joey.core.messages import (
    Message,
    ReplySource,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnsignedReasoningBlock,
)
from joey.core.models import ModelInfo, ModelRequest
from joey.core.settings import Profile
from joey.providers.factory import resolve_model
from joey.providers.openai_request import OpenAiRequestBuilder
from tests.harness.providers.conversations import (
    CALL_ID,
    DETAILS,
    IMAGE_BLOCK,
    READ_FILE,
    SYSTEM,
    TASK,
    capture_requests,
    make_first_turn,
    make_native_request,
    make_second_turn,
    make_xml_request,
)

QWEN = Profile(provider="openai", model="qwen3-max", api_key="sk-1")
MARK = {"cache_control": {"type": "ephemeral"}}
IMAGE_PART = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{IMAGE_BLOCK.source.data}"},
}


def body(
    profile: Profile,
    request: ModelRequest,
    model: ModelInfo | None = None,
    host: str = "model.test",
    refused: Collection[str] = (),
) -> dict[str, Any]:
    model = model or resolve_model(profile)
    requests = OpenAiRequestBuilder(profile, model, host, frozenset(refused))
    parsed: dict[str, Any] = msgspec.json.decode(b"".join(requests.build_body(request)))
    return parsed


def text(content: str) -> dict[str, str]:
    return {"type": "text", "text": content}


@pytest.mark.contract("services:openai")
async def test_a_request_of_the_xml_seed_has_exactly_its_fields() -> None:
    reply = "Explanation\n\n```tool_code\n{}\n```"
    error = "[ERROR] You did not use a tool in your previous response!"
    messages = [
        *make_first_turn(),
        Message("assistant", (TextBlock(reply),)),
        Message("user", (TextBlock(error), TextBlock(DETAILS))),
    ]
    (request,) = await capture_requests(QWEN, make_xml_request(messages))
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-1"
    assert request.body == {
        "model": "qwen3-max",
        "temperature": 0,
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": [text(TASK), text(DETAILS)]},
            {"role": "assistant", "content": reply},
            {"role": "user", "content": [text(error), text(DETAILS)]},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.contract("services:openai")
async def test_native_adds_tools_and_sends_results_as_messages_of_their_own() -> None:
    (request,) = await capture_requests(QWEN, make_native_request(make_second_turn()))
    assert request.body == {
        "model": "qwen3-max",
        "temperature": 0,
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": [text(TASK), text(DETAILS)]},
            {
                "role": "assistant",
                "content": "First, package.json.",
                "tool_calls": [
                    {
                        "id": CALL_ID,
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path":"a"}'},
                    }
                ],
            },
            {
                "role": "tool",
                "tool_call_id": CALL_ID,
                "content": '{\n  "name": "my-project"\n}',
            },
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read_file",
                    "description": READ_FILE.description,
                    "parameters": READ_FILE.parameters,
                },
            }
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }


@pytest.mark.contract("services:openai")
def test_results_come_first_then_their_images_then_the_rest() -> None:
    message = Message(
        "user",
        (
            TextBlock("Look at that."),
            ToolResultBlock("t1", "first"),
            ToolResultBlock("t2", [TextBlock("one"), TextBlock("two"), IMAGE_BLOCK]),
            ToolResultBlock("t3", ""),
            ToolResultBlock("t4", [IMAGE_BLOCK]),
            TextBlock(DETAILS),
            IMAGE_BLOCK,
        ),
    )
    sent = body(QWEN, make_native_request([message]), ModelInfo(id="seeing"))["messages"][1:]
    assert sent == [
        {"role": "tool", "tool_call_id": "t1", "content": "first"},
        {"role": "tool", "tool_call_id": "t2", "content": "one\ntwo"},
        {"role": "tool", "tool_call_id": "t3", "content": "(empty)"},
        {
            "role": "tool",
            "tool_call_id": "t4",
            "content": f"(The image follows in the next message.)\n{DETAILS}",
        },
        {
            "role": "user",
            "content": [
                IMAGE_PART,
                IMAGE_PART,
                text("Look at that."),
                IMAGE_PART,
            ],
        },
    ]


def test_user_content_is_an_array_even_for_a_string() -> None:
    sent = body(QWEN, make_xml_request([Message("user", "Hello?")]))["messages"][1]
    assert sent == {"role": "user", "content": [text("Hello?")]}


def test_a_request_without_a_system_prompt_has_no_system_message() -> None:
    sent = body(QWEN, ModelRequest("", make_first_turn()))["messages"]
    assert [message["role"] for message in sent] == ["user"]


def test_a_model_without_image_support_gets_text_for_images() -> None:
    model = ModelInfo(id="blind", supports_images=False)
    sent = body(QWEN, make_xml_request([Message("user", (TextBlock("See:"), IMAGE_BLOCK))]), model)[
        "messages"
    ][1]
    assert [part["type"] for part in sent["content"]] == ["text", "text"]


def test_an_assistant_that_only_calls_has_empty_text_and_one_that_only_thought_is_left_out() -> (
    None
):
    messages = [
        Message("assistant", (ToolUseBlock("t1", "list_files", {}),)),
        Message("assistant", (UnsignedReasoningBlock("hm"),)),
    ]
    (sent,) = body(QWEN, make_native_request(messages))["messages"][1:]
    assert sent["content"] == ""
    assert sent["tool_calls"][0]["function"] == {"name": "list_files", "arguments": "{}"}


def test_reasoning_goes_back_where_the_message_or_the_model_wants_it() -> None:
    details = ({"type": "reasoning.encrypted", "data": "x"},)
    said = (UnsignedReasoningBlock("I thought."), TextBlock("Done."))
    kept = Message("assistant", said, reasoning_content="kept", reasoning_details=details)
    plain = Message("assistant", said)
    wanting = ModelInfo(id="wanting", preserve_reasoning=True)
    indifferent = ModelInfo(id="indifferent")

    def sent(message: Message, model: ModelInfo) -> dict[str, Any]:
        found: dict[str, Any] = body(QWEN, make_native_request([message]), model)["messages"][1]
        return found

    assert sent(kept, indifferent)["reasoning_content"] == "kept"
    assert sent(kept, indifferent)["reasoning_details"] == list(details)
    assert sent(plain, wanting)["reasoning_content"] == "I thought."
    assert "reasoning_content" not in sent(plain, indifferent)


@pytest.mark.parametrize("model", ["o1", "o3-mini", "openai/o4-mini-2025-04-16"])
def test_reasoning_models_get_a_developer_message_and_no_temperature(model: str) -> None:
    profile = structs.replace(QWEN, model=model, reasoning_effort="high", max_tokens=5000)
    request = body(profile, make_xml_request(make_first_turn()))
    assert request["messages"][0]["role"] == "developer"
    assert request["messages"][0]["content"].endswith(SYSTEM)
    assert "temperature" not in request
    assert request["reasoning_effort"] == "high"
    assert request["max_completion_tokens"] == 5000


@pytest.mark.parametrize("model", ["gpt-4o1", "qwen3-max", "yolo3"])
def test_other_models_are_not_taken_for_reasoning_models(model: str) -> None:
    request = body(structs.replace(QWEN, model=model), make_xml_request(make_first_turn()))
    assert request["messages"][0]["role"] == "system"


@pytest.mark.parametrize(
    ("request_", "refused", "effort"),
    [
        (make_native_request(make_first_turn()), {"reasoning with tools"}, "none"),
        (make_xml_request(make_first_turn()), {"reasoning with tools"}, "high"),
        (make_native_request(make_first_turn()), {"responses"}, "high"),
    ],
)
def test_reasoning_is_switched_off_where_it_is_refused_with_tools(
    request_: ModelRequest, refused: set[str], effort: str
) -> None:
    profile = structs.replace(QWEN, model="gpt-6.1-sol", reasoning_effort="high")
    request = body(profile, request_, refused=refused)
    assert request["reasoning_effort"] == effort
    assert "temperature" not in request


@pytest.mark.parametrize(("host", "has_options"), [("api.x.ai", False), ("max.ai", True)])
def test_x_ai_gets_no_stream_options(host: str, has_options: bool) -> None:
    assert (
        "stream_options" in body(QWEN, make_xml_request(make_first_turn()), host=host)
    ) is has_options


def test_marks_go_on_the_system_and_the_last_text_of_the_last_two_users() -> None:
    model = ModelInfo(id="cached", supports_prompt_cache=True)
    messages = [
        *make_first_turn(),
        Message("assistant", (ToolUseBlock("t1", "read_file", {"path": "a"}),)),
        Message("user", (ToolResultBlock("t1", "x"), TextBlock("Look:"), IMAGE_BLOCK)),
        Message("assistant", (ToolUseBlock("t2", "read_file", {"path": "b"}),)),
        Message("user", (ToolResultBlock("t2", "y"),)),
        Message("user", (IMAGE_BLOCK,)),
    ]
    sent = body(QWEN, make_native_request(messages), model)["messages"]
    assert sent[0]["content"] == [{**text(SYSTEM), **MARK}]
    assert sent[1]["content"] == [text(TASK), text(DETAILS)]
    assert sent[4]["content"] == [text("Look:"), IMAGE_PART]
    assert sent[6] == {"role": "tool", "tool_call_id": "t2", "content": [{**text("y"), **MARK}]}
    assert sent[7]["content"] == [IMAGE_PART, {**text("..."), **MARK}]


def test_a_message_loses_its_mark_when_the_conversation_has_moved_on() -> None:
    model = ModelInfo(id="cached", supports_prompt_cache=True)
    requests = OpenAiRequestBuilder(QWEN, model, "model.test")
    messages = make_first_turn()
    requests.build_body(make_xml_request(messages))
    messages += [Message("user", "two"), Message("user", "three")]
    sent = msgspec.json.decode(b"".join(requests.build_body(make_xml_request(messages))))[
        "messages"
    ]
    assert ["cache_control" in message["content"][-1] for message in sent[1:]] == [
        False,
        True,
        True,
    ]


DEVSTRAL = Profile(provider="vllm", model="mistralai/Devstral-Small-2")


def test_after_a_result_mistral_models_get_the_users_text_in_it_and_images_after_a_reply() -> None:
    called = ToolUseBlock("call_1", "read_file", {})
    answer = (ToolResultBlock("call_1", "ok"), TextBlock("And now?"), IMAGE_BLOCK)
    messages = [*make_first_turn(), Message("assistant", (called,)), Message("user", answer)]
    sent = body(DEVSTRAL, make_native_request(messages), ModelInfo(id="seeing"))["messages"][2:]
    assert [message["role"] for message in sent] == ["assistant", "tool", "assistant", "user"]
    assert sent[1]["content"] == "ok\n\nAnd now?"
    assert sent[3]["content"] == [IMAGE_PART]
    call_id = sent[0]["tool_calls"][0]["id"]
    assert call_id.isalnum()
    assert len(call_id) == 9
    assert sent[1]["tool_call_id"] == call_id


def make_reply(source: ReplySource) -> Message:
    signed = {"google": {"thought_signature": "s=="}}
    blocks = (UnsignedReasoningBlock("a\n"), UnsignedReasoningBlock(" b"))
    return Message("assistant", (*blocks, ToolUseBlock("t1", "x", {}, signed)), source=source)


@pytest.mark.parametrize(
    ("source", "reasoning", "signature"),
    [
        (ReplySource("openai@model.test", "m", "reasoning_text"), "a\n b", "s=="),
        (ReplySource("openai@model.test", "other", "reasoning_text"), "a\n b", None),
        (ReplySource("openai@elsewhere.test", "m", "reasoning_text"), None, None),
    ],
)
def test_an_unknown_server_gets_back_what_it_sent_in_the_same_field(
    source: ReplySource, reasoning: str | None, signature: str | None
) -> None:
    profile = Profile(provider="openai", model="m")
    (_, sent) = body(profile, make_native_request([make_reply(source)]))["messages"]
    assert sent.get("reasoning_text") == reasoning
    extra = sent["tool_calls"][0].get("extra_content", {"google": {}})
    assert extra["google"].get("thought_signature") == signature
    assert sent.keys() <= {"role", "content", "tool_calls", "reasoning_text"}


@pytest.mark.parametrize("model", ["deepseek-v4-pro", "moonshotai/kimi-k2.5"])
def test_models_of_deepseek_and_moonshot_get_reasoning_with_every_call_at_a_proxy(
    model: str,
) -> None:
    profile = Profile(provider="openai", model=model)
    called = Message("assistant", (ToolUseBlock("t1", "x", {}),), source=ReplySource("xai", "m"))
    said = Message("assistant", "Hm.", source=ReplySource("xai", "m"))
    _, first, second = body(profile, make_native_request([called, said]))["messages"]
    assert first["reasoning_content"] == " "
    assert "reasoning_content" not in second


def test_parameters_of_a_profile_are_sent_and_extra_body_may_leave_ours_out() -> None:
    profile = Profile(
        provider="openai",
        model="m",
        top_p=0.8,
        top_k=20,
        min_p=0.0,
        presence_penalty=1.5,
        chat_template_kwargs={"enable_thinking": False},
        extra_body={"seed": 1, "stream_options": None, "tool_choice": None, "messages": []},
    )
    request = body(profile, make_native_request(make_first_turn()))
    assert {
        name: value for name, value in request.items() if name not in ("messages", "tools")
    } == {
        "model": "m",
        "top_p": 0.8,
        "top_k": 20,
        "min_p": 0.0,
        "presence_penalty": 1.5,
        "chat_template_kwargs": {"enable_thinking": False},
        "seed": 1,
        "stream": True,
        "parallel_tool_calls": True,
    }
    assert len(request["messages"]) == 2


@pytest.mark.parametrize(
    ("provider", "model", "temperature"),
    [
        ("openai", "gpt-4o", 0),
        ("qwen", "qwen3-max", 0),
        ("openai", "my-model", None),
        ("gemini", "gemini-3.8-flash", None),
        ("ollama", "qwen3-coder", None),
    ],
)
def test_a_temperature_is_sent_to_models_that_are_known_to_want_it(
    provider: str, model: str, temperature: float | None
) -> None:
    profile = Profile(provider=provider, model=model)
    request = make_xml_request(make_first_turn())
    assert body(profile, request).get("temperature") == temperature
    assert body(structs.replace(profile, temperature=0.5), request)["temperature"] == 0.5
