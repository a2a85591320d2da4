from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from joey.cli.repl.markdown import MarkdownStreamRenderer
from tests.front.terminal import render_lines

TEXT = """\

# Title with **strong** words

Some **bold text** and `code ** x`, then 2 ** 3 and **kwargs alone, all on one line that is long.
- an item that is long enough to be broken at thirty columns
  - `nested`
1. first
12 apples
> quoted

```python
def f(**kw):
    return "`"
```
---
the end is `open

"""
DRAWN = """\
Title with strong words

Some bold text and code ** x, then 2 ** 3 and **kwargs alone, all on one line that is long.
• an item that is long enough to be broken at thirty columns
  • nested
1. first
12 apples
│ quoted

  def f(**kw):
      return "`"
────────────────────
the end is `open
"""


def drawn(pieces: Iterable[str], columns: int | None = None) -> str:
    file = io.StringIO()
    colours: Literal["standard"] | None = "standard" if columns else None
    console = Console(
        file=file, width=columns or 80, force_terminal=columns is not None, color_system=colours
    )
    stream = MarkdownStreamRenderer(console)
    for piece in pieces:
        stream.feed(piece)
    stream.flush_line()
    return file.getvalue()


def cut(text: str, places: Iterable[int]) -> list[str]:
    bounds = [0, *sorted(places), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


@given(st.lists(st.integers(0, len(TEXT)), max_size=60))
def test_however_the_text_is_cut_it_is_drawn_the_same(places: list[int]) -> None:
    assert drawn(cut(TEXT, places)) == DRAWN


@given(st.lists(st.integers(0, len(TEXT)), max_size=60), st.integers(20, 60))
def test_on_a_terminal_lines_are_wrapped_at_spaces_however_the_text_is_cut(
    places: list[int], columns: int
) -> None:
    lines = render_lines(drawn(cut(TEXT, places), columns), columns)
    assert lines == render_lines(drawn([TEXT], columns), columns)
    expected = " ".join(DRAWN.replace("─" * 20, "").split())
    assert " ".join(" ".join(lines).replace("─", "").split()) == expected


def test_lines_that_follow_stand_under_the_text_of_an_item() -> None:
    lines = render_lines(drawn(["- one two three four five six seven"], 20), 20)
    assert lines == ["• one two three", "  four five six", "  seven", ""]


@pytest.mark.parametrize("word", ["x" * 70, "漢字" * 30])
def test_text_without_spaces_to_break_at_is_drawn_whole(word: str) -> None:
    lines = render_lines(drawn([f"It is {word} they say."], 30), 30)
    assert "".join("".join(lines).split()) == f"Itis{word}theysay."


def test_styles_reach_the_terminal_and_marks_do_not() -> None:
    raw = drawn(["a **b", "old** and `co", "de` end"], 80)
    assert "\x1b[1mbold\x1b[0m" in raw
    assert "\x1b[36mcode\x1b[0m" in raw
    assert not {"*", "`"} & set(raw)


def test_the_last_word_is_seen_before_it_is_complete() -> None:
    file = io.StringIO()
    stream = MarkdownStreamRenderer(Console(file=file, width=40, force_terminal=True))
    stream.feed("I think")
    assert file.getvalue() == "I think"
