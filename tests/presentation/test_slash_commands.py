from __future__ import annotations

import pytest

from joey.presentation.slash_commands import (
    BUILT_IN_COMMANDS,
    LISTED_COMMANDS,
    UNLISTED_COMMAND_NAMES,
    explain_bad_command,
    parse_command,
)

NAMES = [command.name for command in LISTED_COMMANDS]


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/help", "help", ""),
        (" /new ", "new", ""),
        ("/compact mind the tests", "compact", "mind the tests"),
        ("/model a/b:c", "model", "a/b:c"),
    ],
)
def test_a_command_is_known_with_the_text_after_it(text: str, name: str, argument: str) -> None:
    parsed = parse_command(text)
    assert parsed is not None
    assert (parsed[0].name, parsed[1]) == (name, argument)


@pytest.mark.parametrize(
    "text", ["help", "/nonsense", "/etc/hosts is odd", "/help me with this", "//", "/", ""]
)
def test_other_text_is_no_command(text: str) -> None:
    assert parse_command(text) is None


def test_every_command_is_offered_once() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert set(NAMES) | UNLISTED_COMMAND_NAMES == {command.name for command in BUILT_IN_COMMANDS}


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("/doctr", "there is no command /doctr; did you mean /doctor?"),
        ("/rewnd", "there is no command /rewnd; did you mean /rewind?"),
        ("/nonsense", "there is no command /nonsense; see /help"),
        ("/zzz", "there is no command /zzz; see /help"),
        ("/permisions ask", "there is no command /permisions; did you mean /permissions?"),
        ("/mdoe  ask", "there is no command /mdoe; did you mean /mode?"),
        ("/quitt", "there is no command /quitt; did you mean /quit?"),
        ("/login", "there is no command /login; /model sets up a provider and its key"),
        ("/plan it", "there is no command /plan; /mode architect plans without editing code"),
        ("/usage", "there is no command /usage; /cost shows it"),
        ("/mcp list", "/mcp takes no arguments"),
        ("/undo now please", "/undo takes no arguments"),
        ("/help me with all this", None),
        ("/doctor", None),
        ("/usr/bin", None),
        ("/nonsense, he said", None),
        ("/mdoe is what I typed just now", None),
    ],
)
def test_a_slip_is_guessed_at(text: str, suggestion: str | None) -> None:
    assert explain_bad_command(text, NAMES) == suggestion


def test_an_answer_that_may_be_a_path_is_no_command_of_another_agent() -> None:
    assert explain_bad_command("/login", NAMES, may_be_path=True) is None


@pytest.mark.parametrize("name", ["login", "plan", "usage", "memory", "settings", "sandbox"])
def test_a_command_of_the_user_replaces_the_advice_about_it(name: str) -> None:
    assert explain_bad_command(f"/{name}", [*NAMES, name]) is None
