from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.text import reveal
from joey.presentation.text import sanitize, to_one_line

TABLE = [
    ("plain words", "plain words"),
    ("tabs\tand\nlines", "tabs\tand\nlines"),
    ("grüße 👩‍💻 漢字", "grüße 👩‍💻 漢字"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07after", "after"),
    ("\x1b]52;c;aGVsbG8=\x1b\\after", "after"),
    ("\x1bPq#0\x1b\\after", "after"),
    ("\x1b(Bafter", "after"),
    ("cut off \x1b[3", "cut off [3"),
    ("over\rwritten", "overwritten"),
    ("windows\r\nlines", "windows\nlines"),
    ("bell\x07 back\x08 null\x00 del\x7f", "bell back null del"),
    ("c1 \x9b31m csi \x85", "c1 31m csi "),
    ("rm \u202egnp.txt", "rm <U+202E>gnp.txt"),
    ("a\u2066b\u2069c\u200fd", "a<U+2066>b<U+2069>c<U+200F>d"),
    ("hidden\U000e0041tag", "hidden<U+E0041>tag"),
    ("lone \ud800 surrogate", "lone � surrogate"),
]


@pytest.mark.parametrize(("text", "shown"), TABLE)
def test_text_is_shown_without_what_commands_a_terminal(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@pytest.mark.contract("screen:safe-display")
@settings(max_examples=200)
@given(st.text(), st.integers(0, 20))
def test_no_text_reaches_the_terminal_with_a_control_character_however_it_is_cut(
    text: str, cut: int
) -> None:
    text = f"\x1b[{text}\x9b\r\u202e"
    shown = sanitize(text[:cut]) + sanitize(text[cut:])
    forbidden = [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
    assert not forbidden
    assert "\u202e" not in shown
    shown.encode()


def test_one_line_is_never_longer_than_asked_for() -> None:
    assert to_one_line("two\n\nwords\x1b[2J") == "two words"
    assert to_one_line("x" * 300, 10) == "xxxxxxxxx…"


@pytest.mark.contract("screen:safe-display")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("echo ok", "echo ok"),
        ("echo \x1b]; rm -rf a \x07", "echo <U+001B>]; rm -rf a <U+0007>"),
        ("echo \x1bP; rm a \x1b\\", "echo <U+001B>P; rm a <U+001B>\\"),
        ("echo ok\rrm a", "echo ok<U+000D>rm a"),
        ("windows\r\nlines", "windows\nlines"),
        ("r\u200dm \u2800a\u3164b \xad", "r<U+200D>m <U+2800>a<U+3164>b <U+00AD>"),
        ("grüße 👩‍💻 ❤️ 漢字", "grüße 👩‍💻 ❤️ 漢字"),
        ("rm \u202egnp.txt", "rm <U+202E>gnp.txt"),
    ],
)
def test_nothing_is_left_out_of_text_that_is_approved(text: str, shown: str) -> None:
    assert reveal(text) == shown


@given(st.text())
def test_revealed_text_has_each_visible_character_of_the_original(text: str) -> None:
    kept = [c for c in text.replace("\r\n", "\n") if c.isprintable() and not c.isspace()]
    shown = iter(reveal(text))
    assert all(c in shown or not c.isascii() for c in kept)
