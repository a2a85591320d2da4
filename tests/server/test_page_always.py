"""The third button of a question on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from joey.testing.script import Turn, call
from tests.server.browsing import (
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


@pytest.mark.requirement("always:client")
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


@pytest.mark.requirement("always:edits")
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


@pytest.mark.requirement("permissions:sandbox:told")
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
