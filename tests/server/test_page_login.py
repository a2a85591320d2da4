"""How a browser logs in: codes that work once, tabs, the way back, and the log-out."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.server.browsing import (
    TOKEN,
    Browser,
    Page,
    WebSocketRoute,
    expect,
    needs_browser,
    opened,
    served,
    start_task,
    status,
    visit,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

DONE = Turn(call("attempt_completion", {"result": "Done."}))


async def is_logged_in(page: Page) -> None:
    await page.wait_for_url(lambda url: not re.search("code=|token=", url))
    await expect(page.get_by_role("heading", name="What should I do?")).to_be_visible()


async def test_the_printed_link_logs_in_once_and_holds_no_token(
    browser: Browser, tmp_path: Path
) -> None:
    async with ModelServer([]) as model, served(tmp_path, model) as server:
        link = server.printed_link
        assert "#code=" in link
        assert TOKEN not in link
        async with opened(browser, link) as watched:
            page = watched.page
            await is_logged_in(page)
            assert page.url == server.url
            await page.reload()
            await is_logged_in(page)
            bookmark = await page.context.new_page()
            await bookmark.goto(server.url)
            await is_logged_in(bookmark)
            # The browser that has used it may open it again.
            await bookmark.goto(f"{server.url}?")
            await bookmark.goto(link)
            await is_logged_in(bookmark)
        async with opened(browser, link) as watched:
            await expect(watched.page.get_by_text("Each link works once")).to_be_visible()
            await expect(watched.page.get_by_label("Token")).to_be_visible()


async def test_a_reload_while_the_page_logs_in_keeps_its_code(
    browser: Browser, tmp_path: Path
) -> None:
    is_tried, is_reachable = asyncio.Event(), False

    def connect(socket: WebSocketRoute) -> None:
        is_tried.set()
        if is_reachable:
            socket.connect_to_server()

    async with (
        ModelServer([]) as model,
        served(tmp_path, model) as server,
        opened(browser, server.url) as watched,
    ):
        page = watched.page
        await page.route_web_socket(re.compile("/ws$"), connect)
        await page.goto(server.printed_link)
        await is_tried.wait()
        is_reachable = True
        await page.reload()
        await page.wait_for_url(server.url)
        await is_logged_in(page)
        await expect(page.get_by_label("Mode")).to_have_value("code")


async def test_who_logs_out_is_logged_out_in_all_tabs(browser: Browser, tmp_path: Path) -> None:
    async with visit(browser, tmp_path, []) as at:
        other = await at.page.context.new_page()
        await other.goto(at.server.url)
        await is_logged_in(other)
        await at.page.get_by_role("button", name="Log out").click()
        await expect(at.page.get_by_label("Token")).to_be_visible()
        await expect(other.get_by_label("Token")).to_be_visible()
        await other.reload()
        await expect(other.get_by_label("Token")).to_be_visible()


async def test_back_returns_to_the_task_before(browser: Browser, tmp_path: Path) -> None:
    async with visit(browser, tmp_path, [DONE, DONE], "First task") as at:
        page = at.page
        title = page.locator(".header h1")
        await status(page).to_contain_text("Result ready")
        await page.get_by_role("button", name="New task").click()
        await start_task(page, "Second task")
        await expect(title).to_have_text("Second task")
        await page.go_back()
        await is_logged_in(page)
        await page.go_back()
        await expect(title).to_have_text("First task")
        await page.go_forward()
        await is_logged_in(page)
