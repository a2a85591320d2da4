"""The mouse on the screen: it selects, scrolls and answers, and never takes the keyboard away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from joey.tui.widgets.question_panel import CLICK_GUARD_S
from tests.harness.cli.binary import Joey, reach
from tests.harness.tui.headless import screen
from tests.harness.tui.screens import LEFT, MOVED, PRESSED, RELEASED, WHEEL_DOWN, WHEEL_UP, Screen
from tests.harness.tui.tmux import needs_tmux, terminal
from tests.harness.tui.turns import done, writing

SIZE = (100, 30)
STATUS = (50, SIZE[1] - 1)


async def click(shown: Screen) -> None:
    await shown.click((50, 10))


async def drag(shown: Screen) -> None:
    await shown.drag((2, 3), (50, 12))


async def wheel(shown: Screen) -> None:
    await shown.mouse((WHEEL_UP, (50, 10), PRESSED), (WHEEL_DOWN, (50, 10), PRESSED))


async def click_status(shown: Screen) -> None:
    await shown.click(STATUS)


async def drag_down(shown: Screen) -> None:
    await shown.drag((50, 10), STATUS)


GESTURES = [click, drag, wheel, click_status, drag_down]
Gesture = Callable[[Screen], Awaitable[None]]
any_gesture = pytest.mark.parametrize("gesture", GESTURES)


def asking(question: str, *answers: str) -> Turn:
    asked = {"question": question, "follow_up": [{"text": answer} for answer in answers]}
    return Turn(say("Hm."), call("ask_followup_question", asked))


async def first_answer(shown: Screen) -> tuple[int, int]:
    """Where it is, once the question accepts clicks and is where it will stay."""
    await shown.until("› 1 Allow")
    await asyncio.sleep(CLICK_GUARD_S)
    await shown.answer("Down")
    await shown.until("› 2 Reject")
    return await shown.find_text("1 Allow")


@any_gesture
@pytest.mark.contract("screen:type-ahead")
async def test_typing_goes_on_after_a_gesture(joey: Joey, gesture: Gesture) -> None:
    async with ModelServer([done("First."), done("Second.")]) as server:
        async with screen(joey, *reach(server.url), size=SIZE) as shown:
            await shown.until("What should I do?")
            await shown.type("say ")
            await gesture(shown)
            await shown.send("it")
            await shown.until("First.", "Accept the result")
            await gesture(shown)
            await shown.answer("Enter")
            await shown.until("what next?")
            await gesture(shown)
            await shown.send("and again")
            await shown.until("Second.")
        assert "say it" in json.dumps(server.requests[0].body["messages"])
        assert "and again" in json.dumps(server.requests[-1].body["messages"])


@any_gesture
@pytest.mark.contract("screen:type-ahead")
async def test_an_approval_is_answered_by_key_after_a_gesture(joey: Joey, gesture: Gesture) -> None:
    keys = ("y", "1", "Enter")
    turns = [*(writing(f"{key}.txt", "x") for key in keys), done()]
    async with (
        ModelServer(turns) as server,
        screen(joey, *reach(server.url), "do it", size=SIZE) as shown,
    ):
        for key in keys:
            await shown.until(f"Create {key}.txt?")
            await gesture(shown)
            await shown.answer(key)
        await shown.until("All done.")
    assert all((joey.workspace / f"{key}.txt").exists() for key in keys)


@any_gesture
async def test_a_question_is_answered_with_text_after_a_gesture(
    joey: Joey, gesture: Gesture
) -> None:
    turns = [asking("Which colour?", "red", "blue"), asking("Which size?", "small", "large")]
    async with ModelServer([*turns, done()]) as server:
        async with screen(joey, *reach(server.url), "paint", size=SIZE) as shown:
            await shown.until("Which colour?", "1 red")
            await gesture(shown)
            await shown.send("green with dots")
            await shown.until("› green with dots", "2 large")
            await gesture(shown)
            await shown.press("2")
            await shown.until("All done.")
        answers = json.dumps(server.requests[-1].body["messages"])
        assert "<user_message>\\ngreen with dots" in answers
        assert "<user_message>\\nlarge" in answers


async def test_a_draft_over_a_question_is_not_interrupted_by_a_click_on_the_question(
    joey: Joey,
) -> None:
    gate = asyncio.Event()
    turn = Turn(say("I think"), pause(gate), *writing("new.txt", "x").steps)
    async with (
        ModelServer([turn, done()]) as server,
        screen(joey, *reach(server.url), "do it", size=SIZE) as shown,
    ):
        await shown.until("I think")
        await shown.type("and then")
        await shown.until("› and then")
        gate.set()
        await shown.click(await shown.find_text("Create new.txt?"))
        await shown.answer("y")
        await shown.until("› and theny", "Create new.txt?")
        assert not (joey.workspace / "new.txt").exists()


async def test_what_to_do_instead_is_written_on_after_clicks(joey: Joey) -> None:
    async with ModelServer([writing("new.txt", "x"), done()]) as server:
        async with screen(joey, *reach(server.url), "do it", size=SIZE) as shown:
            await shown.until("Create new.txt?")
            await shown.answer("3")
            await shown.until("What should joey do instead?")
            await shown.type("no 1")
            for gesture in GESTURES:
                await gesture(shown)
            await shown.click(await shown.find_text("Create new.txt?"))
            await shown.type("1 yes")
            await shown.until("no 11 yes")
            await shown.press("Enter")
            await shown.until("All done.")
        assert "no 11 yes" in json.dumps(server.requests[-1].body["messages"])
    assert not (joey.workspace / "new.txt").exists()


async def test_a_list_is_narrowed_and_taken_from_after_clicks(joey: Joey) -> None:
    async with ModelServer([]) as server, screen(joey, *reach(server.url), size=SIZE) as shown:
        await shown.until("What should I do?")
        await shown.send("/mode")
        heading = await shown.find_text("Enter select")
        await shown.type("archi")
        for gesture in GESTURES:
            await gesture(shown)
        await shown.click(heading)
        await shown.type("tect")
        await shown.until("architect")
        await shown.until_gone("debug")
        await shown.press("Enter")
        await shown.until("architect ·", "What should I do?")
        await shown.send("/mode")
        await shown.click(await shown.find_text("debug"))
        await shown.until("debug ·", "What should I do?")


@needs_tmux
async def test_a_drag_selects_text_that_ctrl_c_copies(joey: Joey) -> None:
    async with (
        ModelServer([done("Copy these words.")]) as server,
        terminal(joey, *reach(server.url), "do it", size=SIZE) as shown,
    ):
        await shown.until("Accept the result")
        column, row = await shown.find_text("these words")
        await shown.drag((column, row), (column + len("these"), row))
        await shown.press("C-c")
        assert await shown.copied() == "these"


async def test_an_approval_is_answered_by_a_click_that_was_meant(joey: Joey) -> None:
    turns = [writing("new.txt", "x"), done()]
    async with (
        ModelServer(turns) as server,
        screen(joey, *reach(server.url), "do it", size=SIZE) as shown,
    ):
        yes = await first_answer(shown)
        no = await shown.find_text("2 Reject")
        await shown.drag(yes, no)
        await shown.mouse((LEFT + 2, yes, PRESSED), (LEFT + 2, yes, RELEASED))
        await shown.press("Up")
        await shown.until("› 1 Allow")
        assert not (joey.workspace / "new.txt").exists()
        await shown.click(yes)
        await shown.until("All done.")
    assert (joey.workspace / "new.txt").exists()


async def test_a_press_in_the_composer_ends_where_a_question_has_taken_its_place(
    joey: Joey,
) -> None:
    gate = asyncio.Event()
    turn = Turn(say("I think"), pause(gate), *writing("new.txt", "x").steps)
    async with (
        ModelServer([turn, done()]) as server,
        screen(joey, *reach(server.url), "do it", size=SIZE) as shown,
    ):
        await shown.until("I think")
        composer = await shown.find_text("› ")
        await shown.mouse((LEFT, (composer[0] + 2, composer[1]), PRESSED))
        await shown.type("x")
        await shown.until("› x")
        await shown.press("BSpace")
        await shown.until_gone("› x")
        gate.set()
        place = await shown.find_text("1 Allow")
        await shown.mouse((LEFT, place, RELEASED))
        await wheel(shown)
        assert not (joey.workspace / "new.txt").exists()
        await shown.answer("y")
        await shown.until("All done.")
    assert (joey.workspace / "new.txt").exists()


async def test_a_double_click_answers_one_question(joey: Joey) -> None:
    turns = [writing("a.txt", "x"), writing("b.txt", "x"), done()]
    async with (
        ModelServer(turns) as server,
        screen(joey, *reach(server.url), "do it", size=SIZE) as shown,
    ):
        yes = await first_answer(shown)
        for _ in range(3):
            await shown.click(yes)
        await shown.until("Create b.txt?")
        await shown.type("well")
        await shown.until("› well", "Create b.txt?")
    assert (joey.workspace / "a.txt").exists()
    assert not (joey.workspace / "b.txt").exists()


async def test_dragging_the_scrollbar_to_the_end_leaves_the_keyboard_alone(joey: Joey) -> None:
    long = "\n\n".join(f"line {number}" for number in range(80))
    async with (
        ModelServer([done(long)]) as server,
        screen(joey, *reach(server.url), "do it", size=SIZE) as shown,
    ):
        await shown.until("line 79", "Accept the result")
        await shown.press("PageUp")
        await shown.until("more below")
        bar, end = (SIZE[0] - 1, 18), (SIZE[0] - 1, SIZE[1] - 1)
        await shown.mouse((LEFT, bar, PRESSED))
        await shown.type("very")
        await shown.until("› very")
        await shown.mouse((MOVED, end, PRESSED))
        await shown.until("line 79")
        await shown.until_gone("more below")
        await shown.mouse((MOVED, end, PRESSED), (LEFT, end, RELEASED))
        await shown.type(" good")
        await shown.until("› very good")
