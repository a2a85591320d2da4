"""The page's view of recorded requests, in a real browser, over a real book."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.proxy.book import BOOK_FILE, open_book
from joey.testing.script import Turn, call, usage
from tests.harness.proxy.conversing import SYSTEM, build_request, build_response
from tests.harness.proxy.filing import ANTHROPIC_PATH, file_exchange
from tests.harness.server.browsing import (
    DESKTOP,
    PHONE,
    Browser,
    Page,
    capture_view,
    expect,
    needs_browser,
    start_task,
    visit,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

KEY = "sk-planted-0123456789abcdefghij"
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"> \u202eand backwards"
ASKED = [("user", f"What is in the repository? {HOSTILE} {KEY}")]
REPLIED = [*ASKED, ("assistant", "There are three files in it.")]
READING = [*REPLIED, ("user", "Read the first one.")]
READ = [*READING, ("assistant", "There are three files in it.")]
PROMPT = SYSTEM + "More than the page shows at once. " * 400
CLOCK = PROMPT.replace(":20.", ":21.")


def fill_book(root: Path) -> None:
    """Three requests of one conversation, the second with another clock in its system prompt."""
    sent = [
        (ASKED, PROMPT, {"writes": 6_000}),
        (READING, CLOCK, {"writes": 6_040}),
        ([*READ, ("user", "Read the last one.")], CLOCK, {"reads": 6_000, "writes": 60}),
    ]
    with open_book(root / "joey-home" / "proxy" / BOOK_FILE) as book:
        for number, (messages, system, tokens) in enumerate(sent):
            file_exchange(
                book,
                request=build_request(ANTHROPIC_PATH, messages, system=system),
                response=build_response(ANTHROPIC_PATH, "There are three files in it.", **tokens),
                path=ANTHROPIC_PATH,
                at=1_790_000_000_000 + number * 10_000,
                user_agent="claude-cli/2.1 (external, cli)",
            )


async def open_recordings_view(page: Page, *, is_phone: bool = False) -> None:
    if is_phone:
        await page.get_by_role("button", name="Tasks").click()
    await page.get_by_role("button", name="Recordings").click()
    await expect(page.get_by_role("heading", name="Recordings")).to_be_visible()


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
async def test_two_requests_are_compared_side_by_side(
    browser: Browser, tmp_path: Path, look: str
) -> None:
    fill_book(tmp_path)
    size = PHONE if look == "phone" else DESKTOP
    scheme = "dark" if look == "dark" else "light"
    async with visit(browser, tmp_path, [], size=size, color_scheme=scheme) as at:
        page = at.page
        await open_recordings_view(page, is_phone=look == "phone")
        await expect(page.get_by_text("claude-code")).to_be_visible()
        await capture_view(page, tmp_path / f"{look}-sessions.png")
        await page.locator(".session").click()
        await expect(page.locator(".request")).to_have_count(3)
        await expect(page.locator(".miss")).to_contain_text("The prompt changed in block 0")
        await expect(page.locator(".chart")).to_have_count(2)
        await capture_view(page, tmp_path / f"{look}-requests.png")
        assert await page.title() != "hacked"
        assert KEY not in await page.content()
        assert "\u202e" not in await page.locator(".requests").inner_text()
        await page.locator(".request").nth(1).get_by_role("button", name="Compare").click()
        before, after = page.locator(".first mark").nth(0), page.locator(".first mark").nth(1)
        await expect(before).to_have_text("0")
        await expect(after).to_have_text("1")
        await capture_view(page, tmp_path / f"{look}-comparison.png")
        await page.get_by_label("Compared with request").select_option("3")
        await expect(page.get_by_text("only in the earlier one").first).to_be_visible()
        await page.get_by_role("button", name="Session 1").click()
        await expect(page.locator(".request")).to_have_count(3)
        await page.get_by_role("button", name="Recordings", exact=True).first.click()


async def test_a_comparison_begins_at_its_top_and_leads_back_to_the_request(
    browser: Browser, tmp_path: Path
) -> None:
    fill_book(tmp_path)
    async with visit(browser, tmp_path, [], size=(900, 400)) as at:
        page = at.page
        await open_recordings_view(page)
        await page.locator(".session").click()
        last = page.locator(".request").nth(2).get_by_role("button", name="Compare")
        await last.click()
        await page.get_by_label("Compared with request").select_option("1")
        await expect(page.get_by_label("Compared with request")).to_be_in_viewport()
        await page.get_by_role("button", name="Session 1").click()
        await expect(last).to_be_in_viewport()


async def test_without_recordings_the_view_says_how_to_make_some(
    browser: Browser, tmp_path: Path
) -> None:
    done = Turn(call("attempt_completion", {"result": "Well."}), usage(input=100, output=3))
    async with visit(browser, tmp_path, [done]) as at:
        page = at.page
        await open_recordings_view(page)
        await expect(page.get_by_text("Nothing is recorded yet.")).to_be_visible()
        assert not (tmp_path / "joey-home" / "proxy").exists()
        await page.get_by_role("button", name="New task").click()
        await start_task(page, "do it")
        await expect(page.get_by_text("Well.")).to_be_visible()
