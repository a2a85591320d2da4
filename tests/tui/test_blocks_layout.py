from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from joey.tui.blocks.block_layout import BlockHeights
from joey.tui.blocks.styled_text import chop_spans, count_chopped_lines, to_plain_text, wrap_spans

TEXTS = st.text("ab \t你好é́👍🏽‍️⚠️·-", max_size=120)
HEIGHTS = st.lists(st.integers(0, 9), max_size=60)


@given(TEXTS, st.integers(4, 40), st.integers(0, 6))
def test_a_broken_line_fits_and_loses_nothing_but_blanks(text: str, width: int, hang: int) -> None:
    half = len(text) // 2
    lines = wrap_spans([(text[:half], "a"), (text[half:], "b")], width, hang)
    assert "".join("".join(map(to_plain_text, lines)).split()) == "".join(text.split())
    assert all(cell_len(to_plain_text(line).rstrip()) <= width for line in lines)


@given(TEXTS, st.integers(4, 40), st.integers(0, 6))
def test_a_chopped_line_fits_and_keeps_every_character(text: str, width: int, hang: int) -> None:
    first, *rest = (to_plain_text(line) for line in chop_spans([(text, "")], width, hang))
    indent = hang if hang <= width // 2 else 0
    assert first + "".join(line[indent:] for line in rest) == text
    assert all(cell_len(line) <= width for line in (first, *rest))
    assert count_chopped_lines(text, width, hang) == 1 + len(rest)


@given(HEIGHTS, HEIGHTS, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9))))
def test_heights_are_those_of_a_list(
    first: list[int], later: list[int], changes: list[tuple[int, int]]
) -> None:
    heights, plain_list = BlockHeights(first), [*first]
    for height in later:
        heights.append(height)
        plain_list.append(height)
    for place, height in changes:
        if place < len(plain_list):
            heights.set_height(place, height)
            plain_list[place] = height
    assert heights.total == sum(plain_list)
    lines = [(n, y) for n, height in enumerate(plain_list) for y in range(height)]
    assert [heights.find_block(line) for line in range(len(lines))] == lines
    assert [heights.get_top_line(n) for n in range(len(plain_list))] == [
        sum(plain_list[:n]) for n in range(len(plain_list))
    ]
