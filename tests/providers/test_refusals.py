from __future__ import annotations

import json

import pytest

from joey.providers.refusals import (
    OPTIONAL_NAMES,
    find_refusal_of_chat,
    find_refusal_of_responses,
    find_refused_images,
    find_refused_name,
)
from joey.providers.services import (
    CALL_IDS,
    CONTENT_PARTS,
    DESCRIPTIONS,
    IMAGES,
    MISSING_REASONING,
    REFUSED_WITH_IMAGES,
    TEXT_WITH_CALLS,
    USER_AFTER_TOOL,
)

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
        "output_config": {"effort": "low"},
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
        (400, "This model does not support the effort parameter.", "output_config"),
        (400, "messages.1.content.0: Invalid `signature` in `thinking` block", "signature"),
        (400, "Unexpected role 'user' after role 'tool'", USER_AFTER_TOOL),
        (
            400,
            "Assistant message must have either content or tool_calls, but not both.",
            TEXT_WITH_CALLS,
        ),
        (400, "Invalid 'tools[2].function.description': string too long.", DESCRIPTIONS),
        (400, "'Edit files…' is too long - 'functions.0.description'", DESCRIPTIONS),
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


SENT_TO_RESPONSES = (
    b'{"model":"m","store":false,"include":[],"reasoning":{"effort":"low","summary":"auto"},'
    b'"prompt_cache_key":"t","seed":7,"input":[{"type":"reasoning","id":"rs_1","summary":[]},'
    b'{"type":"reasoning","id":"rs_2","summary":[]}],"tools":[{"strict":true}]}'
)


@pytest.mark.parametrize(
    ("status", "text", "name"),
    [
        (404, '{"detail":"Not Found"}', "responses"),
        (404, "<html><h1>404 Not Found</h1></html>", "responses"),
        (404, "Cannot POST /v1/responses", "responses"),
        (405, "", "responses"),
        (400, "Model gpt-6 is not supported with the responses API", "responses"),
        (401, "Missing scopes: api.responses.write", "responses"),
        (404, "The model `m` does not exist or you do not have access to it.", None),
        (404, '{"error":{"code":"model_not_found"}}', None),
        (401, "Incorrect API key provided", None),
        (429, "Rate limit reached", None),
        (
            404,
            "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
            "encrypted_content rs_1 rs_2",
        ),
        (
            400,
            "The encrypted content gAAA...Q== could not be verified. invalid_encrypted_content",
            "encrypted_content rs_1 rs_2",
        ),
        (
            400,
            "Item 'rs_2' of type 'reasoning' was provided without its required following item."
            " invalid_request_error",
            "encrypted_content rs_1 rs_2",
        ),
        (400, "Encrypted content is not supported with this model. 'include' invalid", "include"),
        (400, "Unsupported parameter: 'reasoning.effort' is not supported", "effort"),
        (400, "Unsupported value: 'reasoning.summary' does not support 'auto'", "summary"),
        (
            400,
            "Your organization must be verified to generate reasoning summaries.",
            "summary",
        ),
        (400, "Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key"),
        (400, "Unknown parameter: 'tools[0].strict'.", "strict"),
        (400, "Unknown parameter: 'seed'.", "seed"),
        (400, "Invalid schema for function 'x': 'required' is required", None),
        (400, "Invalid value." + "x" * 1000 + "invalid url", None),
    ],
)
def test_refusals_of_responses_are_understood(status: int, text: str, name: str | None) -> None:
    found = find_refusal_of_responses(status, text, SENT_TO_RESPONSES, ["seed"], frozenset())
    assert found == name
    if name is not None and " " not in name and name != "responses":
        known = frozenset({name})
        args = (status, text, SENT_TO_RESPONSES, ["seed"], known)
        assert find_refusal_of_responses(*args) is None


def test_reasoning_that_was_left_out_is_not_refused_again() -> None:
    text = "The encrypted content could not be verified. invalid_encrypted_content"
    assert find_refusal_of_responses(400, text, b'{"reasoning":{}}', (), frozenset()) is None


@pytest.mark.parametrize(
    ("text", "known", "name"),
    [
        ("This model is only supported in v1/responses and not here.", [], "chat/completions"),
        ("To use function tools, use /v1/responses or set it to 'none'", [], "chat/completions"),
        ("Please use /v1/responses instead.", ["responses"], "reasoning with tools"),
        ("Please use /v1/responses instead.", ["responses", "reasoning with tools"], None),
        ("Please use /v1/completions instead.", [], None),
    ],
)
def test_chat_completions_may_name_the_other_endpoint(
    text: str, known: list[str], name: str | None
) -> None:
    assert find_refusal_of_chat(400, text, frozenset(known)) == name
    assert find_refusal_of_chat(429, text, frozenset(known)) is None


@pytest.mark.parametrize(
    ("status", "text", "name"),
    [
        (400, "this model does not support image input (ref: b8bd630e)", IMAGES),
        (400, "Model do not support image input. Request id: 021", IMAGES),
        (400, "Invalid content type. image_url is only supported by certain models.", IMAGES),
        (404, "No endpoints found that support image input", IMAGES),
        (400, "foo/bar is not a multimodal model", IMAGES),
        (400, "At most 0 image(s) may be provided in one prompt.", IMAGES),
        (400, "messages[7]: unknown variant `image_url`, expected `text`", IMAGES),
        (500, "image input is not supported - hint: you may need to provide the mmproj", IMAGES),
        (400, "Image input not supported for model kimi-k2-thinking", IMAGES),
        (400, "messages.content.type 参数非法，取值范围 ['text']", IMAGES),
        (400, "Invalid API parameter, please check the documentation.", REFUSED_WITH_IMAGES),
        (400, "invalid params, chat content is empty (2013)", REFUSED_WITH_IMAGES),
        (422, "body.messages.7.user.content.str: Input should be a string", REFUSED_WITH_IMAGES),
        (400, "messages.3: image exceeds 5 MB maximum", REFUSED_WITH_IMAGES),
        (413, "Request exceeds the maximum size", REFUSED_WITH_IMAGES),
        (500, "Internal server error", None),
        (404, "The model does not exist", None),
    ],
)
def test_images_are_left_out_where_they_may_be_the_reason(
    status: int, text: str, name: str | None
) -> None:
    sent = b'{"messages":[{"content":[{"type":"image_url","image_url":{}}]}]}'
    assert find_refused_images(status, text, sent, frozenset()) == name
    assert find_refused_images(status, text, b'{"messages":[]}', frozenset()) is None
    assert find_refused_images(status, text, sent, frozenset({IMAGES})) is None


def test_openrouter_refuses_a_parameter_with_404() -> None:
    text = "No endpoints found that support the provided 'tool_choice' value."
    sent = b'{"tool_choice":"auto"}'
    assert find_refused_name(404, text, sent, OPTIONAL_NAMES, frozenset()) == "tool_choice"
    unknown = "No endpoints found for foo/bar. 'tool_choice' is not supported"
    assert find_refused_name(404, unknown, sent, OPTIONAL_NAMES, frozenset()) is None


@pytest.mark.parametrize(
    "text",
    [
        "Unable to tokenize message: Invalid 'content' type. Expected one of: ['str'], got list.",
        "('messages.1.content' : value must be a string)",
        "body.messages.0.user.content : Input should be a valid string",
        "Failed to deserialize: messages[1]: invalid type: sequence, expected a string at line 1",
        "Invalid type for 'messages[0].content': expected a string, but got an array instead",
    ],
)
def test_texts_are_joined_where_a_list_of_them_is_refused(text: str) -> None:
    sent = b'{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}'
    assert find_refused_name(400, text, sent, OPTIONAL_NAMES, frozenset()) == CONTENT_PARTS
    known = frozenset({CONTENT_PARTS})
    assert find_refused_name(400, text, sent, OPTIONAL_NAMES, known) is None
