"""Refusals: what a service says it does not take, and what can be left out or changed for it.

Servers that speak one protocol differ in the parameters that they know, and a name or an address
does not tell which. So a request that is refused for something that it can do without is sent
again without that, and the refusal is remembered for the model and its address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from joey.core.text import compile_regex
from joey.providers.services import CALL_IDS, MISSING_REASONING, USER_AFTER_TOOL

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
_REFUSING_STATUSES = (400, 422, 500)
_REFUSAL_RE = compile_regex(
    r"un(?:supported|known|recogni[sz]ed|expected)|not (?:be )?(?:supported|permitted|allowed)"
    r"|(?:does|do) not support|extra_forbidden|cannot find field|deprecated"
    r"|only .{1,40} (?:is|are) (?:allowed|supported)|invalid",
    re.IGNORECASE,
)
_NOT_REFUSAL_RE = compile_regex(
    r"must be passed back|is missing|is required|at (?:most|least)|too (?:large|small|long)"
    r"|greater than|less than|exceed",
    re.IGNORECASE,
)
_DEMANDS = (
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
    """What to do without in a second attempt; None if that is not what the service complains about.
    `known` has been refused before, so that it cannot be the reason."""
    if status not in _REFUSING_STATUSES:
        return None
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


def _build_name_pattern(name: str) -> str:
    if "_" in name:
        return rf"(?<![a-z_]){re.escape(name.lower())}(?![a-z_])"
    # An English word too: only where it is quoted or part of a path.
    return rf"(?:[.'\"`]|: |parameter |invalid |property ){re.escape(name.lower())}(?![a-z_])"
