from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from joey.cli.output import clip, table
from joey.presentation.text import cells

CELL_TEXTS = st.text("ab 字📝", max_size=40)


@given(
    st.lists(st.tuples(CELL_TEXTS, CELL_TEXTS, CELL_TEXTS), min_size=1, max_size=5),
    st.integers(20, 120),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, ...]], width: int) -> None:
    assert all(cells(line) <= width for line in table(rows, width, firm={0}))


def test_the_widest_columns_give_way_and_short_facts_stay_whole() -> None:
    rows = [("id", "state", "title"), ("0123456789", "done", "x" * 50)]
    assert table(rows, 30, firm={0}) == [
        "id          state  title",
        f"0123456789  done   {'x' * 10}…",
    ]


def test_without_a_terminal_nothing_is_cut() -> None:
    assert table([("a", "x" * 500)], None) == [f"a  {'x' * 500}"]


def test_wide_characters_are_cut_by_the_room_they_take() -> None:
    assert clip("字字字", 5) == "字字…"
    assert clip("字字字", 4) == "字…"
    assert clip("字字", 4) == "字字"
