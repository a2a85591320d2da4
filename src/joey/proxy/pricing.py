"""Prices: what requests cost by the catalogue, and what cache reads would have cost."""

from __future__ import annotations

from joey.core.messages import Usage
from joey.core.models import Rates
from joey.errors import ConfigError
from joey.providers.catalog import find_model_info
from joey.proxy.exchange import Wire


def find_rates(wire: Wire, model: str, input_tokens: int) -> Rates | None:
    """Find the rates of a request with so many input tokens; None if the price is not known."""
    if not model:
        return None
    try:
        prices = find_model_info(wire.value, model).prices
    except ConfigError:
        return None
    return None if prices is None else prices.select_rates(input_tokens)


def compute_cost(wire: Wire, model: str, usage: Usage | None) -> float | None:
    """Compute the cost in dollars: the service's own figure, else by the catalogue; None if neither
    is known."""
    if usage is None:
        return None
    if usage.cost is not None:
        return usage.cost
    rates = find_rates(wire, model, usage.input)
    return None if rates is None else rates.compute_cost(usage)


def compute_excess_cost(wire: Wire, model: str, usage: Usage, tokens: int) -> float:
    """Compute the extra cost of tokens that were not read from the cache. They were written to the
    cache again, as far as the usage shows, and the rest was plain input."""
    rates = find_rates(wire, model, usage.input)
    if rates is None:
        return 0.0
    written = min(tokens, usage.cache_writes)
    paid = written * rates.cache_writes + (tokens - written) * rates.input
    return max(0.0, paid - tokens * rates.cache_reads) / 1_000_000
