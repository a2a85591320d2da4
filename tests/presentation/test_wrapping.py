from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.presentation.text import measure_width, wrap

LINES = [
    ("! one two three four five", "! one two three\n  four five"),
    ("  12. one two three four", "  12. one two\n      three four"),
    ("  +    const a = b + c;", "  +    const a = b\n       + c;"),
    ("joey: there is no task", "joey: there is no\n      task"),
    ("short", "short"),
    ("x" * 30, "x" * 18 + "\n" + "x" * 12),
]


@pytest.mark.parametrize(("line", "broken"), LINES)
def test_continuations_stand_under_the_text(line: str, broken: str) -> None:
    assert wrap(line, 18) == broken
    assert wrap(line, None) == line


@given(st.text(st.sampled_from("ab 漢-1.$\n"), max_size=200), st.integers(20, 60))
def test_every_line_fits_and_no_letter_is_lost(text: str, width: int) -> None:
    broken = wrap(text, width)
    assert all(measure_width(line) <= width for line in broken.split("\n"))
    assert "".join(broken.split()) == "".join(text.split())
