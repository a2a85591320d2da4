from __future__ import annotations

import json

import pytest

from joey.providers.refusals import OPTIONAL_NAMES, find_refused_name
from joey.providers.services import CALL_IDS, MISSING_REASONING, USER_AFTER_TOOL

SENT = json.dumps(
    {
        "model": "m",
        "temperature": 0,
        "top_p": 1,
        "stream_options": {},
        "parallel_tool_calls": True,
        "max_tokens": 1,
        "reasoning_effort": "low",
        "presence_penalty": 1,
        "messages": [
            {"content": 'not a key: "min_p":1', "reasoning_content": "", "tool_calls": []},
            {"thinking": "", "signature": "", "reasoning": ""},
        ],
        "tools": [{"cache_control": {}, "strict": True}],
    },
    separators=(",", ":"),
).encode()


@pytest.mark.parametrize(
    ("status", "text", "name"),
    [
        (400, "Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
        (400, "Model grok-4 does not support parameter reasoningEffort.", "reasoning_effort"),
        (400, "Model grok-4 does not support parameter presencePenalty.", "presence_penalty"),
        (400, "Argument not supported on this model: temperature", "temperature"),
        (400, "invalid temperature: only 1 is allowed for this model", "temperature"),
        (
            400,
            "Unsupported value: 'temperature' does not support 0 with this model.",
            "temperature",
        ),
        (400, "`temperature` is deprecated for this model.", "temperature"),
        (
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
            " 'max_completion_tokens' instead.",
            "max_tokens",
        ),
        (422, '[{"type":"extra_forbidden","loc":["body","stream_options"]}]', "stream_options"),
        (400, "Extra inputs are not permitted, field: 'stream_options'", "stream_options"),
        (400, "('messages.1' : property 'reasoning_content' is unsupported)", "reasoning_content"),
        (400, "property 'messages.2.assistant.reasoning' is unsupported", "reasoning"),
        (400, 'Unknown name \\"parallel_tool_calls\\": Cannot find field.', "parallel_tool_calls"),
        (400, "tools.0.cache_control: Extra inputs are not permitted", "cache_control"),
        (400, "messages.1.content.0: Invalid `signature` in `thinking` block", "signature"),
        (400, "Unexpected role 'user' after role 'tool'", USER_AFTER_TOOL),
        (500, "Jinja Exception: conversation roles must alternate user and", USER_AFTER_TOOL),
        (400, "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", CALL_IDS),
        (
            400,
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            MISSING_REASONING,
        ),
        (
            400,
            "thinking is enabled but reasoning_content is missing in assistant tool call message",
            MISSING_REASONING,
        ),
        (
            400,
            "The `content[].thinking` in the thinking mode must be passed back to the API.",
            MISSING_REASONING,
        ),
        (400, "unknown argument: min_p", None),
        (400, "max_tokens is too large: 99999. This model supports at most 4096.", None),
        (400, "The model does not support reasoning or temperature changes", None),
        (401, "Unrecognized request argument supplied: top_p", None),
        (400, "top_p must be set", None),
    ],
)
def test_what_a_service_complains_about_is_found(status: int, text: str, name: str | None) -> None:
    assert find_refused_name(status, text, SENT, OPTIONAL_NAMES, frozenset()) == name
    if name is not None:
        assert find_refused_name(status, text, SENT, OPTIONAL_NAMES, frozenset({name})) is None
