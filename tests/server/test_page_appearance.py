"""How the page looks and what it never does: sizes, themes, access, hostile words, long tasks.

Images of every view are left in a folder whose name is printed (`pytest -s`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, pause, say, think, usage
from joey.testing.server import ModelServer
from tests.harness.server.browsing import (
    AXE,
    DESKTOP,
    PHONE,
    Browser,
    Page,
    capture_view,
    expect,
    needs_browser,
    opened,
    served,
    start_task,
    visit,
    write_long_task,
)

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="session")]

MARKDOWN = """\
I looked at the parser. **Two things** are wrong:

1. `parse_line` forgets the last field
2. the tests never see it

| file | lines | state |
|---|---:|---|
| `parser.py` | 120 | *broken* |
| `reader.py` | 80 | fine |

```python
def parse_line(line: str) -> list[str]:
    # keep empty fields
    return [field.strip() for field in line.split(",")]
```

> The manual says otherwise, see [the page](https://example.org/manual).
"""
OLD = "def parse(line):\n    return line.split(',')[:-1]\n"
EDIT = {
    "path": "parser.py",
    "diff": "<<<<<<< SEARCH\n    return line.split(',')[:-1]\n=======\n"
    "    fields = line.split(',')\n    return [field.strip() for field in fields]\n"
    ">>>>>>> REPLACE",
}
TODOS = {"todos": "[x] Read the parser\n[-] Repair it\n[ ] Run the tests"}
QUESTION = {
    "question": "Shall empty fields be kept?",
    "follow_up": [
        {"text": "Yes, keep them"},
        {"text": "No, drop them and say how many there were"},
    ],
}
HOSTILE = """\
<img src=x onerror="window.hurt = 1"><script>window.hurt = 2</script>

[a link](javascript:window.hurt=3) and ![a picture](https://example.org/spy.png)

<style>body { display: none }</style>

```html
<b onclick="window.hurt = 4">bold</b>
```
"""


def a_whole_task(gate: asyncio.Event) -> list[Turn]:
    return [
        Turn(
            think("The parser drops a field. Let me look at the file first.", signature="s"),
            say(MARKDOWN),
            call("read_file", {"path": "parser.py"}),
            call("update_todo_list", TODOS),
            usage(input=5200, output=310, cache_reads=21_000),
        ),
        Turn(say("Now the repair."), call("apply_diff", EDIT), usage(input=1200, output=96)),
        Turn(
            call("execute_command", {"command": "touch log && seq 1 40 && echo 'all tests pass'"})
        ),
        Turn(call("ask_followup_question", QUESTION)),
        Turn(say("Writing it down"), pause(gate), say(" now."), call("list_files", {"path": "."})),
        Turn(
            call(
                "attempt_completion",
                {"result": "The parser keeps *all* fields now.\n\n- repaired\n- tested"},
            )
        ),
    ]


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
async def test_every_view_is_readable_by_everybody(
    browser: Browser, tmp_path: Path, screenshots: Path, size: tuple[int, int], scheme: str
) -> None:
    gate = asyncio.Event()
    kind = f"{'phone' if size == PHONE else 'desktop'}-{scheme}"

    async def look(page: Page, view: str) -> None:
        await capture_view(page, screenshots / f"{kind}-{view}.png")

    async with (
        ModelServer(a_whole_task(gate)) as model,
        served(tmp_path, model) as server,
        opened(browser, server.url, size, color_scheme=scheme, reduced_motion="reduce") as watched,
    ):
        page = watched.page
        (server.workspace / "parser.py").write_text(OLD, encoding="utf-8")
        await page.add_init_script(path=AXE) if AXE.exists() else None
        await page.goto(server.url)
        await look(page, "1-login")
        await page.goto(server.link)
        await expect(page.get_by_role("heading", name="What should I do?")).to_be_visible()
        await look(page, "2-new")
        await start_task(page, "Repair the parser: it forgets the last field of every line")
        await expect(page.get_by_role("button", name="Allow", exact=True)).to_be_visible()
        await look(page, "3-approve")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.locator(".command")).to_be_visible()
        await expect(page.get_by_role("button", name="Allow", exact=True)).to_be_enabled()
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.get_by_role("button", name="Yes, keep them")).to_be_visible()
        await look(page, "4-question")
        await page.get_by_role("button", name="Yes, keep them").click()
        await expect(page.get_by_text("Writing it")).to_be_visible()
        await page.get_by_label("Message to joey").fill("And mind the tests")
        await page.get_by_label("Message to joey").press("Enter")
        await page.get_by_role("button", name="Todo").click()
        await expect(page.locator(".queue li")).to_be_visible()
        await look(page, "5-working")
        gate.set()
        await expect(page.get_by_role("button", name="Accept")).to_be_visible()
        await look(page, "6-result")
        await page.locator("#thread").focus()
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        await look(page, "7-keys")
        await page.keyboard.press("Escape")
        await page.keyboard.press(",")
        await expect(page.get_by_label("Change files in the workspace")).to_be_visible()
        await page.get_by_role("button", name="Add a profile").click()
        await look(page, "8-settings")
        await page.keyboard.press("Escape")
        if size == PHONE:
            await expect(page.get_by_role("button", name="New task")).to_be_hidden()
            await page.get_by_role("button", name="Tasks").click()
            await expect(page.get_by_role("button", name="New task")).to_be_visible()
            await look(page, "9-drawer")


async def test_a_chosen_theme_outlives_the_page(browser: Browser, tmp_path: Path) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    async with (
        ModelServer([]) as model,
        served(tmp_path, model) as server,
        opened(browser, server.link, color_scheme="light") as watched,
    ):
        page = watched.page
        await expect(page.get_by_role("button", name="Theme: auto")).to_be_visible()
        light = await page.evaluate(back)
        await page.get_by_role("button", name="Theme: auto").click()
        await page.get_by_role("button", name="Theme: light").click()
        await expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
        dark = await page.evaluate(back)
        assert dark != light
        await page.reload()
        await expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
        assert await page.evaluate(back) == dark


async def test_what_a_model_says_never_becomes_markup(browser: Browser, tmp_path: Path) -> None:
    turns = [
        Turn(say(HOSTILE), call("write_to_file", {"path": "x.html", "content": HOSTILE})),
        Turn(call("attempt_completion", {"result": HOSTILE})),
    ]
    asked: list[str] = []
    async with visit(browser, tmp_path, turns) as at:
        page = at.page
        page.on("request", lambda request: asked.append(request.url))
        await start_task(page, HOSTILE)
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.locator(".completion")).to_be_visible()
        await expect(page.get_by_text('<img src=x onerror="window.hurt = 1">').last).to_be_visible()
        made = ".row :is(script, style, iframe, object, form, [onerror], [onclick], [style])"
        assert await page.locator(made).count() == 0
        assert await page.locator(".row img").count() == 0
        assert await page.locator(".row a[href^=javascript]").count() == 0
        assert await page.evaluate("window.hurt") is None
        assert [url for url in asked if "example.org" in url] == []


async def test_of_a_long_task_only_what_is_in_sight_exists(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        ModelServer([]) as model,
        served(tmp_path, model) as server,
    ):
        write_long_task(server, rows=10_000)
        async with opened(browser, f"{server.link}&task=long") as watched:
            page = watched.page
            last = page.locator(".row", has_text="Row 9999 ")
            await expect(last).to_be_in_viewport()
            assert await page.locator(".row").count() < 100
            height = await page.locator("#thread").evaluate("thread => thread.scrollHeight")
            assert height > 10_000 * 20
            await page.locator("#thread").evaluate("thread => thread.scrollTop = 100_000")
            await expect(page.locator(".row").nth(10)).to_be_in_viewport()
            await expect(last).to_have_count(0)
            await page.get_by_role("button", name="Latest").click()
            await expect(last).to_be_in_viewport()
            await page.locator("#thread").hover()
            await page.mouse.wheel(0, -3000)
            await expect(page.get_by_role("button", name="Latest")).to_be_visible()
            await page.locator("#thread").focus()
            await page.keyboard.press("Home")
            await expect(page.locator(".row", has_text="Row 0 ")).to_be_in_viewport()
            assert await page.locator(".row").count() < 100
            await page.get_by_role("button", name="Latest").click()
            await expect(last).to_be_in_viewport()


async def test_settings_that_are_opened_without_a_connection_come_with_it(
    browser: Browser, tmp_path: Path
) -> None:
    async with visit(browser, tmp_path, []) as at:
        page = at.page
        at.watched.is_connection_lost = True
        await at.server.stop()
        await expect(page.get_by_text("Connection lost; reconnecting")).to_be_visible()
        await page.get_by_role("button", name="Settings").click()
        await at.server.start()
        await expect(page.get_by_label("Change files in the workspace")).to_be_visible()


async def test_settings_are_kept_and_a_key_never_comes_back(
    browser: Browser, tmp_path: Path
) -> None:
    async with visit(browser, tmp_path, []) as at:
        page = at.page
        await page.get_by_role("button", name="Settings").click()
        await page.get_by_label("Change files in the workspace").check()
        await page.get_by_label("Commands that may run").fill("git status\nls")
        await page.get_by_role("button", name="Add a profile").click()
        await page.get_by_label("Name").fill("mine")
        await page.get_by_label("Model").fill("some-model")
        await page.get_by_label("Key (").fill("sk-very-secret")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("button", name="Edit profile mine")).to_be_visible()
        await page.reload()
        await page.get_by_role("button", name="Settings").click()
        await expect(page.get_by_label("Change files in the workspace")).to_be_checked()
        await expect(page.get_by_label("Commands that may run")).to_have_value("git status\nls")
        await page.get_by_role("button", name="Edit profile mine").click()
        await expect(page.get_by_label("Model")).to_have_value("some-model")
        await expect(page.get_by_label("Key (")).to_have_value("")
        assert "sk-very-secret" not in await page.content()
