from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joey.core.text import (
    has_line_numbers,
    number_lines,
    parse_first_line_number,
    split_lines,
    strip_line_numbers,
    unescape_entities,
)


@pytest.mark.parametrize(
    ("text", "start", "numbered"),
    [
        ("x\ny\n", 1, "1 | x\n2 | y\n"),
        ("x\ny", 1, "1 | x\n2 | y\n"),
        ("a\n\nb", 1, "1 | a\n2 | \n3 | b\n"),
        ("a\r\nb\r\n", 1, "1 | a\n2 | b\n"),
        ("a\x0cb\u2028c", 1, "1 | a\x0cb\u2028c\n"),
        ("a\nb", 99, " 99 | a\n100 | b\n"),
        ("", 1, ""),
        ("", 7, "7 | \n"),
    ],
)
def test_lines_get_aligned_numbers(text: str, start: int, numbered: str) -> None:
    assert number_lines(text, start) == numbered


@pytest.mark.parametrize(
    ("text", "numbered"),
    [
        ("1 | a\n2 | b\n", True),
        ("  9 | a\n 10 | b", True),
        ("1 |a", True),
        ("1 | a\nb", False),
        ("1 || a", False),
        ("| a", False),
        ("1| a", False),
        ("", False),
        ("\n", False),
    ],
)
def test_line_numbers_are_seen_when_every_line_has_one(text: str, numbered: bool) -> None:
    assert has_line_numbers(text) is numbered


def test_only_the_number_the_bar_and_one_space_are_taken_off() -> None:
    assert strip_line_numbers("1 |   a\r\n2 |b\nc") == "  a\r\nb\nc"
    assert strip_line_numbers("| a\n3 | b", bare_bars=True) == "a\nb"
    assert strip_line_numbers("| a") == "| a"


def test_the_first_number_is_found() -> None:
    assert parse_first_line_number(" 12 | a\n13 | b") == 12
    assert parse_first_line_number("a") is None


def test_a_number_too_long_for_a_line_is_not_one() -> None:
    assert not has_line_numbers("9" * 5000 + " | a")


def test_entities_are_undone_once() -> None:
    assert unescape_entities("&lt;a href=&quot;x&quot;&gt; &#39;&apos; &#91;&rsqb;") == (
        "<a href=\"x\"> '' []"
    )
    assert unescape_entities("&amp;lt; &nbsp;") == "&lt; &nbsp;"


@settings(max_examples=100)
@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))),
    st.integers(1, 10_000),
)
def test_numbers_come_off_as_they_were_put_on(lines: list[str], start: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    numbered = number_lines(text, start)
    if not lines:
        return
    assert has_line_numbers(numbered)
    assert parse_first_line_number(numbered) == start
    assert strip_line_numbers(numbered) == text
    assert split_lines(text) == lines
