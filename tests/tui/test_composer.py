"""Writing and sending: the keys of the composer."""

from __future__ import annotations

import os
import random

import pytest

from joey.tui.widgets.composer import Composer
from joey.tui.widgets.text_area import EDIT_ACTIONS, MOVE_ACTIONS, SELECT_ACTIONS
from tests.harness.tui.composer_harness import open_composer


async def test_enter_sends_and_the_composer_is_empty_again() -> None:
    async with open_composer() as user:
        await user.write("fix the test")
        assert not user.composer.is_empty
        await user.press("enter")
        assert user.sent == ["fix the test"]
        assert user.composer.is_empty


async def test_nothing_but_blanks_is_not_sent() -> None:
    async with open_composer() as user:
        await user.press("enter", "space", "ctrl+j", "enter")
        assert user.sent == []
        assert user.text == " \n"


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_keys_that_begin_a_new_line(key: str) -> None:
    async with open_composer() as user:
        await user.press("a", key, "b", "enter")
        assert user.sent == ["a\nb"]


async def test_a_backslash_before_enter_begins_a_new_line() -> None:
    async with open_composer() as user:
        await user.press("a", "backslash", "enter", "b", "enter")
        assert user.sent == ["a\nb"]


async def test_the_text_grows_to_a_third_of_the_screen_and_then_scrolls() -> None:
    async with open_composer(size=(40, 24)) as user:
        assert user.entry.size.height == 1
        await user.write("one\ntwo\nthree")
        assert user.entry.size.height == 3
        await user.write("\n" * 20 + "last")
        assert user.entry.size.height == 8 - 1
        assert user.entry.scroll_offset.y > 0
        await user.press("enter")
        assert user.entry.size.height == 1


async def test_long_lines_are_wrapped_at_spaces() -> None:
    async with open_composer(size=(30, 20)) as user:
        await user.write("the quick brown fox jumps over the lazy dog")
        assert user.entry.size.height == 2
        assert user.entry.virtual_size.width <= 30


EMACS = [
    (["ctrl+a", "X"], "Xone two three"),
    (["ctrl+a", "ctrl+e", "X"], "one two threeX"),
    (["ctrl+a", "ctrl+k", "X"], "X"),
    (["alt+b", "ctrl+k"], "one two "),
    (["alt+b", "ctrl+u"], "three"),
    (["ctrl+w"], "one two "),
    (["ctrl+w", "ctrl+w", "ctrl+y"], "one two "),
    (["ctrl+w", "ctrl+a", "ctrl+y"], "threeone two "),
    (["ctrl+a", "alt+d"], " two three"),
    (["ctrl+a", "alt+f", "X"], "oneX two three"),
    (["alt+backspace"], "one two "),
    (["ctrl+a", "ctrl+d"], "ne two three"),
    (["ctrl+a", "ctrl+f", "X"], "oXne two three"),
    (["ctrl+w", "ctrl+underscore"], "one two three"),
    (["ctrl+k", "X"], "one two threeX"),
    (["ctrl+u", "ctrl+k", "ctrl+u", "ctrl+w", "alt+d", "X"], "X"),
    (["ctrl+j", "ctrl+a", "ctrl+u", "ctrl+k"], "one two three"),
]


@pytest.mark.parametrize(("keys", "text"), EMACS)
async def test_keys_of_readline(keys: list[str], text: str) -> None:
    async with open_composer() as user:
        await user.write("one two three")
        await user.press(*keys)
        assert user.text == text


KEYS = sorted({*MOVE_ACTIONS, *SELECT_ACTIONS, *EDIT_ACTIONS})
OTHERS = ["up", "down", "tab", "enter", "escape", "ctrl+r", "ctrl+p", "ctrl+n", "ctrl+d", "ctrl+x"]


@pytest.mark.parametrize("seed", range(int(os.environ.get("JOEY_KEY_RUNS", "2"))))
async def test_no_keys_in_any_order_end_the_composer(seed: int) -> None:
    chance = random.Random(seed)
    async with open_composer() as user:
        for _ in range(40):
            keys = chance.choices([*KEYS, *OTHERS, *"ab @/?![日"], k=8)
            if chance.random() < 0.1:
                await user.paste("line\n" * chance.choice((1, 3, 40)))
            await user.press(*keys)
        await user.press("escape", "escape", "ctrl+c", "Z")
        assert "Z" in user.text


async def test_undoing_more_lines_than_are_shown() -> None:
    async with open_composer(size=(40, 12)) as user:
        await user.paste("line\n" * 8)
        await user.press("ctrl+underscore", "X")
        assert user.text == "X"


async def test_ctrl_d_leaves_only_when_nothing_is_written() -> None:
    async with open_composer() as user:
        await user.press("a", "ctrl+d")
        assert not user.has_received(Composer.ExitRequested)
        await user.press("backspace", "ctrl+d")
        assert user.has_received(Composer.ExitRequested)


async def test_a_question_mark_asks_for_the_keys_only_when_nothing_is_written() -> None:
    async with open_composer() as user:
        await user.press("?")
        assert user.has_received(Composer.KeyHelpRequested)
        assert user.composer.is_empty
        await user.press("a", "?")
        assert user.text == "a?"


async def test_an_exclamation_mark_makes_a_command_of_the_shell() -> None:
    async with open_composer() as user:
        await user.write("!ls")
        assert (user.mark, user.text) == ("!", "ls")
        await user.press("enter")
        assert (user.commands, user.sent) == (["ls"], [])
        assert user.mark == "›"


@pytest.mark.parametrize("key", ["backspace", "escape"])
async def test_the_shell_is_left_by_deleting_the_mark(key: str) -> None:
    async with open_composer() as user:
        await user.press("!", key)
        assert (user.mark, user.composer.is_empty) == ("›", True)


async def test_a_pasted_exclamation_mark_runs_nothing() -> None:
    async with open_composer() as user:
        await user.paste("!rm -r .")
        await user.press("enter")
        assert (user.commands, user.sent) == ([], ["!rm -r ."])


async def test_escape_is_left_to_others_when_there_is_nothing_to_close() -> None:
    async with open_composer() as user:
        await user.press("a", "escape")
        assert user.app.escaped == 1


async def test_what_could_not_be_sent_returns_before_what_was_written_since() -> None:
    async with open_composer() as user:
        await user.write("first")
        await user.paste("line\n" * 20)
        await user.press("enter")
        await user.write("second")
        user.composer.restore_sent()
        assert user.text == "first[pasted text #1, 20 lines]\nsecond"
        await user.press("enter")
        assert user.sent[1] == "first" + "line\n" * 20 + "\nsecond"


async def test_what_was_cleared_comes_back_by_undoing() -> None:
    async with open_composer() as user:
        await user.write("a long thought")
        user.composer.clear()
        assert user.composer.is_empty
        await user.press("ctrl+underscore")
        assert user.text == "a long thought"


async def test_a_draft_stays_while_something_else_is_in_its_place() -> None:
    async with open_composer() as user:
        await user.write("half a thou")
        user.composer.display = False
        await user.resize(60, 20)
        user.composer.display = True
        user.composer.focus()
        await user.write("ght")
        assert user.text == "half a thought"


async def test_text_is_put_in_from_outside() -> None:
    async with open_composer() as user:
        user.composer.set_text("do it\nagain")
        await user.press("!", "enter")
        assert user.sent == ["do it\nagain!"]


async def test_wide_characters_are_moved_over_one_by_one() -> None:
    async with open_composer(size=(30, 10)) as user:
        await user.write("日本語")
        await user.press("left", "x", "backspace", "backspace", "enter")
        assert user.sent == ["日語"]
