"""Models in the format of models.dev: limits, abilities and prices.

A document names providers, each with its `models` by id. Keys that are not needed here are
ignored, and every key of a model may be missing.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from joey.core.models import Amount, LongContextRates, ModelOverride, Prices

MODELS_DEV_NAMES = {
    "gemini": "google",
    "together": "togetherai",
    "fireworks": "fireworks-ai",
    "moonshot": "moonshotai",
    "qwen": "alibaba",
    "vercel-ai-gateway": "vercel",
    "io-intelligence": "io-net",
}
"""Providers that have another name there."""
_LEGACY_TIER_TOKENS = 200_000


class ProviderEntry(Struct, frozen=True):
    models: dict[str, Raw] = {}


class _Rates(Struct, frozen=True, omit_defaults=True):
    """Prices in US dollars per million tokens."""

    input: Amount
    output: Amount
    cache_read: Amount | None = None
    cache_write: Amount | None = None


class _TierStart(Struct, frozen=True, omit_defaults=True):
    size: Amount
    """Tokens of input."""
    type: str = "context"


class _Tier(_Rates, frozen=True, omit_defaults=True, kw_only=True):
    tier: _TierStart


class _Cost(_Rates, frozen=True, omit_defaults=True, kw_only=True):
    tiers: tuple[_Tier, ...] = ()
    context_over_200k: _Rates | None = None
    """What older documents have instead of `tiers`."""

    def to_prices(self, as_of: str) -> Prices:
        tiers = {int(each.tier.size): each for each in self.tiers if each.tier.type == "context"}
        longer: dict[int, _Rates] = {**tiers}
        if not longer and self.context_over_200k is not None:
            longer = {_LEGACY_TIER_TOKENS: self.context_over_200k}
        return Prices(
            *_list_amounts(self),
            long_context=tuple(
                LongContextRates(*_list_amounts(rates), above=above)
                for above, rates in longer.items()
            ),
            as_of=as_of,
        )


def _list_amounts(rates: _Rates) -> tuple[float, float, float, float]:
    """List prices of input, output, cache writes and reads; a missing one is the input price."""
    write, read = (
        rates.input if each is None else each for each in (rates.cache_write, rates.cache_read)
    )
    return rates.input, rates.output, write, read


class _Limit(Struct, frozen=True, omit_defaults=True):
    context: Amount = 0
    output: Amount = 0


class _Modalities(Struct, frozen=True, omit_defaults=True):
    input: tuple[str, ...] | None = None
    output: tuple[str, ...] | None = None


class _ToolCall(Struct, frozen=True, omit_defaults=True):
    supported: bool


class _ReasoningOption(Struct, frozen=True, omit_defaults=True):
    type: str


class _Interleaved(Struct, frozen=True, omit_defaults=True):
    field: str = ""


_REASONING_CONTENT = _Interleaved("reasoning_content")


class ModelEntry(Struct, frozen=True, omit_defaults=True):
    limit: _Limit = _Limit()
    cost: _Cost | None = None
    tool_call: bool | _ToolCall | None = None
    attachment: bool | None = None
    modalities: _Modalities = _Modalities()
    temperature: bool | None = None
    reasoning: bool | None = None
    reasoning_options: tuple[_ReasoningOption, ...] | None = None
    interleaved: bool | _Interleaved | None = None
    status: str = ""

    @property
    def is_offered(self) -> bool:
        """Whether it generates text and is still served."""
        output = self.modalities.output
        return self.status != "deprecated" and (output is None or "text" in output)

    def to_override(self, as_of: str, *, by_user: bool) -> ModelOverride:
        tools = self.tool_call
        return ModelOverride(
            context_window=int(self.limit.context) or None,
            max_output_tokens=int(self.limit.output) or None,
            supports_images=self._supports_images,
            supports_native_tools=tools.supported if isinstance(tools, _ToolCall) else tools,
            supports_thinking=self._supports_thinking_budget,
            supports_temperature=self.temperature,
            preserve_reasoning=True if self.interleaved == _REASONING_CONTENT else None,
            prices=None if self.cost is None else self.cost.to_prices(as_of),
            has_user_prices=by_user and self.cost is not None,
        )

    @property
    def _supports_images(self) -> bool | None:
        if self.modalities.input is None:
            return self.attachment
        return any(each.startswith("image") for each in self.modalities.input)

    @property
    def _supports_thinking_budget(self) -> bool | None:
        if self.reasoning is False:
            return False
        if self.reasoning_options is None:
            return None
        return any(each.type == "budget_tokens" for each in self.reasoning_options)
