"""What the page shows of each tool: its headline, its change, and what it found.

Images of the views are left in a folder whose name is printed (`pytest -s`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call
from tests.harness.mcp.hub_harness import tiny
from tests.harness.server.browsing import (
    DESKTOP,
    PHONE,
    Browser,
    Page,
    capture_view,
    expect,
    needs_browser,
    status,
    visit,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

DONE = call("attempt_completion", {"result": "Done."})
PATCH = """\
*** Begin Patch
*** Update File: shop.py
@@
-    return sum(items)
+    return sum(item.price for item in items)
*** Add File: notes.md
+# Prices
*** End Patch"""
DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhg"
    "GAWjR9awAAAABJRU5ErkJggg=="
)
ALLOW = {
    "autoApprovalEnabled": True,
    "alwaysAllowReadOnly": True,
    "alwaysAllowWrite": True,
    "alwaysAllowExecute": True,
    "allowedCommands": ["*"],
}


def create_files(root: Path) -> Path:
    """A project with code, a page, a command, a skill; a home with a tool and a server."""
    home, work = root / "joey-home", root / "work"
    written = {
        work / "shop.py": "def total(items):\n    return sum(items)\n",
        work
        / "page.html": "<title>Shop</title><h1>Prices</h1><script>console.log('open')</script>",
        work / ".roo/commands/tidy.md": "---\ndescription: Tidy up\n---\nTidy everything.\n",
        work / ".roo/skills/pricing/SKILL.md": (
            "---\nname: pricing\ndescription: How prices are made\n---\nAdd them.\n"
        ),
        home / "settings.json": json.dumps(ALLOW),
        home / "mcp.json": json.dumps({"mcpServers": {"tiny": tiny()}}),
        home / "tools/weather.py": (
            '"""The weather."""\n\n\ndef run(city: str) -> str:\n    return f"{city}: sunny"\n'
        ),
    }
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return work


def the_tools(work: Path) -> list[Turn]:
    return [
        Turn(
            call("apply_patch", {"patch": PATCH}),
            call("edit", {"file_path": "notes.md", "old_string": "# Prices", "new_string": "# A"}),
            call("insert_content", {"path": "notes.md", "line": 0, "content": "more"}),
            call("list_code_definition_names", {"path": "shop.py"}),
            call("codebase_search", {"query": "total of items"}),
        ),
        Turn(
            call("weather", {"city": "Bern"}),
            call("skill", {"skill": "pricing"}),
            call("run_slash_command", {"command": "tidy", "args": "now"}),
            call("fetch_instructions", {"task": "create_mode"}),
        ),
        Turn(call("mcp--tiny--echo", {"text": "hello there"})),
        Turn(call("browser_action", {"action": "launch", "url": (work / "page.html").as_uri()})),
        Turn(DONE),
    ]


async def headlines(page: Page) -> list[str]:
    """The headlines of the cards that are shown."""
    text: list[str] = await page.locator(".card-head").evaluate_all(
        "heads => heads.map(head => [head.querySelector('strong')?.textContent,"
        " head.querySelector('.path')?.textContent].filter(Boolean).join(': '))"
    )
    return text


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
async def test_every_tool_says_what_it_does_and_shows_what_it_found(
    browser: Browser, tmp_path: Path, screenshots: Path, size: tuple[int, int], scheme: str
) -> None:
    work = create_files(tmp_path)
    kind = "phone" if size == PHONE else "desktop"
    turns = the_tools(work)
    async with visit(browser, tmp_path, turns, "Price it", size, color_scheme=scheme) as at:
        page = at.page
        approve = page.get_by_role("button", name="Allow", exact=True)
        await expect(page.get_by_label("Use the MCP tool ")).to_be_visible()
        await expect(page.locator(".card.pending pre")).to_have_text(
            '{\n  "text": "hello there"\n}'
        )
        await capture_view(page, screenshots / f"{kind}-1-mcp.png")
        await page.set_viewport_size({"width": size[0], "height": 3000})
        await page.get_by_role("button", name="place found").click()
        await expect(page.locator(".hits")).to_contain_text("shop.py:1")
        await capture_view(page, screenshots / f"{kind}-2-tools.png")
        assert await headlines(page) == [
            "Edit: shop.py, notes.md",
            "Edit: notes.md",
            "Edit: notes.md at the end",
            "List definitions: shop.py",
            "Search code: total of items",
            "Custom tool: weather (tools/weather.py)",
            "Skill: pricing (project)",
            "Slash command: /tidy now (project)",
            "Fetch instructions: create_mode",
            "MCP tool: tiny: echo",
        ]
        await page.set_viewport_size({"width": size[0], "height": size[1]})
        await expect(approve).to_be_enabled()  # again, once it stays where it is
        await approve.click()
        await expect(page.get_by_label("Open this page?")).to_be_visible()
        await page.get_by_role("button", name="Answer of the server").click()
        await expect(page.locator(".report .plain")).to_have_text("hello there")
        await expect(approve).to_be_enabled()
        await approve.click()
        await status(page).to_contain_text("Result ready")
        await expect(page.locator(".browser img")).to_be_visible()
        await page.get_by_role("button", name="Console").click()
        await expect(page.locator(".browser .plain")).to_contain_text("open")
        await capture_view(page, screenshots / f"{kind}-3-browser.png")


async def test_rows_of_other_programs_are_shown_and_nothing_in_them_is_believed(
    browser: Browser, tmp_path: Path, screenshots: Path
) -> None:
    hurt = '<img src=x onerror="window.hurt = 1">'
    evil = "data:image/svg+xml;base64,PHN2Zy8+"
    rows = [
        said("text", "Look at them"),
        said("tool", {"tool": "readFile", "path": hurt}),
        said("browser_action_result", {"screenshot": evil, "currentUrl": hurt, "logs": hurt}),
        said("browser_action_result", {"screenshot": DOT, "currentUrl": None}),
        said("browser_action_result", "no JSON"),
        said("codebase_search_result", {"content": {"query": hurt, "results": [{"score": hurt}]}}),
        said("mcp_server_response", hurt),
        said("subtask_result", hurt),
        said("image", DOT),
        said("image", {"imageUri": "javascript:window.hurt = 2"}),
        said("tool", {"tool": "newTask", "mode": hurt, "content": hurt, "todos": "none"}),
    ]
    directory = tmp_path / "joey-home" / "tasks" / "task_other"
    directory.mkdir(parents=True)
    numbered = [{"ts": 1_700_000_000_000 + ts, **row} for ts, row in enumerate(rows)]
    (directory / "ui_messages.json").write_text(json.dumps(numbered), encoding="utf-8")
    spoken = [{"role": "user", "content": [{"type": "text", "text": "<task>\nLook\n</task>"}]}]
    (directory / "api_conversation_history.json").write_text(json.dumps(spoken), encoding="utf-8")
    async with visit(browser, tmp_path, []) as at:
        page = at.page
        await page.locator(".entry").click()
        await expect(page.locator(".row")).to_have_count(len(rows))
        for fold in ("Console", "1 place found", "Answer of the server"):
            await page.get_by_role("button", name=fold).click()
        await capture_view(page, screenshots / "others.png")
        sources = await page.locator("#thread img").evaluate_all("all => all.map(one => one.src)")
        assert sources == [DOT, DOT]
        assert await page.evaluate("window.hurt") is None


def said(kind: str, text: str | dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "say",
        "say": kind,
        "text": text if isinstance(text, str) else json.dumps(text),
    }
