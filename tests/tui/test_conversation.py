"""The conversation on a screen: what is in sight, and where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Self, cast

import pytest
from rich.text import Text
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Offset, Region
from textual.selection import Selection

from joey.client.session import Session
from joey.core.events import Event, RowDelta, RowOpened, TaskRewound, ToolStarted, UserMessage
from joey.core.history.ui import Row
from joey.tui.commands import UserCommandBlock
from joey.tui.widgets.conversation import ConversationView
from tests.harness.tui.conversation_harness import (
    ConversationApp,
    SessionStub,
    all_lines,
    save_screenshot,
    screen_lines,
    wait_until_drawn,
)

SIZES = [(200, 50), (80, 24), (60, 20), (30, 10)]
HINT = "more below"


def past(rows: int) -> Session:
    """Rows of all kinds of heights, none of which is estimated well."""
    said = [Row(ts=1, type="say", say="text", text="the task")][:rows]
    for number in range(2, rows + 1):
        text = f"**Row {number}** " + "and `words` " * (number % 40) + "\n\n- x\n" * (number % 5)
        said.append(Row(ts=number, type="say", say="text", text=text, partial=False))
    return cast(Session, SessionStub(said))


def wheel(kind: type[MouseScrollUp] | type[MouseScrollDown]) -> MouseScrollUp | MouseScrollDown:
    return kind(None, 1, 1, 0, 1, 0, False, False, False)


class Counted(ConversationView):
    """Tells how often it was drawn anew, and which lines of it."""

    refreshed = 0

    def __init__(self) -> None:
        super().__init__()
        self.refreshed_lines: set[int] = set()

    def refresh(self, *regions: Region, **how: bool) -> Self:
        self.refreshed += 1
        for region in regions or (self.size.region,):
            self.refreshed_lines.update(region.line_range)
        return super().refresh(*regions, **how)


def show(conversation: ConversationView, session: Session, *events: Event) -> None:
    for event in events:
        conversation.handle_task_event(session, event)


@pytest.mark.parametrize("size", SIZES)
async def test_an_opened_task_shows_its_end(size: tuple[int, int]) -> None:
    app = ConversationApp()
    async with app.run_test(size=size) as pilot:
        app.conversation.load_session(past(5_000))
        await wait_until_drawn(pilot)
        assert any("Row 5000" in line for line in screen_lines(app.conversation))
        assert app.conversation.is_following_end
        app.conversation.action_scroll_home()
        assert screen_lines(app.conversation)[0] == "› the task"
        app.conversation.scroll_end()
        assert any("Row 5000" in line for line in screen_lines(app.conversation))


@pytest.mark.parametrize("size", SIZES)
async def test_every_line_is_seen_once_from_top_to_end_and_back(size: tuple[int, int]) -> None:
    app = ConversationApp()
    async with app.run_test(size=size) as pilot:
        app.conversation.load_session(past(120))
        await wait_until_drawn(pilot)
        down = all_lines(app.conversation)
        numbers = [line.split()[1] for line in down if line.startswith("Row ")]
        assert numbers == [str(number) for number in range(2, 121)]
        assert len(down) == app.conversation.virtual_size.height


async def test_lines_in_sight_stay_while_more_comes_below_and_heights_above_are_corrected() -> None:
    app = ConversationApp()
    async with app.run_test(size=(70, 20)) as pilot:
        conversation, session = app.conversation, past(300)
        conversation.load_session(session)
        await wait_until_drawn(pilot)
        for _ in range(30):
            before = screen_lines(conversation)
            conversation.scroll_relative(y=-1, animate=False, force=True)
            assert screen_lines(conversation)[1:-1] == before[:-2]
        assert not conversation.is_following_end
        before = screen_lines(conversation)
        assert HINT in before[-1]
        show(conversation, session, RowOpened(ts=999, say="text"))
        show(conversation, session, RowDelta(ts=999, delta="more\n\n" * 50))
        await wait_until_drawn(pilot)
        assert screen_lines(conversation) == before
        conversation.scroll_end()
        assert screen_lines(conversation)[-1] == "more"


async def test_text_is_on_the_screen_as_it_comes() -> None:
    app = ConversationApp()
    async with app.run_test(size=(60, 10)) as pilot:
        session = past(0)
        app.conversation.load_session(session)
        show(app.conversation, session, UserMessage(ts=5, text="Go", is_first=True))
        show(app.conversation, session, RowOpened(ts=7, say="text"))
        for word in ("One ", "**two", "** three\n", "\n", "four"):
            show(app.conversation, session, RowDelta(ts=7, delta=word))
            await wait_until_drawn(pilot)
        assert screen_lines(app.conversation)[:5] == ["› Go", "", "One two three", "", "four"]


async def test_a_resize_keeps_the_row_at_the_top() -> None:
    app = ConversationApp()
    async with app.run_test(size=(200, 50)) as pilot:
        app.conversation.load_session(past(400))
        await wait_until_drawn(pilot)
        app.conversation.scroll_pages(-1)
        app.conversation.scroll_pages(-1)
        top = next(line for line in screen_lines(app.conversation) if line.startswith("Row"))
        await pilot.resize_terminal(60, 20)
        await wait_until_drawn(pilot)
        assert not app.conversation.is_following_end
        await pilot.resize_terminal(200, 50)
        await wait_until_drawn(pilot)
        assert top in screen_lines(app.conversation)


async def test_the_end_stays_in_sight_through_a_resize() -> None:
    app = ConversationApp()
    async with app.run_test(size=(200, 50)) as pilot:
        app.conversation.load_session(past(400))
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await wait_until_drawn(pilot)
            assert app.conversation.is_following_end
            assert any("Row 400" in line for line in screen_lines(app.conversation))


@pytest.mark.parametrize("small", [(1, 1), (2, 2), (20, 5), (5, 50), (300, 3)])
async def test_the_end_stays_in_sight_when_the_size_changes_while_text_comes(
    small: tuple[int, int],
) -> None:
    app = ConversationApp()
    async with app.run_test(size=(100, 30)) as pilot:
        session = past(60)
        app.conversation.load_session(session)
        await wait_until_drawn(pilot)
        show(app.conversation, session, RowOpened(ts=1_000, say="text"))
        for size in (small, (100, 30)) * 15:
            show(app.conversation, session, RowDelta(ts=1_000, delta="words that come\n\n" * 3))
            await pilot.resize_terminal(*size)
        await wait_until_drawn(pilot)
        assert app.conversation.is_following_end
        assert "words that come" in "".join(screen_lines(app.conversation))


async def test_the_mouse_wheel_leaves_the_end_and_comes_back() -> None:
    app = ConversationApp()
    async with app.run_test(size=(70, 20)) as pilot:
        app.conversation.load_session(past(50))
        await wait_until_drawn(pilot)
        app.conversation.post_message(wheel(MouseScrollUp))
        await wait_until_drawn(pilot)
        assert not app.conversation.is_following_end
        for _ in range(3):
            app.conversation.post_message(wheel(MouseScrollDown))
        await wait_until_drawn(pilot)
        assert app.conversation.is_following_end


async def test_details_are_unfolded_and_folded_again() -> None:
    app = ConversationApp()
    async with app.run_test(size=(70, 60)) as pilot:
        rows = [
            Row(ts=1, type="say", say="text", text="Go"),
            Row(ts=2, type="say", say="reasoning", text="First this.\nThen that."),
            Row(ts=3, type="say", say="tool", tool="execute_command", text="make"),
            Row(ts=4, type="say", say="command_output", text="x\n" * 30),
        ]
        app.conversation.load_session(cast(Session, SessionStub(rows)))
        await wait_until_drawn(pilot)
        folded = screen_lines(app.conversation)
        assert "∴ thought: First this. Then that." in folded
        assert "    … 5 more lines (Ctrl+O)" in folded
        app.conversation.toggle_details()
        whole = screen_lines(app.conversation)
        assert whole[2:4] == ["  First this.", "  Then that."]
        assert whole.count("  │ x") == 30
        app.conversation.toggle_details()
        assert screen_lines(app.conversation) == folded


async def test_joeys_own_notes_errors_and_cards_are_shown() -> None:
    app = ConversationApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.conversation.load_session(past(0))
        app.conversation.show_note("rewound; \x1b[2J/undo undoes it")
        app.conversation.show_error("no such task")
        app.conversation.show_rich_text(Text.assemble(("Keys", "bold"), "\n  Enter sends"))
        await wait_until_drawn(pilot)
        assert screen_lines(app.conversation)[:6] == [
            *("rewound; /undo undoes it", "", "! no such task", "", "Keys", "  Enter sends"),
        ]
        app.conversation.clear()
        await wait_until_drawn(pilot)
        assert set(screen_lines(app.conversation)) == {""}


async def test_text_is_selected_with_the_mouse_and_copied() -> None:
    app = ConversationApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.conversation.load_session(past(0))
        app.conversation.show_note("one two three")
        app.conversation.show_note("你好 four")
        await wait_until_drawn(pilot)
        await pilot.mouse_down(offset=(5, 0))
        await pilot.hover(offset=(7, 2))
        await pilot.mouse_up(offset=(7, 2))
        assert app.screen.get_selected_text() == "two three\n\n你好 fo"
        assert app.conversation.get_selection(Selection(None, Offset(4, 0))) == ("one", "\n")


async def test_many_events_lead_to_one_frame() -> None:
    conversation = Counted()
    app = ConversationApp(conversation)
    async with app.run_test(size=(80, 24)) as pilot:
        session = past(10)
        app.conversation.load_session(session)
        await wait_until_drawn(pilot)
        conversation.refreshed = 0
        show(app.conversation, session, RowOpened(ts=99, say="text"))
        for _ in range(5_000):
            show(app.conversation, session, RowDelta(ts=99, delta="word "))
        await wait_until_drawn(pilot)
        assert 0 < conversation.refreshed < 10


async def test_a_block_that_grows_twice_before_its_frame_is_drawn_whole() -> None:
    conversation = Counted()
    app = ConversationApp(conversation)
    async with app.run_test(size=(60, 20)) as pilot:
        block = UserCommandBlock("make")
        conversation.add_or_refresh_block(block)
        await wait_until_drawn(pilot)
        conversation.refreshed_lines.clear()
        block.feed("first\nsecond\n")
        conversation.add_or_refresh_block(block)
        screen_lines(conversation)  # such as for a status line that changes meanwhile
        block.feed("third\n")
        conversation.add_or_refresh_block(block)
        await wait_until_drawn(pilot)
        lines = screen_lines(conversation)
        assert {lines.index(f"  │ {word}") for word in ("first", "second", "third")} <= (
            conversation.refreshed_lines
        )


@pytest.mark.parametrize(
    "text", ["", "\n", "x" * 1_000_000, "\x1b]52;c;eA==\x07", "👩‍👩‍👧 你" * 500]
)
async def test_odd_texts_break_nothing(text: str) -> None:
    app = ConversationApp()
    async with app.run_test(size=(30, 10)) as pilot:
        session = past(0)
        app.conversation.load_session(session)
        announced = ToolStarted(
            ts=3, call_id="c", tool=text[:50], text=text, path=text[:50], diff=text
        )
        show(app.conversation, session, UserMessage(ts=1, text=text, is_first=True))
        show(app.conversation, session, RowOpened(ts=2, say="text"), RowDelta(ts=2, delta=text))
        show(app.conversation, session, announced)
        await wait_until_drawn(pilot)
        assert len(screen_lines(app.conversation)) == 10


@pytest.mark.parametrize("look", ["textual-dark", "textual-light", "ansi-dark", "no colour"])
async def test_everything_is_readable_in_every_look(
    look: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if look == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    app = ConversationApp()
    if look != "no colour":
        app.theme = look
    async with app.run_test(size=(80, 24)) as pilot:
        session = past(0)
        app.conversation.load_session(session)
        diff = "@@ -1 +1 @@\n-old\n+new"
        text = '{"tool":"appliedDiff"}'
        show(
            app.conversation,
            session,
            ToolStarted(ts=2, call_id="c", tool="apply_diff", text=text, path="a", diff=diff),
        )
        app.conversation.show_error("wrong")
        await wait_until_drawn(pilot)
        save_screenshot(app, f"conversation {look}", tmp_path)
        shown = screen_lines(app.conversation)
        assert shown[:5] == ["● Edit a +1 -1", "  1 - old", "  1 + new", "", "! wrong"]
        [ground] = app.conversation.render_line(20)
        for y in range(5):
            for text, style, _ in app.conversation.render_line(y):
                if text.strip() and style is not None and ground.style is not None:
                    colour = style.color
                    assert colour is None or colour.is_default or colour != ground.style.bgcolor


async def test_after_a_rewind_the_rows_that_are_left_are_shown() -> None:
    app = ConversationApp()
    async with app.run_test(size=(60, 20)) as pilot:
        session = past(40)
        app.conversation.load_session(session)
        await wait_until_drawn(pilot)
        cast(SessionStub, session).rows = past(10).rows
        show(app.conversation, session, TaskRewound(ts=99, to_seq=5))
        await wait_until_drawn(pilot)
        lines = all_lines(app.conversation)
        assert any(line.startswith("Row 10 ") for line in lines)
        assert not any(line.startswith("Row 11 ") for line in lines)


async def test_what_is_shown_before_there_is_a_screen_is_not_lost() -> None:
    conversation, session = ConversationView(), past(3)
    conversation.load_session(session)
    conversation.show_note("early")
    app = ConversationApp(conversation)
    async with app.run_test(size=(60, 20)) as pilot:
        await wait_until_drawn(pilot)
        assert screen_lines(conversation)[0] == "› the task"
        assert "early" in screen_lines(conversation)


async def test_nothing_is_drawn_while_nothing_happens() -> None:
    conversation = Counted()
    app = ConversationApp(conversation)
    async with app.run_test(size=(60, 20)) as pilot:
        conversation.load_session(past(50))
        await wait_until_drawn(pilot)
        conversation.refreshed = 0
        await pilot.pause(0.3)
        assert conversation.refreshed == 0
