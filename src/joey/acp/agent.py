"""The agent's side of the protocol: its methods, capabilities and connection.

Every request gets a response: a result, or an error that says what was wrong. Sessions are
independent of each other, and none waits for another.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, PROTOCOL_VERSION
from pydantic import BaseModel, ValidationError

from acp import schema
from joey import __version__
from joey.acp.editor import Editor, to_json_dict
from joey.acp.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    to_request_error,
)
from joey.acp.jsonrpc_transport import JsonRpcTransport
from joey.acp.session import AcpServices, AcpSession, EditorMcpServer, to_mcp_config_entries
from joey.client.engine_reexports import Engine, generate_task_id
from joey.errors import UserError
from joey.presentation.text import to_one_line

DRAIN_TIMEOUT_S = 2.0
"""For the last answers, once there is nothing more to do."""
SESSIONS_PER_PAGE = 50

log = logging.getLogger(__name__)


MethodHandler = tuple[type[BaseModel], Callable[[Any], Awaitable[BaseModel]]]
"""The type of a method's parameters, and the function that handles them."""


class Agent:
    _editor: Editor
    """The editor at the other end, from `connect` on."""

    def __init__(
        self, engine: Engine, services: AcpServices, get_now_ms: Callable[[], int]
    ) -> None:
        self._engine = engine
        self._services = services
        self._get_now_ms = get_now_ms
        self._is_initialized = False
        self._sessions: dict[str, AcpSession] = {}
        self._session_open_locks: dict[str, asyncio.Lock] = {}
        self._background_jobs: set[asyncio.Task[None]] = set()
        self._running_requests: set[asyncio.Task[Any]] = set()
        methods: dict[str, MethodHandler] = {
            "initialize": (schema.InitializeRequest, self._initialize),
            "authenticate": (schema.AuthenticateRequest, self._authenticate),
            "session_new": (schema.NewSessionRequest, self._create_session),
            "session_load": (schema.LoadSessionRequest, self._load_session),
            "session_resume": (schema.ResumeSessionRequest, self._resume_session),
            "session_fork": (schema.ForkSessionRequest, self._fork_session),
            "session_list": (schema.ListSessionsRequest, self._list_sessions),
            "session_close": (schema.CloseSessionRequest, self._close_session),
            "session_set_mode": (schema.SetSessionModeRequest, self._set_mode),
            "session_set_config_option": (
                schema.SetSessionConfigOptionSelectRequest,
                self._set_config_option,
            ),
            "session_prompt": (schema.PromptRequest, self._run_prompt),
        }
        self._method_handlers = {AGENT_METHODS[name]: method for name, method in methods.items()}

    def connect(self, connection: Connection) -> None:
        self._editor = Editor(connection)

    async def handle(self, name: str, params: Any, is_notification: bool) -> Any:
        """Handle one message from the client; the library calls this. Raises RequestError."""
        request_task = asyncio.current_task()
        assert request_task is not None
        self._running_requests.add(request_task)
        request_task.add_done_callback(self._running_requests.discard)
        try:
            if is_notification:
                return await self._handle_notification(name, params)
            return to_json_dict(await self._handle_request(name, params or {}))
        except ValidationError as error:
            raise to_request_error(error) from error
        except UserError as error:
            missing_reason = await asyncio.to_thread(self._services.describe_missing_model)
            raise to_request_error(error, needs_key=missing_reason is not None) from error
        except (RequestError, ConnectionError):
            raise
        except Exception as error:
            log.exception("%s failed because of a bug", name)
            raise RequestError(INTERNAL_ERROR, f"A bug in joey: {type(error).__name__}.") from error

    async def close(self) -> None:
        """Stop all tasks so that they can be resumed later; pending requests are still answered."""
        self._is_initialized = False
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in sessions))
        if self._running_requests:
            await asyncio.wait(self._running_requests, timeout=DRAIN_TIMEOUT_S)
        for job in list(self._background_jobs):
            job.cancel()

    # Messages -----------------------------------------------------------------------------------

    async def _handle_request(self, name: str, params: dict[str, Any]) -> BaseModel:
        method = self._method_handlers.get(name)
        if method is None:
            raise RequestError.method_not_found(name)
        if not self._is_initialized and name != AGENT_METHODS["initialize"]:
            raise RequestError(INVALID_REQUEST, "Send `initialize` first.")
        model, handle = method
        if model is schema.SetSessionConfigOptionSelectRequest and params.get("type") == "boolean":
            model = schema.SetSessionConfigOptionBooleanRequest
        return await handle(model.model_validate(params))

    async def _handle_notification(self, name: str, params: Any) -> None:
        if name != AGENT_METHODS["session_cancel"]:
            return  # an unknown notification needs no answer
        try:
            notification = schema.CancelNotification.model_validate(params or {})
        except ValidationError as error:
            log.warning("ignored %s: %s", name, to_request_error(error))
            return
        if session := self._sessions.get(notification.session_id):
            await session.cancel()

    async def _initialize(self, request: schema.InitializeRequest) -> BaseModel:
        if request.client_capabilities is not None:
            self._editor.capabilities = request.client_capabilities
        self._is_initialized = True
        missing_reason = await asyncio.to_thread(self._services.describe_missing_model)
        return schema.InitializeResponse(
            protocol_version=min(request.protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=AGENT_CAPABILITIES,
            auth_methods=build_auth_methods(self._editor.capabilities, missing_reason),
            agent_info=schema.Implementation(name="joey", title="joey", version=__version__),
        )

    async def _authenticate(self, request: schema.AuthenticateRequest) -> BaseModel:
        """Accept the chosen method. Nothing is stored: the key is looked up when a task starts."""
        if missing_reason := await asyncio.to_thread(self._services.describe_missing_model):
            raise RequestError(AUTH_REQUIRED, missing_reason)
        return schema.AuthenticateResponse()

    # Sessions -----------------------------------------------------------------------------------

    async def _create_session(self, request: schema.NewSessionRequest) -> BaseModel:
        session = await self._build_session(
            generate_task_id(self._get_now_ms()), request.cwd, request.mcp_servers
        )
        await session.start()
        self._register_session(session)
        return schema.NewSessionResponse(
            session_id=session.id, modes=session.mode_state, config_options=session.config_options
        )

    async def _load_session(self, request: schema.LoadSessionRequest) -> BaseModel:
        session = await self._open_session(request, replay=True)
        return schema.LoadSessionResponse(
            modes=session.mode_state, config_options=session.config_options
        )

    async def _resume_session(self, request: schema.ResumeSessionRequest) -> BaseModel:
        session = await self._open_session(request, replay=False)
        return schema.ResumeSessionResponse(
            modes=session.mode_state, config_options=session.config_options
        )

    async def _open_session(
        self, request: schema.LoadSessionRequest | schema.ResumeSessionRequest, *, replay: bool
    ) -> AcpSession:
        id = request.session_id.removeprefix("task_")
        async with self._session_open_locks.setdefault(id, asyncio.Lock()):
            session = self._sessions.get(id)
            if session is None:
                session = await self._build_session(id, request.cwd, request.mcp_servers)
            await session.open_task(replay=replay)
            self._register_session(session)
        return session

    async def _fork_session(self, request: schema.ForkSessionRequest) -> BaseModel:
        session = await self._build_session(request.session_id, request.cwd, request.mcp_servers)
        await session.fork_task(request.session_id)
        self._register_session(session)
        return schema.ForkSessionResponse(
            session_id=session.id, modes=session.mode_state, config_options=session.config_options
        )

    async def _build_session(
        self, id: str, cwd: str, servers: list[EditorMcpServer] | None
    ) -> AcpSession:
        directory = await asyncio.to_thread(self._services.resolve_workspace, Path(_check_cwd(cwd)))
        entries = to_mcp_config_entries(servers)
        return AcpSession(id, directory, entries, self._engine, self._services, self._editor)

    def _register_session(self, session: AcpSession) -> None:
        self._sessions[session.id] = session
        # The editor must know the session first, so this is sent after the response.
        task = asyncio.create_task(_run_unless_disconnected(session.send_commands()))
        self._background_jobs.add(task)
        task.add_done_callback(self._background_jobs.discard)

    async def _list_sessions(self, request: schema.ListSessionsRequest) -> BaseModel:
        cursor = request.cursor or "0"
        if not cursor.isdecimal() or len(cursor) > 9:
            raise RequestError(
                INVALID_PARAMS, "cursor: unknown value; use one that this agent returned."
            )
        skip = int(cursor)
        directory = None if request.cwd is None else _check_cwd(request.cwd)
        page = await asyncio.to_thread(
            self._services.list_tasks, directory, skip, SESSIONS_PER_PAGE
        )
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=task.id,
                    cwd=task.workspace or request.cwd or str(Path.home()),
                    title=to_one_line(task.title, 80) or None,
                    updated_at=datetime.fromtimestamp(task.updated / 1000, UTC).isoformat(),
                )
                for task in page.tasks
            ],
            next_cursor=str(skip + SESSIONS_PER_PAGE) if page.has_more else None,
        )

    async def _close_session(self, request: schema.CloseSessionRequest) -> BaseModel:
        session = self._find_session(request.session_id)
        del self._sessions[session.id]
        await session.close()
        return schema.CloseSessionResponse()

    async def _set_mode(self, request: schema.SetSessionModeRequest) -> BaseModel:
        await self._find_session(request.session_id).set_mode(request.mode_id)
        return schema.SetSessionModeResponse()

    async def _set_config_option(
        self,
        request: schema.SetSessionConfigOptionSelectRequest
        | schema.SetSessionConfigOptionBooleanRequest,
    ) -> BaseModel:
        session = self._find_session(request.session_id)
        await session.set_config_option(request.config_id, request.value)
        return schema.SetSessionConfigOptionResponse(config_options=session.config_options)

    async def _run_prompt(self, request: schema.PromptRequest) -> BaseModel:
        stop_reason = await self._find_session(request.session_id).prompt(request.prompt)
        return schema.PromptResponse(stop_reason=stop_reason)

    def _find_session(self, session_id: str) -> AcpSession:
        session = self._sessions.get(session_id)
        if session is None:
            problem = f"There is no session {session_id!r} here; load it, or start a new one."
            raise RequestError(RESOURCE_NOT_FOUND, problem)
        return session


def _check_cwd(cwd: str) -> str:
    """Return the path as the operating system expects it. Raises RequestError."""
    try:
        is_path = os.path.isabs(cwd) and b"\0" not in os.fsencode(cwd)  # noqa: PTH117
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise RequestError(INVALID_PARAMS, f"cwd: {cwd!r} is not an absolute path.")
    return cwd


async def _run_unless_disconnected(job: Coroutine[Any, Any, None]) -> None:
    try:
        await job
    except ConnectionError:
        log.debug("the editor has disconnected")


async def serve(agent: Agent, transport: JsonRpcTransport) -> None:
    """Serve until the client closes either stream, then stop all tasks."""
    connection = Connection(agent.handle, transport, listening=False)
    agent.connect(connection)
    listening = asyncio.ensure_future(connection.main_loop())
    disconnecting = asyncio.ensure_future(transport.disconnected_event.wait())
    try:
        await asyncio.wait({listening, disconnecting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for job in (listening, disconnecting):
            job.cancel()
        await asyncio.gather(listening, disconnecting, return_exceptions=True)
        await agent.close()
        await connection.close()


AuthMethods = list[schema.EnvVarAuthMethod | schema.TerminalAuthMethod | schema.AuthMethodAgent]


AGENT_CAPABILITIES = schema.AgentCapabilities(
    load_session=True,
    prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True, audio=False),
    mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
    session_capabilities=schema.SessionCapabilities(
        list=schema.SessionListCapabilities(),
        resume=schema.SessionResumeCapabilities(),
        close=schema.SessionCloseCapabilities(),
        fork=schema.SessionForkCapabilities(),
    ),
)


def build_auth_methods(
    client_capabilities: schema.ClientCapabilities, missing_reason: str | None
) -> AuthMethods:
    """Build the ways to set up a key, for when none is found (`missing_reason`)."""
    if missing_reason is None:
        return []
    methods: AuthMethods = [
        schema.AuthMethodAgent(
            id="environment",
            name="Set a key in the environment of joey",
            description=missing_reason,
        )
    ]
    if client_capabilities.auth is not None and client_capabilities.auth.terminal:
        methods.insert(
            0,
            schema.TerminalAuthMethod(
                type="terminal",
                id="terminal",
                name="Set up joey in a terminal",
                description="joey asks which model to use, and for its key.",
                args=["--setup"],
            ),
        )
    return methods
