from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from joey.cli.output import format_table, truncate_to_width
from joey.presentation.text import measure_width

CELL_TEXTS = st.text("ab 字📝", max_size=40)


@given(
    st.lists(st.tuples(CELL_TEXTS, CELL_TEXTS, CELL_TEXTS), min_size=1, max_size=5),
    st.integers(20, 120),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, ...]], width: int) -> None:
    assert all(
        measure_width(line) <= width for line in format_table(rows, width, fixed_columns={0})
    )


def test_the_widest_columns_give_way_and_short_facts_stay_whole() -> None:
    rows = [("id", "state", "title"), ("0123456789", "done", "x" * 50)]
    assert format_table(rows, 30, fixed_columns={0}) == [
        "id          state  title",
        f"0123456789  done   {'x' * 10}…",
    ]


def test_without_a_terminal_nothing_is_cut() -> None:
    assert format_table([("a", "x" * 500)], None) == [f"a  {'x' * 500}"]


def test_wide_characters_are_cut_by_the_room_they_take() -> None:
    assert truncate_to_width("字字字", 5) == "字字…"
    assert truncate_to_width("字字字", 4) == "字…"
    assert truncate_to_width("字字", 4) == "字字"
