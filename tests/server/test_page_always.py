"""Answers on the page that allow more than one call, and taking them back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from joey.testing.script import Turn, call
from tests.harness.server.browsing import (
    DESKTOP,
    PHONE,
    Browser,
    capture_view,
    expect,
    needs_browser,
    start_task,
    status,
    visit,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

TOUCH = Turn(call("execute_command", {"command": "touch a.txt"}))
DONE = Turn(call("attempt_completion", {"result": "Done."}))
SCOPES = ("this directory", "this task", "every directory")


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("scope", SCOPES)
async def test_the_page_shows_the_rule_and_adds_it(
    browser: Browser, tmp_path: Path, scope: str, size: tuple[int, int]
) -> None:
    async with visit(browser, tmp_path, [TOUCH, TOUCH, DONE], "Touch it", size) as at:
        always = at.page.get_by_role("button", name="Always allow")
        labels = [f" Always allow in {each}:touch a.txt" for each in SCOPES]
        await expect(always).to_have_text(labels)
        await capture_view(at.page, tmp_path / "scopes.png")
        await at.page.get_by_role("button", name=f"Always allow in {scope}:").click()
        await status(at.page).to_contain_text("Result ready")
    settings = tmp_path / "joey-home" / "settings.json"
    written = json.loads(settings.read_text()) if settings.exists() else {}
    everywhere = ["touch a.txt"] if scope == "every directory" else None
    assert written.get("allowedCommands") == everywhere


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_the_page_allows_one_command_with_network(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    responses: list[dict[str, object]] = []

    def note(frame: str | bytes) -> None:
        command = json.loads(frame)
        if command.get("commandName") == "respond":
            responses.append(command["arguments"])

    async with visit(browser, tmp_path, [TOUCH, DONE], None, size) as at:
        at.page.on("websocket", lambda socket: socket.on("framesent", note))
        await at.page.reload()
        await start_task(at.page, "Touch it")
        name = "Allow, with network for this command"
        button = at.page.get_by_role("button", name=name, exact=True)
        await expect(button).to_be_enabled()
        fits = "element => element.scrollWidth <= element.clientWidth"
        assert await button.evaluate(fits), "the label is cut off"
        await button.click()
        await status(at.page).to_contain_text("Result ready")
    assert [response["network"] for response in responses] == [True]


@pytest.mark.contract("sandbox:network-answers")
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_the_page_allows_a_host_and_takes_it_back(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    fetch = Turn(
        call("execute_command", {"command": "curl --version https://files.example.org/a.txt"})
    )
    async with visit(browser, tmp_path, [fetch, fetch, DONE], "Fetch it", size) as at:
        page = at.page
        button = page.get_by_role("button", name="always allow the network to")
        await expect(button).to_contain_text("files.example.org")
        await capture_view(page, tmp_path / "hosts.png")
        await button.click()
        await expect(page.locator(".ask .why").first).to_contain_text("network: files.example.org")
        await page.keyboard.press(",")
        rules = page.locator(".granted li")
        await expect(rules).to_contain_text("Network to files.example.org")
        await page.get_by_role("button", name="Revoke: Network to files.example.org").click()
        await expect(rules).to_contain_text("Nothing yet")


@pytest.mark.contract("permissions:always")
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_what_was_allowed_is_listed_on_the_page_and_can_be_revoked(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    write = Turn(call("write_to_file", {"path": "b.txt", "content": "x\n"}))
    async with visit(browser, tmp_path, [TOUCH, write, TOUCH, DONE], "Touch it", size) as at:
        page = at.page
        await page.get_by_role("button", name="Always allow in every directory:").click()
        await expect(page.locator(".ask")).to_contain_text("b.txt")
        await page.keyboard.press(",")
        rules, allowed = page.locator(".granted li"), page.get_by_label("Commands that may run")
        await expect(rules).to_contain_text("Command touch a.txt")
        await expect(rules).to_contain_text("in every directory, allowed by you on")
        await expect(allowed).to_have_value("touch a.txt")
        await rules.scroll_into_view_if_needed()
        await capture_view(page, tmp_path / "granted.png")
        await page.get_by_role("button", name="Revoke: Command touch a.txt").click()
        await expect(rules).to_contain_text("Nothing yet")
        await expect(allowed).to_have_value("")
        await page.get_by_role("button", name="Close").click()
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.locator(".ask")).to_contain_text("Run this command?")


@pytest.mark.contract("permissions:always")
async def test_the_page_accepts_the_edits_of_a_task(browser: Browser, tmp_path: Path) -> None:
    writes = [
        Turn(call("write_to_file", {"path": path, "content": "x\n"})) for path in ("a.txt", "b.txt")
    ]
    async with visit(browser, tmp_path, [*writes, DONE]) as at:
        await start_task(at.page, "Write them")
        always = at.page.get_by_role("button", name="Always allow")
        await expect(always).to_contain_text("edits in this workspace, for this task")
        await always.click()
        await status(at.page).to_contain_text("Result ready")
        assert (at.server.workspace / "b.txt").exists()


@pytest.mark.contract("permissions:report")
@pytest.mark.parametrize(
    ("sandbox", "text"),
    [
        ("off", "runs UNCONFINED: the sandbox is switched off"),
        ("auto", r"sandboxed \(\w+\)|no sandbox works here"),
    ],
)
async def test_the_page_says_what_holds_a_command_that_it_asks_about(
    browser: Browser, tmp_path: Path, sandbox: str, text: str
) -> None:
    home = tmp_path / "joey-home"
    home.mkdir()
    (home / "settings.json").write_text(json.dumps({"sandbox": sandbox}), encoding="utf-8")
    async with visit(browser, tmp_path, [TOUCH, DONE]) as at:
        await start_task(at.page, "Touch it")
        card = at.page.locator(".card", has_text="touch a.txt")
        await expect(card).to_contain_text(re.compile(text))
        await capture_view(at.page, tmp_path / "held.png")
