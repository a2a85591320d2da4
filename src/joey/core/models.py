"""Models: providers, abilities, prices, requests, and the tool protocol of a new task.

Tool calls are sent either as structured calls or as XML in the text (decision D8).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field, structs

from joey.core.messages import Message, Usage

SMALL_WINDOW_TOKENS = 24_000
MIN_WINDOW_TOKENS = 5_000
"""In a smaller window not even the lean form of prompt and tools leaves room for a task."""


class ToolProtocol(StrEnum):
    NATIVE = "native"
    XML = "xml"


class ProtocolChangeReason(StrEnum):
    USER = "user"
    """A flag or a client named it."""
    TOOLS_REFUSED = "tools_refused"
    """The service does not take tools for this model."""
    UNUSABLE_CALLS = "unusable_calls"
    """The model wrote calls that could not be used, again and again."""


class ApiProtocol(StrEnum):
    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    CONVERSE = "converse"
    """Amazon Bedrock's own."""


class ProviderSpec(Struct, frozen=True):
    """A service that a profile may name."""

    name: str
    api_protocol: ApiProtocol
    base_url: str
    key_variables: tuple[str, ...] = ()
    """In order of preference; none where no key is needed."""
    base_url_variable: str | None = None
    default_model: str = ""
    is_local: bool = False
    """Runs on the user's own machine: no key, no price."""
    login: str = ""
    """Of a cloud: the login that is used where no key is set, in words."""
    region_variables: tuple[str, ...] = ()
    project_variables: tuple[str, ...] = ()

    @property
    def preferred_key_variable(self) -> str | None:
        return self.key_variables[0] if self.key_variables else None


MAX_AMOUNT = 1e12
Amount = Annotated[float, Meta(ge=0, le=MAX_AMOUNT)]
"""Of dollars or tokens; computing with larger ones could exceed every number."""


class Rates(Struct, frozen=True, omit_defaults=True):
    """Prices in US dollars per million tokens."""

    input: Amount = 0.0
    output: Amount = 0.0
    cache_writes: Amount = 0.0
    cache_reads: Amount = 0.0

    def compute_cost(self, usage: Usage) -> float:
        uncached = max(0, usage.input - usage.cache_writes - usage.cache_reads)
        return (
            uncached * self.input
            + usage.output * self.output
            + usage.cache_writes * self.cache_writes
            + usage.cache_reads * self.cache_reads
        ) / 1_000_000


class LongContextRates(Rates, frozen=True, omit_defaults=True, kw_only=True):
    """Rates for all tokens of a request with a long input."""

    above: Annotated[int, Meta(ge=0)]
    """Tokens of input, cached ones included, that a request must exceed."""


class Prices(Rates, frozen=True, omit_defaults=True, kw_only=True):
    long_context: tuple[LongContextRates, ...] = ()
    as_of: str = ""
    """The date on which they were read: `2026-11-18`; empty if that is not known."""

    def select_rates(self, input_tokens: int) -> Rates:
        """Return the rates of a request with this number of input tokens, cached ones included."""
        reached = (each for each in self.long_context if input_tokens > each.above)
        return max(reached, key=lambda each: each.above, default=self)


class ModelInfo(Struct, frozen=True, omit_defaults=True):
    id: str
    context_window: int = 128_000
    max_output_tokens: int = field(default=8192, name="max_output")
    supports_images: bool = field(default=True, name="images")
    supports_native_tools: bool = field(default=True, name="native_tools")
    supports_prompt_cache: bool = field(default=False, name="prompt_cache")
    supports_thinking: bool = field(default=False, name="thinking")
    """Has extended thinking that can be switched on with a budget."""
    supports_temperature: bool = field(default=True, name="temperature")
    default_temperature: float | None = None
    """Sent unless a profile has another; None: the service's own choice."""
    preferred_edit_tool: str = field(default="apply_diff", name="edit_tool")
    """The tool for changing files that this model knows best."""
    preserve_reasoning: bool = False
    """Wants its plain-text reasoning back (`reasoning_content`)."""
    needs_responses: bool = field(default=False, name="responses")
    """Takes tools and reasons at the same time only with OpenAI's Responses API."""
    prices: Prices | None = None
    is_known: bool = field(default=True, name="known")
    """False when the catalogue has only its stated defaults for this id."""

    @property
    def has_small_window(self) -> bool:
        """Whether the window is too small for the usual prompt and tools, so that a lean form of
        both is used."""
        return self.context_window < SMALL_WINDOW_TOKENS

    def limit_window(self, tokens: int) -> ModelInfo:
        """Return the model with a smaller window that still has room for a request and its
        reply."""
        most = min(self.max_output_tokens, max(1, tokens // 5))
        return structs.replace(self, context_window=tokens, max_output_tokens=most)

    def compute_cost(self, usage: Usage) -> float | None:
        """Compute the cost of a request: the provider's own figure, else by the catalogue's
        prices."""
        if usage.cost is not None and 0 <= usage.cost <= MAX_AMOUNT:
            return usage.cost
        if self.prices is None:
            return None
        return self.prices.select_rates(usage.input).compute_cost(usage)


class ModelOverride(Struct, frozen=True):
    """Facts about a model from the user's files; None for those not given."""

    context_window: int | None = None
    max_output_tokens: int | None = None
    supports_images: bool | None = None
    supports_native_tools: bool | None = None
    supports_thinking: bool | None = None
    supports_temperature: bool | None = None
    preserve_reasoning: bool | None = None
    prices: Prices | None = None
    has_user_prices: bool = False
    """The user wrote the prices, which then count wherever the model is served."""

    def merge(self, other: ModelOverride) -> ModelOverride:
        """Merge both; `other` takes precedence."""
        return structs.replace(self, **other._list_statements())

    def apply_to(self, model: ModelInfo) -> ModelInfo:
        stated = self._list_statements()
        stated.pop("has_user_prices", None)
        return structs.replace(model, is_known=True, **stated)

    def _list_statements(self) -> dict[str, Any]:
        return {name: value for name, value in structs.asdict(self).items() if value is not None}


class ServedModel(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Facts about a model reported by a local server; None for those not reported."""

    context_window: int | None = None
    """Tokens that it takes as it runs now."""
    max_context_window: int | None = None
    """Tokens that the model could take, where a request may say how many."""
    native_tools: bool | None = None
    images: bool | None = None
    thinking: bool | None = None
    server: str = ""
    """The kind of server, as `--provider` names it, where only an address was given."""


class Speed(Struct, frozen=True):
    """Tokens per second; None if the server does not report them."""

    output: float | None = None
    prompt: float | None = None
    is_timeout: bool = False


class ModelFacts(Struct, frozen=True):
    """A model in a local server's list."""

    id: str
    served: ServedModel | None = None
    is_loaded: bool | None = None
    """None if the server does not say."""
    loaded_window: int | None = None
    is_chat: bool = True
    """False for models that only compute embeddings."""
    speed: Speed | None = None
    """None unless it was measured."""


class ToolSpec(Struct, frozen=True):
    """A tool as it is offered to the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = True
    """All properties are listed as required, optional ones nullable (OpenAI's strict form)."""
    xml_descriptions: dict[str, str] = {}
    """Descriptions of parameters that only the XML protocol lists."""


class ModelRequest(Struct, frozen=True):
    """One request. `messages` keep their identity between turns (see `Message`)."""

    system_prompt: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    tool_protocol: ToolProtocol = ToolProtocol.NATIVE
    task_id: str | None = None
    max_output_tokens: int | None = None
    """Of a reply that should be short; local servers are told, others have limits of their own."""


def choose_tool_protocol(
    *, locked: ToolProtocol | None, detected: ToolProtocol | None, model_has_native_tools: bool
) -> ToolProtocol:
    """Choose the protocol locked by the task, else the one in its history, else the one that the
    model supports, else native."""
    if locked is not None:
        return locked
    if detected is not None:
        return detected
    return ToolProtocol.NATIVE if model_has_native_tools else ToolProtocol.XML
