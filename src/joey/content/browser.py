"""Browser: Chromium, controlled through Playwright, with a fresh private context for each launch.

Playwright and the browser are started when a page is first opened, and stopped with the task. Pages
are not trusted: they can read only permitted files, and if one blocks a step, the browser is
stopped.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from joey.core.redaction import has_secret_name
from joey.errors import NoServerError, ToolError
from joey.ports.content import Browser, BrowserObservation, BrowserStep
from joey.ports.workspace import Files
from joey.system.subprocess import send_signal_to_group

if TYPE_CHECKING:
    from playwright.async_api import Browser as Process
    from playwright.async_api import BrowserContext, Page, Playwright, Route

_CHROMIUM_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
_CHROMIUM_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_INHERITED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
)
_INHERITED_PREFIXES = ("LC_", "XDG_", "FONTCONFIG_")
_DRIVER_VARIABLE_PREFIXES = ("PW_", "PLAYWRIGHT_")
_LOAD_TIMEOUT_MS = 15_000
_IDLE_TIMEOUT_MS = 3_000
STEP_TIMEOUT_S = 45
_CLOSE_TIMEOUT_S = 5
_SCROLL_SCRIPT = "by => window.scrollBy({top: by, behavior: 'instant'})"
_NEXT_FRAME_SCRIPT = (
    "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
)
_MAX_CONSOLE_LINES = 100
_MAX_CONSOLE_LINE_CHARS = 500
_MAX_PAGES = 10
_KEY_ALIASES = {
    "ctrl": "Control",
    "cmd": "Meta",
    "esc": "Escape",
    "return": "Enter",
    "del": "Delete",
}
_FILE_URL_RE = re.compile("^file:", re.IGNORECASE)

DEFAULT_VIEWPORT = (900, 600)


def parse_viewport(text: str) -> tuple[int, int]:
    """Parse `900x600`; the default if invalid."""
    found = re.fullmatch(r"(\d{2,5})x(\d{2,5})", text)
    return (int(found[1]), int(found[2])) if found else DEFAULT_VIEWPORT


def find_chromium(env: Mapping[str, str]) -> str | None:
    """Find a Chromium: `JOEY_CHROMIUM`, else one on the path; None without Playwright."""
    if find_spec("playwright") is None:
        return None
    if named := env.get("JOEY_CHROMIUM"):
        return named
    found = (shutil.which(name, path=env.get("PATH")) for name in _CHROMIUM_NAMES)
    return next((path for path in found if path and Path(path).is_absolute()), None)


class Chromium:
    def __init__(
        self,
        executable: str,
        viewport: tuple[int, int] = DEFAULT_VIEWPORT,
        files: Files | None = None,
    ) -> None:
        self._executable = executable
        self._viewport = viewport
        self._files = files
        self._browser_task: asyncio.Task[_RunningBrowser] | None = None
        self._context: BrowserContext | None = None
        self._page: Page | None = None
        self._opened_file: str | None = None
        self._cursor: tuple[int, int] | None = None
        self._console_lines: deque[str] = deque(maxlen=_MAX_CONSOLE_LINES)
        self._page_close_tasks: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._page is not None

    @property
    def viewport(self) -> tuple[int, int]:
        return self._viewport

    async def perform(self, step: BrowserStep) -> BrowserObservation:
        from playwright.async_api import Error

        async with self._lock:
            try:
                async with asyncio.timeout(STEP_TIMEOUT_S):
                    return await self._perform(step)
            except TimeoutError as error:
                await self._stop()
                raise ToolError(
                    f"{step.action} took longer than {STEP_TIMEOUT_S:g} seconds, so that the"
                    " browser was ended. Launch it again."
                ) from error
            except Error as error:
                is_refused = "net::ERR_CONNECTION_REFUSED" in str(error)
                kind = NoServerError if is_refused else ToolError
                raise kind(await self._describe_failure(step, error)) from error

    async def _perform(self, step: BrowserStep) -> BrowserObservation:
        if step.action == "close":
            await self._close_context()
            return BrowserObservation()
        if step.action == "launch":
            await self._launch(step.url)
        if self._page is None:
            raise ToolError("No page is open: begin with the action launch and a url.")
        await self._perform_action(self._page, step)
        return await self._capture_state(self._page, step)

    async def close(self) -> None:
        async with self._lock:
            await self._stop()

    async def _launch(self, url: str) -> None:
        await self._close_context()
        process = await self._ensure_process()
        width, height = self._viewport
        self._context = await process.new_context(
            viewport={"width": width, "height": height},
            accept_downloads=False,
            service_workers="block",
        )
        self._context.set_default_timeout(_LOAD_TIMEOUT_MS)
        self._opened_file = _parse_file_url(url)
        await self._context.route(_FILE_URL_RE, self._serve_file)
        self._context.on("page", self._track_page)
        self._track_page(await self._context.new_page())

    async def _ensure_process(self) -> Process:
        """Start the browser once, without interruption: cancelling a step leaves nothing
        half-started."""
        if self._has_died():
            await self._stop()
        if self._browser_task is None:
            self._browser_task = asyncio.create_task(_start_browser(self._executable))
        return (await asyncio.shield(self._browser_task)).process

    def _has_died(self) -> bool:
        started = self._browser_task
        return started is not None and started.done() and not _is_alive(started)

    async def _serve_file(self, route: Route) -> None:
        """Serve the requested file, and otherwise only readable files. The browser itself would
        open a file by name, which may be another file by then."""
        path = _parse_file_url(route.request.url)
        if path is not None and self._files is not None:
            data = await read_page_file(self._files, path, path == self._opened_file)
            if data is not None:
                import mimetypes  # reads files of the system

                kind = mimetypes.guess_type(path)[0] or "text/plain"
                await route.fulfill(body=data, content_type=kind)
                return
        self._log(f"[refused] {route.request.url}")
        await route.abort("accessdenied")

    def _track_page(self, page: Page) -> None:
        """Track a newly opened page; the latest one is shown."""
        if page is self._page:
            return
        if len(page.context.pages) > _MAX_PAGES:
            refusal = asyncio.ensure_future(page.close())
            self._page_close_tasks.add(refusal)
            refusal.add_done_callback(self._page_close_tasks.discard)
            return
        self._page = page
        page.on("console", lambda message: self._log(f"[{message.type}] {message.text}"))
        page.on("pageerror", lambda error: self._log(f"[Page Error] {error}"))
        page.on("close", self._untrack_page)

    def _untrack_page(self, page: Page) -> None:
        """Untrack a closed page; the one opened before it is shown again."""
        if page is self._page and self._context is not None:
            left = [other for other in self._context.pages if other is not page]
            self._page = left[-1] if left else None

    def _log(self, line: str) -> None:
        self._console_lines.append(line[:_MAX_CONSOLE_LINE_CHARS])

    async def _perform_action(self, page: Page, step: BrowserStep) -> None:
        match step.action:
            case "launch":
                await page.goto(step.url, wait_until="domcontentloaded", timeout=_LOAD_TIMEOUT_MS)
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
                await page.keyboard.press(
                    "+".join(_KEY_ALIASES.get(key.lower(), key) for key in keys)
                )
            case "scroll_down" | "scroll_up":
                sign = 1 if step.action == "scroll_down" else -1
                await page.evaluate(_SCROLL_SCRIPT, sign * self._viewport[1])
            case "resize":
                await page.set_viewport_size({"width": step.x, "height": step.y})
                self._viewport = (step.x, step.y)

    async def _capture_state(self, page: Page, step: BrowserStep) -> BrowserObservation:
        note = await _wait_until_idle(page)
        if self._page is None:
            raise ToolError("The page has closed itself. Launch another one.")
        page = self._page
        console = "\n".join(self._console_lines)
        self._console_lines.clear()
        return BrowserObservation(
            screenshot=await _take_screenshot(
                page, step.text if step.action == "screenshot" else "webp"
            ),
            console=console,
            url=page.url,
            cursor=self._cursor,
            note=note,
        )

    async def _describe_failure(self, step: BrowserStep, error: Exception) -> str:
        """Describe a failure in one line; a crashed browser is cleaned up and can be started
        again."""
        if self._has_died():
            await self._stop()
            return "The browser ended unexpectedly. Launch it again."
        about = f" {step.url}" if step.url else ""
        return f"{step.action}{about} failed: {str(error).strip().splitlines()[0]}"

    async def _close_context(self) -> None:
        context, self._context, self._page, self._cursor = self._context, None, None, None
        self._console_lines.clear()
        if context is None or self._browser_task is None or not _is_alive(self._browser_task):
            return
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await context.close()
        except TimeoutError:
            await self._stop()

    async def _stop(self) -> None:
        """Stop the browser, whatever its state."""
        self._context, self._page, self._cursor = None, None, None
        self._console_lines.clear()
        starting, self._browser_task = self._browser_task, None
        if starting is not None:
            await asyncio.shield(asyncio.ensure_future(_stop_browser(starting)))


async def read_page_file(files: Files, path: str, is_approved: bool) -> bytes | None:
    """Read a file that a page may show: a workspace file that the model may see (no directory
    listing), or the approved one unless it was replaced."""
    try:
        resolved = files.resolve(path)
        is_allowed = (
            resolved.path == Path(path)
            if is_approved
            else resolved.is_inside and not resolved.is_ignored
        )
        return await files.read(resolved) if is_allowed else None
    except ToolError:
        return None


class _RunningBrowser(NamedTuple):
    """Playwright and the browser that it controls."""

    playwright: Playwright
    process: Process
    process_group: int


async def _start_browser(executable: str) -> _RunningBrowser:
    from playwright.async_api import async_playwright

    env = {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED_VARIABLES
        or (name.startswith(_INHERITED_PREFIXES) and not has_secret_name(name))
    }
    _limit_driver_environment(env)
    playwright = await async_playwright().start()
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    try:
        process = await playwright.chromium.launch(
            executable_path=executable, args=[*_CHROMIUM_FLAGS, *root], env=dict(env)
        )
        session = await process.new_browser_cdp_session()
        facts = await session.send("SystemInfo.getProcessInfo")
    except BaseException:
        await playwright.stop()
        raise
    number = next(each["id"] for each in facts["processInfo"] if each["type"] == "browser")
    return _RunningBrowser(playwright, process, number)


def _limit_driver_environment(env: Mapping[str, str]) -> None:
    """Limit the environment of the driver: Playwright gives it joey's whole environment, keys
    included, and has no option for another."""
    from playwright._impl import transport

    given = getattr(transport, "get_driver_env", None)
    if given is None:
        raise ToolError("This version of Playwright cannot be used: install 1.65.")
    own = {
        name: value for name, value in given().items() if name.startswith(_DRIVER_VARIABLE_PREFIXES)
    }
    vars(transport)["get_driver_env"] = lambda: {**env, **own}


async def _stop_browser(starting: asyncio.Task[_RunningBrowser]) -> None:
    """Stop a browser, which would take half a minute to exit by itself if a page keeps it busy."""
    from playwright.async_api import Error

    try:
        engine = await starting
    except Error:
        return  # it never started, and has cleaned up itself
    if engine.process.is_connected():
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await engine.process.close()
    if engine.process.is_connected():
        send_signal_to_group(engine.process_group, signal.SIGKILL)
    await engine.playwright.stop()


def _is_alive(starting: asyncio.Task[_RunningBrowser]) -> bool:
    if not starting.done() or starting.cancelled() or starting.exception() is not None:
        return False
    return starting.result().process.is_connected()


def _parse_file_url(url: str) -> str | None:
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else None


async def _wait_until_idle(page: Page) -> str:
    """Wait until the page is idle; return a note if it is not, else ""."""
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as StillBusyError

    for _ in range(2):
        try:
            await page.wait_for_load_state("networkidle", timeout=_IDLE_TIMEOUT_MS)
            await page.evaluate(_NEXT_FRAME_SCRIPT)
        except StillBusyError:
            break
        except Error:
            if page.is_closed():
                return ""
            continue  # the step led to another page
        return ""
    return "The page is still loading."


async def _take_screenshot(page: Page, format: str) -> str:
    """Return a screenshot as a data URI. Only the browser itself can encode WebP, the smallest
    format."""
    session = await page.context.new_cdp_session(page)
    try:
        wanted = {"format": format} if format == "png" else {"format": format, "quality": 75}
        shot = await session.send("Page.captureScreenshot", wanted)
    finally:
        await session.detach()
    return f"data:image/{format};base64,{shot['data']}"


_protocol_check: type[Browser] = Chromium
