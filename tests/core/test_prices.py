"""What a request costs: rates by the length of its input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.messages import Usage
from joey.core.models import LongContextRates, ModelInfo, Prices
from joey.providers.catalog import find_model_info

COUNTS = st.integers(0, 2_000_000)
FACTORS = st.floats(1, 20)


@st.composite
def list_prices(draw: st.DrawFn) -> Prices:
    """Prices that rise with the length of the input, as all that services publish."""
    rates = draw(st.tuples(*[st.floats(0, 100)] * 4))
    borders = sorted(draw(st.sets(st.integers(1, 1_000_000), max_size=4)))
    tariffs, previous = [], rates
    for border in borders:
        factor, output_factor = draw(FACTORS), draw(FACTORS)
        fresh, output, written, read = previous
        previous = (fresh * factor, output * output_factor, written * factor, read * factor)
        fields = dict(
            zip(("input", "output", "cache_writes", "cache_reads"), previous, strict=True)
        )
        tariffs.append(LongContextRates(above=border, **fields))
    fresh, output, written, read = rates
    return Prices(
        input=fresh,
        output=output,
        cache_writes=written,
        cache_reads=read,
        long_context=tuple(draw(st.permutations(tariffs))),
    )


@given(list_prices(), COUNTS)
def test_a_border_belongs_to_the_rates_below_it(prices: Prices, output: int) -> None:
    ordered = sorted(prices.long_context, key=lambda each: each.above)
    for below, above in zip((prices, *ordered), ordered, strict=False):
        at_border = Usage(input=above.above, output=output)
        past_border = Usage(input=above.above + 1, output=output)
        assert prices.select_rates(at_border.input) is below
        assert prices.select_rates(past_border.input) is above
        cost = ModelInfo(id="m", prices=prices).compute_cost(past_border)
        assert cost == above.compute_cost(past_border)


@given(list_prices(), COUNTS, COUNTS, COUNTS, COUNTS)
def test_more_tokens_never_cost_less(
    prices: Prices, fewer: int, more_input: int, output: int, more_output: int
) -> None:
    model = ModelInfo(id="m", prices=prices)
    less = model.compute_cost(Usage(input=fewer, output=output))
    more = model.compute_cost(Usage(input=fewer + more_input, output=output + more_output))
    assert less is not None
    assert more is not None
    assert less <= more * (1 + 1e-12)


def test_the_cost_that_a_service_states_is_believed() -> None:
    prices = Prices(input=1, long_context=(LongContextRates(above=10, input=2),))
    assert ModelInfo(id="m", prices=prices).compute_cost(Usage(input=100, cost=0.5)) == 0.5


@pytest.mark.contract("services:prices")
@pytest.mark.parametrize(
    ("provider", "model", "tokens", "cost"),
    [
        ("openai", "gpt-6.1-sol", 272_000, 0.544 + 0.01),
        ("openai", "gpt-6.1-sol", 300_000, 1.2 + 0.015),
        ("gemini", "gemini-3.1-pro-preview", 300_000, 1.2 + 0.018),
        ("gemini", "gemini-2.5-pro", 200_000, 0.25 + 0.01),
        ("gemini", "gemini-2.5-pro", 200_001, 0.5000025 + 0.015),
        ("anthropic", "claude-sonnet-4-5", 300_000, 1.8 + 0.0225),
        ("anthropic", "claude-opus-5-5", 300_000, 1.2 + 0.02),
        ("anthropic", "claude-haiku-5-5", 100_001, 0.0500005 + 0.0025),
        ("xai", "grok-4.7", 300_000, 1.2 + 0.012),
        ("qwen", "qwen3-max", 100_000, 0.24 + 0.012),
        ("qwen", "qwen3-coder-plus", 300_000, 1.8 + 0.06),
    ],
)
def test_published_tariffs_for_long_inputs_are_counted(
    provider: str, model: str, tokens: int, cost: float
) -> None:
    info = find_model_info(provider, model)
    assert info.compute_cost(Usage(input=tokens, output=1000)) == pytest.approx(cost)


def test_cached_tokens_count_for_the_length_and_have_rates_of_their_own() -> None:
    info = find_model_info("openai", "gpt-6.1-sol")
    usage = Usage(input=300_000, cache_reads=200_000, cache_writes=50_000)
    assert info.compute_cost(usage) == pytest.approx(0.2 + 0.04 + 0.25)
