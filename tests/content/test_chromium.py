"""A real Chromium on pages that a real server gives out."""

from __future__ import annotations

import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from joey.content.browser import Chromium
from joey.core.events import TaskCompleted
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.errors import ArgumentError, IgnoredPathError, ToolError
from joey.ports.content import BrowserStep
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call
from joey.tools.base import Access, AvailabilityContext
from joey.tools.browser_action import BrowserAction
from joey.tools.registry import Registry, build_default_tools
from tests.harness.content.chromium import EXECUTABLE, Nothing, Opened, needs_chromium, use
from tests.harness.engine.engine_harness import EngineHarness, finish, wait_for_ask, wait_for_event
from tests.harness.tools.modes import MODEL, mode
from tests.harness.tools.tool_context import make_context
from tests.harness.tools.xml_calls import only_call

PAGE = b"""<!doctype html><title>t</title><body style="margin:0;height:3000px">
<button style="position:absolute;left:100px;top:100px;width:100px;height:50px"
 onclick="console.log('pressed at', event.clientX, event.clientY)">go</button>
<input style="position:absolute;left:100px;top:200px;width:200px" autofocus
 oninput="console.log('typed', this.value)" onkeydown="console.log('key', event.key)">
<script>console.warn('hello'); addEventListener('scroll', () => console.log('at', scrollY))</script>
"""


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def site() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
async def browser() -> AsyncIterator[Chromium]:
    chromium = Chromium(EXECUTABLE or "")
    yield chromium
    await chromium.close()


@needs_chromium
@pytest.mark.contract("tool:browser_action:success:steps")
async def test_a_page_is_opened_clicked_typed_into_and_scrolled(
    tmp_path: Path, site: str, browser: Chromium
) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=browser))
    opened = await use(ctx, action="launch", url=site)
    assert "[warning] hello" in opened.text
    assert "Browser viewport: 900x600" in opened.text
    assert opened.images[0].startswith("data:image/webp;base64,")
    clicked = await use(ctx, action="click", coordinate="300,250@1800x1200")
    assert "pressed at 150 125" in clicked.text
    assert "Cursor position: 150,125" in clicked.text
    await use(ctx, action="click", coordinate="150,210")
    assert "typed abc" in (await use(ctx, action="type", text="abc")).text
    assert "key Enter" in (await use(ctx, action="press", text="Enter")).text
    assert "at " in (await use(ctx, action="scroll_down")).text
    resized = await use(ctx, action="resize", size="500,400")
    assert "Browser viewport: 500x400" in resized.text
    saved = await use(ctx, action="screenshot", path="shots/page.png")
    assert "Screenshot saved to: shots/page.png" in saved.text
    assert (tmp_path / "work/shots/page.png").read_bytes().startswith(b"\x89PNG")
    closed = await use(ctx, action="close")
    assert "closed" in closed.text
    assert closed.images == ()
    assert not browser.is_open


@needs_chromium
@pytest.mark.contract("tool:browser_action:failure:unreachable")
async def test_an_address_that_nobody_serves_is_a_clear_failure(
    tmp_path: Path, browser: Chromium
) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=browser))
    with pytest.raises(ToolError, match=r"launch http://127\.0\.0\.1:9/ failed: .*REFUSED|UNSAFE"):
        await use(ctx, action="launch", url="http://127.0.0.1:9/")


@needs_chromium
async def test_a_browser_that_was_killed_can_be_launched_again(
    tmp_path: Path, site: str, browser: Chromium
) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=browser))
    before = set(psutil.Process().children(recursive=True))
    await use(ctx, action="launch", url=site)
    for process in set(psutil.Process().children(recursive=True)) - before:
        with suppress(psutil.NoSuchProcess):  # one takes others along
            if "chrom" in process.name():
                process.kill()
    with pytest.raises(ToolError):
        await use(ctx, action="click", coordinate="1,1")
    assert "hello" in (await use(ctx, action="launch", url=site)).text


@needs_chromium
async def test_nothing_is_left_running_after_the_browser_was_closed(
    tmp_path: Path, site: str
) -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    chromium = Chromium(EXECUTABLE or "")
    await chromium.perform(BrowserStep("launch", url=site))
    await chromium.close()
    left = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []


@pytest.mark.contract("tool:browser_action:approval")
async def test_only_opening_a_page_is_asked(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=Nothing()))
    tool = BrowserAction()
    launch = tool.parse({"action": "launch", "url": "example.org/x"})
    prepared = await tool.prepare(launch, ctx)
    assert prepared.ask_kind is AskKind.BROWSER_ACTION_LAUNCH
    assert prepared.row_text == "http://example.org/x"
    assert [claim.access for claim in prepared.claims] == [Access.BROWSER]


async def test_a_file_is_opened_only_where_it_may_be_read(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=Nothing()))
    (tmp_path / "work/.rooignore").write_text("hidden.html\n")
    tool = BrowserAction()
    outside = await tool.prepare(tool.parse({"action": "launch", "url": "file:///etc/passwd"}), ctx)
    assert [claim.access for claim in outside.claims] == [Access.BROWSER, Access.READ]
    assert outside.claims[1].path is not None
    assert not outside.claims[1].path.is_inside
    hidden = f"file://{tmp_path}/work/hidden.html"
    with pytest.raises(IgnoredPathError):
        await tool.prepare(tool.parse({"action": "launch", "url": hidden}), ctx)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "'action'"),
        ({"action": "launch"}, "'url'"),
        ({"action": "click"}, "'coordinate'"),
        ({"action": "type"}, "'text'"),
        ({"action": "resize"}, "'size'"),
        ({"action": "screenshot"}, "'path'"),
        ({"action": "dance"}, "wrong kind"),
        ({"action": "launch", "url": "ftp://example.org"}, "not ftp"),
        ({"action": "click", "coordinate": "1,1"}, "No page is open"),
    ],
)
async def test_a_step_that_makes_no_sense_is_refused_with_the_reason(
    tmp_path: Path, arguments: dict[str, Any], reason: str
) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=Nothing()))
    with pytest.raises(ToolError, match=reason):
        await use(ctx, **arguments)


@pytest.mark.contract("tool:browser_action:failure:bad-point")
@pytest.mark.parametrize("coordinate", ["here", "1;2", "1,2@x", "1,2,3"])
async def test_a_point_that_is_none_is_refused(tmp_path: Path, coordinate: str) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=Opened()))
    with pytest.raises(ArgumentError, match="x,y@WIDTHxHEIGHT"):
        await use(ctx, action="click", coordinate=coordinate)


@pytest.mark.contract("tool:browser_action:failure:screenshot")
@pytest.mark.parametrize("path", ["../out.png", "/tmp/out.png", "notes.txt"])
async def test_a_screenshot_stays_in_the_workspace_and_is_an_image(
    tmp_path: Path, path: str
) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=Opened()))
    with pytest.raises(ToolError):
        await use(ctx, action="screenshot", path=path)


@needs_chromium
async def test_a_task_opens_a_page_once_the_user_agrees(
    harness: EngineHarness, site: str, browser: Chromium
) -> None:
    harness.capabilities = Capabilities(browser=browser)
    task = await harness.start(
        Turn(call("browser_action", {"action": "launch", "url": site})),
        Turn(call("browser_action", {"action": "close"})),
        finish(),
    )
    ask = await wait_for_ask(task)
    assert (ask.ask, ask.text) == (AskKind.BROWSER_ACTION_LAUNCH, site)
    await task.approve()
    await wait_for_event(task, TaskCompleted)
    assert "[warning] hello" in str(task.messages)


@pytest.mark.contract("tool:browser_action:schema:offered")
def test_it_is_offered_where_there_is_a_browser_and_it_is_not_switched_off() -> None:
    registry = Registry(build_default_tools())

    def offered(settings: Settings, extras: Capabilities) -> bool:
        specs = registry.list_specs(mode("code"), AvailabilityContext(settings, MODEL, extras))
        return "browser_action" in {spec.name for spec in specs}

    assert offered(Settings(), Capabilities(browser=Nothing()))
    assert not offered(Settings(), Capabilities())
    assert not offered(Settings(browser_tool_enabled=False), Capabilities(browser=Nothing()))


@pytest.mark.contract("tool:browser_action:xml")
def test_a_step_is_understood_in_xml_too() -> None:
    call = only_call(
        "<browser_action>\n<action>click</action>\n<coordinate>1,2@9x6</coordinate>\n"
        "</browser_action>"
    )
    params = BrowserAction().parse(call.input)
    assert (params.action, params.coordinate) == ("click", "1,2@9x6")
