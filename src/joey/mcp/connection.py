"""Connection to one MCP server: its start, its answers and errors, its restart when it dies.

The MCP library takes a second to import, so it is loaded when the first server is started:
`session`, `transports`, `message_limits` and `oauth` import it at the top, and all other modules of
this package reach them through `load_module`.
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
from joey.mcp.config import ServerConfig, redact_secrets
from joey.mcp.login import Credentials
from joey.mcp.process import ErrorContext, StderrTail, describe_error, is_connection_closed
from joey.mcp.trust import ToolPins, list_trust_items
from joey.system.files import FileFingerprint, read_fingerprint

if TYPE_CHECKING:
    from joey.mcp.session import McpSession


log = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
MAX_RESTART_DELAY_S = 60.0
MAX_CONSECUTIVE_FAILURES = 8
"""After that only a change of its settings starts it again."""
STABLE_AFTER_S = 60.0
"""A connection that ends later was a good one."""
_RELIST_INTERVAL_S = 0.2
"""For a server that says that its tools changed."""
_STOP_TIMEOUT_S = 3.0
_BUILD_OUTPUT_PATH = "build/index.js"


class HubContext(Struct, frozen=True, kw_only=True):
    """State shared by all servers of a workspace."""

    joey_home: Path
    workspace: Path
    server_environment: Mapping[str, str]
    """What a server may see of ours."""
    is_trusted: Callable[[Mapping[str, bytes]], bool]
    """Whether the user has agreed to this, for this workspace."""
    tool_pins: ToolPins
    initial_restart_delay_s: float


class McpConnection:
    def __init__(
        self, config: ServerConfig, context: HubContext, on_change: Callable[[], None]
    ) -> None:
        self.config = config
        self.first_attempt_done = asyncio.Event()
        """Connected once, or known not to be."""
        self.started_at = asyncio.get_running_loop().time()
        self._context = context
        self._on_change = on_change
        self._credentials = Credentials(context.joey_home, config.entry.url or "")
        self._watched_fingerprints = self._read_watched_fingerprints()
        self._session: McpSession | None = None
        self._wake_event = asyncio.Event()
        """Something is to be done: look again, start again, try again."""
        self._end_reason: str | None = None
        self._is_listing_stale = False
        self._is_restart_requested = False
        self._listing_task: asyncio.Task[None] | None = None
        self._next_retry_at: float | None = None
        self._disconnected_event = asyncio.Event()
        self._background_jobs: set[asyncio.Task[Any]] = set()
        status = McpStatus.DISABLED if config.entry.disabled else McpStatus.CONNECTING
        self.server = McpServer(
            config.name, config.source, status, command_or_url=config.display_target
        )
        self._connection_task: asyncio.Task[None] | None = None
        if config.entry.disabled:
            self.first_attempt_done.set()
        else:
            self._connection_task = asyncio.create_task(
                self._maintain_connection(), name=f"mcp-{config.name}"
            )

    # Called by the hub

    def update_config(self, config: ServerConfig) -> None:
        """Update settings that need no new connection."""
        self.config = config
        self._update_server(tools=self._apply_tool_flags(self.server.tools))

    def restart_if_changed(self) -> None:
        """Restart if the program was rebuilt or a user logged in."""
        login, *files = self._read_watched_fingerprints()
        known, *known_files = self._watched_fingerprints
        self._watched_fingerprints = (login, *files)
        renewed = login is not None and login == self._credentials.own_write_fingerprint
        if files != known_files or (login != known and not renewed):
            self.restart()

    def restart(self) -> None:
        """Restart at once, even while the server is slow to list its tools."""
        self._is_restart_requested = True
        if self.server.status is McpStatus.CONNECTED:
            self._update_server(McpStatus.CONNECTING)
        self._wake_event.set()
        if self._listing_task is not None:
            self._listing_task.cancel()

    async def close(self) -> None:
        tasks = {*self._background_jobs, *filter(None, [self._connection_task])}
        for task in tasks:
            task.cancel()
        if tasks:
            _, slow = await asyncio.wait(tasks, timeout=_STOP_TIMEOUT_S)
            for task in slow:
                task.cancel()  # It is waiting for an answer to its goodbye.
            if slow:
                await asyncio.wait(slow)

    # Called by tasks

    async def call_tool(
        self, tool: McpTool, arguments: dict[str, Any], on_progress: Callable[[str], None] | None
    ) -> McpResult:
        session = self._require_session()
        if tool.has_changed:
            self._context.tool_pins.accept_tool(self.config, tool)
            self._update_server(tools=self._apply_tool_flags(self.server.tools))
        return await self._await_result(
            session.call_tool(tool.name, arguments, on_progress), tool.name
        )

    async def read_resource(self, uri: str) -> McpResult:
        return await self._await_result(self._require_session().read_resource(uri), uri)

    def _require_session(self) -> McpSession:
        if self._session is None or self._is_restart_requested:
            raise ToolError(
                f"The MCP server {self.config.name!r} {self._describe_unavailability()}"
            )
        return self._session

    def _describe_unavailability(self) -> str:
        server = self.server
        match server.status:
            case McpStatus.DISABLED:
                return "is switched off in the settings."
            case McpStatus.UNTRUSTED:
                return "belongs to a workspace that is not trusted (joey trust)."
            case McpStatus.CONNECTING:
                return "is still starting; try again in a few seconds."
            case McpStatus.CONNECTED:
                return "is being restarted; try again in a few seconds."
        after = "It is not tried again until its settings change."
        if self._next_retry_at is not None:
            seconds = max(self._next_retry_at - asyncio.get_running_loop().time(), 0)
            after = f"It is tried again in {seconds:.0f} s."
        return f"is not connected: {server.error}. {after}"

    async def _await_result(
        self, request: Coroutine[Any, Any, McpResult], target: str
    ) -> McpResult:
        """Await the result in a separate job: a cancelled caller need not wait until the server was
        told."""
        name, limit = self.config.name, self.config.entry.timeout
        job: asyncio.Task[McpResult] = self._start_job(request)
        try:
            done, _ = await asyncio.wait({job}, timeout=limit)
        except asyncio.CancelledError:
            job.cancel()
            raise
        if not done:
            job.cancel()
            raise ToolError(
                f"{target} of the MCP server {name!r} gave no answer within {limit:g} s."
            )
        try:
            return job.result()
        except asyncio.CancelledError:
            raise ToolError(f"The MCP server {name!r} was stopped during the call.") from None
        except Exception as error:
            is_alive = self._session is not None and self._end_reason is None
            if is_alive or not is_connection_closed(error):
                problem = redact_secrets(describe_error(error, ErrorContext()), self.config.secrets)
                raise ToolError(f"The MCP server {name!r} failed: {problem}.") from error
        await asyncio.wait(
            {self._start_job(self._disconnected_event.wait())}, timeout=_STOP_TIMEOUT_S
        )
        raise ToolError(
            f"The MCP server {name!r} died during the call. It {self._describe_unavailability()}"
        )

    def _start_job(self, job: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(job)
        self._background_jobs.add(task)
        task.add_done_callback(self._background_jobs.discard)
        # A waiting caller has the exception; without one, it is not needed.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    # Keeping the connection

    async def _maintain_connection(self) -> None:
        failures = 0
        while True:
            self._is_restart_requested = False
            if not await asyncio.to_thread(self._is_trusted):
                self._update_server(
                    McpStatus.UNTRUSTED, "the workspace is not trusted; see joey trust"
                )
                await self._wait_until_woken(None)
                continue
            if self._is_restart_requested:
                continue
            started_at = asyncio.get_running_loop().time()
            self._update_server(McpStatus.CONNECTING)
            reason = await self._run_session()
            if (
                self._is_restart_requested
                or asyncio.get_running_loop().time() - started_at > STABLE_AFTER_S
            ):
                failures = 0
            if self._is_restart_requested:
                continue
            if self.server.status is McpStatus.CONNECTING:
                reason += self.config.start_failure_hint
            failures += 1
            retry_delay = None
            if failures < MAX_CONSECUTIVE_FAILURES:
                grown = self._context.initial_restart_delay_s * 2 ** (failures - 1)
                retry_delay = min(grown, MAX_RESTART_DELAY_S)
                self._next_retry_at = asyncio.get_running_loop().time() + retry_delay
            self._update_server(McpStatus.DISCONNECTED, reason)
            self._disconnected_event.set()
            await self._wait_until_woken(retry_delay)
            self._next_retry_at = None

    def _is_trusted(self) -> bool:
        if self.config.source == "global":
            return True
        context = self._context
        items = list_trust_items(self.config, context.workspace, context.server_environment)
        return context.is_trusted({item.name: item.content for item in items})

    async def _wait_until_woken(self, seconds: float | None) -> None:
        self.first_attempt_done.set()
        self._wake_event.clear()
        if not self._is_restart_requested:
            try:
                async with asyncio.timeout(seconds):
                    await self._wake_event.wait()
            except TimeoutError:
                return

    async def _run_session(self) -> str:
        """Connect and stay connected; return why the connection ended."""
        module = await load_module("session")
        oauth = await load_module("oauth") if self.config.transport != "stdio" else None
        error_context = ErrorContext(stderr_tail=StderrTail())
        self._end_reason, self._is_listing_stale = None, False
        self._wake_event.clear()
        self._disconnected_event.clear()
        session_context = module.SessionContext(
            workspace=self._context.workspace,
            server_environment=self._context.server_environment,
            auth=oauth.build_stored_auth(self._credentials) if oauth else None,
            stderr_tail=error_context.stderr_tail,
            http_state=module.HttpState(
                on_session_lost=lambda: self._handle_connection_end(
                    "the server has forgotten the session"
                )
            ),
            on_end=self._handle_connection_end,
            on_list_changed=self._handle_list_changed,
        )
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(START_TIMEOUT_S):
                    opening = module.open_session(self.config, session_context)
                    session = await stack.enter_async_context(opening)
                    await session.initialize()
                    await self._list_tools_and_resources(session)
                if self._is_restart_requested:
                    return "it is being restarted"
                self._session = session
                self._update_server(McpStatus.CONNECTED, instructions=session.instructions)
                self.first_attempt_done.set()
                watcher = self._start_job(session.watch_changes(self._handle_list_changed))
                try:
                    await self._relist_until_ended(session)
                finally:
                    watcher.cancel()
                    self._session = None
        except TimeoutError:
            return f"it did not answer within {START_TIMEOUT_S:.0f} s{error_context.exit_details}"
        except Exception as error:
            error_context.http_status = session_context.http_state.error_status
            if (
                self._end_reason is None
                or error_context.http_status
                or not is_connection_closed(error)
            ):
                return describe_error(error, error_context, self.config.name)
        return f"{self._end_reason or 'it was stopped'}{error_context.exit_details}"

    async def _relist_until_ended(self, session: McpSession) -> None:
        while self._end_reason is None and not self._is_restart_requested:
            if self._is_listing_stale:
                self._is_listing_stale = False
                await self._relist(session)
                await asyncio.sleep(_RELIST_INTERVAL_S)
            else:
                self._wake_event.clear()
                await self._wake_event.wait()

    async def _relist(self, session: McpSession) -> None:
        self._listing_task = self._start_job(self._list_tools_and_resources(session))
        done, _ = await asyncio.wait({self._listing_task}, timeout=START_TIMEOUT_S)
        if not done:
            self._listing_task.cancel()
            raise TimeoutError
        if not self._listing_task.cancelled():
            self._listing_task.result()
            self._update_server(McpStatus.CONNECTED)

    async def _list_tools_and_resources(self, session: McpSession) -> None:
        tools = await session.list_tools()
        resources = await session.list_resources()
        unique = {tool.name: tool for tool in tools}
        ordered = tuple(unique[name] for name in sorted(unique))
        server = structs.replace(self.server, resources=tuple(resources))
        self.server = structs.replace(server, tools=self._apply_tool_flags(ordered))

    def _apply_tool_flags(self, tools: tuple[McpTool, ...]) -> tuple[McpTool, ...]:
        config = self.config
        changed = self._context.tool_pins.pin_new_and_find_changed_tools(config, list(tools))
        return tuple(
            structs.replace(
                tool,
                always_allowed=config.is_always_allowed(tool.name) and tool.name not in changed,
                has_changed=tool.name in changed,
                enabled=tool.name not in config.entry.disabled_tools,
            )
            for tool in tools
        )

    def _update_server(
        self, status: McpStatus | None = None, error: str = "", **fields: Any
    ) -> None:
        """Update the server. Tools of a disconnected server stay, so that the model's tools change
        less often."""
        if status is not None:
            fields |= {"status": status, "error": redact_secrets(error, self.config.secrets)}
        if status is McpStatus.UNTRUSTED:
            fields |= {"tools": (), "resources": (), "instructions": ""}
        self.server = structs.replace(self.server, **fields)
        self._on_change()

    def _handle_connection_end(self, reason: str) -> None:
        self._end_reason = self._end_reason or reason
        self._wake_event.set()

    def _handle_list_changed(self) -> None:
        self._is_listing_stale = True
        self._wake_event.set()

    def _read_watched_fingerprints(self) -> tuple[FileFingerprint, ...]:
        entry, root = self.config.entry, self._context.workspace
        watched = [*entry.watch_paths, *(arg for arg in entry.args if _BUILD_OUTPUT_PATH in arg)]
        return (
            read_fingerprint(self._credentials.path),
            *(read_fingerprint(root / path) for path in watched),
        )


_LIBRARY_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")


async def load_module(module: str) -> ModuleType:
    """Import a module of this package outside of the event loop, which is not blocked."""
    for name in _LIBRARY_LOGGERS:
        # What it logs about misbehaving servers must not appear on the user's screen.
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
    return await asyncio.to_thread(importlib.import_module, f"joey.mcp.{module}")
