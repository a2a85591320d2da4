"""Values as they are written on a command line, for every key there is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from joey.config.config_keys import (
    ConfigKey,
    describe_profile_keys,
    describe_setting_keys,
    find_key,
    parse_value,
)
from joey.core.settings import Profile, Settings
from joey.errors import ConfigError

EVERY: list[tuple[type[Struct], ConfigKey]] = [
    *((Settings, key) for key in describe_setting_keys().values()),
    *((Profile, key) for key in describe_profile_keys().values()),
]


@pytest.mark.parametrize(("kind", "key"), EVERY, ids=lambda each: getattr(each, "name", ""))
def test_a_default_can_be_written_and_read_back(kind: type[Struct], key: ConfigKey) -> None:
    if key.default is None:
        return
    written = json.dumps(key.default)
    assert parse_value(kind, key, [written]) == json.loads(written)


@given(st.sampled_from(EVERY), st.lists(st.text(), max_size=3))
def test_any_arguments_are_a_value_or_an_error_for_a_user(
    each: tuple[type[Struct], ConfigKey], arguments: list[str]
) -> None:
    kind, key = each
    try:
        parse_value(kind, key, arguments)
    except ConfigError as error:
        assert f"`{key.name}`" in str(error)


@pytest.mark.parametrize(
    "written", ["sandboxNetwork", "sandbox-network", "sandbox_network", "SANDBOXNETWORK"]
)
def test_a_key_is_known_however_it_is_written(written: str) -> None:
    assert find_key(written, describe_setting_keys()) == "sandboxNetwork"


@pytest.mark.parametrize(
    ("name", "word", "allowed"),
    [
        ("autoCondenseContextPercent", "200", "a whole number from 5 to 100: 200 is not in this"),
        ("autoCondenseContextPercent", "0", "a whole number from 5 to 100"),
        ("maxRetries", "-1", "a whole number from 0: -1 is not in this range"),
        ("requestDelaySeconds", "-0.5", "a number from 0: -0.5 is not in this range"),
        ("allowedMaxCost", "-2", "a number from 0"),
        ("maxConcurrentFileReads", "0", "a whole number from 1"),
        ("maxReadFileLine", "-2", "a whole number from -1"),
    ],
)
def test_what_is_out_of_range_is_refused_with_the_range(name: str, word: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=allowed):
        parse_value(Settings, describe_setting_keys()[name], [word])


@pytest.mark.parametrize(("kind", "key"), EVERY, ids=lambda each: getattr(each, "name", ""))
def test_no_number_but_a_marked_one_may_be_negative(kind: type[Struct], key: ConfigKey) -> None:
    if "number" not in key.type_description or "object" in key.type_description:
        return
    with pytest.raises(ConfigError, match="is not in this range"):
        parse_value(kind, key, ["-2"])


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["all"], "all"),
        (["registries"], "registries"),
        (["registries", "files.example"], ["registries", "files.example"]),
        (["pypi.example"], ["pypi.example"]),
        (["pypi.example", "localhost:8099"], ["pypi.example", "localhost:8099"]),
        (['["a.example"]'], ["a.example"]),
    ],
)
def test_arguments_become_the_list_where_there_may_be_one(
    arguments: list[str], value: object
) -> None:
    assert parse_value(Settings, describe_setting_keys()["sandboxNetwork"], arguments) == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["al"], "Did you mean all\\? Write a list as words: sandboxNetwork ONE TWO"),
        (["https://a.example/x", "b.example"], "without scheme and path"),
        (["on"], "a name has a dot, unless it is `localhost`"),
        (["registry:4873"], "a name has a dot, unless it is `localhost`"),
        (["registrie"], "Did you mean registries\\?"),
    ],
)
def test_what_is_neither_a_choice_nor_a_list_is_reported(
    arguments: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_value(Settings, describe_setting_keys()["sandboxNetwork"], arguments)


COMMANDS = ["allowedCommands", "deniedCommands", "commandTimeoutAllowlist"]


@pytest.mark.parametrize("name", COMMANDS)
@given(st.lists(st.text(st.characters(codec="ascii", categories=["L", "Zs"]), min_size=1)))
def test_nothing_wider_than_typed_is_stored_as_a_rule(name: str, arguments: list[str]) -> None:
    """Several words are several commands only where each of them shows that it was quoted."""
    key = describe_setting_keys()[name]
    if len(arguments) < 2 or all(" " in word.strip() for word in arguments):
        assert parse_value(Settings, key, arguments) == arguments
        return
    with pytest.raises(ConfigError, match=f"`{name}` holds commands"):
        parse_value(Settings, key, arguments)
