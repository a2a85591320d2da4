"""Chromium, steered through Playwright: one fresh, private context for each launch.

Playwright and the browser are started when a page is first opened, and end with the task.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from joey.errors import ToolError
from joey.ports import Browser, BrowserLook, BrowserStep

if TYPE_CHECKING:
    from playwright.async_api import Browser as Process
    from playwright.async_api import BrowserContext, ConsoleMessage, Error, Page, Playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
_LOADING_MS = 15_000
_SETTLING_MS = 3_000
_SCROLL = "by => window.scrollBy({top: by, behavior: 'instant'})"
_NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
_MOST_LINES = 100
_LONGEST_LINE = 500
_KEYS = {"ctrl": "Control", "cmd": "Meta", "esc": "Escape", "return": "Enter", "del": "Delete"}


DEFAULT_VIEWPORT = (900, 600)


def viewport_size(text: str) -> tuple[int, int]:
    """`900x600` as numbers; the default where it is something else."""
    found = re.fullmatch(r"(\d{2,5})x(\d{2,5})", text)
    return (int(found[1]), int(found[2])) if found else DEFAULT_VIEWPORT


def find_chromium(env: Mapping[str, str]) -> str | None:
    """A Chromium that can be steered: `JOEY_CHROMIUM`, else one on the path; None without
    Playwright."""
    if find_spec("playwright") is None:
        return None
    if named := env.get("JOEY_CHROMIUM"):
        return named
    found = (shutil.which(name, path=env.get("PATH")) for name in _NAMES)
    return next((path for path in found if path), None)


class Chromium:
    def __init__(self, executable: str, viewport: tuple[int, int] = DEFAULT_VIEWPORT) -> None:
        self._executable = executable
        self._viewport = viewport
        self._playwright: Playwright | None = None
        self._process: Process | None = None
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._cursor: tuple[int, int] | None = None
        self._console: deque[str] = deque(maxlen=_MOST_LINES)
        self._lock = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._page is not None

    @property
    def viewport(self) -> tuple[int, int]:
        return self._viewport

    async def do(self, step: BrowserStep) -> BrowserLook:
        from playwright.async_api import Error

        async with self._lock:
            try:
                if step.action == "close":
                    await self._leave()
                    return BrowserLook()
                if step.action == "launch":
                    await self._launch()
                if self._page is None:
                    raise ToolError("No page is open: begin with the action launch and a url.")
                await self._act(self._page, step)
                return await self._look(self._page, step)
            except Error as error:
                raise ToolError(await self._reason(step, error)) from error

    async def close(self) -> None:
        async with self._lock:
            await self._stop()

    async def _launch(self) -> None:
        await self._leave()
        if self._process is None or not self._process.is_connected():
            await self._stop()
            await self._start()
        assert self._process is not None
        width, height = self._viewport
        self._context = await self._process.new_context(
            viewport={"width": width, "height": height}, accept_downloads=False
        )
        self._context.set_default_timeout(_LOADING_MS)
        self._context.on("page", self._take_page)
        self._take_page(await self._context.new_page())

    async def _start(self) -> None:
        from playwright.async_api import async_playwright

        self._playwright = await async_playwright().start()
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        self._process = await self._playwright.chromium.launch(
            executable_path=self._executable, args=[*_QUIET, *root]
        )

    def _take_page(self, page: Page) -> None:
        """A page that was opened, by us or by another page, is the one that is looked at."""
        if page is self._page:
            return
        self._page = page
        page.on("console", self._hear)
        page.on("pageerror", self._hear_error)

    def _hear(self, message: ConsoleMessage) -> None:
        self._console.append(f"[{message.type}] {message.text}"[:_LONGEST_LINE])

    def _hear_error(self, error: Error) -> None:
        self._console.append(f"[Page Error] {error}"[:_LONGEST_LINE])

    async def _act(self, page: Page, step: BrowserStep) -> None:
        match step.action:
            case "launch":
                await page.goto(step.url, wait_until="domcontentloaded", timeout=_LOADING_MS)
            case "click":
                self._cursor = (step.x, step.y)
                await page.mouse.click(step.x, step.y)
            case "hover":
                self._cursor = (step.x, step.y)
                await page.mouse.move(step.x, step.y)
            case "type":
                await page.keyboard.type(step.text)
            case "press":
                keys = (key.strip() for key in step.text.split("+"))
                await page.keyboard.press("+".join(_KEYS.get(key.lower(), key) for key in keys))
            case "scroll_down" | "scroll_up":
                sign = 1 if step.action == "scroll_down" else -1
                await page.evaluate(_SCROLL, sign * self._viewport[1])
            case "resize":
                self._viewport = (step.x, step.y)
                await page.set_viewport_size({"width": step.x, "height": step.y})

    async def _look(self, page: Page, step: BrowserStep) -> BrowserLook:
        note = await _settled(page)
        page = self._page or page
        console = "\n".join(self._console)
        self._console.clear()
        return BrowserLook(
            screenshot=await _picture(page, step.text if step.action == "screenshot" else "webp"),
            console=console,
            url=page.url,
            cursor=self._cursor,
            note=note,
        )

    async def _reason(self, step: BrowserStep, error: Exception) -> str:
        """What went wrong, in a line; a browser that died is put away and can start anew."""
        if self._process is not None and not self._process.is_connected():
            await self._stop()
            return "The browser ended unexpectedly. Launch it again."
        about = f" {step.url}" if step.url else ""
        return f"{step.action}{about} failed: {str(error).strip().splitlines()[0]}"

    async def _leave(self) -> None:
        context, self._context, self._page, self._cursor = self._context, None, None, None
        self._console.clear()
        if context is not None and self._process is not None and self._process.is_connected():
            await context.close()

    async def _stop(self) -> None:
        await self._leave()
        process, self._process = self._process, None
        playwright, self._playwright = self._playwright, None
        if process is not None and process.is_connected():
            await process.close()
        if playwright is not None:
            await playwright.stop()


async def _settled(page: Page) -> str:
    """Wait for the page to come to rest; empty, or a note that it has not."""
    from playwright.async_api import TimeoutError as StillBusyError

    try:
        await page.wait_for_load_state("networkidle", timeout=_SETTLING_MS)
        await page.evaluate(_NEXT_FRAME)
    except StillBusyError:
        return "The page is still loading."
    return ""


async def _picture(page: Page, format: str) -> str:
    """The page as it looks, as a data URI. WebP, the smallest, only the browser itself makes."""
    session = await page.context.new_cdp_session(page)
    try:
        wanted = {"format": format} if format == "png" else {"format": format, "quality": 75}
        shot = await session.send("Page.captureScreenshot", wanted)
    finally:
        await session.detach()
    return f"data:image/{format};base64,{shot['data']}"


_fits: type[Browser] = Chromium
