"""Saying things on the page: queued words, images, another mode, another task."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call, pause, say
from tests.harness.server.browsing import (
    Browser,
    capture_view,
    expect,
    needs_browser,
    start_task,
    status,
    visit,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

DONE = Turn(call("attempt_completion", {"result": "All is **well**."}))
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_messages_while_it_works_are_queued_and_can_be_taken_back(
    browser: Browser, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    turns = [Turn(say("Working"), pause(gate), call("list_files", {"path": "."})), DONE]
    async with visit(browser, tmp_path, turns, "Work") as at:
        page = at.page
        await expect(page.locator(".row", has_text="Working")).to_be_visible()
        for message in ("Forget this", "Mind the tests"):
            await page.get_by_label("Message to joey").fill(message)
            await page.get_by_label("Message to joey").press("Enter")
            await expect(page.locator(".queue li", has_text=message)).to_be_visible()
        await page.reload()
        await expect(page.locator(".queue li")).to_have_count(2)
        await page.get_by_label("Remove the queued message: Forget this").click()
        await expect(page.locator(".queue li")).to_have_count(1)
        gate.set()
        await status(page).to_contain_text("Result ready")
        await expect(page.locator(".queue li")).to_have_count(0)
        assert "Mind the tests" in str(at.model.requests[1].body)
        assert "Forget this" not in str(at.model.requests[1].body)


async def test_an_image_goes_along_and_is_shown(browser: Browser, tmp_path: Path) -> None:
    async with visit(browser, tmp_path, [DONE]) as at:
        page = at.page
        dot = {"name": "dot.png", "mimeType": "image/png", "buffer": DOT}
        await page.get_by_label("Picture").set_input_files(dot)  # type: ignore[arg-type]
        await expect(page.get_by_role("img", name="Picture 1")).to_be_visible()
        await start_task(page, "What is this?")
        await expect(page.locator(".person img")).to_be_visible()
        await status(page).to_contain_text("Result ready")
        assert base64.b64encode(DOT).decode() in str(at.model.requests[0].body)


async def test_the_mode_of_a_task_is_changed_on_the_way(browser: Browser, tmp_path: Path) -> None:
    async with visit(browser, tmp_path, [DONE]) as at:
        page = at.page
        await expect(page.get_by_label("Mode")).to_have_value("code")
        await start_task(page, "Think")
        await status(page).to_contain_text("Result ready")
        await page.get_by_label("Mode").select_option("ask")
        await page.reload()
        await expect(page.get_by_label("Mode")).to_have_value("ask")


async def test_slash_commands_are_offered_and_completed_by_keyboard(
    browser: Browser, tmp_path: Path, screenshots: Path
) -> None:
    directory = tmp_path / "work" / ".roo" / "commands"
    directory.mkdir(parents=True)
    (directory / "review.md").write_text(
        "---\ndescription: Look at a change\nargument-hint: <commit>\n---\nReview it well.\n"
    )
    (directory / "release.md").write_text("Release it.\n")
    async with visit(browser, tmp_path, [DONE]) as at:
        page = at.page
        field, menu = page.get_by_label("The new task"), page.get_by_role("listbox")
        await field.press_sequentially("Please /")
        await expect(menu.get_by_role("option", name="/review <commit>")).to_be_visible()
        await capture_view(page, screenshots / "slash.png")
        await field.press("Escape")
        await expect(menu).to_have_count(0)
        await expect(field).to_be_focused()
        await field.press_sequentially("re")
        await expect(menu.get_by_role("option")).to_have_count(2)
        await field.press("ArrowDown")
        await expect(menu.get_by_role("option", selected=True)).to_contain_text("/review")
        await field.press("Enter")
        await expect(field).to_have_value("Please /review ")
        await field.press_sequentially("HEAD")
        await field.press("Enter")
        await status(page).to_contain_text("Result ready")
        assert "Review it well." in str(at.model.requests[0].body)


async def test_slash_commands_are_offered_once_there_is_a_connection(
    browser: Browser, tmp_path: Path
) -> None:
    directory = tmp_path / "work" / ".roo" / "commands"
    directory.mkdir(parents=True)
    (directory / "review.md").write_text("Review it well.\n")
    connect = asyncio.Event()

    async def hold(route: Any) -> None:
        await connect.wait()
        route.connect_to_server()

    async with visit(browser, tmp_path, [DONE]) as at:
        await at.page.route_web_socket("**/*", hold)
        await at.page.reload()
        await at.page.get_by_label("The new task").press_sequentially("Please /")
        connect.set()
        await expect(at.page.get_by_role("option", name="/review")).to_be_visible()


async def test_modes_of_the_project_can_be_chosen(browser: Browser, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".roomodes").write_text(
        "customModes:\n- slug: poet\n  name: Poet\n  roleDefinition: You write poems.\n"
        "  groups: [read]\n"
    )
    async with visit(browser, tmp_path, [DONE]) as at:
        page = at.page
        await page.get_by_label("Mode").select_option("Poet")
        await start_task(page, "Write")
        await status(page).to_contain_text("Result ready")
        await expect(page.get_by_label("Mode")).to_have_value("poet")
        assert "You write poems." in str(at.model.requests[0].body)


async def test_tasks_are_found_and_stepped_through_by_keyboard(
    browser: Browser, tmp_path: Path
) -> None:
    async with visit(browser, tmp_path, [DONE, DONE]) as at:
        page = at.page
        for text in ("Feed the cat", "Walk the dog"):
            await page.keyboard.press("n")
            await expect(page.get_by_label("The new task")).to_be_focused()
            await page.keyboard.type(text)
            await expect(page.get_by_role("button", name="Start")).to_be_enabled()
            await page.keyboard.press("Enter")
            await expect(page.locator(".person", has_text=text)).to_be_visible()
            await status(page).to_contain_text("Result ready")
            await page.keyboard.press("Escape")
        await page.keyboard.press("Alt+ArrowDown")
        await expect(page.locator(".person", has_text="Feed the cat")).to_be_visible()
        await page.keyboard.press("/")
        await expect(page.get_by_label("Search tasks")).to_be_focused()
        await page.keyboard.type("dog")
        await expect(page.locator(".entry")).to_have_count(1)
        await expect(page.locator(".entry")).to_contain_text("Walk the dog")
