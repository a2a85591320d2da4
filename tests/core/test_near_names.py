"""Names that were misspelt, and the ones that were meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.suggest import find_closest_name

SETTINGS = ("alwaysAllowWrite", "alwaysAllowWriteProtected", "alwaysAllowMcp", "sandbox", "mode")
COMMANDS = ("mode", "model", "mcp", "new", "rewind", "permissions", "help")
NAMES = st.text("abcde-_A", min_size=1, max_size=16)


@pytest.mark.parametrize(
    ("word", "names", "meant"),
    [
        ("rewnd", COMMANDS, "rewind"),
        ("rewidn", COMMANDS, "rewind"),
        ("modl", COMMANDS, "model"),
        ("hlep", COMMANDS, "help"),
        ("perm", COMMANDS, "permissions"),
        ("REWIND", COMMANDS, "rewind"),
        ("always_allow_write", SETTINGS, "alwaysAllowWrite"),
        ("alwaysAlowWrites", SETTINGS, "alwaysAllowWrite"),
        ("allowWrite", SETTINGS, "alwaysAllowWrite"),
        ("--alow-writes", ("--allow", "--allow-writes", "-w"), "--allow-writes"),
    ],
)
def test_a_slip_leads_to_the_name(word: str, names: tuple[str, ...], meant: str) -> None:
    assert find_closest_name(word, names) == meant


@pytest.mark.parametrize("word", ["x", "--x", "per", "refactor", "", "fix the tests", "write"])
def test_other_names_lead_nowhere(word: str) -> None:
    assert find_closest_name(word, (*COMMANDS, "-w", *SETTINGS)) is None


def test_without_names_there_is_none_to_guess_at() -> None:
    assert find_closest_name("mode", ()) is None


def test_a_word_without_end_is_not_measured() -> None:
    assert find_closest_name("a" * 10_000_000, SETTINGS) is None


@given(NAMES, st.lists(NAMES, max_size=5))
def test_what_is_guessed_is_one_of_the_names(word: str, names: list[str]) -> None:
    assert find_closest_name(word, names) in {None, *names}


@given(
    st.permutations("abcdefghijk"), st.integers(5, 11), st.integers(0, 10), st.sampled_from("az")
)
def test_one_slip_is_forgiven(letters: list[str], size: int, at: int, letter: str) -> None:
    name = "".join(letters[:size])
    at = min(at, len(name) - 1)
    swapped = name[:at] + name[at : at + 2][::-1] + name[at + 2 :]
    for slip in (name[:at] + name[at + 1 :], name[:at] + letter + name[at:], swapped):
        assert find_closest_name(slip, (name,)) == name
