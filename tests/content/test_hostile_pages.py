"""Pages that reach for more than they were given, or do not let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from joey.content import browser
from joey.content.browser import Chromium
from joey.core.modes import find_mode
from joey.errors import ArgumentError, ToolError
from joey.ports.content import BrowserObservation, BrowserStep
from joey.ports.tool_context import Capabilities
from joey.tools.browser_action import BrowserAction, PreparedBrowserStep
from joey.workspace.files import LocalFiles
from tests.harness.content.chromium import EXECUTABLE, Opened, needs_chromium, use
from tests.harness.counts import daily
from tests.harness.tools.tool_context import make_context


class Pages:
    def __init__(self, root: Path) -> None:
        self.directory = root / "work"
        self.directory.mkdir()
        (root / "secret.html").write_text("<script>console.log('the secret')</script>")
        self.secret = (root / "secret.html").as_uri()
        self.browser = Chromium(EXECUTABLE or "", files=LocalFiles(self.directory))

    async def open(self, html: str, name: str = "page.html") -> BrowserObservation:
        (self.directory / name).write_text(html)
        return await self.browser.perform(
            BrowserStep("launch", url=(self.directory / name).as_uri())
        )


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    pages = Pages(tmp_path)
    yield pages
    await pages.browser.close()


@needs_chromium
async def test_a_page_shows_no_file_from_outside(pages: Pages) -> None:
    for number, html in enumerate(
        (
            "<iframe src='{}'></iframe>",
            "<script>location = '{}'</script>",
            "<meta http-equiv=refresh content='0;url={}'>",
            "<script>open('{}')</script>",
        )
    ):
        look = await pages.open(html.format(pages.secret), f"page{number}.html")
        assert "the secret" not in look.console, html
        assert "[refused] file:///" in look.console, html


@needs_chromium
async def test_a_click_that_leads_to_another_page_shows_it(pages: Pages) -> None:
    (pages.directory / "next.html").write_text("<script>console.log('arrived')</script>")
    await pages.open("<a href=next.html style='position:fixed;inset:0'>go</a>")
    look = await pages.browser.perform(BrowserStep("click", x=50, y=50))
    assert look.url.endswith("/next.html")
    assert "arrived" in look.console


@needs_chromium
async def test_when_a_window_closes_itself_the_one_before_is_seen_again(pages: Pages) -> None:
    await pages.open("<script>let other = open('about:blank')</script>")
    (opener, popup) = pages.browser._context.pages  # type: ignore[union-attr]
    async with popup.expect_event("close"):
        await opener.evaluate("other.close()")
    look = await pages.browser.perform(BrowserStep("hover", x=1, y=1))
    assert look.url.endswith("/page.html")


@needs_chromium
@pytest.mark.shortened
async def test_windows_do_not_pile_up(pages: Pages) -> None:
    many = daily(16, 40)
    await pages.open(f"<script>for (let i = 0; i < {many}; i++) open('about:blank')</script>")
    await pages.browser.perform(BrowserStep("hover", x=1, y=1))
    assert len(pages.browser._context.pages) <= 11  # type: ignore[union-attr]


@needs_chromium
async def test_a_page_that_never_lets_go_costs_the_browser_and_not_the_task(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pages.open("<p>quiet")
    monkeypatch.setattr(browser, "STEP_TIMEOUT_S", 2)
    with pytest.raises(ToolError, match="Launch it again"):
        await pages.open("<script>setTimeout(() => { for (;;) {} }, 100)</script>")
    monkeypatch.undo()
    assert not pages.browser.is_open
    assert (await pages.open("<p>quiet")).url.endswith("/page.html")


@needs_chromium
async def test_cancelling_a_start_leaves_nothing_running(pages: Pages) -> None:
    before = set(psutil.Process().children(recursive=True))
    launching = asyncio.create_task(pages.open("<p>quiet"))
    async with asyncio.timeout(30):
        while not set(psutil.Process().children(recursive=True)) - before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    launching.cancel()
    await asyncio.wait([launching])
    await pages.browser.close()
    left = set(psutil.Process().children(recursive=True)) - before
    _, alive = await asyncio.to_thread(psutil.wait_procs, list(left), 10)
    assert alive == []


@needs_chromium
async def test_the_browser_gets_no_keys(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the key")
    before = set(psutil.Process().children())
    await pages.open("<p>quiet")
    # Those that the browser starts in turn may be gone before they are looked at.
    nodes = set(psutil.Process().children()) - before
    browsers = [p for node in nodes for p in node.children() if "chrom" in p.name()]
    assert browsers
    assert all("ANTHROPIC_API_KEY" not in process.environ() for process in browsers[:1])


async def prepared(tmp_path: Path, mode: str = "code", **arguments: Any) -> PreparedBrowserStep:
    wanted = find_mode(mode)
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=Opened()), mode=wanted)
    tool = BrowserAction()
    return await tool.prepare(tool.parse(arguments), ctx)


async def test_what_is_decided_about_a_file_is_decided_about_what_is_opened(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/link.html").symlink_to("/etc/passwd")
    step = await prepared(tmp_path, action="launch", url=f"file://{tmp_path}/work/link.html?a#b")
    assert step.step.url == step.row_text == "file:///etc/passwd?a#b"
    assert step.claims[1].path is not None
    assert not step.claims[1].path.is_inside


@pytest.mark.parametrize(
    "url",
    [
        "file:///work/x\\..\\..\\etc/passwd",
        "http://good.org\\@evil.org/",
        "http://a\tb/",
        "http://[x",
        "https:///nowhere",
    ],
)
async def test_an_address_that_can_be_read_in_two_ways_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ArgumentError):
        await prepared(tmp_path, action="launch", url=url)


@pytest.mark.parametrize("mode", ["ask", "architect"])
async def test_a_screenshot_is_saved_only_where_the_mode_may_write(
    tmp_path: Path, mode: str
) -> None:
    assert await prepared(tmp_path, action="screenshot", path="logo.png")
    with pytest.raises(ToolError, match=r"may not change logo\.png"):
        await prepared(tmp_path, mode, action="screenshot", path="logo.png")


async def test_a_page_does_not_grow_without_end(tmp_path: Path) -> None:
    ctx = make_context(tmp_path, capabilities=Capabilities(browser=Opened()))
    with pytest.raises(ArgumentError, match="at most 4000"):
        await use(ctx, action="resize", size="99999,99999")
