"""What Anthropic's and OpenAI's services demand of a request, checked on the bytes that are sent.

Stricter than either service is in places (roles alternate, words come after results): a history
that passes here is taken by both and by the local servers whose templates know no mercy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from joey.core.messages import Message
from joey.core.models import ModelInfo, ModelRequest
from joey.core.settings import Profile
from joey.providers.anthropic import AnthropicRequestBuilder
from joey.providers.openai_request import OpenAiRequestBuilder

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MODEL = ModelInfo(id="checked")
_PROFILE = Profile(name="checked", provider="anthropic", model="checked")


def check_request(request: ModelRequest) -> None:
    """Raise AssertionError unless both services would take it."""
    anthropic = AnthropicRequestBuilder(_PROFILE, _MODEL, legacy=False).build_body(request)
    check_anthropic(json.loads(b"".join(anthropic)))
    openai = OpenAiRequestBuilder(_PROFILE, _MODEL, "localhost").build_body(request)
    check_openai(json.loads(b"".join(openai)))


def check_messages(messages: Sequence[Message]) -> None:
    check_request(ModelRequest(system_prompt="s", messages=tuple(messages)))


def check_anthropic(body: dict[str, Any]) -> None:
    messages = body["messages"]
    assert messages, "no messages"
    assert messages[0]["role"] == "user", "the first message is not the user's"
    assert messages[-1]["role"] == "user", "nothing to answer"
    seen: set[str] = set()
    waiting: list[str] = []
    before = None
    for place, message in enumerate(messages):
        role, blocks = message["role"], _blocks(message)
        assert role in ("user", "assistant")
        assert role != before, f"message {place}: two of {role} in a row"
        assert blocks, f"message {place} is empty"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if role == "user":
            assert results == waiting, f"message {place}: results {results}, wanted {waiting}"
            kinds = [block["type"] == "tool_result" for block in blocks]
            assert kinds == sorted(kinds, reverse=True), f"message {place}: words before results"
            waiting = []
        else:
            assert not results, f"message {place}: the model answers itself"
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            assert not seen.intersection(waiting) and len(set(waiting)) == len(waiting)
            seen.update(waiting)
            assert all(map(_ID.fullmatch, waiting))
        for block in blocks:
            assert block["type"] != "text" or block["text"].strip(), f"message {place}: empty text"
        before = role
    assert not waiting, "calls without results"


def check_openai(body: dict[str, Any]) -> None:
    messages = body["messages"]
    assert messages[0]["role"] in ("system", "developer")
    waiting: list[str] = []
    before = "system"
    for place, message in enumerate(messages[1:], 1):
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] in waiting, f"message {place}: a result of no call"
            waiting.remove(message["tool_call_id"])
            assert message["content"]
            before = "tool"
            continue
        assert not waiting, f"message {place}: calls without results before it"
        assert role in ("user", "assistant") and role != before, f"message {place}: {role}, again"
        assert message.get("content") or message.get("tool_calls"), f"message {place} is empty"
        for call in message.get("tool_calls", ()):
            json.loads(call["function"]["arguments"])
            waiting.append(call["id"])
        before = role
    assert not waiting, "calls without results at the end"
    assert before in ("user", "tool"), "nothing to answer"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
