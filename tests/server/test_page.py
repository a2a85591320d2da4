"""What a user does with the page, in a real browser, with a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, fail, pause, say, think, usage
from joey.testing.server import ModelServer
from tests.harness.server.browsing import (
    SCROLL_POSITION_JS,
    TOKEN,
    Browser,
    Page,
    expect,
    needs_browser,
    opened,
    served,
    status,
    visit,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

DONE = Turn(call("attempt_completion", {"result": "All is **well**."}))


async def test_the_link_logs_in_and_its_token_leaves_the_address_bar(
    browser: Browser, tmp_path: Path
) -> None:
    async with visit(browser, tmp_path, []) as at:
        page = at.page
        await expect(page.get_by_role("heading", name="What should I do?")).to_be_visible()
        assert page.url == at.server.url
        await page.reload()
        await expect(page.get_by_role("heading", name="What should I do?")).to_be_visible()


async def test_without_a_token_the_page_asks_for_it_until_it_is_right(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        ModelServer([]) as model,
        served(tmp_path, model) as server,
        opened(browser, server.url) as watched,
    ):
        page = watched.page
        await page.get_by_label("Token").fill("wrong")
        await page.get_by_role("button", name="Connect").click()
        await expect(page.get_by_text("joey does not know this token.")).to_be_visible()
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_role("button", name="Connect").click()
        await expect(page.get_by_role("heading", name="What should I do?")).to_be_visible()


@pytest.mark.smoke
async def test_a_task_streams_and_waits_for_approval_and_acceptance(
    browser: Browser, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    turns = [
        Turn(
            think("A command will do.", signature="s"),
            say("First half,"),
            pause(gate),
            say(" second half."),
            call("execute_command", {"command": "touch a.txt; echo from-the-shell"}),
            usage(input=1200, output=34),
        ),
        DONE,
    ]
    async with visit(browser, tmp_path, turns, "Run something") as at:
        page = at.page
        await expect(page.get_by_text("First half,")).to_be_visible()
        await status(page).to_contain_text("Working")
        gate.set()
        await expect(page.get_by_text("First half, second half.")).to_be_visible()
        await status(page).to_contain_text("Needs you")
        await expect(page.locator(".command")).to_have_text("touch a.txt; echo from-the-shell")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.locator(".output")).to_contain_text("from-the-shell")
        await status(page).to_contain_text("Result ready")
        await expect(page.locator(".completion strong", has_text="well")).to_be_visible()
        await page.get_by_role("button", name="Accept").click()
        await status(page).to_contain_text("Done")
        await expect(page.locator(".entry .status")).to_contain_text("Done")
        await page.get_by_role("button", name="Thought").click()
        await expect(page.get_by_text("A command will do.")).to_be_visible()


async def test_a_rejection_takes_the_message_along(browser: Browser, tmp_path: Path) -> None:
    write = call("write_to_file", {"path": "a.txt", "content": "one\ntwo\n"})
    async with visit(browser, tmp_path, [Turn(write), DONE], "Write a file") as at:
        page = at.page
        await expect(page.locator(".diff .add").first).to_have_text("+one")
        await expect(page.get_by_role("button", name="Reject and stop")).to_be_enabled()
        await page.get_by_label("Message to joey").fill("Call it b.txt")
        await page.keyboard.press("Alt+n")
        await expect(page.locator(".card .state.rejected")).to_be_visible()
        await expect(page.locator(".person", has_text="Call it b.txt")).to_be_visible()
        await expect(page.get_by_label("Message to joey")).to_have_value("")
        await status(page).to_contain_text("Result ready")
        assert not (at.server.workspace / "a.txt").exists()
        assert "Call it b.txt" in str(at.model.requests[1].body)


@pytest.mark.contract("loop:rejection-stops")
async def test_a_rejection_without_a_message_stops_and_waits_for_one(
    browser: Browser, tmp_path: Path
) -> None:
    write = call("write_to_file", {"path": "a.txt", "content": "one\n"})
    async with visit(browser, tmp_path, [Turn(write), DONE], "Write a file") as at:
        page = at.page
        await page.get_by_role("button", name="Reject and stop").click()
        await status(page).to_contain_text("Stopped")
        await expect(page.locator(".card .state.rejected")).to_be_visible()
        assert len(at.model.requests) == 1
        await page.get_by_label("Message to joey").fill("Call it b.txt")
        await page.keyboard.press("Enter")
        await status(page).to_contain_text("Result ready")
        assert "Call it b.txt" in str(at.model.requests[1].body)
        assert not (at.server.workspace / "a.txt").exists()


async def test_a_follow_up_is_answered_by_a_suggestion(browser: Browser, tmp_path: Path) -> None:
    question = {"question": "Which colour?", "follow_up": [{"text": "Red"}, {"text": "Blue"}]}
    async with visit(
        browser, tmp_path, [Turn(call("ask_followup_question", question)), DONE], "Paint it"
    ) as at:
        page = at.page
        await expect(page.locator(".question")).to_contain_text("Which colour?")
        await page.get_by_role("button", name="Blue").click()
        await expect(page.locator(".person", has_text="Blue")).to_be_visible()
        await status(page).to_contain_text("Result ready")
        await expect(page.get_by_role("button", name="Accept")).to_be_enabled()
        await page.get_by_label("Message to joey").fill("A bit darker")
        await page.get_by_label("Message to joey").press("Enter")
        await expect(page.locator(".person", has_text="A bit darker")).to_be_visible()


async def test_a_task_is_stopped_and_resumed(browser: Browser, tmp_path: Path) -> None:
    turns = [Turn(say("It takes long"), pause(asyncio.Event())), DONE]
    async with visit(browser, tmp_path, turns, "Take long") as at:
        page = at.page
        await expect(page.get_by_text("It takes long")).to_be_visible()
        await page.get_by_role("button", name="Stop", exact=True).click()
        await status(page).to_contain_text("Stopped")
        await page.get_by_role("button", name="Resume").click()
        await status(page).to_contain_text("Result ready")
        await expect(page.locator(".completion")).to_be_visible()


async def test_a_reload_in_the_middle_loses_nothing(browser: Browser, tmp_path: Path) -> None:
    gate = asyncio.Event()
    turns = [
        Turn(say("Reading."), call("list_files", {"path": "."})),
        Turn(
            say("Half of it"), pause(gate), say(" and the rest."), call("list_files", {"path": "."})
        ),
        DONE,
    ]
    async with visit(browser, tmp_path, turns, "Look around") as at:
        page = at.page
        await expect(page.get_by_text("Half of it")).to_be_visible()
        await page.get_by_label("Message to joey").fill("not sent yet")
        await page.reload()
        await expect(page.get_by_text("Reading.")).to_be_visible()
        await expect(page.get_by_label("Message to joey")).to_have_value("not sent yet")
        await expect(page.get_by_text("Half of it")).to_be_visible()
        gate.set()
        await expect(page.get_by_text("Half of it and the rest.")).to_be_visible()
        await status(page).to_contain_text("Result ready")
        assert await kinds(page) == [
            "text", "api_req_started", "text", "tool",
            "api_req_started", "text", "tool",
            "api_req_started", "completion_result",
        ]  # fmt: skip


async def test_a_restart_of_the_server_loses_and_doubles_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    turns = [
        Turn(say("Before."), call("execute_command", {"command": "touch a.txt"})),
        Turn(say("After."), call("attempt_completion", {"result": "Done."})),
    ]
    async with visit(browser, tmp_path, turns, "Outlive the server") as at:
        page = at.page
        await status(page).to_contain_text("Needs you")
        at.watched.is_connection_lost = True
        await at.server.stop()
        await expect(page.get_by_text("Connection lost; reconnecting")).to_be_visible()
        await at.server.start()
        await expect(page.locator(".offline")).to_have_count(0)
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_text("After.")).to_be_visible()
        await status(page).to_contain_text("Result ready")
        shown = await kinds(page)
        await page.reload()
        await status(page).to_contain_text("Result ready")
        assert await kinds(page) == shown
        assert shown.count("completion_result") == 1


async def test_why_a_task_failed_is_said_and_stays(browser: Browser, tmp_path: Path) -> None:
    refusal = Turn(fail(401, "This key opens nothing."))
    async with visit(browser, tmp_path, [refusal] * 9, "Try it") as at:
        page = at.page
        await page.get_by_role("button", name="Give up").click()
        await status(page).to_contain_text("Failed")
        await expect(page.locator(".composer .notice")).to_be_visible()
        said = await page.locator(".composer .notice").text_content()
        await page.reload()
        await expect(page.locator(".composer .notice")).to_have_text(str(said))


async def test_who_scrolls_up_stays_there_while_it_streams(
    browser: Browser, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    lines = "\n\n".join(f"Line {number}" for number in range(120))
    turns = [Turn(say(lines), pause(gate), say("\n\nThe last line", chunk=3)), DONE]
    async with visit(browser, tmp_path, turns, "Tell me a lot") as at:
        page = at.page
        await expect(page.get_by_text("Line 119")).to_be_in_viewport()
        await page.locator("#thread").hover()
        await page.mouse.wheel(0, -1200)
        await expect(page.get_by_role("button", name="Latest")).to_be_visible()
        top = await page.locator("#thread").evaluate(SCROLL_POSITION_JS)
        gate.set()
        await status(page).to_contain_text("Result ready")
        assert await page.locator("#thread").evaluate(SCROLL_POSITION_JS) == top
        await page.get_by_role("button", name="Latest").click()
        await expect(page.locator(".completion")).to_be_in_viewport()


async def kinds(page: Page) -> list[str]:
    """The rows that are shown, by kind."""
    kind = "rows => rows.map(row => row.dataset.kind)"
    await expect(page.locator(".completion")).to_be_visible()
    shown: list[str] = await page.locator(".row").evaluate_all(kind)
    return shown
