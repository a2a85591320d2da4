from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.core.terminal_text import collapse_repeated_lines, format_size, render_terminal_output


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain\ntext\n", "plain\ntext\n"),
        ("", ""),
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("longer line\rshort", "shorter line"[:5] + "r line"),
        ("50%\r", "50%"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("loading...\r\x1b[Kok\n", "ok\n"),
        ("abc\r\x1b[2Kx", "x"),
        ("|\b/\b-\bdone", "done"),
        ("\b\bstart", "start"),
        ("\x1b[1;31mred\x1b[0m plain", "red plain"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bset", "set"),
        ("nul\x00bell\x07tab\t", "nul\ufffdbell\ufffdtab\t"),
    ],
)
def test_text_looks_as_it_would_on_a_screen(printed: str, shown: str) -> None:
    assert render_terminal_output(printed) == shown


def test_repeated_lines_are_counted_where_that_is_shorter() -> None:
    assert collapse_repeated_lines("same line here\n" * 20) == (
        "same line here\n<previous line repeated 19 additional times>\n"
    )


def test_five_short_lines_stay_because_the_note_would_be_longer() -> None:
    assert collapse_repeated_lines("abc\n" * 5) == "abc\n" * 5


def test_two_equal_lines_stay_however_long_they_are() -> None:
    line = "a line that is longer than the note about its repetition would be\n"
    assert collapse_repeated_lines(line * 2) == line * 2
    assert collapse_repeated_lines(line * 3) == (
        f"{line}<previous line repeated 2 additional times>\n"
    )


@given(st.lists(st.sampled_from(["", "a", "a longer line of text", "b"]), max_size=60))
def test_counting_repeats_never_makes_a_text_longer(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert len(collapse_repeated_lines(text)) <= len(text)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=80))
def test_text_without_controls_is_left_as_it_is(text: str) -> None:
    assert render_terminal_output(text) == text


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.0KB"),
        (10_241, "10.0KB"),
        (1024 * 1024, "1.0MB"),
        (300 * 1024 * 1024, "300.0MB"),
    ],
)
def test_sizes_are_written_short(count: int, shown: str) -> None:
    assert format_size(count) == shown


def test_a_size_may_spell_out_bytes() -> None:
    assert format_size(7, " bytes") == "7 bytes"
