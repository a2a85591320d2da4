"""Connection to one MCP server: its start, its answers and errors, its restart when it dies.

The MCP library takes a second to import, so it is loaded when the first server is started:
`session`, `transports`, `message_limits` and `oauth` import it at the top, and all other modules of
this package reach them through `load`.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from joey.core.mcp import McpResult, McpServer, McpStatus, McpTool
from joey.errors import ToolError
from joey.mcp.config import ServerConfig, without
from joey.mcp.login import Credentials
from joey.mcp.process import ErrorContext, StderrTail, closed, describe_error
from joey.mcp.trust import ToolPins, wanted_of
from joey.system.files import FileFingerprint, stamp

if TYPE_CHECKING:
    from joey.mcp.session import McpSession


log = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
MAX_RESTART_DELAY_S = 60.0
MAX_CONSECUTIVE_FAILURES = 8
"""In a row; after that only a change of its settings starts it again."""
STABLE_AFTER_S = 60.0
"""Seconds after which a connection that ends was a good one."""
_RELIST_INTERVAL_S = 0.2
"""Seconds between two looks at a server that says that its tools changed."""
_STOP_TIMEOUT_S = 3.0
_BUILD_OUTPUT_PATH = "build/index.js"


class HubContext(Struct, frozen=True, kw_only=True):
    """What all servers of a workspace share."""

    home: Path
    workspace: Path
    environment: Mapping[str, str]
    """What a server may see of ours."""
    trusts: Callable[[Mapping[str, bytes]], bool]
    """Whether the person has agreed to this, for this workspace."""
    pins: ToolPins
    first_delay: float


class McpConnection:
    def __init__(
        self, config: ServerConfig, world: HubContext, on_change: Callable[[], None]
    ) -> None:
        self.config = config
        self.settled = asyncio.Event()
        """Connected once, or known not to be."""
        self.started = asyncio.get_running_loop().time()
        self._world = world
        self._on_change = on_change
        self._credentials = Credentials(world.home, config.entry.url or "")
        self._watched = self._stamps()
        self._dialogue: McpSession | None = None
        self._signal = asyncio.Event()
        """Something is to be done: look again, start again, try again."""
        self._over: str | None = None
        self._stale = False
        self._again = False
        self._listing: asyncio.Task[None] | None = None
        self._retry_at: float | None = None
        self._down = asyncio.Event()
        self._jobs: set[asyncio.Task[Any]] = set()
        status: McpStatus = "disabled" if config.entry.disabled else "connecting"
        self.server = McpServer(config.name, config.source, status, command=config.shown)
        self._connection_task: asyncio.Task[None] | None = None
        if config.entry.disabled:
            self.settled.set()
        else:
            self._connection_task = asyncio.create_task(self._keep(), name=f"mcp-{config.name}")

    # What the hub asks of it

    def adopt(self, config: ServerConfig) -> None:
        """Settings that need no new connection."""
        self.config = config
        self._show(tools=self._flagged(self.server.tools))

    def reconsider(self) -> None:
        """What the person trusts has changed: begin again, with the question whether to."""
        if self.config.source == "project":
            self.restart()

    def look_around(self) -> None:
        """Notice that its program was built anew, or that somebody logged in."""
        login, *files = self._stamps()
        known, *known_files = self._watched
        self._watched = (login, *files)
        renewed = login is not None and login == self._credentials.renewed
        if files != known_files or (login != known and not renewed):
            self.restart()

    def restart(self) -> None:
        """At once, even while the server is slow to say what it has."""
        self._again = True
        if self.server.status == "connected":
            self._show("connecting")
        self._signal.set()
        if self._listing is not None:
            self._listing.cancel()

    async def close(self) -> None:
        tasks = {*self._jobs, *([self._connection_task] if self._connection_task else [])}
        for task in tasks:
            task.cancel()
        if tasks:
            _, slow = await asyncio.wait(tasks, timeout=_STOP_TIMEOUT_S)
            for task in slow:
                task.cancel()  # It sits in a farewell that the server does not answer.
            if slow:
                await asyncio.wait(slow)

    # What tasks ask of it

    async def call(
        self, tool: McpTool, arguments: dict[str, Any], on_progress: Callable[[str], None] | None
    ) -> McpResult:
        dialogue = self._ready()
        if tool.has_changed:
            self._world.pins.accept(self.config, tool)
            self._show(tools=self._flagged(self.server.tools))
        return await self._ask(dialogue.call(tool.name, arguments, on_progress), tool.name)

    async def read(self, uri: str) -> McpResult:
        return await self._ask(self._ready().read(uri), uri)

    def _ready(self) -> McpSession:
        if self._dialogue is None or self._again:
            raise ToolError(f"The MCP server {self.config.name!r} {self._why_not()}")
        return self._dialogue

    @property
    def _is_alive(self) -> bool:
        return self._dialogue is not None and self._over is None

    def _why_not(self) -> str:
        server = self.server
        match server.status:
            case "disabled":
                return "is switched off in the settings."
            case "untrusted":
                return "belongs to a workspace that is not trusted (joey trust)."
            case "connecting":
                return "is still starting; try again in a few seconds."
            case "connected":
                return "is started anew; try again in a few seconds."
        after = "It is not tried again until its settings change."
        if self._retry_at is not None:
            seconds = max(self._retry_at - asyncio.get_running_loop().time(), 0)
            after = f"It is tried again in {seconds:.0f} s."
        return f"is not connected: {server.error}. {after}"

    async def _ask(self, question: Coroutine[Any, Any, McpResult], what: str) -> McpResult:
        """A job of its own: whoever is cancelled need not wait until the server was told."""
        name, limit = self.config.name, self.config.entry.timeout
        job: asyncio.Task[McpResult] = self._begin(question)
        try:
            done, _ = await asyncio.wait({job}, timeout=limit)
        except asyncio.CancelledError:
            job.cancel()
            raise
        if not done:
            job.cancel()
            raise ToolError(f"{what} of the MCP server {name!r} gave no answer within {limit:g} s.")
        try:
            return job.result()
        except asyncio.CancelledError:
            raise ToolError(f"The MCP server {name!r} was stopped during the call.") from None
        except Exception as error:
            if not closed(error) or self._is_alive:
                problem = without(describe_error(error, ErrorContext()), self.config.secrets)
                raise ToolError(f"The MCP server {name!r} failed: {problem}.") from error
        await asyncio.wait({self._begin(self._down.wait())}, timeout=_STOP_TIMEOUT_S)
        raise ToolError(f"The MCP server {name!r} died during the call. It {self._why_not()}")

    def _begin(self, job: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, job: asyncio.Task[Any]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            job.exception()  # Whoever waited has it; if nobody did, nobody wants it.

    # How it is kept alive

    async def _keep(self) -> None:
        failures = 0
        while True:
            self._again = False
            if not await asyncio.to_thread(self._is_trusted):
                self._show("untrusted", "the workspace is not trusted; see joey trust")
                await self._rest(None)
                continue
            if self._again:
                continue
            begun = asyncio.get_running_loop().time()
            self._show("connecting")
            reason = await self._live()
            if self._again or asyncio.get_running_loop().time() - begun > STABLE_AFTER_S:
                failures = 0
            if self._again:
                continue
            if self.server.status == "connecting":
                reason += self.config.remedy
            failures += 1
            delay = min(self._world.first_delay * 2 ** (failures - 1), MAX_RESTART_DELAY_S)
            rest = delay if failures < MAX_CONSECUTIVE_FAILURES else None
            self._retry_at = None if rest is None else asyncio.get_running_loop().time() + rest
            self._show("disconnected", reason)
            self._down.set()
            await self._rest(rest)
            self._retry_at = None

    def _is_trusted(self) -> bool:
        if self.config.source == "global":
            return True
        world = self._world
        wanted = wanted_of(self.config, world.workspace, world.environment)
        return world.trusts({item.name: item.content for item in wanted})

    async def _rest(self, seconds: float | None) -> None:
        self.settled.set()
        self._signal.clear()
        if not self._again:
            try:
                async with asyncio.timeout(seconds):
                    await self._signal.wait()
            except TimeoutError:
                return

    async def _live(self) -> str:
        """Connect and stay connected; why that came to an end."""
        module = await load("session")
        oauth = await load("oauth") if self.config.transport != "stdio" else None
        about = ErrorContext(stderr_tail=StderrTail())
        self._over, self._stale = None, False
        self._signal.clear()
        self._down.clear()
        links = module.SessionContext(
            workspace=self._world.workspace,
            environment=self._world.environment,
            auth=oauth.known_login(self._credentials) if oauth else None,
            stderr_tail=about.stderr_tail,
            http_state=module.HttpState(on_forgotten=self._forgotten),
            on_end=self._ended,
            on_change=self._changed,
        )
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(START_TIMEOUT_S):
                    opening = module.open_dialogue(self.config, links)
                    dialogue = await stack.enter_async_context(opening)
                    await dialogue.greet()
                    await self._list(dialogue)
                if self._again:
                    return "it is started anew"
                self._dialogue = dialogue
                self._show("connected", instructions=dialogue.instructions)
                self.settled.set()
                watcher = self._begin(dialogue.watch(self._changed))
                try:
                    await self._attend(dialogue)
                finally:
                    watcher.cancel()
                    self._dialogue = None
        except TimeoutError:
            return f"it did not answer within {START_TIMEOUT_S:.0f} s{about.exit_details}"
        except Exception as error:
            about.status = links.http_state.status
            if self._over is None or about.status or not closed(error):
                return describe_error(error, about, self.config.name)
        return f"{self._over or 'it was stopped'}{about.exit_details}"

    async def _attend(self, dialogue: McpSession) -> None:
        while self._over is None and not self._again:
            if self._stale:
                self._stale = False
                await self._list_again(dialogue)
                await asyncio.sleep(_RELIST_INTERVAL_S)
            else:
                self._signal.clear()
                await self._signal.wait()

    async def _list_again(self, dialogue: McpSession) -> None:
        self._listing = self._begin(self._list(dialogue))
        done, _ = await asyncio.wait({self._listing}, timeout=START_TIMEOUT_S)
        if not done:
            self._listing.cancel()
            raise TimeoutError
        if not self._listing.cancelled():
            self._listing.result()
            self._show("connected")

    async def _list(self, dialogue: McpSession) -> None:
        tools = await dialogue.tools()
        resources = await dialogue.resources()
        unique = {tool.name: tool for tool in tools}
        ordered = tuple(unique[name] for name in sorted(unique))
        server = structs.replace(self.server, resources=tuple(resources))
        self.server = structs.replace(server, tools=self._flagged(ordered))

    def _flagged(self, tools: tuple[McpTool, ...]) -> tuple[McpTool, ...]:
        config = self.config
        changed = self._world.pins.changed(config, list(tools))
        return tuple(
            structs.replace(
                tool,
                always_allowed=config.allows(tool.name) and tool.name not in changed,
                has_changed=tool.name in changed,
                enabled=tool.name not in config.entry.disabled_tools,
            )
            for tool in tools
        )

    def _show(self, status: McpStatus | None = None, error: str = "", **facts: Any) -> None:
        """Tools of a server that is away stay: what the model is told changes less often."""
        if status is not None:
            facts |= {"status": status, "error": without(error, self.config.secrets)}
        if status == "untrusted":
            facts |= {"tools": (), "resources": (), "instructions": ""}
        self.server = structs.replace(self.server, **facts)
        self._on_change()

    def _ended(self, reason: str) -> None:
        self._over = self._over or reason
        self._signal.set()

    def _forgotten(self) -> None:
        self._ended("the server has forgotten the session")

    def _changed(self) -> None:
        self._stale = True
        self._signal.set()

    def _stamps(self) -> tuple[FileFingerprint, ...]:
        entry, root = self.config.entry, self._world.workspace
        watched = [*entry.watch_paths, *(arg for arg in entry.args if _BUILD_OUTPUT_PATH in arg)]
        return (stamp(self._credentials.path), *(stamp(root / path) for path in watched))


_LIBRARY_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")


async def load(module: str) -> ModuleType:
    """A module of this package, imported beside the event loop, so that nobody waits for it."""
    return await asyncio.to_thread(_load, module)


def _load(module: str) -> ModuleType:
    for name in _LIBRARY_LOGGERS:
        # What it logs about misbehaving servers must not appear on the person's screen.
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
    return importlib.import_module(f"joey.mcp.{module}")
