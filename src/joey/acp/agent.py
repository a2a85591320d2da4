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
from typing import Any, NamedTuple

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, PROTOCOL_VERSION
from acp.schema import (
    AgentCapabilities,
    AuthenticateRequest,
    AuthenticateResponse,
    AuthMethodAgent,
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    CloseSessionResponse,
    EnvVarAuthMethod,
    ForkSessionRequest,
    ForkSessionResponse,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionRequest,
    NewSessionResponse,
    PromptCapabilities,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionBooleanRequest,
    SetSessionConfigOptionResponse,
    SetSessionConfigOptionSelectRequest,
    SetSessionModeRequest,
    SetSessionModeResponse,
    TerminalAuthMethod,
)
from pydantic import BaseModel, ValidationError

from joey import __version__
from joey.acp.editor import Editor, as_json
from joey.acp.errors import AUTH_REQUIRED, to_request_error
from joey.acp.jsonrpc import JsonRpcTransport
from joey.acp.session import INVALID_PARAMS, AcpServices, AcpSession, EditorMcpServer, as_entries
from joey.acp.terminals import EditorTerminals
from joey.client.local import Engine, new_task_id
from joey.errors import UserError
from joey.presentation.text import one_line

INVALID_REQUEST = -32600
DRAIN_TIMEOUT_S = 2.0
"""Seconds for the last answers, once there is nothing more to do."""
SESSIONS_PER_PAGE = 50

log = logging.getLogger(__name__)


class MethodHandler(NamedTuple):
    params: type[BaseModel]
    run: Callable[[Any], Awaitable[BaseModel]]


class Agent:
    def __init__(self, engine: Engine, services: AcpServices, now: Callable[[], int]) -> None:
        self._engine = engine
        self._services = services
        self._now = now
        self._editor: Editor | None = None
        self._terminals: EditorTerminals | None = None
        self._is_ready = False
        self._sessions: dict[str, AcpSession] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[Any]] = set()
        methods = {
            "initialize": MethodHandler(InitializeRequest, self._initialize),
            "authenticate": MethodHandler(AuthenticateRequest, self._authenticate),
            "session_new": MethodHandler(NewSessionRequest, self._new),
            "session_load": MethodHandler(LoadSessionRequest, self._load),
            "session_resume": MethodHandler(ResumeSessionRequest, self._resume),
            "session_fork": MethodHandler(ForkSessionRequest, self._fork),
            "session_list": MethodHandler(ListSessionsRequest, self._list),
            "session_close": MethodHandler(CloseSessionRequest, self._close),
            "session_set_mode": MethodHandler(SetSessionModeRequest, self._set_mode),
            "session_set_config_option": MethodHandler(
                SetSessionConfigOptionSelectRequest, self._set_option
            ),
            "session_prompt": MethodHandler(PromptRequest, self._prompt),
        }
        self._methods = {AGENT_METHODS[name]: method for name, method in methods.items()}

    def connect(self, connection: Connection) -> None:
        self._editor = Editor(connection)
        self._terminals = EditorTerminals(self._editor)

    async def handle(self, name: str, params: Any, is_notification: bool) -> Any:
        """What the library calls for each message.

        Raises:
            RequestError
        """
        answering = asyncio.current_task()
        assert answering is not None
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        try:
            if is_notification:
                return await self._notice(name, params)
            return as_json(await self._answer(name, params or {}))
        except ValidationError as error:
            raise to_request_error(error) from error
        except UserError as error:
            missing = await asyncio.to_thread(self._services.missing)
            raise to_request_error(error, needs_key=missing is not None) from error
        except (RequestError, ConnectionError):
            raise
        except Exception as error:
            log.exception("%s failed by a defect", name)
            raise RequestError(-32603, f"A defect of joey: {type(error).__name__}.") from error

    async def close(self) -> None:
        """Stop all tasks so that they can go on another time; what was asked is still answered."""
        self._is_ready = False
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in sessions))
        if self._terminals is not None:
            await self._terminals.close()
        if self._answering:
            await asyncio.wait(self._answering, timeout=DRAIN_TIMEOUT_S)
        for job in list(self._jobs):
            job.cancel()

    # Messages -----------------------------------------------------------------------------------

    async def _answer(self, name: str, params: dict[str, Any]) -> BaseModel:
        method = self._methods.get(name)
        if method is None:
            raise RequestError.method_not_found(name)
        if not self._is_ready and name != AGENT_METHODS["initialize"]:
            raise RequestError(INVALID_REQUEST, "`initialize` comes first.")
        model = method.params
        if model is SetSessionConfigOptionSelectRequest and params.get("type") == "boolean":
            model = SetSessionConfigOptionBooleanRequest
        return await method.run(model.model_validate(params))

    async def _notice(self, name: str, params: Any) -> None:
        if name != AGENT_METHODS["session_cancel"]:
            return  # none that we would not know needs an answer
        try:
            wanted = CancelNotification.model_validate(params or {})
        except ValidationError as error:
            log.warning("%s was passed over: %s", name, to_request_error(error))
            return
        if session := self._sessions.get(wanted.session_id):
            await session.cancel()

    async def _initialize(self, asked: InitializeRequest) -> BaseModel:
        assert self._editor is not None
        if asked.client_capabilities is not None:
            self._editor.can = asked.client_capabilities
        self._is_ready = True
        missing = await asyncio.to_thread(self._services.missing)
        return InitializeResponse(
            protocol_version=min(asked.protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=capabilities(),
            auth_methods=auth_methods(self._editor.can, missing),
            agent_info=introduction(),
        )

    async def _authenticate(self, asked: AuthenticateRequest) -> BaseModel:
        """Nothing is sent here: the key is where it is found, or it is not."""
        if missing := await asyncio.to_thread(self._services.missing):
            raise RequestError(AUTH_REQUIRED, missing)
        return AuthenticateResponse()

    # Sessions -----------------------------------------------------------------------------------

    async def _new(self, asked: NewSessionRequest) -> BaseModel:
        session = await self._made(new_task_id(self._now()), asked.cwd, asked.mcp_servers)
        await session.begin()
        self._keep(session)
        return NewSessionResponse(
            session_id=session.id, modes=session.mode_state, config_options=session.options
        )

    async def _load(self, asked: LoadSessionRequest) -> BaseModel:
        session = await self._opened(asked, replay=True)
        return LoadSessionResponse(modes=session.mode_state, config_options=session.options)

    async def _resume(self, asked: ResumeSessionRequest) -> BaseModel:
        session = await self._opened(asked, replay=False)
        return ResumeSessionResponse(modes=session.mode_state, config_options=session.options)

    async def _opened(
        self, asked: LoadSessionRequest | ResumeSessionRequest, *, replay: bool
    ) -> AcpSession:
        id = asked.session_id.removeprefix("task_")
        async with self._opening.setdefault(id, asyncio.Lock()):
            session = self._sessions.get(id)
            if session is None:
                session = await self._made(id, asked.cwd, asked.mcp_servers)
            await session.open(replay=replay)
            self._keep(session)
        return session

    async def _fork(self, asked: ForkSessionRequest) -> BaseModel:
        session = await self._made(asked.session_id, asked.cwd, asked.mcp_servers)
        await session.fork_of(asked.session_id)
        self._keep(session)
        return ForkSessionResponse(
            session_id=session.id, modes=session.mode_state, config_options=session.options
        )

    async def _made(self, id: str, cwd: str, servers: list[EditorMcpServer] | None) -> AcpSession:
        assert self._editor and self._terminals
        directory = await asyncio.to_thread(self._services.resolve_workspace, Path(_checked(cwd)))
        entries = as_entries(servers)
        return AcpSession(
            id, directory, entries, self._engine, self._services, self._editor, self._terminals
        )

    def _keep(self, session: AcpSession) -> None:
        self._sessions[session.id] = session
        # The editor has to know of the session first: this comes after the answer.
        self._begin(session.send_commands())

    async def _list(self, asked: ListSessionsRequest) -> BaseModel:
        cursor = asked.cursor or "0"
        if not cursor.isdecimal() or len(cursor) > 9:
            raise RequestError(INVALID_PARAMS, "cursor: it is none that was given out here.")
        skip = int(cursor)
        directory = None if asked.cwd is None else _checked(asked.cwd)
        page = await asyncio.to_thread(self._services.tasks, directory, skip, SESSIONS_PER_PAGE)
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=task.id,
                    cwd=task.workspace or asked.cwd or str(Path.home()),
                    title=one_line(task.title, 80) or None,
                    updated_at=datetime.fromtimestamp(task.updated / 1000, UTC).isoformat(),
                )
                for task in page.tasks
            ],
            next_cursor=str(skip + SESSIONS_PER_PAGE) if page.more else None,
        )

    async def _close(self, asked: CloseSessionRequest) -> BaseModel:
        session = self._find(asked.session_id)
        del self._sessions[session.id]
        await session.close()
        return CloseSessionResponse()

    async def _set_mode(self, asked: SetSessionModeRequest) -> BaseModel:
        await self._find(asked.session_id).set_mode(asked.mode_id)
        return SetSessionModeResponse()

    async def _set_option(
        self, asked: SetSessionConfigOptionSelectRequest | SetSessionConfigOptionBooleanRequest
    ) -> BaseModel:
        session = self._find(asked.session_id)
        await session.set_option(asked.config_id, asked.value)
        return SetSessionConfigOptionResponse(config_options=session.options)

    async def _prompt(self, asked: PromptRequest) -> BaseModel:
        stop_reason = await self._find(asked.session_id).prompt(asked.prompt)
        return PromptResponse(stop_reason=stop_reason)

    def _find(self, session_id: str) -> AcpSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(
                -32002, f"There is no session {session_id!r} here; load it, or begin a new one."
            )
        return session

    def _begin(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_unless_gone(job))
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)


def _checked(cwd: str) -> str:
    """A path as the operating system takes it. Raises RequestError."""
    try:
        is_path = os.path.isabs(cwd) and b"\0" not in os.fsencode(cwd)  # noqa: PTH117
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise RequestError(INVALID_PARAMS, f"cwd: {cwd!r} is not an absolute path.")
    return cwd


async def _unless_gone(job: Coroutine[Any, Any, None]) -> None:
    try:
        await job
    except ConnectionError:
        log.debug("the editor is gone")


async def serve(agent: Agent, frames: JsonRpcTransport) -> None:
    """Until no more messages come, or nobody takes ours; then all tasks are stopped."""
    connection = Connection(agent.handle, frames, listening=False)
    agent.connect(connection)
    listening = asyncio.ensure_future(connection.main_loop())
    gone = asyncio.ensure_future(frames.is_gone.wait())
    try:
        await asyncio.wait({listening, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for job in (listening, gone):
            job.cancel()
        await asyncio.gather(listening, gone, return_exceptions=True)
        await agent.close()
        await connection.close()


AuthMethods = list[EnvVarAuthMethod | TerminalAuthMethod | AuthMethodAgent]


def introduction() -> Implementation:
    return Implementation(name="joey", title="joey", version=__version__)


def capabilities() -> AgentCapabilities:
    return AgentCapabilities(
        load_session=True,
        prompt_capabilities=PromptCapabilities(image=True, embedded_context=True, audio=False),
        mcp_capabilities=McpCapabilities(http=True, sse=True),
        session_capabilities=SessionCapabilities(
            list=SessionListCapabilities(),
            resume=SessionResumeCapabilities(),
            close=SessionCloseCapabilities(),
            fork=SessionForkCapabilities(),
        ),
    )


def auth_methods(can: ClientCapabilities, missing: str | None) -> AuthMethods:
    """How a key comes to joey, when none is found: `missing` says so in words."""
    if missing is None:
        return []
    methods: AuthMethods = [
        AuthMethodAgent(
            id="environment",
            name="Set a key in the environment of joey",
            description=missing,
        )
    ]
    if can.auth is not None and can.auth.terminal:
        methods.insert(
            0,
            TerminalAuthMethod(
                type="terminal",
                id="terminal",
                name="Set up joey in a terminal",
                description="joey asks which model to use, and for its key.",
                args=["--setup"],
            ),
        )
    return methods
