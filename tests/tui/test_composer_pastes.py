"""Long pastes are folded and sent whole; what nobody would see is shown."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from joey.tui.widgets.draft import (
    Attachments,
    decode_draft_text,
    encode_draft_text,
    find_mark_spans,
    should_fold_paste,
    to_visible_text,
)
from tests.harness.counts import shortened_examples
from tests.harness.tui.composer_harness import open_composer

LONG = "".join(f"line {number}\n" for number in range(120))


async def test_a_long_paste_is_folded_and_sent_whole() -> None:
    async with open_composer() as user:
        await user.write("see ")
        await user.paste(LONG)
        await user.write(" there")
        assert user.text == "see [pasted text #1, 120 lines] there"
        await user.press("enter")
        assert user.sent == [f"see {LONG} there"]


@pytest.mark.parametrize(
    ("pasted", "folded"),
    [
        ("x\n" * 8 + "x", "[pasted text #1, 9 lines]"),
        ("x\n" * 7 + "x", "x\n" * 7 + "x"),
        ("y" * 1_501, "[pasted text #1, 1501 characters]"),
        ("y" * 1_500, "y" * 1_500),
    ],
)
async def test_what_is_folded(pasted: str, folded: str) -> None:
    async with open_composer() as user:
        await user.paste(pasted)
        assert user.text == folded


@pytest.mark.parametrize("key", ["backspace", "ctrl+w", "alt+backspace"])
async def test_a_mark_is_deleted_whole_and_undoing_brings_it_back(key: str) -> None:
    async with open_composer() as user:
        await user.write("a ")
        await user.paste(LONG)
        await user.press(key)
        assert user.text == "a "
        await user.press("ctrl+underscore")
        assert user.text == "a [pasted text #1, 120 lines]"
        await user.press("enter")
        assert user.sent == [f"a {LONG}"]


async def test_the_cursor_jumps_over_a_mark() -> None:
    async with open_composer() as user:
        await user.paste(LONG)
        await user.press("left", "x", "right", "y")
        assert user.text == "x[pasted text #1, 120 lines]y"
        await user.press("left", "left", "delete")
        assert user.text == "xy"


async def test_a_mark_is_killed_and_yanked_as_one() -> None:
    async with open_composer() as user:
        await user.paste(LONG)
        await user.press("ctrl+u", "a", "ctrl+y", "enter")
        assert user.sent == [f"a{LONG}"]


async def test_pasting_the_same_again_shows_it_whole() -> None:
    async with open_composer() as user:
        await user.paste(LONG)
        await user.paste(LONG)
        assert user.text == LONG


async def test_tab_behind_a_mark_shows_it_whole() -> None:
    async with open_composer() as user:
        await user.paste(LONG)
        assert "Tab" in user.hint
        await user.press("tab")
        assert (user.text, user.hint) == (LONG, "")


async def test_a_paste_of_a_megabyte_stays_folded() -> None:
    text = "0123456789abcde\n" * 65_536
    async with open_composer() as user:
        await user.paste(text)
        await user.press("tab")
        assert "too long to be shown here" in user.hint
        await user.press("enter")
        assert user.sent == [text]


async def test_typed_text_that_looks_like_a_mark_is_text() -> None:
    async with open_composer() as user:
        await user.paste(LONG)
        await user.write(" [pasted text #1, 120 lines]")
        await user.press("backspace", "enter")
        assert user.sent == [f"{LONG} [pasted text #1, 120 lines"]


async def test_characters_that_nobody_sees_are_shown_and_sent() -> None:
    async with open_composer() as user:
        await user.paste("pay\u202e\u200bme")
        assert user.text == "pay▯▯me"
        await user.press("enter")
        assert user.sent == ["pay\u202e\u200bme"]


async def test_a_folded_paste_says_how_much_of_it_nobody_would_see() -> None:
    async with open_composer() as user:
        await user.paste("x\n" * 20 + "\U000e0041\U000e0042")
        assert user.text == "[pasted text #1, 21 lines, 2 hidden characters]"


async def test_a_paste_cannot_command_the_terminal() -> None:
    async with open_composer() as user:
        await user.paste("a\x1b[2Jb\x07c\r\nd\re\x00")
        assert user.text == "abc\nd\ne"


ANYTHING = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\t\r\u202e\u2028"))


@given(ANYTHING)
def test_what_is_accepted_is_released_as_it_was(text: str) -> None:
    kept = encode_draft_text(text)
    assert encode_draft_text(decode_draft_text(kept)) == kept
    assert len(to_visible_text(kept)) == len(kept)
    plain = [char for char in text if char.isprintable()]
    assert [
        char for char in decode_draft_text(kept) if char.isprintable()
    ] == plain or "\x1b" in text


@given(st.lists(st.tuples(st.booleans(), ANYTHING), max_size=8))
def test_what_is_sent_is_what_was_typed_and_pasted(parts: list[tuple[bool, str]]) -> None:
    attached = Attachments()
    written = ""
    for is_folded, part in parts:
        text = encode_draft_text(part)
        written += attached.fold_paste(text) if is_folded else text
    sent = "".join(encode_draft_text(part) for _, part in parts)
    assert attached.unfold_pastes(written) == sent
    again = Attachments()
    assert (
        again.unfold_pastes(again.adopt_draft(attached.build_draft(written, shell=False))) == sent
    )
    assert len(list(find_mark_spans(written))) == sum(is_folded for is_folded, _ in parts)


MOVES = ["left", "right", "home", "end", "backspace", "delete", "paste", "a", "b", " "]


@shortened_examples(8, 25)
@given(st.lists(st.sampled_from(MOVES), max_size=25))
def test_pastes_are_single_things_to_every_key(moves: list[str]) -> None:
    asyncio.run(_press_and_compare(moves))


async def _press_and_compare(moves: list[str]) -> None:
    """The same moves over a list of things, in which a whole paste is one."""
    things, at = ["x"], 1
    async with open_composer() as user:
        await user.press("x")
        for number, move in enumerate(moves):
            match move:
                case "left" | "right":
                    at = min(max(0, at + (1 if move == "right" else -1)), len(things))
                case "home" | "end":
                    at = 0 if move == "home" else len(things)
                case "backspace" | "delete":
                    gone = at - 1 if move == "backspace" else at
                    if 0 <= gone < len(things):
                        del things[gone]
                        at = gone
                case _:
                    things.insert(at, f"{number}\n" * 9 if move == "paste" else move)
                    at += 1
            if move == "paste":
                user.app.post_message(events.Paste(f"{number}\n" * 9))
            else:
                user.press_without_waiting(move)
        await user.press("enter")
        whole = "".join(things)
        assert user.sent == ([whole] if whole.strip() else [])


@given(ANYTHING)
def test_only_long_texts_are_folded(text: str) -> None:
    assert should_fold_paste(text) == (len(text) > 1_500 or text.count("\n") >= 8)
