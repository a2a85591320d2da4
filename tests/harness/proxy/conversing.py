"""Conversations with a model as their requests and responses, on each of the three APIs."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.proxy.filing import ANTHROPIC_PATH, CHAT_PATH, RESPONSES_PATH

SYSTEM = "You are a helper for tests. It is 15:09:20. " + "Follow the rules with care. " * 200
TOOLS = tuple(
    {"name": name, "description": f"Tool {name}. " * 20, "parameters": {"type": "object"}}
    for name in ("alpha", "beta", "gamma")
)
_ANTHROPIC_NAMES = {"parameters": "input_schema"}


def build_request(
    path: str,
    messages: list[tuple[str, str]],
    *,
    system: str = SYSTEM,
    tools: tuple[dict[str, Any], ...] = (),
    model: str = "",
    **fields: Any,
) -> dict[str, Any]:
    """`messages`: role and text of each."""
    plain = [{"role": role, "content": text} for role, text in messages]
    model = model or ("claude-sonnet-4-5" if path == ANTHROPIC_PATH else "gpt-5.1")
    if path == ANTHROPIC_PATH:
        specs = [{_ANTHROPIC_NAMES.get(k, k): v for k, v in tool.items()} for tool in tools]
        mark = {"cache_control": {"type": "ephemeral"}}
        body = {"system": [{"type": "text", "text": system, **mark}], "messages": plain}
    elif path == CHAT_PATH:
        specs = [{"type": "function", "function": tool} for tool in tools]
        body = {"messages": [{"role": "system", "content": system}, *plain]}
    else:
        specs = [{"type": "function", **tool} for tool in tools]
        items = [
            {
                "type": "message",
                "role": role,
                "content": [{"type": _get_part_type(role), "text": text}],
            }
            for role, text in messages
        ]
        body = {"instructions": system, "input": items}
    return {"model": model, "stream": True, **body, **({"tools": specs} if specs else {}), **fields}


def build_response(
    path: str, text: str, *, fresh: int = 10, writes: int = 0, reads: int = 0, output: int = 5
) -> str:
    """A streamed answer; `fresh` counts input that was neither read nor written."""
    total = fresh + writes + reads
    details = {"cached_tokens": reads, "cache_write_tokens": writes}
    usage: dict[str, Any]
    if path == ANTHROPIC_PATH:
        usage = {
            "input_tokens": fresh,
            "cache_creation_input_tokens": writes,
            "cache_read_input_tokens": reads,
            "output_tokens": 1,
        }
        delta = {"type": "text_delta", "text": text}
        block = {"type": "text", "text": ""}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {"id": "msg_1", "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": output},
            },
            {"type": "message_stop"},
        ]
    elif path == RESPONSES_PATH:
        item = {"type": "message", "content": [{"type": "output_text", "text": text}]}
        usage = {
            "input_tokens": total,
            "output_tokens": output,
            "input_tokens_details": details,
        }
        response = {"id": "resp", "status": "completed", "output": [item], "usage": usage}
        events = [{"type": "response.completed", "response": response}]
    else:
        usage = {
            "prompt_tokens": total,
            "completion_tokens": output,
            "prompt_tokens_details": details,
        }
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
        events = [{"choices": [choice]}, {"choices": [], "usage": usage}]
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events)


def _get_part_type(role: str) -> str:
    return "output_text" if role == "assistant" else "input_text"
