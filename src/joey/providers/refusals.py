"""Refusals: parameters that a service rejects, and how to do without them.

Servers of one protocol support different parameters, and neither name nor address shows which. So a
request that is rejected for a dispensable parameter is sent again without it, and the refusal is
remembered for the model and its address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from joey.core.text import compile_regex
from joey.providers.services import (
    CALL_IDS,
    CHAT_COMPLETIONS,
    CONTENT_PARTS,
    DESCRIPTIONS,
    ENCRYPTED_CONTENT,
    IMAGES,
    MISSING_REASONING,
    REASONING_WITH_TOOLS,
    REFUSED_WITH_IMAGES,
    RESPONSES,
    TEXT_WITH_CALLS,
    USER_AFTER_TOOL,
)

OPTIONAL_NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "chat_template_kwargs",
    "stream_options",
    "parallel_tool_calls",
    "tool_choice",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
    "output_config",
    "reasoning_content",
    "reasoning_details",
    "reasoning",
    "extra_content",
    "cache_control",
    "strict",
    "eager_input_streaming",
    "signature",
)
"""Keys of a request that it can do without."""
_RESPONSES_NAMES = (
    "include",
    "store",
    "reasoning",
    "prompt_cache_key",
    "max_output_tokens",
    "temperature",
    "top_p",
    "tool_choice",
    "parallel_tool_calls",
    "strict",
    "phase",
)
"""The same for the Responses API."""
_REFUSING_STATUSES = (400, 422, 500)
_MAX_REASON_CHARS = 1000
"""What follows may quote the request, and with it anything."""
_MISSING_ENDPOINT_STATUSES = (404, 405, 501)
_MISSING_ENDPOINT_RE = compile_regex(
    r"invalid url|not implemented|cannot post|(?:unsupported|unknown) (?:endpoint|path|route|url)"
    r"|not (?:supported )?(?:in|at|on|by|with) (?:the )?/?(?:v1/)?responses"
    r"|responses api is not|does not support the responses|missing scopes: api\.responses",
    re.IGNORECASE,
)
_MISSING_MODEL_OR_ITEM_RE = compile_regex(
    r"model_not_found|\bmodel\b.{0,200}(?:not exist|not found|not available)|item with id",
    re.IGNORECASE | re.DOTALL,
)
_UNREADABLE_REASONING_RE = compile_regex(
    r"invalid_encrypted_content|encrypted content .{1,200}could not be|item with id 'rs_"
    r"|required (?:following|'reasoning') item",
    re.IGNORECASE | re.DOTALL,
)
_REASONING_OPTION_RE = compile_regex(r"reasoning\.(effort|summary)|reasoning (summar)")
_NEEDS_RESPONSES_RE = compile_regex(
    r"only (?:supported|available) in (?:the )?/?v1/responses|use /?v1/responses", re.IGNORECASE
)
_TEXT_CONTENT_RE = compile_regex(
    r"content.{0,60}(?:must be a string|a valid string|expected a string|expected one of: \['str)"
    r"|invalid type: sequence, expected a string",
    re.IGNORECASE | re.DOTALL,
)
"""Groq; Cerebras and others that use pydantic; OpenAI; SambaNova; servers in Rust."""
_IMAGE_KEYS = (b'"image_url":', b'"type":"image"', b'"input_image"', b'"images":[')
_IMAGES_REFUSED_RE = compile_regex(
    r"image(?:s|_url| inputs?)?\b.{0,24}(?:not (?:be )?(?:supported|enabled)|only supported)"
    r"|not support (?:image|vision|multi-?modal)|endpoints found that support image"
    r"|not a (?:multi-?modal|vision)|at most 0 image|unknown variant .image"
    r"|content\.type .{0,80}\[\W{0,3}text\W{0,3}\]",
    re.IGNORECASE,
)
"""llama.cpp, Moonshot, xAI, OpenAI; Ollama, SambaNova; OpenRouter; vLLM; DeepSeek; Z.ai."""
_UNEXPLAINED_STATUSES = (400, 413, 422)
_NO_ENDPOINT_RE = compile_regex(r"no endpoints found that support", re.IGNORECASE)
"""How OpenRouter refuses a parameter, with the status 404."""
_REFUSAL_RE = compile_regex(
    r"un(?:supported|known|recogni[sz]ed|expected)|not (?:be )?(?:supported|permitted|allowed)"
    r"|(?:does|do) not support|extra_forbidden|cannot find field|deprecated"
    r"|no endpoints found that support"
    r"|only .{1,40} (?:is|are) (?:allowed|supported)|invalid",
    re.IGNORECASE,
)
_NOT_REFUSAL_RE = compile_regex(
    r"must be passed back|is missing|is required|at (?:most|least)|too (?:large|small|long)"
    r"|greater than|less than|exceed",
    re.IGNORECASE,
)
_LONG_DESCRIPTION_RE = compile_regex(
    r"\.description'.{0,20}too long|too long - '[\w.]{1,40}\.description'", re.IGNORECASE
)
_DEMANDS = (
    (compile_regex(r"either content or tool_calls, but not both"), TEXT_WITH_CALLS),
    (compile_regex(r"after role '?tool|roles must alternate", re.IGNORECASE), USER_AFTER_TOOL),
    (compile_regex(r"tool call id .{1,80} must be", re.IGNORECASE), CALL_IDS),
    (
        compile_regex(
            r"(?:reasoning_content|\.thinking).{0,60}(?:must be passed back|is missing)", re.DOTALL
        ),
        MISSING_REASONING,
    ),
)
"""Refusals of messages with calls, which can be written in another way."""


def find_refused_name(
    status: int | None, text: str, sent: bytes, names: Iterable[str], known: frozenset[str]
) -> str | None:
    """Find the parameter to leave out in a second attempt; None if the service does not complain
    about one. `known` was rejected before, so it cannot be the reason."""
    if status not in _REFUSING_STATUSES and not _NO_ENDPOINT_RE.search(text):
        return None
    is_known = CONTENT_PARTS in known or b'"content":[' not in sent
    if not is_known and _TEXT_CONTENT_RE.search(text):
        return CONTENT_PARTS
    if DESCRIPTIONS not in known and _LONG_DESCRIPTION_RE.search(text):
        return DESCRIPTIONS
    if b'"tool_calls":' in sent or b'"tool_use"' in sent:
        for pattern, demand in _DEMANDS:
            if demand not in known and pattern.search(text):
                return demand
    if not _REFUSAL_RE.search(text) or _NOT_REFUSAL_RE.search(text):
        return None
    normalized = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
    found = {
        place.start(): name
        for name in names
        if name not in known
        and f'"{name}":'.encode() in sent
        and (place := re.search(_build_name_pattern(name), normalized)) is not None
    }
    return found[min(found)] if found else None


def find_refused_images(
    status: int | None, text: str, sent: bytes, known: frozenset[str]
) -> str | None:
    """Whether to retry a request without its images. Services that do not support images do not
    always say so, and one image may be too large: everything else was tried before."""
    if known & {IMAGES, REFUSED_WITH_IMAGES} or not any(key in sent for key in _IMAGE_KEYS):
        return None
    if _IMAGES_REFUSED_RE.search(text[:_MAX_REASON_CHARS]):
        return IMAGES
    return REFUSED_WITH_IMAGES if status in _UNEXPLAINED_STATUSES else None


def find_refusal_of_responses(
    status: int | None, text: str, sent: bytes, extra_names: Iterable[str], known: frozenset[str]
) -> str | None:
    """Find what to leave out in a second attempt, which may be `/responses` itself."""
    text = text[:_MAX_REASON_CHARS]
    if status in _MISSING_ENDPOINT_STATUSES and not _MISSING_MODEL_OR_ITEM_RE.search(text):
        return RESPONSES
    if status in (*_REFUSING_STATUSES, 404) and _UNREADABLE_REASONING_RE.search(text):
        ids = re.findall(rb'"type":"reasoning","id":"(\w+)"', sent)
        return " ".join([ENCRYPTED_CONTENT, *map(bytes.decode, ids)]) if ids else None
    if status in (*_REFUSING_STATUSES, 401, 403) and _MISSING_ENDPOINT_RE.search(text):
        return RESPONSES
    option = _REASONING_OPTION_RE.search(text) if status in _REFUSING_STATUSES else None
    if option is not None:
        name = "effort" if option[1] == "effort" else "summary"
        return name if f'"{name}":'.encode() in sent and name not in known else None
    return find_refused_name(status, text, sent, (*_RESPONSES_NAMES, *extra_names), known)


def find_refusal_of_chat(status: int | None, text: str, known: frozenset[str]) -> str | None:
    """Find whether the model is rejected at `/chat/completions`, or only its reasoning together
    with tools."""
    reason = _NEEDS_RESPONSES_RE.search(text[:_MAX_REASON_CHARS])
    if status not in (*_REFUSING_STATUSES, 404) or reason is None:
        return None
    name = REASONING_WITH_TOOLS if RESPONSES in known else CHAT_COMPLETIONS
    return None if name in known else name


def _build_name_pattern(name: str) -> str:
    if name == "output_config":
        return r"(?<![a-z_])output_config(?![a-z_])|the effort parameter"
    if "_" in name:
        return rf"(?<![a-z_]){re.escape(name.lower())}(?![a-z_])"
    # An English word too: only where it is quoted or part of a path.
    return rf"(?:[.'\"`]|: |parameter |invalid |property ){re.escape(name.lower())}(?![a-z_])"
