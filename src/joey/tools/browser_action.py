"""The `browser_action` tool: one step in a browser, answered with a screenshot."""

from __future__ import annotations

import base64
from pathlib import PurePath
from typing import Annotated, Any, ClassVar
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
from msgspec import Meta, Struct

from joey.core.modes import ToolGroup
from joey.core.path_access import ResolvedPath
from joey.core.task_types import Answer, AskKind, RowKind
from joey.core.text import compile_regex
from joey.errors import ArgumentError, IgnoredPathError, NoServerError, ToolError
from joey.ports.content import Browser, BrowserActionName, BrowserObservation, BrowserStep
from joey.ports.execution import SandboxLevel
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
    refuse_private_path,
)
from joey.tools.parameters import build_missing_parameter_error

_COORDINATE_RE = compile_regex(
    r"\s*(-?\d{1,6})\s*,\s*(-?\d{1,6})\s*(?:@\s*(\d{1,5})\s*[x,]\s*(\d{1,5})\s*)?"
)
_SIZE_RE = compile_regex(r"\s*(\d{2,5})\s*[x,]\s*(\d{2,5})\s*")
_DECEPTIVE_URL_CHARS_RE = compile_regex(r"[\x00-\x20\x7f\\]")
MAX_VIEWPORT_SIDE_PX = 4000
_SCREENSHOT_FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}
_REQUIRED_PARAMETER_BY_ACTION = {
    "launch": "url",
    "click": "coordinate",
    "hover": "coordinate",
    "type": "text",
    "press": "text",
    "resize": "size",
    "screenshot": "path",
}


class BrowserActionParams(Struct, frozen=True):
    action: Annotated[BrowserActionName, Meta(description="What to do.")]
    url: Annotated[str | None, Meta(description="launch: the address to open.")] = None
    coordinate: Annotated[
        str | None,
        Meta(
            description="click, hover: the point as `x,y@WIDTHxHEIGHT`, measured in the latest"
            " picture, which is WIDTH by HEIGHT."
        ),
    ] = None
    size: Annotated[str | None, Meta(description="resize: `width,height` of the page.")] = None
    text: Annotated[
        str | None,
        Meta(description="type: the text. press: a key such as Enter, or several: Control+a."),
    ] = None
    path: Annotated[
        str | None, Meta(description="screenshot: the file to save it in (.png, .jpeg, .webp).")
    ] = None


class PreparedBrowserStep(PreparedToolCall, frozen=True, kw_only=True):
    step: BrowserStep
    screenshot_path: ResolvedPath | None = None


class BrowserAction(Tool[BrowserActionParams, PreparedBrowserStep]):
    name: ClassVar[str] = "browser_action"
    group: ClassVar[ToolGroup] = ToolGroup.BROWSER
    params: ClassVar[type[Struct]] = BrowserActionParams
    strict: ClassVar[bool] = False

    def is_offered(self, context: AvailabilityContext) -> bool:
        return (
            context.capabilities.browser is not None
            and context.settings.browser_tool_enabled
            and context.model.supports_images
        )

    def parse(self, arguments: dict[str, Any]) -> BrowserActionParams:
        params = super().parse(arguments)
        needed = _REQUIRED_PARAMETER_BY_ACTION.get(params.action)
        if needed is not None and not getattr(params, needed):
            raise build_missing_parameter_error(self.name, needed)
        return params

    async def prepare(self, params: BrowserActionParams, ctx: ToolContext) -> PreparedBrowserStep:
        browser = _require_browser(ctx)
        if params.action == "launch":
            return _prepare_launch(params.url or "", ctx)
        if not browser.is_open and params.action != "close":
            raise ToolError("No page is open: begin with the action launch and a url.")
        if params.action == "screenshot":
            return _prepare_screenshot(params.path or "", ctx)
        step = _build_step(params, browser.viewport)
        row: dict[str, Any] = {"tool": "browserAction", "action": params.action}
        if params.action in ("click", "hover"):
            row["coordinate"] = f"{step.x},{step.y}"
        if step.text:
            row["text"] = step.text
        return PreparedBrowserStep(claims=(Claim(Access.NONE),), row=row, step=step)

    async def run_prepared(
        self, prepared: PreparedBrowserStep, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        browser = _require_browser(ctx)
        try:
            observation = await browser.perform(prepared.step)
        except NoServerError as error:
            if not await _is_command_network_separate(ctx):
                raise
            raise ToolError(f"{error}\n{_SEPARATE_NETWORK_NOTE}") from error
        if prepared.step.action == "close":
            return Outcome("The browser is closed.")
        if prepared.screenshot_path is not None:
            if observation.screenshot is None:
                raise ToolError("The browser gave no picture.")
            data = base64.b64decode(observation.screenshot.partition(",")[2])
            await ctx.files.write(prepared.screenshot_path, data)
        seen = {
            "screenshot": observation.screenshot,
            "logs": observation.console,
            "currentUrl": observation.url,
            "currentMousePosition": ",".join(map(str, observation.cursor))
            if observation.cursor
            else None,
        }
        return Outcome(
            _format_result(prepared, observation, browser.viewport),
            images=(observation.screenshot,)
            if observation.screenshot and ctx.model.supports_images
            else (),
            rows=((RowKind.BROWSER_ACTION_RESULT, msgspec.json.encode(seen).decode()),),
        )


def _prepare_launch(url: str, ctx: ToolContext) -> PreparedBrowserStep:
    """Prepare a launch; a file is shown only if it may also be read."""
    parts = _split_url(url)
    claims: tuple[Claim, ...] = ()
    match parts.scheme:
        case "http" | "https" if parts.hostname:
            address = parts.geturl()
        case "file":
            path = ctx.files.resolve(unquote(parts.path))
            if path.is_ignored:
                raise IgnoredPathError(url, path.ignore_error)
            refuse_private_path(ctx, path)
            claims = (Claim(Access.READ, path=path),)
            # The browser parses paths differently, so it gets exactly the approved file.
            behind = SplitResult("", "", "", parts.query, parts.fragment).geturl()
            address = f"{path.path.as_uri()}{behind}"
        case "http" | "https":
            raise ArgumentError(f"The address {url!r} names no host.")
        case other:
            raise ArgumentError(f"Only http, https and file addresses can be opened, not {other}.")
    return PreparedBrowserStep(
        claims=(Claim(Access.BROWSER, subject=address), *claims),
        row={},
        row_text=address,
        ask_kind=AskKind.BROWSER_ACTION_LAUNCH,
        step=BrowserStep("launch", url=address),
    )


def _split_url(url: str) -> SplitResult:
    """Split a URL. Raises ArgumentError if it is invalid, or browsers read it differently than it
    looks."""
    if _DECEPTIVE_URL_CHARS_RE.search(url):
        raise ArgumentError(f"The address {url!r} has characters that no address has.")
    try:
        return urlsplit(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise ArgumentError(f"{url!r} is not an address: {error}.") from error


def _prepare_screenshot(path: str, ctx: ToolContext) -> PreparedBrowserStep:
    resolved_path = ctx.files.resolve(path)
    format = _SCREENSHOT_FORMATS.get(PurePath(path).suffix.lower())
    if format is None:
        raise ArgumentError(f"A screenshot is saved as .png, .jpeg or .webp, not as {path}.")
    if not resolved_path.is_inside:
        raise ToolError(f"A screenshot stays inside of the workspace; {path} does not.")
    if resolved_path.is_ignored:
        raise IgnoredPathError(path, resolved_path.ignore_error)
    grant = ctx.mode.find_grant(ToolGroup.EDIT)
    if grant is None or not grant.covers(resolved_path.display_path):
        raise ToolError(
            f"{ctx.mode.name} mode may not change {resolved_path.display_path}, so no screenshot "
            "is saved there. The picture that comes with every step can be looked at without a "
            "file."
        )
    return PreparedBrowserStep(
        claims=(Claim(Access.WRITE, path=resolved_path),),
        row={
            "tool": "browserAction",
            "action": "screenshot",
            "path": resolved_path.display_path,
            "isProtected": resolved_path.is_protected,
        },
        path=resolved_path.display_path,
        step=BrowserStep("screenshot", text=format),
        screenshot_path=resolved_path,
    )


def _build_step(params: BrowserActionParams, viewport: tuple[int, int]) -> BrowserStep:
    match params.action:
        case "click" | "hover":
            x, y = _parse_point(params.coordinate or "", viewport)
            return BrowserStep(params.action, x=x, y=y)
        case "resize":
            found = _SIZE_RE.fullmatch(params.size or "")
            if found is None:
                raise ArgumentError(f"The size must be `width,height`, not {params.size!r}.")
            width, height = int(found[1]), int(found[2])
            if max(width, height) > MAX_VIEWPORT_SIDE_PX:
                raise ArgumentError(f"Width and height may be at most {MAX_VIEWPORT_SIDE_PX}.")
            return BrowserStep("resize", x=width, y=height)
    return BrowserStep(params.action, text=params.text or "")


def _parse_point(given: str, viewport: tuple[int, int]) -> tuple[int, int]:
    """Convert a point of the image into a point of the page."""
    found = _COORDINATE_RE.fullmatch(given)
    if found is None:
        raise ArgumentError(
            f"The coordinate must be `x,y@WIDTHxHEIGHT`, as in 450,300@900x600, not {given!r}."
        )
    x, y = int(found[1]), int(found[2])
    if found[3] and int(found[3]) and int(found[4]):
        x = round(x * viewport[0] / int(found[3]))
        y = round(y * viewport[1] / int(found[4]))
    return x, y


def _format_result(
    prepared: PreparedBrowserStep, observation: BrowserObservation, viewport: tuple[int, int]
) -> str:
    width, height = viewport
    did = (
        f"Screenshot saved to: {prepared.screenshot_path.display_path}"
        if prepared.screenshot_path is not None
        else f"The step {prepared.step.action} was carried out; the picture shows the page now."
    )
    cursor = (
        f"{observation.cursor[0]},{observation.cursor[1]}"
        if observation.cursor
        else "not on the page yet"
    )
    return "\n".join(
        [
            *[line for line in (did, observation.note) if line],
            f"Page: {observation.url}",
            f"Give coordinates as x,y@{width}x{height}, measured in the picture.",
            f"Browser viewport: {width}x{height}",
            f"Cursor position: {cursor}",
            f"Console logs:\n{observation.console or '(No new logs)'}",
        ]
    )


_SEPARATE_NETWORK_NOTE = (
    "The browser does not share the network of sandboxed commands: a server that a command started"
    " can be reached only by commands, such as curl. To see a page, save it in the workspace and"
    " launch its file:// address."
)


async def _is_command_network_separate(ctx: ToolContext) -> bool:
    report = await ctx.terminal.get_sandbox_report()
    is_full = report is not None and report.level is SandboxLevel.FULL
    return is_full and ctx.settings.sandbox_network != "all"


def _require_browser(ctx: ToolContext) -> Browser:
    if ctx.capabilities.browser is None:
        raise ToolError("There is no browser here: Chromium and Playwright are needed for it.")
    return ctx.capabilities.browser
