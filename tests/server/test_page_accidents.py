"""Presses and text that were not meant for a question do not answer it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call, fail, pause, say
from tests.harness.server.browsing import (
    DESKTOP,
    PHONE,
    TIMEOUT_S,
    Browser,
    capture_view,
    expect,
    needs_browser,
    opened,
    start_task,
    status,
    visit,
)
from tests.harness.server.frozen_page import FRAME, NOON, FrozenPage

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]


def writing(*paths: str) -> Turn:
    return Turn(*(call("write_to_file", {"path": path, "content": "x\n"}) for path in paths))


ASKING = Turn(
    call(
        "ask_followup_question",
        {"question": "Which colour?", "follow_up": [{"text": "Red"}, {"text": "Blue"}]},
    )
)
RUNNING = Turn(call("execute_command", {"command": "touch c.txt"}))
DONE = Turn(call("attempt_completion", {"result": "Done."}))


Gesture = Callable[[FrozenPage, str], Awaitable[None]]


async def click(at: FrozenPage, name: str) -> None:
    await at.page.mouse.click(*await at.middle(name))


async def tap(at: FrozenPage, name: str) -> None:
    await at.page.touchscreen.tap(*await at.middle(name))


async def press_enter(at: FrozenPage, name: str) -> None:
    await at.button(name).focus()
    await at.page.keyboard.press("Enter")


async def press_space(at: FrozenPage, name: str) -> None:
    await at.button(name).focus()
    await at.page.keyboard.press("Space")


async def press_shortcut(at: FrozenPage, name: str) -> None:
    await at.page.keyboard.press("Alt+1" if name == "Red" else "Alt+y")


any_gesture = pytest.mark.parametrize(
    "gesture", [click, tap, press_enter, press_space, press_shortcut]
)


@any_gesture
@pytest.mark.contract("screen:type-ahead")
async def test_a_second_press_does_not_approve_the_next_question(
    browser: Browser, tmp_path: Path, gesture: Gesture
) -> None:
    turns = [writing("a.txt", "b.txt"), DONE]
    async with visit(browser, tmp_path, turns, has_touch=True) as visited:
        at = FrozenPage(visited.page)
        await at.start("Write", "Allow")
        await gesture(at, "Allow")
        await at.draw("b.txt")
        await expect(at.button("Allow")).to_have_attribute("aria-disabled", "true")
        await gesture(at, "Allow")
        await at.wait()
        await expect(at.button("Reject and stop")).to_be_enabled()
        await at.reject()
        workspace = visited.server.workspace
        assert (workspace / "a.txt").exists()
        assert not (workspace / "b.txt").exists()
        assert len(at.responses) == 2


@pytest.mark.contract("screen:type-ahead")
@pytest.mark.parametrize("gesture", [click, press_shortcut])
@pytest.mark.parametrize(
    ("turn", "title", "button"),
    [
        (RUNNING, "Run this command", "Allow"),
        (ASKING, "Question", "Red"),
        (DONE, "Task completed", "Accept the result"),
        (Turn(fail(401, "Unknown key.")), "failed", "Retry"),
    ],
)
async def test_no_question_is_answered_as_soon_as_it_appears(
    browser: Browser, tmp_path: Path, turn: Turn, title: str, button: str, gesture: Gesture
) -> None:
    async with visit(browser, tmp_path, [writing("a.txt"), turn, DONE, DONE]) as visited:
        at = FrozenPage(visited.page)
        await at.start("Write", "Allow")
        await at.button("Allow").click()
        await at.draw(title)
        await gesture(at, button)
        await at.wait()
        await at.draw(title)
        await expect(at.button(button)).to_be_enabled()
        assert len(at.responses) == 1
        await gesture(at, button)
        async with asyncio.timeout(TIMEOUT_S):
            while await at.page.locator(".ask", has_text=title).count():
                await at.wait()
        assert len(at.responses) == 2


@pytest.mark.contract("screen:type-ahead")
@pytest.mark.parametrize("press", ["mouse", "Space"])
async def test_a_press_that_began_before_the_question_does_not_answer_it(
    browser: Browser, tmp_path: Path, press: str
) -> None:
    async with visit(browser, tmp_path, [writing("a.txt", "b.txt"), DONE]) as visited:
        at = FrozenPage(visited.page)
        await at.start("Write", "Allow")
        await at.button("Allow").focus()
        await at.page.mouse.move(*await at.middle("Allow"))
        if press == "mouse":
            await at.page.mouse.down()
        else:
            await at.page.keyboard.down(press)
        async with opened(browser, visited.server.link) as other:
            await other.page.locator(".entry").click()
            await other.page.get_by_role("button", name="Allow", exact=True).click()
            await expect(other.page.locator(".ask")).to_contain_text("b.txt")
        await at.draw("b.txt")
        await at.wait()
        await expect(at.button("Allow")).to_be_enabled()
        if press == "mouse":
            await at.page.mouse.up()
        else:
            await at.page.keyboard.up(press)
        await at.wait()
        await at.reject()
        assert not (visited.server.workspace / "b.txt").exists()
        assert len(at.responses) == 1


@pytest.mark.contract("screen:type-ahead")
@pytest.mark.parametrize("key", ["Enter", "Alt+y"])
async def test_a_key_that_is_held_answers_one_question(
    browser: Browser, tmp_path: Path, key: str
) -> None:
    async with visit(browser, tmp_path, [writing("a.txt", "b.txt"), DONE]) as visited:
        at = FrozenPage(visited.page)
        await at.start("Write", "Allow")
        *modifiers, name = key.split("+")
        await at.button("Allow").focus()
        for modifier in modifiers:
            await at.page.keyboard.down(modifier)
        await at.page.keyboard.down(name)
        await at.draw("b.txt")
        for _ in range(3):
            await at.button("Allow").focus()
            await at.page.keyboard.down(name)
            await at.wait()
            await expect(at.button("Allow")).to_be_enabled()
        for held in (name, *modifiers):
            await at.page.keyboard.up(held)
        await at.reject()
        assert not (visited.server.workspace / "b.txt").exists()
        assert len(at.responses) == 2


@pytest.mark.contract("screen:type-ahead")
async def test_the_press_that_stops_a_task_does_not_resume_it(
    browser: Browser, tmp_path: Path
) -> None:
    turns = [Turn(say("It takes long"), pause(asyncio.Event())), DONE]
    async with visit(browser, tmp_path, turns) as visited:
        at = FrozenPage(visited.page)
        page = at.page
        await page.clock.install(time=0)
        await page.reload()
        await start_task(page, "Take long")
        await expect(page.get_by_text("It takes long")).to_be_visible()
        await page.clock.pause_at(NOON)
        box = await page.get_by_role("button", name="Stop", exact=True).bounding_box()
        assert box is not None
        place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        await page.mouse.click(*place)
        async with asyncio.timeout(TIMEOUT_S):
            while not await page.get_by_role("button", name="Resume").count():
                await page.clock.run_for(FRAME)
        await page.mouse.click(*place)
        await page.keyboard.press("Alt+s")
        await at.wait()
        await expect(page.get_by_role("button", name="Resume")).to_be_enabled()
        await status(page).to_contain_text("Stopped")
        assert len(visited.model.requests) == 1
        await page.get_by_role("button", name="Resume").click()
        await at.draw("Task completed")


# Drafts ------------------------------------------------------------------------------------------


def waiting_for(gate: asyncio.Event) -> Turn:
    return Turn(say("Working"), pause(gate), *writing("a.txt").steps)


@pytest.mark.contract("screen:type-ahead")
async def test_a_draft_that_was_begun_before_a_question_is_sent_as_a_message(
    browser: Browser, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    async with visit(browser, tmp_path, [waiting_for(gate), DONE], "Work") as at:
        page = at.page
        field = page.get_by_label("Message to joey")
        await expect(page.locator(".row", has_text="Working")).to_be_visible()
        await field.press_sequentially("And the")
        gate.set()
        await expect(page.get_by_role("button", name="Allow", exact=True)).to_be_enabled()
        await field.press_sequentially(" tests")
        await expect(page.get_by_role("button", name="Reject with message")).to_have_count(0)
        await field.press("Enter")
        await expect(page.locator(".queue li", has_text="And the tests")).to_be_visible()
        await expect(field).to_have_value("")
        await capture_view(page, tmp_path / "queued.png")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await status(page).to_contain_text("Result ready")
        assert (at.server.workspace / "a.txt").exists()
        assert "And the tests" in str(at.model.requests[1].body)


@pytest.mark.contract("screen:type-ahead")
async def test_a_draft_that_was_begun_before_a_question_stays_when_it_is_rejected(
    browser: Browser, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    async with visit(browser, tmp_path, [waiting_for(gate), DONE], "Work") as at:
        page = at.page
        field = page.get_by_label("Message to joey")
        await expect(page.locator(".row", has_text="Working")).to_be_visible()
        await field.press_sequentially("And the tests")
        gate.set()
        await page.get_by_role("button", name="Reject and stop").click()
        await status(page).to_contain_text("Stopped")
        await expect(field).to_have_value("And the tests")
        assert len(at.model.requests) == 1
        assert not (at.server.workspace / "a.txt").exists()


@pytest.mark.contract("screen:type-ahead")
async def test_a_message_that_crosses_a_question_does_not_answer_it(
    browser: Browser, tmp_path: Path
) -> None:
    gate, shown = asyncio.Event(), asyncio.Event()

    async def hold_questions(route: Any) -> None:
        server = route.connect_to_server()
        held: list[str] = []

        async def release() -> None:
            await shown.wait()
            for message in held:
                route.send(message)

        def pass_on(message: str) -> None:
            if "taskInteractive" in message and not shown.is_set():
                held.append(message)
            else:
                route.send(message)

        server.on_message(pass_on)
        releases.append(asyncio.ensure_future(release()))

    releases: list[asyncio.Future[None]] = []
    async with visit(browser, tmp_path, [waiting_for(gate), DONE]) as at:
        page = at.page
        await page.route_web_socket("**/ws", hold_questions)
        await page.reload()
        await start_task(page, "Work")
        await expect(page.locator(".row", has_text="Working")).to_be_visible()
        gate.set()
        await expect(page.locator(".card", has_text="needs your approval")).to_be_visible()
        await page.get_by_label("Message to joey").fill("And the tests")
        await page.get_by_label("Message to joey").press("Enter")
        await expect(page.locator(".queue li", has_text="And the tests")).to_be_visible()
        shown.set()
        await page.get_by_role("button", name="Allow", exact=True).click()
        await status(page).to_contain_text("Result ready")
        assert (at.server.workspace / "a.txt").exists()
        await asyncio.gather(*releases)


# Places ------------------------------------------------------------------------------------------


HALF_A_PIXEL = 0.5


async def find_place(button: Any) -> dict[str, float]:
    box: dict[str, float] = await button.bounding_box()
    return box


@pytest.mark.contract("screen:type-ahead")
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_the_buttons_are_in_the_same_places_at_every_question(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    long = Turn(call("execute_command", {"command": f"touch b.txt {'word ' * 60}"}))
    failed = Turn(fail(401, "Unknown key."))
    turns = [writing("a.txt"), long, RUNNING, ASKING, failed, DONE]
    asked = [
        ("Create a.txt", "Allow", "Reject"),
        ("touch b.txt word", "Allow", "Reject"),
        ("touch c.txt", "Allow", "Reject"),
        ("Which colour?", "Red", None),
        ("failed", "Retry", "Give up"),
        ("Task completed", "Accept the result", None),
    ]
    places: dict[str, list[dict[str, float]]] = {"yes": [], "no": []}
    async with visit(browser, tmp_path, turns, "Write", size) as at:
        page = at.page
        buttons = page.locator(".ask .buttons")
        for title, yes, no in asked:
            await expect(page.locator(".ask")).to_contain_text(title)
            accept = page.locator(".ask").get_by_role("button", name=re.compile(rf"^(\d )?{yes}$"))
            await expect(accept).to_be_enabled()
            if yes != "Red":
                places["yes"].append(await find_place(accept))
            if no is not None:
                places["no"].append(await find_place(buttons.get_by_role("button", name=no)))
            await capture_view(page, tmp_path / f"{yes}.png")
            await accept.click()
        await status(page).to_contain_text("Done")
    assert len(places["yes"]) == 5 and len(places["no"]) == 4
    for found in places.values():
        assert all(place == pytest.approx(found[0], abs=HALF_A_PIXEL) for place in found)
