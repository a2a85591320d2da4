"""The third button of a question on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from joey.testing.script import Turn, call
from tests.server.browsing import (
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


@pytest.mark.requirement("always:client")
async def test_the_page_shows_the_rule_and_adds_it(browser: Browser, tmp_path: Path) -> None:
    async with visit(browser, tmp_path, [TOUCH, TOUCH, DONE]) as at:
        await start_task(at.page, "Touch it")
        always = at.page.get_by_role("button", name="Always allow")
        await expect(always).to_contain_text("touch a.txt")
        await always.click()
        await status(at.page).to_contain_text("Result ready")
    written = json.loads((tmp_path / "joey-home" / "settings.json").read_text())
    assert written["allowedCommands"] == ["touch a.txt"]


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
        ("auto", r"runs confined \(\w+\)|no sandbox works here"),
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
