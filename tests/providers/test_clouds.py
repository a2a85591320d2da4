"""Requests to clouds as their own SDKs would send them, and Bedrock's stream at every split."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import botocore.session
import httpx2
import pytest
from anthropic import AnthropicVertex, BadRequestError
from openai import AzureOpenAI

from joey.core.messages import (
    Chunk,
    ImageBlock,
    ImageSource,
    Message,
    RedactedThinkingBlock,
    ReplySource,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnsignedReasoningBlock,
    Usage,
    UsageChunk,
    merge_chunks,
)
from joey.core.models import ModelRequest, ToolSpec
from joey.core.settings import Profile
from joey.errors import ConfigError, ProviderError, ProviderFailureKind
from joey.providers.catalog import find_model_info
from joey.providers.clouds.bedrock import BedrockProvider, EventStreamReader
from joey.providers.clouds.converse import ConverseRequestBuilder, ConverseStreamDecoder
from joey.providers.clouds.vertex import VertexClaudeProvider
from joey.providers.errors import build_service_info
from joey.providers.factory import make_provider, resolve_model
from joey.providers.http_client import HttpClient
from joey.tools.parameters import build_native_schema
from joey.tools.read_file import ReadFileParams
from tests.service_rules import converse

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
URL = "https://bedrock-runtime.us-east-1.amazonaws.com/"
HOST = "bedrock-runtime.us-east-1.amazonaws.com"
SERVICE = build_service_info(Profile(provider="bedrock", model=CLAUDE), URL)
READ: converse.Calls = [("read_file", {"path": "ä.txt"}), ("list_files", {"path": "."})]


def make(**fields: Any) -> Any:
    return make_provider(Profile(**fields), HttpClient(environ={}))


# Addresses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "us-gov-west-1"])
@pytest.mark.parametrize(
    "model",
    [
        CLAUDE,
        "openai.gpt-oss-120b-1:0",
        "arn:aws:bedrock:{region}:123456789012:application-inference-profile/a1b2c3",
    ],
)
def test_bedrock_is_where_its_sdk_finds_it(region: str, model: str) -> None:
    model = model.format(region=region)
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    session = botocore.session.Session()
    client = session.create_client("bedrock-runtime", region_name=region, **keys)
    provider = make(provider="bedrock", model=model, region=region)
    assert provider._url == client.meta.endpoint_url + converse.build_path(model)


def test_an_arn_is_asked_for_in_its_own_region() -> None:
    arn = "arn:aws:bedrock:eu-west-3:123456789012:inference-profile/eu.amazon.nova-pro-v1:0"
    provider = make(provider="bedrock", model=arn, region="us-east-1")
    assert provider.address == "bedrock-runtime.eu-west-3.amazonaws.com:443"


@pytest.mark.parametrize("region", ["global", "us", "eu", "us-east5"])
def test_claude_on_vertex_is_where_its_sdk_finds_it(region: str) -> None:
    model = "claude-sonnet-4-5@20250929"
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(400)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = AnthropicVertex(
        region=region, project_id="me-1", access_token="t", http_client=http, max_retries=0
    )
    with pytest.raises(BadRequestError):
        client.messages.create(
            model=model, max_tokens=9, messages=[{"role": "user", "content": "hi"}], stream=True
        )
    provider = make(provider="vertex", model=model, region=region, project="me-1")
    assert isinstance(provider, VertexClaudeProvider)
    assert provider._url == str(sent[0].url)
    assert json.loads(sent[0].content).keys() == {
        "max_tokens",
        "messages",
        "stream",
        "anthropic_version",
    }


@pytest.mark.parametrize("version", [None, "2024-10-21"])
def test_azure_is_where_its_sdk_finds_it(version: str | None) -> None:
    endpoint = "https://me.openai.azure.com"
    client = AzureOpenAI(azure_endpoint=endpoint, api_version=version or "preview", api_key="k")
    path = client._prepare_url("/deployments/d/chat/completions")
    provider = make(
        provider="azure", model="d", base_url=endpoint, api_version=version, api_key="k"
    )
    expected = f"{path}?api-version={version}"
    assert provider._url == (expected if version else f"{endpoint}/openai/v1/chat/completions")
    assert provider._headers["api-key"] == "k"


@pytest.mark.parametrize("end", ["", "/", "/openai", "/openai/v1", "/openai/v1/chat/completions"])
def test_any_form_of_azures_address_is_understood(end: str) -> None:
    provider = make(provider="azure", model="d", base_url=f"https://x.example{end}", api_key="k")
    assert provider._url == "https://x.example/openai/v1/chat/completions"


@pytest.mark.parametrize(
    "credentials", [{"file": "/nowhere/key.json"}, {"key": "no json"}, {"key": "[]"}]
)
def test_a_key_of_a_service_account_that_is_none_is_found_at_once(
    credentials: dict[str, str],
) -> None:
    with pytest.raises(ConfigError, match="key of the service account"):
        make(provider="vertex", model="claude-x", project="me", credentials=credentials)


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (CLAUDE, "claude-sonnet-4-5"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("global.anthropic.claude-sonnet-5-5", "claude-sonnet-5-5"),
        (f"arn:aws:bedrock:us-east-1:1:inference-profile/{CLAUDE}", "claude-sonnet-4-5"),
        ("openai.gpt-oss-120b-1:0", "gpt-oss-120b"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
    ],
)
def test_ids_of_clouds_are_known_models(model: str, known: str) -> None:
    found, expected = find_model_info("bedrock", model), find_model_info("openrouter", known)
    assert found.is_known
    assert (found.context_window, found.prices) == (expected.context_window, expected.prices)


# Bodies -----------------------------------------------------------------------------------------


def build(messages: list[Message], **fields: Any) -> dict[str, Any]:
    profile = Profile(provider="bedrock", **{"model": CLAUDE, **fields})
    tool = ToolSpec("read_file", "Reads.", build_native_schema(ReadFileParams))
    builder = ConverseRequestBuilder(profile, resolve_model(profile), HOST)
    body = builder.build_body(ModelRequest("Be brief.", messages, (tool,)))
    made: dict[str, Any] = json.loads(b"".join(body))
    assert converse.find_model_violations(made, profile.model) == []
    return made


def make_history(source: ReplySource) -> list[Message]:
    image = ImageBlock(ImageSource("image/png", "aGVsbG8="))
    blocks = (
        ThinkingBlock("Hm.", "sig=="),
        RedactedThinkingBlock("b3BhcXVl"),
        UnsignedReasoningBlock("Plain."),
        TextBlock(" "),
        TextBlock("I look."),
        ToolUseBlock("call_1", "read_file", {"path": "a"}, {"google": {"x": "y"}}),
    )
    results = (ToolResultBlock("call_1", [TextBlock("ok"), image], True), TextBlock("and now?"))
    return [
        Message("user", (TextBlock("look"), image)),
        Message("assistant", blocks, source=source),
        Message("user", results),
    ]


def test_a_history_is_what_the_service_model_knows() -> None:
    source = ReplySource(f"bedrock@{HOST}", CLAUDE)
    body = build(
        make_history(source),
        thinking_budget=2000,
        reasoning_effort="high",
        top_k=5,
        extra_body={"serviceTier": {"type": "flex"}, "anthropic_beta": ["x"]},
    )
    reply = body["messages"][1]["content"]
    assert [next(iter(block)) for block in reply] == [
        "reasoningContent",
        "reasoningContent",
        "text",
        "toolUse",
    ]
    assert reply[0] == {
        "reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "sig=="}}
    }
    assert body["additionalModelRequestFields"] == {
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "anthropic_beta": ["x"],
    }
    assert body["serviceTier"] == {"type": "flex"}
    assert body["outputConfig"] == {"effort": "high"}
    assert "temperature" not in body["inferenceConfig"]
    marked = [message["content"][-1] for message in body["messages"]]
    assert [block == {"cachePoint": {"type": "default"}} for block in marked] == [True, False, True]


def test_thoughts_of_another_model_and_cache_marks_stay_away_from_models_without() -> None:
    body = build(make_history(ReplySource("anthropic", "claude-x")), model="amazon.nova-pro-v1:0")
    reply = body["messages"][1]["content"]
    assert [next(iter(block)) for block in reply] == ["text", "toolUse"]
    assert "cachePoint" not in json.dumps(body)
    assert body["inferenceConfig"] == {"maxTokens": 8192}


# The stream -------------------------------------------------------------------------------------


def read(pieces: list[bytes]) -> list[Chunk]:
    reader, decoder = EventStreamReader(SERVICE), ConverseStreamDecoder(SERVICE)
    events = (event for piece in pieces for event in reader.feed(piece))
    chunks = list(merge_chunks(chunk for event in events for chunk in decoder.feed(event)))
    assert decoder.is_stream_finished
    return chunks


def test_a_stream_is_the_same_at_every_split() -> None:
    frames = list(converse.iter_reply_frames("Äh.", "I think so.", "sig==", READ, ["a", "b"]))
    data = b"".join(frames)
    whole = read([data])
    usage = next(chunk.usage for chunk in whole if isinstance(chunk, UsageChunk))
    assert usage == Usage(input=120, output=7, cache_reads=30)
    for size in (1, 3, 16, 100):
        places = [*range(0, len(data), size), len(data)]
        assert read([data[a:b] for a, b in pairwise(places)]) == whole
    for place in range(len(data)):
        assert read([data[:place], data[place:]]) == whole


def test_a_damaged_stream_is_an_error() -> None:
    data = b"".join(converse.iter_reply_frames("Hm.", "So be it.", "sig==", READ, ["a", "b"]))
    for place in range(0, len(data), 11):
        damaged = data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]
        reader, decoder = EventStreamReader(SERVICE), ConverseStreamDecoder(SERVICE)
        try:
            for event in reader.feed(damaged):
                list(decoder.feed(event))
        except ProviderError as error:
            assert error.failure is ProviderFailureKind.MALFORMED_STREAM
        else:
            assert not decoder.is_stream_finished


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("throttlingException", ProviderFailureKind.RATE_LIMIT),
        ("validationException", ProviderFailureKind.INVALID_REQUEST),
        ("modelStreamErrorException", ProviderFailureKind.OVERLOAD),
        ("internalServerException", ProviderFailureKind.OVERLOAD),
        ("serviceUnavailableException", ProviderFailureKind.OVERLOAD),
    ],
)
def test_an_exception_in_the_stream_is_one_of_its_kind(
    name: str, failure: ProviderFailureKind
) -> None:
    reader, decoder = EventStreamReader(SERVICE), ConverseStreamDecoder(SERVICE)
    (event,) = reader.feed(converse.encode_exception(name, "so it is"))
    with pytest.raises(ProviderError, match="so it is") as caught:
        list(decoder.feed(event))
    assert caught.value.failure is failure


def test_redacted_thoughts_keep_their_data() -> None:
    delta = {"reasoningContent": {"redactedContent": "b3BhcXVl"}}
    frame = converse.encode_event("contentBlockDelta", {"delta": delta, "contentBlockIndex": 0})
    reader, decoder = EventStreamReader(SERVICE), ConverseStreamDecoder(SERVICE)
    (chunk,) = decoder.feed(reader.feed(frame)[0])
    assert getattr(chunk, "redacted", None) == "b3BhcXVl"


def test_a_model_that_takes_no_tools_in_a_stream_gets_xml() -> None:
    decoder = ConverseStreamDecoder(SERVICE)
    text = "This model doesn't support tool use in streaming mode."
    (event,) = EventStreamReader(SERVICE).feed(
        converse.encode_exception("validationException", text)
    )
    with pytest.raises(ProviderError) as caught:
        list(decoder.feed(event))
    assert caught.value.failure is ProviderFailureKind.TOOLS_REFUSED


def test_bedrock_counts_as_a_service_of_its_own() -> None:
    provider = make(provider="bedrock", model=CLAUDE, region="us-east-1")
    assert isinstance(provider, BedrockProvider)
    assert provider._service_id == f"bedrock@{HOST}"
