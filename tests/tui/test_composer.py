"""Writing and sending: the keys of the composer."""

from __future__ import annotations

import os
import random

import pytest

from joey.tui.widgets.composer import Composer
from joey.tui.widgets.text_area import CHANGING, MOVING, SELECTING
from tests.tui.composing import writing


async def test_enter_sends_and_the_composer_is_empty_again() -> None:
    async with writing() as person:
        await person.write("fix the test")
        assert not person.composer.is_empty
        await person.press("enter")
        assert person.sent == ["fix the test"]
        assert person.composer.is_empty


async def test_nothing_but_blanks_is_not_sent() -> None:
    async with writing() as person:
        await person.press("enter", "space", "ctrl+j", "enter")
        assert person.sent == []
        assert person.text == " \n"


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_keys_that_begin_a_new_line(key: str) -> None:
    async with writing() as person:
        await person.press("a", key, "b", "enter")
        assert person.sent == ["a\nb"]


async def test_a_backslash_before_enter_begins_a_new_line() -> None:
    async with writing() as person:
        await person.press("a", "backslash", "enter", "b", "enter")
        assert person.sent == ["a\nb"]


async def test_the_text_grows_to_a_third_of_the_screen_and_then_scrolls() -> None:
    async with writing(size=(40, 24)) as person:
        assert person.entry.size.height == 1
        await person.write("one\ntwo\nthree")
        assert person.entry.size.height == 3
        await person.write("\n" * 20 + "last")
        assert person.entry.size.height == 8 - 1
        assert person.entry.scroll_offset.y > 0
        await person.press("enter")
        assert person.entry.size.height == 1


async def test_long_lines_are_wrapped_between_words() -> None:
    async with writing(size=(30, 20)) as person:
        await person.write("the quick brown fox jumps over the lazy dog")
        assert person.entry.size.height == 2
        assert person.entry.virtual_size.width <= 30


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
    async with writing() as person:
        await person.write("one two three")
        await person.press(*keys)
        assert person.text == text


KEYS = sorted({*MOVING, *SELECTING, *CHANGING})
OTHERS = ["up", "down", "tab", "enter", "escape", "ctrl+r", "ctrl+p", "ctrl+n", "ctrl+d", "ctrl+x"]


@pytest.mark.parametrize("seed", range(int(os.environ.get("JOEY_KEY_RUNS", "2"))))
async def test_no_keys_in_any_order_end_the_composer(seed: int) -> None:
    chance = random.Random(seed)
    async with writing() as person:
        for _ in range(40):
            keys = chance.choices([*KEYS, *OTHERS, *"ab @/?![日"], k=8)
            if chance.random() < 0.1:
                await person.paste("line\n" * chance.choice((1, 3, 40)))
            await person.press(*keys)
        await person.press("escape", "escape", "ctrl+c", "Z")
        assert "Z" in person.text


async def test_undoing_more_lines_than_are_shown() -> None:
    async with writing(size=(40, 12)) as person:
        await person.paste("line\n" * 8)
        await person.press("ctrl+underscore", "X")
        assert person.text == "X"


async def test_ctrl_d_leaves_only_when_nothing_is_written() -> None:
    async with writing() as person:
        await person.press("a", "ctrl+d")
        assert not person.has_heard(Composer.Emptied)
        await person.press("backspace", "ctrl+d")
        assert person.has_heard(Composer.Emptied)


async def test_a_question_mark_asks_for_the_keys_only_when_nothing_is_written() -> None:
    async with writing() as person:
        await person.press("?")
        assert person.has_heard(Composer.KeysWanted)
        assert person.composer.is_empty
        await person.press("a", "?")
        assert person.text == "a?"


async def test_an_exclamation_mark_makes_a_command_of_the_shell() -> None:
    async with writing() as person:
        await person.write("!ls")
        assert (person.mark, person.text) == ("!", "ls")
        await person.press("enter")
        assert (person.commands, person.sent) == (["ls"], [])
        assert person.mark == "›"


@pytest.mark.parametrize("key", ["backspace", "escape"])
async def test_the_shell_is_left_by_deleting_the_mark(key: str) -> None:
    async with writing() as person:
        await person.press("!", key)
        assert (person.mark, person.composer.is_empty) == ("›", True)


async def test_a_pasted_exclamation_mark_runs_nothing() -> None:
    async with writing() as person:
        await person.paste("!rm -r .")
        await person.press("enter")
        assert (person.commands, person.sent) == ([], ["!rm -r ."])


async def test_escape_is_left_to_others_when_there_is_nothing_to_close() -> None:
    async with writing() as person:
        await person.press("a", "escape")
        assert person.app.escaped == 1


async def test_what_could_not_be_sent_returns_before_what_was_written_since() -> None:
    async with writing() as person:
        await person.write("first")
        await person.paste("line\n" * 20)
        await person.press("enter")
        await person.write("second")
        person.composer.put_back()
        assert person.text == "first[pasted text #1, 20 lines]\nsecond"
        await person.press("enter")
        assert person.sent[1] == "first" + "line\n" * 20 + "\nsecond"


async def test_what_was_cleared_comes_back_by_undoing() -> None:
    async with writing() as person:
        await person.write("a long thought")
        person.composer.clear()
        assert person.composer.is_empty
        await person.press("ctrl+underscore")
        assert person.text == "a long thought"


async def test_a_draft_stays_while_something_else_is_in_its_place() -> None:
    async with writing() as person:
        await person.write("half a thou")
        person.composer.display = False
        await person.resize(60, 20)
        person.composer.display = True
        person.composer.focus()
        await person.write("ght")
        assert person.text == "half a thought"


async def test_words_are_put_in_from_outside() -> None:
    async with writing() as person:
        person.composer.put("do it\nagain")
        await person.press("!", "enter")
        assert person.sent == ["do it\nagain!"]


async def test_wide_characters_are_moved_over_one_by_one() -> None:
    async with writing(size=(30, 10)) as person:
        await person.write("日本語")
        await person.press("left", "x", "backspace", "backspace", "enter")
        assert person.sent == ["日語"]
