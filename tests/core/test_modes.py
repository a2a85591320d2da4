from __future__ import annotations

import pytest

from joey.core.modes import (
    BUILT_IN_MODES,
    Mode,
    ModePromptOverride,
    choose_fallback_mode,
    find_mode,
    merge_modes,
)

POET = Mode(slug="poet", name="Poet", role="You rhyme.", source="project")


def slugs(*custom: Mode) -> list[str]:
    return [mode.slug for mode in merge_modes(custom)]


@pytest.mark.contract("modes:fields")
def test_a_custom_mode_takes_the_place_of_a_built_in_one_whole() -> None:
    own = Mode(slug="debug", name="Mine", role="You are mine.", source="global")
    modes = merge_modes((own,), {"debug": ModePromptOverride(when_to_use="never")})
    assert find_mode("debug", modes) == own
    assert [mode.slug for mode in modes] == [mode.slug for mode in BUILT_IN_MODES]


def test_custom_modes_come_last_and_of_one_slug_the_first_counts() -> None:
    other = Mode(slug="poet", name="Other", role="You do not rhyme.", source="global")
    chef = Mode(slug="chef", name="Chef", role="You cook.", source="global")
    modes = merge_modes((POET, other, chef))
    assert modes == (*BUILT_IN_MODES, POET, chef)


@pytest.mark.contract("modes:fields")
def test_texts_of_built_in_modes_can_be_replaced_one_by_one() -> None:
    prompts = {
        "ask": ModePromptOverride(role_definition="You know it all.", custom_instructions=""),
        "code": None,
        "poet": ModePromptOverride(role_definition="Never used."),
    }
    modes = merge_modes((POET,), prompts)
    before, after = find_mode("ask"), find_mode("ask", modes)
    assert before is not None and after is not None
    assert after.role == "You know it all."
    assert after.custom_instructions == before.custom_instructions
    assert find_mode("code", modes) == find_mode("code")
    assert find_mode("poet", modes) == POET


def test_the_usual_mode_is_the_users_own_if_it_exists() -> None:
    modes = merge_modes((POET,))
    assert choose_fallback_mode("poet", modes) == POET
    assert choose_fallback_mode("gone", modes).slug == "code"
    assert choose_fallback_mode("gone", (POET,)) == POET


def test_the_purpose_of_a_mode_is_one_line() -> None:
    assert POET.purpose == "You rhyme."
    assert Mode("a", "A", "You are\nRoo. And more.").purpose == "You are Roo."
    assert Mode("a", "A", "x", when_to_use=" For\n rhymes ").purpose == "For rhymes"
