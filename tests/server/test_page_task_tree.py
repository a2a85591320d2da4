"""Subtasks on the page: who belongs to whom, who waits for whom, and who needs you.

Images of the views are left in a folder whose name is printed (`pytest -s`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, pause, say
from tests.harness.scripted_conversations import by_first_message
from tests.harness.server.browsing import (
    DESKTOP,
    PHONE,
    Browser,
    capture_view,
    expect,
    needs_browser,
    status,
    visit,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]


def done(result: str) -> Turn:
    return Turn(call("attempt_completion", {"result": result}))


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")])
async def test_a_question_of_a_subtask_is_seen_from_above_and_answered_below(
    browser: Browser, tmp_path: Path, screenshots: Path, size: tuple[int, int], scheme: str
) -> None:
    gate = asyncio.Event()
    kind = "phone" if size == PHONE else "desktop"
    look = {"color_scheme": scheme, "reduced_motion": "reduce"}
    question = {"question": "Which colour?", "follow_up": [{"text": "Red"}]}
    parts = {
        "Paint the house": [
            Turn(
                call("new_task", {"mode": "ask", "message": "Choose a colour"}),
                call("new_task", {"mode": "ask", "message": "Count the doors"}),
            ),
            done("It is painted."),
        ],
        "Choose a colour": [Turn(call("ask_followup_question", question)), done("Red it is.")],
        "Count the doors": [Turn(say("One, two"), pause(gate), say(".")), done("Two.")],
    }
    async with visit(browser, tmp_path, by_first_message(parts), None, size, **look) as at:
        page = at.page
        await page.get_by_label("The new task").fill("Paint the house")
        await page.get_by_role("button", name="Start").click()
        for message in ("Choose a colour", "Count the doors"):
            card = page.locator(".card.pending", has_text=message)
            await expect(card.get_by_text("Subtask", exact=True)).to_be_visible()
            await expect(page.get_by_label("Start a subtask in the mode ❓ Ask?")).to_be_visible()
            await expect(page.get_by_role("button", name="Allow", exact=True)).to_be_enabled()
            await page.get_by_role("button", name="Allow", exact=True).click()
            await expect(card).to_have_count(0)
        await status(page).to_contain_text("Subtask runs")
        awaited = page.get_by_label("Waits for 2 subtasks")
        await expect(awaited).to_contain_text("A subtask needs you")
        await expect(awaited.locator("li", has_text="Choose a colour")).to_contain_text("Needs you")
        await capture_view(page, screenshots / f"{kind}-1-parent.png")
        await page.reload()
        await expect(awaited).to_be_visible()
        if size == PHONE:
            await page.get_by_role("button", name="Tasks").click()
        await expect(page.locator(".subtasks .entry")).to_have_count(2)
        await capture_view(page, screenshots / f"{kind}-2-list.png")
        await page.get_by_role("button", name="Subtasks of Paint the house").click()
        await expect(page.locator(".subtasks")).to_have_count(0)
        await expect(page.locator(".entry", has_text="Paint the house")).to_contain_text(
            "1 needs you"
        )
        await capture_view(page, screenshots / f"{kind}-3-folded.png")
        await page.keyboard.press("Escape")
        await awaited.get_by_role("link", name="Choose a colour").click()
        await page.get_by_role("button", name="Red").click()
        await expect(page.get_by_label("Accept the result of the subtask?")).to_be_visible()
        await capture_view(page, screenshots / f"{kind}-4-child.png")
        await page.get_by_role("button", name="Accept", exact=True).click()
        await status(page).to_contain_text("Done")
        above = page.get_by_label("The task above")
        await above.get_by_role("link", name="Paint the house").click()
        await expect(awaited).to_contain_text("Working")
        gate.set()
        await expect(awaited.locator("li", has_text="Count the doors")).to_contain_text("Needs you")
        await awaited.get_by_role("link", name="Count the doors").click()
        await page.get_by_role("button", name="Accept", exact=True).click()
        await status(page).to_contain_text("Done")
        await above.get_by_role("link").click()
        await status(page).to_contain_text("Result ready")
        await expect(awaited).to_have_count(0)
        await expect(page.locator(".completion.subtask")).to_have_count(2)
        await capture_view(page, screenshots / f"{kind}-5-result.png")
