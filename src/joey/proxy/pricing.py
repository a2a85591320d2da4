"""Money: what requests cost by the prices of the catalogue, and what a cache read would have."""

from __future__ import annotations

from joey.core.messages import Usage
from joey.core.models import Rates
from joey.errors import ConfigError
from joey.providers.catalog import find_model_info
from joey.proxy.exchange import Wire


def find_rates(wire: Wire, model: str, input_tokens: int) -> Rates | None:
    """The rates of a request with so many tokens of input; None if the price is not known."""
    if not model:
        return None
    try:
        prices = find_model_info(wire.value, model).prices
    except ConfigError:
        return None
    return None if prices is None else prices.select_rates(input_tokens)


def compute_cost(wire: Wire, model: str, usage: Usage | None) -> float | None:
    """In dollars: the service's own figure, else by the catalogue; None if neither is known."""
    if usage is None:
        return None
    if usage.cost is not None:
        return usage.cost
    rates = find_rates(wire, model, usage.input)
    return None if rates is None else rates.compute_cost(usage)


def compute_excess_cost(wire: Wire, model: str, usage: Usage, tokens: int) -> float:
    """What tokens that the cache did not serve cost more than a cache read. They were written to
    the cache again, as far as the usage says so, and the rest was plain input."""
    rates = find_rates(wire, model, usage.input)
    if rates is None:
        return 0.0
    written = min(tokens, usage.cache_writes)
    paid = written * rates.cache_writes + (tokens - written) * rates.input
    return max(0.0, paid - tokens * rates.cache_reads) / 1_000_000
