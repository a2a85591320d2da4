"""Errors of model services: kind of failure, time to wait, message for the user.

The kind of a `ProviderError` decides what the engine does about it, so it keeps everything that a
service reports: status, its own code, and the requested wait. Neither the API key nor a header of
the profile appears in it, even if the service repeats them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.core.redaction import redact_secrets, remove_secrets
from joey.core.settings import ModelRoute, Profile
from joey.core.text import compile_regex
from joey.errors import NOT_RUNNING_CODE, ProviderError, ProviderFailureKind
from joey.providers.catalog import find_provider_spec, suggest_path
from joey.providers.http_connection import parse_url

MAX_ERROR_BODY_BYTES = 64 * 1024
JSON_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are not JSON, or nested without end."""
_MAX_MESSAGE_CHARS = 600


_CONTEXT_OVERFLOW_RE = compile_regex(
    r"prompt is too long|input is too long|context[ _](?:length|window|size|limit)"
    r"|maximum (?:context|prompt|model length)|token count .{0,24}exceeds"
    r"|too many (?:input )?tokens|exceeds? the maximum number of tokens|exceed_context"
    r"|context the overflows|reduce the length of the messages|max_new_tokens"
    r"|exceeded model token limit|prompt exceeds max|range of input length should be"
    r"|exceeds the maximum allowed length|inputs. must have less than \d+ tokens"
    r"|maximum supported sequence length",
    re.IGNORECASE,
)
_NOT_CONTEXT_OVERFLOW_RE = compile_regex(
    r"per (?:min|hour|day)|maximum (?:allowed )?number of output tokens", re.IGNORECASE
)
_STATED_WINDOW_RE = compile_regex(
    r"available context size \((\d+)|maximum (?:context|model) length (?:is|of) (\d+)"
    r"|context length of only (\d+)|> (\d+) maximum|model token limit: (\d+)"
    r"|input length should be \[1, (\d+)\]|maximum allowed length \((\d+)",
    re.IGNORECASE,
)
"""llama.cpp, vLLM and OpenAI, LM Studio, Anthropic, Moonshot, Alibaba, SGLang."""
_TOOLS = r"(?<!parallel )\b(?:tools|tool (?:use|calls?|calling)|function calls?|function calling)"
_TOOLS_REFUSED_RE = compile_regex(
    rf"(?:does not|doesn't) support {_TOOLS}\b(?! (?:with|when|while|in (?!streaming))\b)"
    rf"|{_TOOLS}`? (?:is|are) not supported(?: (?:in|for|with|by) (?:this|the) model)?\s*(?:\.|$)"
    r"|tool choice requires --enable-auto-tool-choice|function calling is not enabled"
    r"|no endpoints found that support tool use|tools param requires --jinja",
    re.IGNORECASE,
)
"""Ollama, DeepSeek and xAI; OpenAI, Groq and Alibaba; vLLM; Gemini; OpenRouter; llama.cpp."""
TOOL_CHOICE_FLAG = "--enable-auto-tool-choice"
_VLLM_PARSERS = (
    (r"qwen-?3-?(?:coder|\.5)", "qwen3_coder"),
    (r"qwen|hermes", "hermes"),
    (r"stral|mixtral", "mistral"),
    (r"llama-?4", "llama4_pythonic"),
    (r"llama", "llama3_json"),
    (r"gpt-oss", "openai"),
    (r"glm-4", "glm45"),
    (r"kimi-k2", "kimi_k2"),
    (r"deepseek-v3", "deepseek_v3"),
)
"""What vLLM calls the parsers of calls in the formats of model families."""
_OUT_OF_MEMORY_RE = compile_regex(
    r"more system memory|out of memory|cudaMalloc failed|(?:unable|failed) to allocate",
    re.IGNORECASE,
)
"""Ollama and llama.cpp, when a model is loaded."""
_PERMANENT_RE = compile_regex(
    r"requires --\w|jinja|chat template|does not support|not supported|unsupported"
    r"|model .{0,80}not found",
    re.IGNORECASE,
)
"""Reports of a server error that the same request would meet again."""
_UNKNOWN_ENDPOINT_RE = compile_regex(r"unexpected endpoint or method", re.IGNORECASE)
"""LM Studio's, with the status 200."""
_QUOTA_RE = compile_regex(
    r"insufficient[_ ](?:quota|balance|credit|funds)|credit balance|exceeded your current quota"
    r"|billing|payment required|out of credits",
    re.IGNORECASE,
)
_DAILY_QUOTA_ID = "PerDay"
"""In Google's names of quotas, all of which it answers with a time to wait."""
_UNREADABLE_CALL_CODES = ("tool_use_failed", "output_parse_failed")
"""Groq's: the model has written something that is no call."""
_RETRY_DELAY_RE = compile_regex(r'retryDelay\\*"\s*:\s*\\*"(\d+(?:\.\d+)?)s')

_FAILURE_BY_STATUS: dict[int, ProviderFailureKind] = {
    401: ProviderFailureKind.AUTH,
    402: ProviderFailureKind.QUOTA,
    403: ProviderFailureKind.AUTH,
    404: ProviderFailureKind.NOT_FOUND,
    408: ProviderFailureKind.OVERLOAD,
    409: ProviderFailureKind.OVERLOAD,
    424: ProviderFailureKind.OVERLOAD,
    425: ProviderFailureKind.OVERLOAD,
    429: ProviderFailureKind.RATE_LIMIT,
    498: ProviderFailureKind.OVERLOAD,
}
_STATUS_BY_CODE: dict[str, int] = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "invalid_request_error": 400,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 402,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "invalid_prompt": 400,
    "throttlingException": 429,
    "validationException": 400,
}
"""The status that an error inside a stream would have had."""


_CODE_BY_MINIMAX_STATUS = {
    1002: "rate_limit_exceeded",
    1004: "authentication_error",
    1008: "insufficient_quota",
    1026: "content_filter",
    1027: "content_filter",
    1039: "context_length_exceeded",
    2013: "invalid_request_error",
}


class ServiceInfo(Struct, frozen=True):
    """The service, as far as messages need to describe it."""

    provider_name: str
    """Of the provider: `anthropic`, `openai`…"""
    address: str
    """`host:port`."""
    model: str
    profile_name: str
    """Its name; empty when flags and variables did without one."""
    api_key: str | None = None
    key_variable: str | None = None
    """Where a key may be set."""
    key_source: str | None = None
    """The variable that this key came from; empty: the profile; None: not known."""
    login: str = ""
    """What a cloud is given instead of a key, in words."""
    secrets: tuple[str, ...] = ()
    """What must not be shown: the key, and values of headers, any of which may be one."""
    base_url: str = ""
    """Where it is, when that is not the provider's own address."""
    base_url_source: str = ""
    """The flag or variable that says so; empty: the profile."""

    @property
    def label(self) -> str:
        return f"{self.provider_name} ({self.address})"

    @property
    def is_local(self) -> bool:
        return find_provider_spec(self.provider_name).is_local

    @property
    def is_cloud(self) -> bool:
        return bool(find_provider_spec(self.provider_name).login)

    def redact(self, text: str) -> str:
        return redact_secrets(text, self.secrets)


def build_service_info(profile: Profile, url: str, route: ModelRoute | None = None) -> ServiceInfo:
    """Describe the service of a profile. `route` tells which parts came from flags and
    variables."""
    kind = find_provider_spec(profile.provider)
    route = route or profile.route
    source = ""
    if route.base_url is None and kind.base_url_variable:
        source = kind.base_url_variable
    elif not route.profile:
        source = "--base-url"
    return ServiceInfo(
        provider_name=kind.name,
        address=parse_url(url).host_and_port,
        model=profile.model,
        profile_name=route.profile,
        base_url=profile.base_url or "",
        base_url_source=source,
        api_key=profile.api_key,
        key_variable=kind.preferred_key_variable,
        login="" if profile.api_key else kind.login,
        secrets=profile.secrets,
    )


class _ErrorDetails(Struct, frozen=True):
    """The content of an error's body in any of the usual forms."""

    message: str
    code: str | None
    status: int | None


@contextmanager
def redact_errors(service: ServiceInfo) -> Iterator[None]:
    """Redact a service's error text without knowing the service."""
    try:
        yield
    except ProviderError as error:
        text = str(error)
        if error.code == NOT_RUNNING_CODE and service.is_local:
            from joey.providers.server_advice import describe_not_running

            advice = describe_not_running(service.provider_name, service.address, service.model)
            text = f"{advice} (connection refused)"
        error.args = (service.redact(text),)
        raise


def build_response_error(
    service: ServiceInfo, status: int, headers: Mapping[str, str], body: bytes
) -> ProviderError:
    """Build the error for an answer that is not a stream."""
    said = _parse_error_body(body, headers.get("content-type", ""))
    if said.code is None and (kind := headers.get("x-amzn-errortype")):
        said = structs.replace(said, code=kind.partition(":")[0])
    if 300 <= status < 400:
        return _build_redirect_error(service, status, headers.get("location", ""))
    text = body.decode("utf-8", "replace")
    return _build_provider_error(service, status, said, parse_retry_after(headers, body), text)


def build_stream_error(service: ServiceInfo, error: Any) -> ProviderError:
    """Build the error for an `error` object in the middle of a stream."""
    said = _parse_error_object(error)
    status = said.status or _STATUS_BY_CODE.get(said.code or "", 500)
    body = msgspec.json.encode(error)
    return _build_provider_error(service, status, said, _find_retry_delay(body), body.decode())


def find_minimax_error(base_resp: Any) -> dict[str, str] | None:
    """The error in MiniMax's `base_resp`, which its replies have with any HTTP status."""
    match base_resp:
        case {"status_code": int(status), "status_msg": str(message)} if status:
            code = _CODE_BY_MINIMAX_STATUS.get(status, "api_error")
            return {"code": code, "message": f"{message} ({status})"}
    return None


def build_malformed_response_error(service: ServiceInfo, description: str) -> ProviderError:
    return ProviderError(
        f"{service.label} sent {service.redact(description)}. Try again; if it happens every time,"
        " check the base URL and the provider.",
        failure=ProviderFailureKind.MALFORMED_STREAM,
    )


def build_truncated_stream_error(service: ServiceInfo) -> ProviderError:
    return ProviderError(
        f"{service.label} ended the stream before the answer was complete.",
        failure=ProviderFailureKind.NETWORK,
    )


def parse_retry_after(headers: Mapping[str, str], body: bytes = b"") -> float | None:
    """Parse the seconds to wait: milliseconds, seconds, a date, or Google's detail."""
    if (milliseconds := _parse_number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if (seconds := _parse_number(value)) is not None:
        return seconds
    if value and (seconds := _compute_seconds_until(value)) is not None:
        return seconds
    return _find_retry_delay(body)


def _parse_number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
        return None
    return float(value)


def _compute_seconds_until(date: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return None  # not a date either: the value is not understood
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _find_retry_delay(body: bytes) -> float | None:
    match = _RETRY_DELAY_RE.search(body.decode("utf-8", "replace"))
    return float(match[1]) if match else None


def decode_object(data: bytes | str) -> dict[str, Any]:
    """Decode the JSON object in an answer; empty for anything else."""
    try:
        found: Any = msgspec.json.decode(data)
    except JSON_DECODE_ERRORS:
        return {}
    return found if isinstance(found, dict) else {}


def _parse_error_body(body: bytes, content_type: str) -> _ErrorDetails:
    try:
        parsed = msgspec.json.decode(body)
    except JSON_DECODE_ERRORS:
        if "html" in content_type or body.lstrip()[:1] == b"<":
            return _ErrorDetails("the service returned a web page", None, None)
        return _ErrorDetails(body.decode("utf-8", "replace").strip(), None, None)
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    if isinstance(parsed, dict) and "error" in parsed:
        return _parse_error_object(parsed["error"])
    return _parse_error_object(parsed)


def _parse_error_object(error: Any) -> _ErrorDetails:
    if not isinstance(error, dict):
        return _ErrorDetails(error if isinstance(error, str) else "", None, None)
    message = error.get("message") or error.get("detail") or ""
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    word = code if isinstance(code, str) and code else error.get("type") or error.get("status")
    return _ErrorDetails(
        message if isinstance(message, str) else msgspec.json.encode(message).decode(),
        word if isinstance(word, str) else None,
        status,
    )


def _build_provider_error(
    service: ServiceInfo, status: int, said: _ErrorDetails, wait: float | None, response: str
) -> ProviderError:
    failure = _classify_failure(status, said)
    if service.is_local and status >= 500 and _OUT_OF_MEMORY_RE.search(said.message):
        failure = ProviderFailureKind.OUT_OF_MEMORY
    is_soon_over = status == 429 and wait is not None and _DAILY_QUOTA_ID not in response
    if failure is ProviderFailureKind.QUOTA and is_soon_over:
        failure = ProviderFailureKind.RATE_LIMIT
    window, advice = None, ""
    if failure is ProviderFailureKind.CONTEXT_OVERFLOW:
        window = _STATED_WINDOW_RE.search(said.message)
    if failure is ProviderFailureKind.TOOLS_REFUSED:
        advice = build_tools_advice(service.model, said.message)
    return ProviderError(
        _format_error_message(service, failure, status, said),
        failure=failure,
        status=status,
        code=said.code and service.redact(said.code),
        retry_after=wait,
        context_window=int(next(filter(None, window.groups()))) if window else None,
        response=response,
        advice=advice,
    )


def build_tools_advice(model: str, refusal: str) -> str:
    """Return how to start a server so that it accepts tools, if its error names a flag; else ""."""
    if "--jinja" in refusal:
        return "For native calls, start llama-server with --jinja."
    if TOOL_CHOICE_FLAG not in refusal:
        return ""
    name = model.lower().rpartition("/")[2]
    parser = next((word for pattern, word in _VLLM_PARSERS if re.search(pattern, name)), "PARSER")
    where = " (vLLM's page on tool calling names the parser)" if parser == "PARSER" else ""
    return (
        f"For native calls, run: vllm serve {model} {TOOL_CHOICE_FLAG}"
        f" --tool-call-parser {parser}{where}"
    )


def _classify_failure(status: int, said: _ErrorDetails) -> ProviderFailureKind:
    text = f"{said.code or ''} {said.message}"
    if said.code in _UNREADABLE_CALL_CODES:
        return ProviderFailureKind.MALFORMED_STREAM
    if status not in (401, 403, 429) and _TOOLS_REFUSED_RE.search(said.message):
        return ProviderFailureKind.TOOLS_REFUSED
    if status not in (401, 403, 404, 429) and is_context_overflow(text):
        return ProviderFailureKind.CONTEXT_OVERFLOW
    if status in (400, 403, 429) and _QUOTA_RE.search(text):
        return ProviderFailureKind.QUOTA
    if _UNKNOWN_ENDPOINT_RE.search(said.message):
        return ProviderFailureKind.NOT_FOUND
    if status in _FAILURE_BY_STATUS:
        return _FAILURE_BY_STATUS[status]
    is_transient = status >= 500 and _PERMANENT_RE.search(said.message) is None
    return ProviderFailureKind.OVERLOAD if is_transient else ProviderFailureKind.INVALID_REQUEST


def is_context_overflow(text: str) -> bool:
    """Whether a rejection means that a conversation is too long for the model."""
    return (
        _CONTEXT_OVERFLOW_RE.search(text) is not None
        and _NOT_CONTEXT_OVERFLOW_RE.search(text) is None
    )


def _format_error_message(
    service: ServiceInfo, failure: ProviderFailureKind, status: int, said: _ErrorDetails
) -> str:
    who = service.label
    says = _format_error_details(service, status, said)
    match failure:
        case ProviderFailureKind.AUTH if service.login:
            return f"{who} rejected the {service.login}, at least for {service.model}. {says}"
        case ProviderFailureKind.AUTH if service.api_key is None:
            return f"{who} requires an API key, and none is set. {_format_key_hint(service)} {says}"
        case ProviderFailureKind.AUTH:
            return f"{who} does not accept the API key. {_format_key_hint(service)} {says}"
        case ProviderFailureKind.NOT_FOUND if service.is_cloud:
            return (
                f"{who} does not know the model {service.model!r}, or not in this region. Check"
                " both; for models that are not served this way, set up a gateway such as LiteLLM"
                f" and use `litellm` with its address. {says}"
            )
        case ProviderFailureKind.NOT_FOUND if service.model and service.model in said.message:
            pull = f"Get it with `ollama pull {service.model}`, or choose another"
            advice = pull if service.provider_name == "ollama" else "Choose another"
            return f"{who} has no model {service.model!r}. {advice}: joey models lists them. {says}"
        case ProviderFailureKind.NOT_FOUND:
            return (
                f"{who} has no model {service.model!r}, or the address is wrong. Check the name of"
                f" the model (joey models lists them){_format_address_hint(service)}. {says}"
            )
        case ProviderFailureKind.CONTEXT_OVERFLOW | ProviderFailureKind.OUT_OF_MEMORY if (
            service.is_local
        ):
            return f"{_format_server_advice(service, failure)} {says}"
        case ProviderFailureKind.CONTEXT_OVERFLOW:
            return f"The conversation is too long for {service.model}. {says}"
        case ProviderFailureKind.TOOLS_REFUSED:
            advice = build_tools_advice(service.model, said.message)
            text = f"{who} does not take tools for {service.model}. Use --protocol xml. {says}"
            return f"{text} {advice}".rstrip()
        case ProviderFailureKind.QUOTA:
            return f"The account at {who} has insufficient credit. {says}"
        case ProviderFailureKind.RATE_LIMIT:
            return f"{who}: rate limit reached. {says}"
        case ProviderFailureKind.MALFORMED_STREAM:
            return f"{who} could not read a call in the model's reply. {says}"
        case ProviderFailureKind.OVERLOAD:
            return f"{who} is having problems. {says}"
        case _:
            return f"{who} refused the request. {says}"


def _format_server_advice(service: ServiceInfo, failure: ProviderFailureKind) -> str:
    from joey.providers.server_advice import get_memory_advice, get_window_advice

    place = (service.provider_name, service.model, service.profile_name, service.base_url)
    if failure is ProviderFailureKind.OUT_OF_MEMORY:
        advice = get_memory_advice(*place)
        return f"{service.label} does not have enough memory for {service.model}: {advice}."
    advice = get_window_advice(*place)
    return f"The request is larger than the window of {service.model}: {advice}."


def _format_address_hint(service: ServiceInfo) -> str:
    if not service.base_url:
        return ""
    shown = service.redact(str(remove_secrets(service.base_url)))
    named = f" and {_describe_address_source(service)}, which is {shown}"
    suggestion = suggest_path(find_provider_spec(service.provider_name), shown)
    return f"{named} ({suggestion})" if suggestion else named


def _describe_address_source(service: ServiceInfo) -> str:
    return service.base_url_source or f"the base URL of the profile {service.profile_name!r}"


def _format_key_hint(service: ServiceInfo) -> str:
    if service.key_source:
        return f"It comes from the variable {service.key_source}: set another one there."
    if service.profile_name and service.key_source is not None:
        return (
            f"It is `apiKey` of the profile {service.profile_name!r}: set another one with"
            f" `joey profiles set {service.profile_name} apiKey`."
        )
    if not service.profile_name:
        return f"Set {service.key_variable or 'one with joey profiles add'}."
    profile = f"apiKey in the profile {service.profile_name!r}"
    if service.key_variable is None:
        return f"Set {profile}."
    return f"Set {service.key_variable}, or {profile}."


def _format_error_details(service: ServiceInfo, status: int, said: _ErrorDetails) -> str:
    text = service.redact(said.message)
    if len(text) > _MAX_MESSAGE_CHARS:
        text = f"{text[:_MAX_MESSAGE_CHARS]}…"
    code = f" {service.redact(said.code)}" if said.code else ""
    return f"({status}{code}: {text})" if text else f"({status}{code})"


def _build_redirect_error(service: ServiceInfo, status: int, location: str) -> ProviderError:
    goal = f" It points to {service.redact(location)}." if location else ""
    return ProviderError(
        f"{service.label} has moved ({status}).{goal} Set"
        f" {_describe_address_source(service)} to the address where it answers.",
        failure=ProviderFailureKind.NOT_FOUND,
        status=status,
    )
