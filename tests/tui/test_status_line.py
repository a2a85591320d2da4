"""What fits into one line, and what it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from joey.core.events import TokenUsage
from joey.tui.app_services import StatusInfo
from joey.tui.widgets.task_status import (
    RUNNING_COMMAND_ACTIVITY,
    StatusLine,
    StatusPart,
    render_fitting_parts,
)

PARTS = [
    StatusPart("thinking 12s", priority=10),
    StatusPart("Esc stops", priority=9, separator=", "),
    StatusPart("code", priority=7),
    StatusPart("anthropic/claude-sonnet", priority=6, short_text="claude-sonnet"),
    StatusPart("~/a/long/way/to/project", priority=1, short_text="project"),
    StatusPart("42% context", priority=5, short_text="42%"),
    StatusPart("$0.12", priority=4),
]
STATUS_INFO = StatusInfo(
    mode="code",
    model="anthropic/claude-sonnet",
    directory="~/a/long/way/to/project",
    git_branch="main",
    context_window=200_000,
    permissions_text="allows everything",
    sandbox_text="no sandbox",
    usage=TokenUsage(context_tokens=20_000, total_cost=0.5),
)


def test_a_wide_line_says_everything() -> None:
    assert render_fitting_parts(PARTS, 120).plain == (
        "thinking 12s, Esc stops · code · anthropic/claude-sonnet · ~/a/long/way/to/project"
        " · 42% context · $0.12"
    )


def test_a_narrow_line_says_it_shorter_before_it_leaves_something_out() -> None:
    assert render_fitting_parts(PARTS, 70).plain == (
        "thinking 12s, Esc stops · code · claude-sonnet · project · 42% · $0.12"
    )
    assert render_fitting_parts(PARTS, 30).plain == "thinking 12s, Esc stops · code"
    assert render_fitting_parts(PARTS, 23).plain == "thinking 12s, Esc stops"
    assert render_fitting_parts(PARTS, 8).plain == "thinkin…"


@given(st.integers(1, 200))
def test_nothing_is_wider_than_the_line(width: int) -> None:
    assert len(render_fitting_parts(PARTS, width).plain) <= width


class Bare(App[None]):
    def compose(self) -> ComposeResult:
        yield StatusLine()


async def test_a_narrow_line_keeps_how_to_stop_and_that_everything_is_allowed() -> None:
    app = Bare()
    async with app.run_test(size=(60, 10)) as pilot:
        line = app.query_one(StatusLine)
        line.status = STATUS_INFO
        assert line.render().plain == "code · claude-sonnet · allows everything · no sandbox"
        line.set_activity(RUNNING_COMMAND_ACTIVITY)
        assert line.render().plain[2:] == "running the command 0s, Esc stops · allows everything"
        line.set_activity("thinking")
        assert "thinking 0s, Esc stops · code · allows everything" in line.render().plain
        await pilot.resize_terminal(160, 10)
        line.set_activity(RUNNING_COMMAND_ACTIVITY)
        shown = line.render().plain
        assert "running the command 0s, Esc stops, Ctrl+B leaves it running · code" in shown


async def test_a_wait_that_counts_down_has_no_second_clock() -> None:
    app = Bare()
    async with app.run_test():
        line = app.query_one(StatusLine)
        line.set_activity("trying again in 3 s", is_timed=False)
        assert "trying again in 3 s, Esc stops" in line.render().plain
        line.set_activity("thinking")
        assert "thinking 0s, Esc stops" in line.render().plain
