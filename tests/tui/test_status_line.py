"""What fits into one line, and what it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from joey.tui.status_line import Part, StatusLine, fitted

PARTS = [
    Part("thinking 12s, Esc stops", worth=9, short="thinking 12s"),
    Part("code", worth=7),
    Part("anthropic/claude-sonnet", worth=6, short="claude-sonnet"),
    Part("~/a/long/way/to/project", worth=1, short="project"),
    Part("42% context", worth=5, short="42%"),
    Part("$0.12", worth=4),
]


def test_a_wide_line_says_everything() -> None:
    assert fitted(PARTS, 120).plain == " · ".join(part.text for part in PARTS)


def test_a_narrow_line_says_it_shorter_before_it_leaves_something_out() -> None:
    assert fitted(PARTS, 62).plain == (
        "thinking 12s · code · claude-sonnet · project · 42% · $0.12"
    )
    assert fitted(PARTS, 30).plain == "thinking 12s · code"


@given(st.integers(0, 200))
def test_nothing_is_wider_than_the_line(width: int) -> None:
    assert len(fitted(PARTS, width).plain) <= width


async def test_a_wait_that_counts_down_has_no_second_clock() -> None:
    class Bare(App[None]):
        def compose(self) -> ComposeResult:
            yield StatusLine()

    app = Bare()
    async with app.run_test():
        line = app.query_one(StatusLine)
        line.work("trying again in 3 s", is_timed=False)
        assert "trying again in 3 s, Esc stops" in line.render().plain
        line.work("thinking")
        assert "thinking 0s, Esc stops" in line.render().plain
