"""Services that speak OpenAI's protocol: which of its fields and parameters each of them takes.

The host identifies the service. At an unknown host, the provider's own rules apply if the profile
names one; `openai` then means any server with this protocol, which gets back what it has sent
itself. Some rules belong to the model, wherever it is served: chat templates and tokenizers of
Mistral's models reject what its service rejects.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from joey.core.text import compile_regex
from joey.providers.catalog import find_provider_spec

_SERVICES_BY_HOST = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "openrouter.ai": "openrouter",
    "deepseek.com": "deepseek",
    "generativelanguage.googleapis.com": "gemini",
    "x.ai": "xai",
    "groq.com": "groq",
    "mistral.ai": "mistral",
    "together.xyz": "together",
    "together.ai": "together",
    "fireworks.ai": "fireworks",
    "cerebras.ai": "cerebras",
    "moonshot.ai": "moonshot",
    "moonshot.cn": "moonshot",
    "kimi.com": "moonshot",
    "z.ai": "zai",
    "bigmodel.cn": "zai",
    "aliyuncs.com": "qwen",
    "minimax.io": "minimax",
    "minimaxi.com": "minimax",
    "sambanova.ai": "sambanova",
}
_PROTOCOL_PROVIDERS = ("openai", "anthropic")
"""Providers that are chosen for any server with their protocol."""
_MISTRAL_MODEL_RE = compile_regex(r"(?:mi|mag|dev|code|mini)stral|mixtral|pixtral|voxtral")
_MODEL_WITH_OWN_REASONING_RE = compile_regex(r"deepseek-(?:v[3-9]|reasoner)|kimi-k")
_OPENAI_MODEL_RE = compile_regex(r"(?:^|/)(?:gpt-[4-9]|o\d)")


class ServiceRules(Struct, frozen=True, kw_only=True):
    takes_reasoning: bool = True
    """Reasoning goes back with the replies that it belongs to."""
    reasoning_field: str | None = None
    """The field for it; None: the one in which it came."""
    is_reasoning_shared: bool = True
    """Another model may be sent it too."""
    missing_reasoning: str | None = None
    """The value of that field where a reply has no reasoning; None: the field is left out."""
    has_thought_tags: bool = False
    """Reasoning that came in tags in the text goes back in them."""
    takes_reasoning_details: bool = False
    takes_extra_content: bool = False
    has_thought_signatures: bool = False
    """Calls without a signature are refused; a documented dummy is not."""
    takes_content_parts: bool = True
    """The user's text may be a list of parts; False: one text, unless there are images."""
    takes_user_after_tool: bool = True
    takes_text_with_calls: bool = True
    """False: text that came with calls is left out, as the templates of such models do."""
    call_id_pattern: str = ""
    """Ids that do not match are replaced; empty: all are taken."""
    max_tokens_field: str = "max_tokens"
    takes_stream_options: bool = True
    takes_parallel_tool_calls: bool = True
    takes_strict_schemas: bool = False
    takes_additional_properties: bool = True
    takes_number_enums: bool = True
    max_description_chars: int | None = None
    """Of a tool."""


MISTRAL_CALL_ID_PATTERN = "[A-Za-z0-9]{9}"
CONTENT_PARTS = "content parts"
USER_AFTER_TOOL = "user after tool"
CALL_IDS = "call ids"
TEXT_WITH_CALLS = "text with calls"
DESCRIPTIONS = "descriptions"
MISSING_REASONING = "missing reasoning"
REASONING_WITH_TOOLS = "reasoning with tools"
RESPONSES = "responses"
CHAT_COMPLETIONS = "chat/completions"
IMAGES = "images"
REFUSED_WITH_IMAGES = "refused with images"
ENCRYPTED_CONTENT = "encrypted_content"
"""Refusals that are no names of parameters (see `refusals`). The last one is followed by the ids of
the items that could not be read."""
UNRECORDED = (REFUSED_WITH_IMAGES, ENCRYPTED_CONTENT)
"""Begin the names of refusals that say nothing about the next conversation."""
THINKING_CHUNK = "thinking"
"""Mistral's reasoning is no field, but a part of the content."""
_BLANK_REASONING = " "
"""Kimi's service takes an empty text for a missing one."""
_DESCRIPTION_LIMIT = 1024
"""Azure's; other addresses of OpenAI's models have had it, too."""
_ANY_SERVER = ServiceRules(takes_reasoning_details=True, takes_extra_content=True)
_RULES_BY_SERVICE = {
    "openai": ServiceRules(
        takes_reasoning=False,
        call_id_pattern=".{1,40}",
        max_tokens_field="max_completion_tokens",
        takes_strict_schemas=True,
    ),
    "openrouter": ServiceRules(reasoning_field="reasoning", takes_reasoning_details=True),
    "deepseek": ServiceRules(
        reasoning_field="reasoning_content",
        missing_reasoning="",
        takes_parallel_tool_calls=False,
    ),
    "gemini": ServiceRules(
        takes_reasoning=False,
        takes_extra_content=True,
        has_thought_signatures=True,
        takes_parallel_tool_calls=False,
        takes_additional_properties=False,
        takes_number_enums=False,
    ),
    "xai": ServiceRules(
        reasoning_field="reasoning_content",
        max_tokens_field="max_completion_tokens",
        takes_stream_options=False,
    ),
    "groq": ServiceRules(
        reasoning_field="reasoning",
        is_reasoning_shared=False,
        max_tokens_field="max_completion_tokens",
    ),
    "mistral": ServiceRules(
        reasoning_field=THINKING_CHUNK,
        is_reasoning_shared=False,
        takes_user_after_tool=False,
        call_id_pattern=MISTRAL_CALL_ID_PATTERN,
        takes_stream_options=False,
    ),
    "fireworks": ServiceRules(reasoning_field="reasoning_content", takes_stream_options=False),
    "cerebras": ServiceRules(
        reasoning_field="reasoning",
        is_reasoning_shared=False,
        max_tokens_field="max_completion_tokens",
    ),
    "moonshot": ServiceRules(
        reasoning_field="reasoning_content",
        missing_reasoning=_BLANK_REASONING,
        takes_parallel_tool_calls=False,
    ),
    "zai": ServiceRules(reasoning_field="reasoning_content", takes_parallel_tool_calls=False),
    "qwen": ServiceRules(reasoning_field="reasoning_content"),
    "together": ServiceRules(is_reasoning_shared=False),
    "sambanova": ServiceRules(
        takes_content_parts=False, takes_reasoning_details=True, takes_extra_content=True
    ),
    "minimax": ServiceRules(
        is_reasoning_shared=False, has_thought_tags=True, takes_reasoning_details=True
    ),
}
_RULES_BY_SERVICE["azure"] = structs.replace(
    _RULES_BY_SERVICE["openai"],
    takes_strict_schemas=False,
    max_description_chars=_DESCRIPTION_LIMIT,
)
_RULES_BY_SERVICE["vertex"] = _RULES_BY_SERVICE["gemini"]


def identify_service(provider: str, host: str) -> str:
    """Return the name under which replies of a service are recorded."""
    return _find_known_service(host) or f"{find_provider_spec(provider).name}@{host}"


def identify_responses_service(provider: str, host: str) -> str:
    """Return the name for its Responses API: chat completions cannot use data from it."""
    return f"{identify_service(provider, host)}/responses"


def find_service_rules(provider: str, host: str, model: str) -> ServiceRules:
    service = _find_known_service(host) or ("" if provider in _PROTOCOL_PROVIDERS else provider)
    rules = _RULES_BY_SERVICE.get(service, _ANY_SERVER)
    name = model.lower()
    if _MISTRAL_MODEL_RE.search(name):
        rules = structs.replace(
            rules, takes_user_after_tool=False, call_id_pattern=MISTRAL_CALL_ID_PATTERN
        )
    if rules is _ANY_SERVER and not service:
        if _MODEL_WITH_OWN_REASONING_RE.search(name):
            return structs.replace(rules, missing_reasoning=_BLANK_REASONING)
        if _OPENAI_MODEL_RE.search(name):
            return structs.replace(rules, max_tokens_field="max_completion_tokens")
    return rules


def adapt_rules(rules: ServiceRules, refused: frozenset[str]) -> ServiceRules:
    """Adapt the rules to what was learned about a service."""
    changes: dict[str, Any] = {}
    if CONTENT_PARTS in refused:
        changes["takes_content_parts"] = False
    if USER_AFTER_TOOL in refused:
        changes["takes_user_after_tool"] = False
    if TEXT_WITH_CALLS in refused:
        changes["takes_text_with_calls"] = False
    if DESCRIPTIONS in refused:
        changes["max_description_chars"] = _DESCRIPTION_LIMIT
    if CALL_IDS in refused:
        changes["call_id_pattern"] = MISTRAL_CALL_ID_PATTERN
    if MISSING_REASONING in refused:
        changes |= {"takes_reasoning": True, "missing_reasoning": _BLANK_REASONING}
    if "reasoning_details" in refused:
        changes["takes_reasoning_details"] = False
    if "extra_content" in refused:
        changes |= {"takes_extra_content": False, "has_thought_signatures": False}
    if "strict" in refused:
        changes["takes_strict_schemas"] = False
    return structs.replace(rules, **changes) if changes else rules


def _find_known_service(host: str) -> str | None:
    domains = (host.lower().split(".", count)[-1] for count in range(host.count(".") + 1))
    return next((_SERVICES_BY_HOST[each] for each in domains if each in _SERVICES_BY_HOST), None)
