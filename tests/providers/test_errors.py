from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from joey.core.settings import ModelRoute, Profile
from joey.errors import ProviderError, ProviderFailureKind
from joey.providers.errors import (
    ServiceInfo,
    build_response_error,
    build_service_info,
    is_context_overflow,
    parse_retry_after,
)
from joey.providers.factory import make_provider
from joey.providers.http_client import HttpClient
from joey.testing.script import Fail, Turn, disconnect, fail, say
from tests.harness.providers.provider_connection import MODEL_REQUEST, PROFILES, stream_until_error
from tests.harness.providers.refusals import TOOL_REFUSALS
from tests.harness.providers.sockets import Reader, Writer, read_request, run_server

SERVICE = ServiceInfo("anthropic", "model.test:443", "claude-x", "work", "k3y-secret", "MY_KEY")


async def failing(wire: str, step: Fail) -> ProviderError:
    chunks, error = await stream_until_error(wire, Turn(step, say("never said")))
    assert chunks == []
    assert error is not None
    return error


@pytest.mark.contract("services:errors")
@pytest.mark.parametrize("wire", ["anthropic", "openai"])
@pytest.mark.parametrize(
    ("status", "expected_failure"),
    [
        (400, ProviderFailureKind.INVALID_REQUEST),
        (401, ProviderFailureKind.AUTH),
        (402, ProviderFailureKind.QUOTA),
        (403, ProviderFailureKind.AUTH),
        (404, ProviderFailureKind.NOT_FOUND),
        (413, ProviderFailureKind.INVALID_REQUEST),
        (422, ProviderFailureKind.INVALID_REQUEST),
        (429, ProviderFailureKind.RATE_LIMIT),
        (498, ProviderFailureKind.OVERLOAD),
        (500, ProviderFailureKind.OVERLOAD),
        (502, ProviderFailureKind.OVERLOAD),
        (503, ProviderFailureKind.OVERLOAD),
        (529, ProviderFailureKind.OVERLOAD),
    ],
)
async def test_every_status_has_its_kind_of_failure(
    wire: str, status: int, expected_failure: ProviderFailureKind
) -> None:
    error = await failing(wire, fail(status, "No.", code="some_code", retry_after=7))
    assert (error.failure, error.status, error.code) == (expected_failure, status, "some_code")
    assert error.retry_after == 7
    assert "No." in str(error)


@pytest.mark.contract("services:errors")
async def test_a_wrong_key_says_where_to_put_the_right_one_and_is_not_repeated() -> None:
    error = await failing("anthropic", fail(401, "invalid key: k3y-secret"))
    assert "ANTHROPIC_API_KEY" in str(error)
    assert "'default'" in str(error)
    assert "k3y" not in str(error)


async def test_a_missing_key_is_distinguished_from_a_wrong_one() -> None:
    service = structs.replace(SERVICE, api_key=None)
    assert "none is set. Set MY_KEY, or" in str(build_response_error(service, 401, {}, b""))
    local = structs.replace(service, key_variable=None)
    assert "Set apiKey in the profile 'work'." in str(build_response_error(local, 401, {}, b""))


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (
            ModelRoute(profile=""),
            "Check the name of the model (joey models lists them) and OPENAI_BASE_URL, which",
        ),
        (ModelRoute(profile="", base_url="http://x/v1"), "and --base-url, which is http://x/v1."),
        (
            ModelRoute(profile="work", base_url="http://x/v1"),
            "and the base URL of the profile 'work',",
        ),
    ],
)
def test_what_is_wrong_is_sought_where_it_was_said(route: ModelRoute, expected: str) -> None:
    profile = Profile(provider="openai", model="m", base_url="http://x/v1", api_key="k3y-secret")
    service = build_service_info(profile, "http://x/v1/chat/completions", route)
    assert expected in str(build_response_error(service, 404, {}, b""))
    named = "or apiKey in the profile 'work'" in str(build_response_error(service, 401, {}, b""))
    assert named is (route.profile == "work")


def test_the_address_of_the_service_itself_is_not_to_blame() -> None:
    profile = Profile(provider="openai", model="m", api_key="k3y-secret")
    service = build_service_info(
        profile, "https://api.openai.com/v1/chat/completions", ModelRoute(profile="")
    )
    message = str(build_response_error(service, 404, {}, b""))
    assert "Check the name of the model (joey models lists them). (404)" in message


async def test_an_unknown_model_is_named() -> None:
    error = await failing("openai", fail(404, "The model does not exist"))
    assert "'gpt-4.1'" in str(error)


OVERFLOWS = [
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
    "This model's maximum context length is 128000 tokens. However, you requested 2000 output"
    " tokens and your prompt contains at least 127000 input tokens",
    "Your input exceeds the context window of this model.",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "the request exceeds the available context size, try increasing it",
    "Trying to keep the first 5000 tokens when context the overflows.",
    "Please reduce the length of the messages or completion.",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "`inputs` tokens + `max_new_tokens` must be <= 8193",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Input is too long for requested model.",
    "too many tokens: total number of tokens in the prompt exceeds the limit",
    "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
    "Prompt exceeds max length",
    "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
    "Input validation error: `inputs` must have less than 32768 tokens. Given: 40000",
    "invalid params, context window exceeds limit (2013)",
]
OTHERS = [
    "max_tokens: 300000 > 128000, which is the maximum allowed number of output tokens",
    "Request too large: Limit 30000, context window aside, on tokens per minute (TPM)",
    "messages.3.content.0: image exceeds 5 MB maximum",
    "tools.0.input_schema: JSON schema is invalid",
    "temperature: may only be set to 1 when thinking is enabled",
]


@pytest.mark.contract("services:errors")
@pytest.mark.parametrize("text", OVERFLOWS)
def test_a_conversation_that_is_too_long_is_recognised(text: str) -> None:
    assert is_context_overflow(text)
    body = msgspec.json.encode({"error": {"message": text, "type": "invalid_request_error"}})
    assert (
        build_response_error(SERVICE, 400, {}, body).failure is ProviderFailureKind.CONTEXT_OVERFLOW
    )


@pytest.mark.parametrize("text", OTHERS)
def test_other_refusals_are_not_taken_for_a_long_conversation(text: str) -> None:
    body = msgspec.json.encode({"error": {"message": text}})
    assert (
        build_response_error(SERVICE, 400, {}, body).failure is ProviderFailureKind.INVALID_REQUEST
    )


@pytest.mark.contract("protocol:change")
@pytest.mark.parametrize(("status", "text"), TOOL_REFUSALS)
async def test_a_refusal_of_tools_is_recognised_and_says_what_to_do(status: int, text: str) -> None:
    error = await failing("openai", fail(status, text))
    assert (error.failure, error.status) == (ProviderFailureKind.TOOLS_REFUSED, status)
    assert "--protocol xml" in str(error) and text[:40] in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "tools.0.input_schema: JSON schema is invalid",
        "This model does not support images",
        "This model does not support parallel tool calls",
        "Parallel tool calls are not supported.",
        "Tools are not supported with response_format",
        "This model does not support tools with structured output",
    ],
)
async def test_other_errors_about_tools_are_no_refusal_of_them(text: str) -> None:
    error = await failing("openai", fail(400, text))
    assert error.failure is ProviderFailureKind.INVALID_REQUEST


@pytest.mark.contract("services:errors")
async def test_the_code_of_openai_for_a_long_conversation_is_enough() -> None:
    error = await failing("openai", fail(400, "Too long.", code="context_length_exceeded"))
    assert (error.failure, error.status) == (ProviderFailureKind.CONTEXT_OVERFLOW, 400)


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (429, "You exceeded your current quota, check your plan", "insufficient_quota"),
        (400, "Your credit balance is too low to access the API", None),
        (403, "Insufficient balance", None),
    ],
)
async def test_an_empty_account_is_not_a_reason_to_wait(
    status: int, message: str, code: str | None
) -> None:
    assert (
        await failing("openai", fail(status, message, code=code))
    ).failure is ProviderFailureKind.QUOTA


def test_the_time_to_wait_is_read_in_all_its_forms() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=90)
    google = b'[{"error":{"code":429,"details":[{"@type":"x/RetryInfo","retryDelay":"34.5s"}]}}]'
    nested = msgspec.json.encode({"error": {"metadata": {"raw": google.decode()}}})
    assert parse_retry_after({"retry-after": "12"}) == 12
    assert parse_retry_after({"retry-after": "1.5"}) == 1.5
    assert parse_retry_after({"retry-after-ms": "250", "retry-after": "12"}) == 0.25
    assert parse_retry_after({"retry-after": format_datetime(soon)}) == pytest.approx(90, abs=5)
    assert parse_retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert parse_retry_after({}, google) == 34.5
    assert parse_retry_after({}, nested) == 34.5
    assert parse_retry_after({"retry-after": "soon"}) is None
    assert parse_retry_after({"retry-after": "-5"}) is None
    assert parse_retry_after({}) is None


def test_google_answers_with_a_list() -> None:
    body = b'[{"error": {"code": 429, "message": "Resource exhausted", "status": "EXHAUSTED"}}]'
    error = build_response_error(SERVICE, 429, {}, body)
    assert (error.failure, error.code) == (ProviderFailureKind.RATE_LIMIT, "EXHAUSTED")
    assert "Resource exhausted" in str(error)


def test_a_quota_of_google_is_a_rate_limit_unless_it_is_one_of_the_day() -> None:
    def classify(quota: str) -> ProviderFailureKind:
        details = [
            {"violations": [{"quotaId": quota}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38s"},
        ]
        message = "You exceeded your current quota, please check your plan and billing details."
        error = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED"}
        body = msgspec.json.encode([{"error": {**error, "details": details}}])
        return build_response_error(SERVICE, 429, {}, body).failure

    minute = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
    assert classify(minute) is ProviderFailureKind.RATE_LIMIT
    assert classify(minute.replace("Minute", "Day")) is ProviderFailureKind.QUOTA


@pytest.mark.parametrize("code", ["tool_use_failed", "output_parse_failed"])
def test_a_call_that_groq_cannot_read_is_worth_another_attempt(code: str) -> None:
    message = "Failed to call a function. Please adjust your prompt."
    error = {"message": message, "code": code, "failed_generation": "{", "type": "invalid_request"}
    body = msgspec.json.encode({"error": error})
    found = build_response_error(SERVICE, 400, {}, body)
    assert found.failure is ProviderFailureKind.MALFORMED_STREAM
    assert "could not read a call" in str(found)


async def test_a_web_page_is_not_shown_to_the_user() -> None:
    page = "<html><body>" + "x" * 5000 + "</body></html>"
    error = await failing(
        "openai", fail(502, body=page, headers={"content-type": "text/html; charset=utf-8"})
    )
    assert error.failure is ProviderFailureKind.OVERLOAD
    assert len(str(error)) < 300


def test_a_long_explanation_is_cut() -> None:
    assert len(str(build_response_error(SERVICE, 400, {}, b"x" * 5000))) < 1000


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_redirection_is_not_followed_but_reported(wire: str) -> None:
    error = await failing(wire, fail(308, headers={"location": "https://new.test/v1"}))
    assert (error.failure, error.status) == (ProviderFailureKind.NOT_FOUND, 308)
    assert "https://new.test/v1" in str(error)
    assert "base URL" in str(error)


@pytest.mark.contract("services:errors")
@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_connection_closed_before_the_head_is_an_error(wire: str) -> None:
    _, error = await stream_until_error(wire, Turn(disconnect()))
    assert error is not None
    assert error.failure is ProviderFailureKind.NETWORK


@pytest.mark.parametrize(
    ("head", "body", "error", "text"),
    [
        (
            "content-type: text/html",
            "<html></html>",
            ProviderFailureKind.MALFORMED_STREAM,
            "a web page",
        ),
        (
            "content-type: application/json",
            '{"id": 1}',
            ProviderFailureKind.MALFORMED_STREAM,
            "a JSON document",
        ),
        (
            "content-type: application/json",
            '{"error":{"code":429}}',
            ProviderFailureKind.RATE_LIMIT,
            "rate limit reached",
        ),
        ("content-encoding: gzip", "", ProviderFailureKind.MALFORMED_STREAM, "compressed"),
        ("x-nothing: at all", "", ProviderFailureKind.NETWORK, "before the answer was complete"),
    ],
)
async def test_a_success_that_is_no_stream_is_distinguished(
    head: str, body: str, error: ProviderFailureKind, text: str
) -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(
            f"HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
        )

    async with asyncio.timeout(60), run_server(handler) as port:
        http = HttpClient(environ={})
        profile = structs.replace(PROFILES["openai"], base_url=f"http://127.0.0.1:{port}/v1")
        with pytest.raises(ProviderError, match=text) as caught:
            async for _ in make_provider(profile, http).stream(MODEL_REQUEST):
                pass
        await http.close()
    assert caught.value.failure is error


async def test_a_refusal_that_is_cut_off_keeps_its_status() -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(b'HTTP/1.1 429 Slow\r\nretry-after: 4\r\ncontent-length: 99\r\n\r\n{"err')

    async with asyncio.timeout(60), run_server(handler) as port:
        http = HttpClient(environ={})
        profile = structs.replace(PROFILES["anthropic"], base_url=f"http://127.0.0.1:{port}")
        with pytest.raises(ProviderError) as caught:
            async for _ in make_provider(profile, http).stream(MODEL_REQUEST):
                pass
    error = caught.value
    assert (error.failure, error.status, error.retry_after) == (
        ProviderFailureKind.RATE_LIMIT,
        429,
        4,
    )


async def test_a_server_that_is_not_running_is_named_with_its_address() -> None:
    async def handler(reader: Reader, writer: Writer) -> None:
        return

    async with run_server(handler) as port:
        pass
    profile = Profile(provider="ollama", model="qwen3", base_url=f"127.0.0.1:{port}")
    with pytest.raises(ProviderError, match=f"127.0.0.1:{port}.*refused") as caught:
        async for _ in make_provider(profile, HttpClient(environ={})).stream(MODEL_REQUEST):
            pass
    assert caught.value.failure is ProviderFailureKind.NETWORK


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "code", "type"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(
    st.integers(300, 599),
    st.binary(max_size=60) | json_values.map(msgspec.json.encode),
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "content-type", "location"]),
        st.text(max_size=12),
    ),
)
def test_any_refusal_is_a_provider_error(status: int, body: bytes, headers: dict[str, str]) -> None:
    error = build_response_error(SERVICE, status, headers, body)
    assert error.status == status
    assert error.retry_after is None or error.retry_after >= 0
