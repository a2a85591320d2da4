"""joey's page in a real browser: `joey serve` as a process, a scripted model, Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
from asyncio.subprocess import STDOUT, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from joey.testing.script import Turn
from joey.testing.server import ModelServer, TurnSelector
from tests.harness.fork_server import start_process
from tests.harness.paths import ROOT

pytest.importorskip("playwright", reason="the page's tests need playwright")

from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Page,
    WebSocketRoute,
    async_playwright,
    expect,
)

__all__ = ["Browser", "Page", "WebSocketRoute", "expect"]
"""Handed on: whoever tests the page needs them, and imports them behind the check above."""

PAGE = ROOT / "src" / "joey" / "server" / "web" / "index.html"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
TOKEN = "a-token-for-tests-0123456789"
TIMEOUT_S = 45
DESKTOP = (1280, 800)
PHONE = (390, 780)
SCROLL_POSITION_JS = """thread => new Promise(tell => {
    const look = before => thread.scrollTop === before
        ? tell(before)
        : setTimeout(look, 200, thread.scrollTop);
    look();
})"""
"""How far it is scrolled, once a wheel that was turned has come to rest."""

expect.set_options(timeout=TIMEOUT_S * 1000)

needs_browser = pytest.mark.skipif(
    not CHROMIUM or not PAGE.exists(),
    reason="no Chromium on the PATH" if not CHROMIUM else "the page is not built: run `make web`",
)


class Served:
    """A `joey serve` of its own, which may be stopped and started again at the same address."""

    def __init__(self, root: Path, model_url: str) -> None:
        self.home = root / "joey-home"
        self.workspace = root / "work"
        self.workspace.mkdir(exist_ok=True)
        self.port = _free_port()
        self.model_url = model_url
        self.printed_link = ""
        """Works once."""
        self._process: Process | None = None
        self._output: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def link(self) -> str:
        return f"{self.url}#token={TOKEN}"

    async def start(self) -> None:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "JOEY_HOME": str(self.home),
            "JOEY_TOKEN": TOKEN,
            "ANTHROPIC_API_KEY": "x",
            "ANTHROPIC_BASE_URL": self.model_url,
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "error",
        }
        self._process = await start_process(
            "serve", "--port", str(self.port), env=env, cwd=self.workspace, stderr=STDOUT
        )
        assert self._process.stdout is not None
        said = b""
        async with asyncio.timeout(TIMEOUT_S):
            while not (link := re.search(rb"http://127\.0\.0\.1:\d+/#code=[\w-]+", said)):
                line = await self._process.stdout.readline()
                assert line, f"joey serve ended: {said.decode()}"
                said += line
        self.printed_link = link[0].decode()
        self._output = asyncio.create_task(_drain(self._process.stdout))

    async def stop(self) -> None:
        assert self._process is not None
        assert self._output is not None
        self._process.terminate()
        async with asyncio.timeout(TIMEOUT_S):
            await self._process.wait()
            await self._output


class WatchedPage:
    """A page that remembers every error its console has shown."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.is_connection_lost = False
        """The server is stopped on purpose: requests and WebSockets that fail are expected."""
        page.on("console", self._record_error)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _record_error(self, message: ConsoleMessage) -> None:
        is_expected = self.is_connection_lost and any(
            text in message.text for text in ("WebSocket", "net::ERR_CONNECTION", "net::ERR_EMPTY")
        )
        if message.type in ("error", "warning") and not is_expected:
            self.errors.append(f"{message.text} ({message.location})")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def served(root: Path, model: ModelServer) -> AsyncIterator[Served]:
    server = Served(root, model.url)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def opened(
    browser: Browser, address: str, size: tuple[int, int] = DESKTOP, **options: Any
) -> AsyncIterator[WatchedPage]:
    """A page in a context of its own, at an address; its console must stay clean."""
    width, height = size
    context = await browser.new_context(viewport={"width": width, "height": height}, **options)
    page = await context.new_page()
    page.set_default_timeout(TIMEOUT_S * 1000)
    watched = WatchedPage(page)
    await page.goto(address)
    try:
        yield watched
        assert not watched.errors, watched.errors
    finally:
        await context.close()


class Visit(Struct, frozen=True):
    model: ModelServer
    server: Served
    watched: WatchedPage

    @property
    def page(self) -> Page:
        return self.watched.page


@asynccontextmanager
async def visit(
    browser: Browser,
    root: Path,
    turns: Sequence[Turn] | TurnSelector,
    task: str | None = None,
    size: tuple[int, int] = DESKTOP,
    **options: Any,
) -> AsyncIterator[Visit]:
    """Somebody who is logged in at a server of their own, and has perhaps started a task."""
    async with (
        ModelServer(turns) as model,
        served(root, model) as server,
        opened(browser, server.link, size, **options) as watched,
    ):
        await watched.page.wait_for_url(server.url)  # without the code, when the page is logged in
        if task is not None:
            await start_task(watched.page, task)
        yield Visit(model, server, watched)


def status(page: Page) -> Any:
    """What is said about the state of the open task."""
    return expect(page.locator(".header .status"))


async def capture_view(page: Page, screenshot: Path) -> None:
    """Keep an image of a view, which keeps nobody out and is not wider than the screen."""
    await page.screenshot(path=screenshot)
    await _check_access(page, screenshot.stem)
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (
        f"{screenshot.stem} is wider than the screen"
    )


async def _check_access(page: Page, view: str) -> None:
    """Nothing that keeps people out, as far as a program can tell."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run `make web`")
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    found = await page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then(result => result.violations"
        ".filter(problem => ['serious', 'critical'].includes(problem.impact))"
        ".map(problem => `${problem.id}: ${problem.nodes.map(node => node.html).join(' | ')}`))"
    )
    assert found == [], f"{view}: {found}"


async def start_task(page: Page, text: str) -> None:
    field = page.get_by_label("The new task")
    await field.fill(text)
    await expect(page.get_by_role("button", name="Start")).to_be_enabled()
    await field.press("Enter")


def write_long_task(server: Served, rows: int) -> None:
    """A task as another program left it."""
    directory = server.home / "tasks" / "task_long"
    directory.mkdir(parents=True)
    written = [
        {
            "ts": 1_700_000_000_000 + number,
            "type": "say",
            "say": "text",
            "text": f"Row {number} " + "and words " * (number % 40),
        }
        for number in range(rows)
    ]
    (directory / "ui_messages.json").write_text(json.dumps(written), encoding="utf-8")
    messages = [{"role": "user", "content": [{"type": "text", "text": "<task>\nBe long\n</task>"}]}]
    (directory / "api_conversation_history.json").write_text(json.dumps(messages), encoding="utf-8")


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
