"""The IPC server: clients of Roo's IPC socket control this server unchanged.

`joey serve` enters `serve_ipc`; nothing else knows of this module and `ipc_protocol`. Any process
that can open the socket file may send commands, so only its owner can open it. There are no request
ids and no replies: failures are written to the log. Events go to all clients; a client that does
not read them is disconnected.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from joey.core.models import ModelInfo
from joey.core.wire.commands import COMMANDS
from joey.errors import ConfigError, JoeyError
from joey.server import ipc_protocol as protocol
from joey.server.commands.call import CommandCall, CommandError
from joey.server.feed import Broadcast
from joey.server.hub import ServerHub
from joey.system.files import make_private_directory

log = logging.getLogger(__name__)

SOCKET_VARIABLE = "ROO_CODE_IPC_SOCKET_PATH"
"""Where Roo Code's own programs say that they want its IPC socket."""
MAX_CLIENTS = 100
MAX_UNREAD_BYTES = 8 * 1024 * 1024
"""A client that leaves more unread is cut."""
READ_CHUNK_BYTES = 65_536
SHUTDOWN_TIMEOUT_S = 5.0
"""For commands that are being carried out when the server stops."""
DEFAULT_TASK_CONFIGURATION = {"consecutiveMistakeLimit": 0}
"""A program cannot say what to do about mistakes: its tasks go on, unless it sets a limit."""


@asynccontextmanager
async def serve_ipc(
    hub: ServerHub, place: Path | str | None, *, announces_task: bool = False
) -> AsyncIterator[None]:
    """Listen at `place`, or the environment's path, inside the block; without either, do nothing.
    With `announces_task`, a client that connects late is notified of the running task. Raises
    ConfigError if the socket cannot be created."""
    if not (place := place or os.environ.get(SOCKET_VARIABLE)):
        yield
        return
    path = Path(place)
    listener, inode = await asyncio.to_thread(bind_socket, path)
    clients = IpcClients(hub, announces_task=announces_task)
    server = await asyncio.start_unix_server(clients.serve_client, sock=listener)
    hub.add_listener(clients.handle)
    try:
        yield
    finally:
        hub.remove_listener(clients.handle)
        server.close()
        await clients.close()
        _remove_socket(path, inode)


class IpcClients:
    def __init__(self, hub: ServerHub, *, announces_task: bool = False) -> None:
        self._hub = hub
        self._announces_task = announces_task
        self._focused_task_id: str | None = None
        """The task that clients think of as the current one."""
        self._client_writers: dict[str, asyncio.StreamWriter] = {}
        self._connection_tasks: set[asyncio.Task[None]] = set()

    def handle(self, broadcast: Broadcast) -> None:
        """Send an event to all clients, if Roo's protocol has it."""
        frame = broadcast.frame
        if self._client_writers and frame.task_id is not None:
            payload = msgspec.to_builtins(frame.payload)
            for name, values in protocol.to_roo_events(frame.event_name, frame.task_id, payload):
                self._send_event(name, *values)
        self._send_focus_change()

    def _send_focus_change(self) -> None:
        """Send a change of focus: a task was opened, resumed or closed, so that another may be
        current."""
        current = self._hub.current_task
        before, now = self._focused_task_id, current.id if current is not None else None
        self._focused_task_id = now
        if before is not None and before != now:
            self._send_event("taskUnfocused", before)
        if now is not None and before != now:
            self._send_event("taskFocused", now)

    def _send_event(self, name: str, *payload: Any) -> None:
        data = protocol.encode_event(name, payload)
        for client_id in list(self._client_writers):
            self._write_to_client(client_id, data)

    def _write_to_client(self, client_id: str, data: bytes) -> None:
        writer = self._client_writers.get(client_id)
        if writer is None:
            return
        writer.write(data)
        transport: Any = writer.transport
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            log.warning("the IPC client %s does not read; it is cut", client_id)
            del self._client_writers[client_id]
            transport.abort()

    async def serve_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection_task = asyncio.current_task()
        assert connection_task is not None
        self._connection_tasks.add(connection_task)
        client_id = secrets.token_hex(6)
        try:
            if len(self._client_writers) >= MAX_CLIENTS:
                log.warning("an IPC client was turned away: there are %s already", MAX_CLIENTS)
                return
            self._client_writers[client_id] = writer
            self._write_to_client(
                client_id, protocol.encode_ack(client_id, os.getpid(), os.getppid())
            )
            if self._announces_task and (current := self._hub.current_task) is not None:
                for name in ("taskCreated", "taskStarted", "taskFocused"):
                    self._write_to_client(client_id, protocol.encode_event(name, (current.id,)))
            frames = protocol.IpcFrameParser()
            while data := await reader.read(READ_CHUNK_BYTES):
                for frame in frames.feed(data):
                    await self._handle_frame(client_id, frame)
        except ConnectionError as error:
            log.info("the IPC client %s has disconnected: %s", client_id, error)
        except protocol.FrameTooLargeError as error:
            log.warning("the IPC client %s is cut: %s", client_id, error)
        finally:
            self._client_writers.pop(client_id, None)
            self._connection_tasks.discard(connection_task)
            writer.close()

    async def close(self) -> None:
        """Send the rest, and disconnect clients that do not read."""
        writers = list(self._client_writers.values())
        for writer in writers:
            writer.close()
        if self._connection_tasks:
            await asyncio.wait(self._connection_tasks, timeout=SHUTDOWN_TIMEOUT_S)
        for writer in writers:
            writer.transport.abort()

    # Messages of clients

    async def _handle_frame(self, client_id: str, frame: bytes) -> None:
        try:
            await self._run_command(client_id, protocol.decode_command(frame))
        except (ValueError, CommandError, JoeyError) as error:
            log.warning("a command of the IPC client %s is dropped: %s", client_id, error)
        except Exception:
            log.exception("a command of the IPC client %s failed because of a bug", client_id)

    async def _run_command(self, client_id: str, command: protocol.IpcCommand) -> None:
        run = self._dispatch
        match command:
            case protocol.StartNewTask(data=new):
                configuration = DEFAULT_TASK_CONFIGURATION | new.configuration
                await run(
                    "startNewTask", text=new.text, images=new.images, configuration=configuration
                )
            case protocol.CancelTask(data=task_id):
                await run("cancelCurrentTask", task_id)
            case protocol.CloseTask(data=task_id):
                # Roo closes its whole window; a server stays.
                await run("clearCurrentTask", task_id)
                self._send_focus_change()
            case protocol.ResumeTask(data=task_id):
                await run("resumeTask", task_id)
            case protocol.SendMessage(data=message):
                if message.text.strip() or message.images:
                    await run("sendMessage", message=message.text, images=message.images)
            case protocol.DeleteQueuedMessage(data=message_id):
                await run("editQueue", id=message_id, remove=True)
            case protocol.GetCommands() | protocol.GetModes() | protocol.GetModels():
                name, event_name, encode, payload = _QUERIES[type(command)]
                try:
                    payload = encode(await run(name))
                except (CommandError, JoeyError) as error:
                    log.warning("an IPC client is answered with nothing (%s): %s", name, error)
                self._write_to_client(client_id, protocol.encode_event(event_name, (payload,)))

    async def _dispatch(
        self, name: str, task_id: str | UnsetType = UNSET, **arguments: object
    ) -> Any:
        """Run a command of the WebSocket API and return its data; without an id, for the current
        task."""
        checked = msgspec.convert(arguments, COMMANDS[name].arguments_type)
        call = CommandCall(None if task_id is UNSET else task_id, checked)
        return await self._hub.dispatch(name, call)


def _encode_model(info: ModelInfo) -> dict[str, Any]:
    """Encode a model in Roo's format."""
    encoded: dict[str, Any] = {
        "contextWindow": info.context_window,
        "maxTokens": info.max_output_tokens,
        "supportsImages": info.supports_images,
        "supportsPromptCache": info.supports_prompt_cache,
    }
    if info.prices is not None:
        encoded |= {
            "inputPrice": info.prices.input,
            "outputPrice": info.prices.output,
            "cacheWritesPrice": info.prices.cache_writes,
            "cacheReadsPrice": info.prices.cache_reads,
        }
    return encoded


_QUERIES: dict[type, tuple[str, str, Callable[[Any], Any], Any]] = {
    protocol.GetCommands: ("getCommands", "commandsResponse", lambda data: data.commands, []),
    protocol.GetModes: (
        "getModes",
        "modesResponse",
        lambda data: [{"slug": mode.slug, "name": mode.name} for mode in data.modes],
        [],
    ),
    protocol.GetModels: (
        "getModels",
        "modelsResponse",
        lambda data: {name: _encode_model(info) for name, info in data.models.items()},
        {},
    ),
}
"""The command that a query stands for, and the event that answers it: clients wait for one, so it
is empty where the command fails."""


def bind_socket(path: Path) -> tuple[socket.socket, int]:
    """Bind a socket at `path` for its owner only; return it with its inode. No client can connect
    before it listens. Raises ConfigError if the socket cannot be created."""
    try:
        make_private_directory(path.parent)
        mode = path.parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise _make_socket_error(
                path.parent, "everybody may write there, and could put another in its place"
            )
        _remove_stale_socket(path)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise _make_socket_error(path, error.strerror or str(error)) from error
    try:
        bound.bind(str(path))
        path.chmod(0o600)
    except OSError as error:
        bound.close()
        raise _make_socket_error(path, error.strerror or str(error)) from error
    return bound, path.lstat().st_ino


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of a dead server; a live one stays."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise _make_socket_error(path, "there is a file of that name that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise _make_socket_error(path, "another program listens there")


def _remove_socket(path: Path, inode: int) -> None:
    """Remove our socket file, unless it was replaced."""
    with suppress(FileNotFoundError):  # newer versions of asyncio do it themselves
        if path.lstat().st_ino == inode:
            path.unlink()


def _make_socket_error(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"The IPC socket {path} cannot be used: {reason}.")
