"""Values as they are written on a command line, for every key there is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from joey.config.described_keys import DescribedKey, find_key, profile_keys, setting_keys
from joey.config.typed_values import read_value
from joey.core.settings import Profile, Settings
from joey.errors import ConfigError

EVERY: list[tuple[type[Struct], DescribedKey]] = [
    *((Settings, key) for key in setting_keys().values()),
    *((Profile, key) for key in profile_keys().values()),
]


@pytest.mark.parametrize(("kind", "key"), EVERY, ids=lambda each: getattr(each, "name", ""))
def test_a_default_can_be_written_and_read_back(kind: type[Struct], key: DescribedKey) -> None:
    if key.default is None:
        return
    written = json.dumps(key.default)
    assert read_value(kind, key, [written]) == json.loads(written)


@given(st.sampled_from(EVERY), st.lists(st.text(), max_size=3))
def test_any_words_are_a_value_or_an_error_for_a_person(
    each: tuple[type[Struct], DescribedKey], words: list[str]
) -> None:
    kind, key = each
    try:
        read_value(kind, key, words)
    except ConfigError as error:
        assert f"`{key.name}`" in str(error)


@pytest.mark.parametrize(
    "written", ["sandboxNetwork", "sandbox-network", "sandbox_network", "SANDBOXNETWORK"]
)
def test_a_key_is_known_however_it_is_written(written: str) -> None:
    assert find_key(written, setting_keys()) == "sandboxNetwork"
