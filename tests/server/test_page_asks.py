"""What a user sees of a question on the page before they answer it, and when nobody did."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, pause, say
from tests.harness.server.browsing import (
    DESKTOP,
    PHONE,
    SCROLL_POSITION_JS,
    Browser,
    Page,
    capture_view,
    expect,
    needs_browser,
    status,
    visit,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

LINES = "\n\n".join(f"Line {number}" for number in range(120))
LONG = Turn(say(LINES), call("attempt_completion", {"result": "That was all."}))
TOUCH = Turn(call("execute_command", {"command": "touch a.txt"}))
DONE = Turn(call("attempt_completion", {"result": "Done."}))


async def scroll_up(page: Page) -> None:
    await page.locator("#thread").hover()
    await page.mouse.wheel(0, -3000)
    await expect(page.get_by_role("button", name="Latest")).to_be_visible()
    await page.locator("#thread").evaluate(SCROLL_POSITION_JS)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_a_message_brings_the_end_into_view_with_the_command_it_leads_to(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with visit(browser, tmp_path, [LONG, TOUCH, DONE], "Tell me a lot", size) as at:
        page = at.page
        await page.get_by_role("button", name="Accept").click()
        await status(page).to_contain_text("Done")
        await scroll_up(page)
        await page.get_by_label("Message to joey").fill("Now touch it")
        await page.get_by_label("Message to joey").press("Enter")
        await expect(page.get_by_role("button", name="Allow", exact=True)).to_be_enabled()
        await expect(page.locator(".person", has_text="Now touch it")).to_be_in_viewport()
        await expect(page.locator(".command", has_text="touch a.txt")).to_be_in_viewport()
        await capture_view(page, tmp_path / "asked.png")


async def test_a_queued_message_brings_the_end_into_view_too(
    browser: Browser, tmp_path: Path
) -> None:
    turns = [Turn(say(LINES), pause(asyncio.Event())), DONE]
    async with visit(browser, tmp_path, turns, "Tell me a lot") as at:
        page = at.page
        await expect(page.get_by_text("Line 119")).to_be_in_viewport()
        await scroll_up(page)
        await page.get_by_label("Message to joey").fill("Enough")
        await page.get_by_label("Message to joey").press("Enter")
        await expect(page.get_by_text("Line 119")).to_be_in_viewport()


async def test_a_question_comes_into_view_and_its_bar_says_what_it_is_about_and_why(
    browser: Browser, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    long = f"echo {'x' * 300} \u202ereversed"
    turns = [Turn(say(LINES), pause(gate), call("execute_command", {"command": long})), DONE]
    async with visit(browser, tmp_path, turns, "Tell me a lot") as at:
        page = at.page
        await expect(page.get_by_text("Line 119")).to_be_in_viewport()
        await scroll_up(page)
        gate.set()
        card = page.locator(".command", has_text="<U+202E>reversed")
        await expect(card).to_be_in_viewport()
        bar = page.get_by_role("region", name="Run this command?")
        await expect(bar).to_contain_text("echo xxx")
        await expect(bar).to_contain_text(
            "commands require confirmation (alwaysAllowExecute is off)"
        )
        await expect(bar.get_by_title(f"echo {'x' * 300} <U+202E>reversed")).to_be_visible()
        await scroll_up(page)
        await capture_view(page, tmp_path / "scrolled-up.png")
        await bar.get_by_role("button", name="echo xxx").click()
        await expect(card).to_be_in_viewport()


async def test_the_bar_names_the_file_that_would_change(browser: Browser, tmp_path: Path) -> None:
    write = Turn(call("write_to_file", {"path": "src/a.txt", "content": "one\n"}))
    async with visit(browser, tmp_path, [write, DONE], "Write it") as at:
        bar = at.page.get_by_role("region", name="Create src/a.txt?")
        await expect(bar).to_contain_text("Create src/a.txt")
        await expect(bar).to_contain_text("edits require confirmation (alwaysAllowWrite is off)")


async def test_a_question_that_nobody_answered_is_not_called_rejected(
    browser: Browser, tmp_path: Path
) -> None:
    async with visit(browser, tmp_path, [TOUCH, DONE], "Touch it") as at:
        page = at.page
        await status(page).to_contain_text("Needs you")
        await page.get_by_role("button", name="Stop", exact=True).click()
        await status(page).to_contain_text("Stopped")
        await expect(page.locator(".card .state")).to_have_text("not answered")
        await page.reload()
        await expect(page.locator(".card .state")).to_have_text("not answered")


async def test_a_result_is_accepted_or_talked_about_and_not_stopped(
    browser: Browser, tmp_path: Path
) -> None:
    async with visit(browser, tmp_path, [DONE], "Be done") as at:
        page = at.page
        await status(page).to_contain_text("Result ready")
        await expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
        await expect(page.get_by_role("button", name="Resume")).to_have_count(0)
        await page.keyboard.press("Alt+s")
        await page.get_by_role("button", name="Accept").click()
        await status(page).to_contain_text("Done")
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()


@pytest.mark.contract("loop:plain-reply")
async def test_a_plain_answer_is_shown_as_the_result_and_answered_with_the_next_message(
    browser: Browser, tmp_path: Path
) -> None:
    answer = Turn(say("It is the linker.", chunk=3))
    async with visit(browser, tmp_path, [answer, answer, DONE], "Why does it fail?") as at:
        page = at.page
        result = page.locator(".completion", has_text="It is the linker.")
        await expect(result).to_be_visible()
        await expect(page.get_by_role("button", name="Accept")).to_be_enabled()
        await page.get_by_label("Message to joey").fill("Then install it")
        await page.get_by_label("Message to joey").press("Enter")
        await expect(page.locator(".completion", has_text="Done.")).to_be_visible()
        await expect(page.locator(".person", has_text="Then install it")).to_be_visible()


@pytest.mark.contract("completion:checks")
async def test_a_result_next_to_unseen_results_is_shown_as_text(
    browser: Browser, tmp_path: Path
) -> None:
    look = call("list_files", {"path": ".", "recursive": False})
    early = Turn(look, call("attempt_completion", {"result": "All tests pass."}, chunk=3))
    async with visit(browser, tmp_path, [early, DONE], "Test it") as at:
        page = at.page
        await expect(page.locator(".completion", has_text="Done.")).to_be_visible()
        await expect(page.locator(".completion")).to_have_count(1)
        await expect(page.get_by_text("All tests pass.")).to_be_visible()
