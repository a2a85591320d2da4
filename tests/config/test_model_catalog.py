from __future__ import annotations

import codecs
import json
import os
from pathlib import Path
from typing import Any

import pytest

from joey.config.model_catalog import ModelCatalog
from joey.core.models import LongContextRates, ModelInfo, Prices
from joey.core.settings import Profile
from joey.errors import ConfigError
from joey.providers.catalog import find_model_info
from joey.providers.factory import resolve_model

DAY = 1_790_000_000
"""2026-09-21."""
COST = {"input": 1, "output": 4, "cache_read": 0.1}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def write(home: Path, models: object, provider: str = "openai") -> None:
    write_document(home, {provider: {"name": "Any", "models": models}})


def write_document(home: Path, document: object) -> None:
    path = home / "models.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    os.utime(path, (DAY, DAY))


def write_refreshed(home: Path, models: dict[str, Any]) -> None:
    document = {"read": "2026-10-01", "source": "x", "providers": {"openai": {"models": models}}}
    (home / "models-refreshed.json").write_text(json.dumps(document))


def find(home: Path, model: str, provider: str = "openai") -> ModelInfo:
    return find_model_info(provider, model, ModelCatalog(home))


def test_a_model_that_the_catalogue_lacks_has_all_that_is_written(home: Path) -> None:
    entry = {
        "id": "own-1",
        "limit": {"context": 64_000, "input": 60_000, "output": 4_000},
        "cost": COST | {"cache_write": 1.25},
        "tool_call": False,
        "modalities": {"input": ["text"], "output": ["text"]},
        "temperature": False,
        "interleaved": {"field": "reasoning_content"},
        "release_date": "2026-01",
        "unknown": {"key": [1]},
    }
    write(home, {"own-1": entry})
    info = find(home, "own-1")
    assert info.is_known
    assert (info.context_window, info.max_output_tokens) == (64_000, 4_000)
    assert not info.supports_native_tools
    assert not info.supports_images
    assert not info.supports_temperature
    assert info.preserve_reasoning
    assert info.prices == Prices(1, 4, 1.25, 0.1, as_of="2026-09-21")


def test_values_replace_those_of_the_catalogue_and_others_stay(home: Path) -> None:
    write(home, {"gpt-6.1-sol": {"limit": {"context": 500_000}}, "gpt-5.4": {"cost": COST}})
    built_in = find_model_info("openai", "gpt-6.1-sol")
    limited = find(home, "gpt-6.1-sol")
    assert limited.context_window == 500_000
    assert (limited.max_output_tokens, limited.prices) == (128_000, built_in.prices)
    priced = find(home, "gpt-5.4")
    assert priced.context_window == 1_050_000
    assert priced.prices == Prices(1, 4, 1, 0.1, as_of="2026-09-21")
    assert find(home, "gpt-6-sol") == find_model_info("openai", "gpt-6-sol")


@pytest.mark.parametrize(
    "cost",
    [
        {"tiers": [{"tier": {"type": "context", "size": 200_000}, "input": 2, "output": 6}]},
        {"tiers": [{"tier": {"size": 200_000}, "input": 2, "output": 6}]},
        {"context_over_200k": {"input": 2, "output": 6}},
        {
            "tiers": [{"tier": {"size": 200_000}, "input": 2, "output": 6}],
            "context_over_200k": {"input": 9, "output": 9},
        },
    ],
)
def test_tariffs_for_long_inputs_are_read_in_both_forms(home: Path, cost: dict[str, Any]) -> None:
    write(home, {"m": {"cost": COST | cost}})
    prices = find(home, "m").prices
    assert prices is not None
    assert prices.long_context == (LongContextRates(2, 6, 2, 2, above=200_000),)


@pytest.mark.parametrize(
    ("entry", "thinking"),
    [
        ({"reasoning": False}, False),
        ({"reasoning": True, "reasoning_options": [{"type": "effort", "values": []}]}, False),
        ({"reasoning": True, "reasoning_options": [{"type": "budget_tokens", "min": 1}]}, True),
        ({"reasoning": True}, True),
    ],
)
def test_a_thinking_budget_is_sent_where_the_model_takes_one(
    home: Path, entry: dict[str, Any], thinking: bool
) -> None:
    write(home, {"claude-new": entry}, "anthropic")
    assert find(home, "claude-new", "anthropic").supports_thinking is thinking


@pytest.mark.parametrize("form", [True, {"supported": True, "parallel": True}])
def test_tools_may_be_described_in_detail(home: Path, form: object) -> None:
    write(home, {"deepseek-r1": {"tool_call": form}}, "deepseek")
    assert find(home, "deepseek-r1", "deepseek").supports_native_tools


@pytest.mark.parametrize(
    ("named", "model"),
    [
        ("claude-sonnet-5-5", "claude-sonnet-5-5-20261001"),
        ("anthropic/claude-sonnet-5.5", "anthropic/claude-sonnet-5.5:thinking"),
        ("claude-sonnet-5-5", "anthropic/claude-sonnet-5.5"),
    ],
)
def test_an_entry_counts_for_dates_and_variants_of_its_model(
    home: Path, named: str, model: str
) -> None:
    write(home, {named: {"limit": {"context": 77_000}}}, "openrouter")
    assert find(home, model, "openrouter").context_window == 77_000


@pytest.mark.parametrize(("name", "provider"), [("google", "gemini"), ("gemini", "gemini")])
def test_providers_have_their_names_here_or_at_models_dev(
    home: Path, name: str, provider: str
) -> None:
    write(home, {"new": {"limit": {"context": 50_000}}}, name)
    assert find(home, "new", provider).context_window == 50_000


def test_models_json_wins_over_the_last_refresh(home: Path) -> None:
    write_refreshed(home, {"m": {"limit": {"context": 9_000, "output": 900}, "cost": COST}})
    assert find(home, "m").prices == Prices(1, 4, 1, 0.1, as_of="2026-10-01")
    write(home, {"m": {"limit": {"context": 8_000}}})
    info = find(home, "m")
    assert (info.context_window, info.max_output_tokens) == (8_000, 900)
    assert info.prices == Prices(1, 4, 1, 0.1, as_of="2026-10-01")


def test_what_a_refresh_left_damaged_is_not_used(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "models-refreshed.json").write_text('{"read": "2026')
    assert not find(home, "m").is_known
    assert "joey models --refresh" in caplog.text
    write_refreshed(home, {"m": {"limit": 5}})
    assert not find(home, "m").is_known


def test_prices_of_your_own_count_also_at_a_private_address(home: Path) -> None:
    profile = Profile(provider="openai", model="qwen-own", base_url="http://10.0.0.5/v1")
    write_refreshed(home, {"qwen-own": {"cost": COST}})
    assert resolve_model(profile, ModelCatalog(home)).prices is None
    write(home, {"qwen-own": {"cost": COST}})
    assert resolve_model(profile, ModelCatalog(home)).prices is not None


def test_models_that_write_no_text_or_are_gone_are_not_offered(home: Path) -> None:
    models = {
        "a": {"modalities": {"input": ["text"], "output": ["text"]}},
        "b": {"modalities": {"output": ["image"]}},
        "c": {"status": "deprecated"},
        "d": {},
    }
    write(home, models)
    write_refreshed(home, {"d": {}, "e": {}})
    assert ModelCatalog(home).list_ids("openai") == ("a", "d", "e")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"openai": {', "models.json, line 1, column 13: not valid JSON"),
        ("[]", "must hold a JSON object"),
        ('{"openai": 5}', "`openai`: Expected `object`, got `int`"),
        ('{"openai": {"models": []}}', "`openai.models`: Expected `object`, got `array`"),
        ('{"openai": {"models": {"m": 1}}}', "`openai.models.m`: Expected `object`"),
        (
            '{"openai": {"models": {"m": {"cost": {"input": "1", "output": 2}}}}}',
            "`openai.models.m.cost.input`: Expected `float`, got `str`",
        ),
        (
            '{"openai": {"models": {"m": {"cost": {"input": -1, "output": 2}}}}}',
            "`openai.models.m.cost.input`: Expected `float` >= 0",
        ),
        (
            '{"openai": {"models": {"m": {"cost": {"input": 1}}}}}',
            "`openai.models.m.cost`: Object missing required field `output`",
        ),
        (
            '{"openai": {"models": {"m": {"limit": {"context": NaN}}}}}',
            "NaN is not a number",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(home: Path, document: str, message: str) -> None:
    (home / "models.json").write_text(document)
    with pytest.raises(ConfigError) as caught:
        find(home, "m")
    assert str(home / "models.json") in str(caught.value)
    assert message in str(caught.value)


def test_what_is_not_looked_up_need_not_be_right(home: Path) -> None:
    models = {"m": {"limit": {"context": 5_000}}, "n": {"limit": "much"}}
    write_document(home, {"openai": {"models": models}, "groq": 5, "$schema": "x"})
    assert find(home, "m").context_window == 5_000


def test_a_file_with_a_byte_order_mark_is_read(home: Path) -> None:
    text = json.dumps({"openai": {"models": {"m": {"limit": {"context": 5_000}}}}})
    (home / "models.json").write_bytes(codecs.BOM_UTF8 + text.encode())
    assert find(home, "m").context_window == 5_000
