"""Going back on the page: rows vanish, come back, and are said anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.testing.script import Turn, call, say
from tests.harness.server.browsing import (
    PHONE,
    Browser,
    Page,
    Visit,
    capture_view,
    expect,
    needs_browser,
    status,
    visit,
)

pytestmark = [
    needs_browser,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.contract("rewind:any-row"),
]

WRITE = Turn(say("I write it."), call("write_to_file", {"path": "a.txt", "content": "one\n"}))


def done(result: str) -> Turn:
    return Turn(call("attempt_completion", {"result": result}))


async def finish(page: Page, result: str) -> None:
    await expect(page.get_by_text(result, exact=True)).to_be_visible()
    await page.get_by_role("button", name="Accept").click()
    await status(page).to_contain_text("Done")


async def written(at: Visit) -> None:
    """A file is there, and then `red` was said."""
    page = at.page
    await page.get_by_role("button", name="Allow", exact=True).click()
    await finish(page, "It is there.")
    await page.get_by_label("Message to joey").fill("paint it red")
    await page.get_by_role("button", name="Send").click()
    await finish(page, "It is red.")


async def open_dialog(page: Page, text: str) -> None:
    user_row = page.locator(".person").filter(has_text=text)
    await user_row.hover()
    await user_row.get_by_role("button", name="Go back to this message").click()


async def test_rows_vanish_and_come_back(browser: Browser, tmp_path: Path) -> None:
    turns = [WRITE, done("It is there."), done("It is red.")]
    async with visit(browser, tmp_path, turns, "make a.txt") as at:
        page = at.page
        await written(at)
        await open_dialog(page, "paint it red")
        changes = page.get_by_role("list", name="What going back changes")
        await expect(changes).to_contain_text("2 messages of this conversation will go")
        first, second = await page.get_by_role("button", name="Only go back").evaluate(
            "(button) => [button.previousElementSibling, button]"
            ".map((each) => each.getBoundingClientRect())"
            ".map(({ left, right, top, bottom }) => ({ left, right, top, bottom }))"
        )
        assert second["left"] > first["right"] or second["top"] > first["bottom"], "they are apart"
        await capture_view(page, tmp_path / "rewind.png")
        await page.get_by_role("button", name="Only go back").click()
        await expect(page.get_by_text("paint it red")).to_have_count(0)
        await expect(page.get_by_text("It is there.", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("It is red.", exact=True)).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("It is red.", exact=True)).to_be_visible()


async def test_a_message_is_said_anew_with_the_files_of_that_moment(
    browser: Browser, tmp_path: Path
) -> None:
    turns = [WRITE, done("It is there."), done("It is red."), done("Otherwise.")]
    async with visit(browser, tmp_path, turns, "make a.txt", PHONE) as at:
        page = at.page
        await written(at)
        await open_dialog(page, "make a.txt")
        await page.get_by_role("switch", name="Bring back the files").check()
        changes = page.get_by_role("list", name="What going back changes")
        await expect(changes).to_contain_text("1 file will be deleted: a.txt")
        await capture_view(page, tmp_path / "rewind-phone.png")
        await page.get_by_label("Your message").fill("make nothing")
        await page.get_by_role("button", name="Send this instead").click()
        await expect(page.get_by_text("Otherwise.", exact=True)).to_be_visible()
        await expect(page.locator(".person")).to_have_text(["You said: ↶make nothing"])
        assert not (at.server.workspace / "a.txt").exists()


async def test_another_task_begins_from_a_message(browser: Browser, tmp_path: Path) -> None:
    turns = [WRITE, done("It is there."), done("It is red.")]
    async with visit(browser, tmp_path, turns, "make a.txt") as at:
        page = at.page
        await written(at)
        before = page.url
        await open_dialog(page, "paint it red")
        await page.get_by_role("button", name="New task from here").click()
        await expect(page.get_by_text("It is red.", exact=True)).to_have_count(0)
        await expect(page.get_by_text("paint it red")).to_be_visible()
        assert page.url != before
        assert len(list((at.server.home / "tasks").glob("task_*"))) == 2


async def test_edits_that_are_asked_about_again_are_shown_before(
    browser: Browser, tmp_path: Path
) -> None:
    turns = [done("Ready."), WRITE, done("It is there.")]
    async with visit(browser, tmp_path, turns, "be ready") as at:
        page = at.page
        await finish(page, "Ready.")
        await page.get_by_label("Message to joey").fill("make a.txt")
        await page.get_by_role("button", name="Send").click()
        await page.get_by_role("button", name="Always allow").click()
        await finish(page, "It is there.")
        await open_dialog(page, "make a.txt")
        changes = page.get_by_role("list", name="What going back changes")
        await expect(changes).to_contain_text(
            "Edits, which you accepted for this task, will need approval again."
        )
