"""Terminals of the editor that show the output of commands.

A command runs where all commands do: in joey's sandbox, with what was decided about it. The editor
starts a [viewer](terminal_viewer.py) in its terminal, which prints what comes through a socket and
ends as the command ended. Ending the viewer ends the command.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from acp.exceptions import RequestError

from joey.acp.editor import Editor
from joey.acp.terminal_viewer import END_MARKER
from joey.acp.tool_calls import COMMAND_TOOL
from joey.acp.updates import UpdateEncoder
from joey.client.engine_reexports import Task
from joey.client.session import Session
from joey.core.events import (
    CommandOutputDelta,
    Event,
    TaskAborted,
    TaskFailed,
    TaskFinished,
    ToolFinished,
)
from joey.presentation.phrases import find_terminating_signal
from joey.presentation.text import sanitize, to_one_line

VIEWER_TIMEOUT_S = 5.0
"""To come, and to go."""
MAX_UNREAD_OUTPUT_BYTES = 1024 * 1024
"""For a viewer that is slow; what comes beyond is left out."""
MAX_EXIT_CODE = 255
STILL_RUNNING_EXIT_CODE = 0
_DIRECTORY_PREFIX, _SOCKET_NAME = "joey-terminals-", "socket"
_STARTUP_GRACE_S = 60.0
"""There may be a folder already where nobody answers yet."""

log = logging.getLogger(__name__)


class TerminalView:
    """One command, as one terminal shows it."""

    def __init__(self, number: str, on_viewer_closed: Callable[[], Awaitable[None]]) -> None:
        """A viewer asks for it by its number; `on_viewer_closed` is called when that one goes
        before the command does."""
        self.number = number
        self.terminal_id = ""
        self._on_viewer_closed = on_viewer_closed
        self._unread_output = bytearray()
        """What was printed before the viewer came."""
        self._omitted_bytes = 0
        self._writer: StreamWriter | None = None
        self._is_ended = False
        self._viewer_connected_event = asyncio.Event()
        self._viewer_disconnected_event = asyncio.Event()

    def print_output(self, text: str) -> None:
        # A bare return is how progress is shown, and in a terminal it does no harm.
        data = "\r".join(map(sanitize, text.split("\r"))).encode("utf-8", "replace")
        if self._buffered_bytes + len(data) > MAX_UNREAD_OUTPUT_BYTES:
            self._omitted_bytes += len(data)
            return
        self._write(self._pop_omission_note() + data)

    def end(self, code: int | None) -> None:
        """The command is over, or goes on unseen."""
        last = END_MARKER + bytes([min(max(code or STILL_RUNNING_EXIT_CODE, 0), MAX_EXIT_CODE)])
        self._write(self._pop_omission_note() + last)
        self._is_ended = True

    async def wait_until_connected(self) -> bool:
        """Whether anything is shown."""
        with suppress(TimeoutError):
            async with asyncio.timeout(VIEWER_TIMEOUT_S):
                await self._viewer_connected_event.wait()
        return self._viewer_connected_event.is_set()

    async def serve_viewer(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Until the viewer is gone."""
        self._writer = writer
        writer.write(bytes(self._unread_output))
        self._unread_output.clear()
        self._viewer_connected_event.set()
        try:
            while await reader.read(1024):
                pass  # it has nothing more to say
        except ConnectionError:
            log.debug("a viewer was killed")
        self._viewer_disconnected_event.set()
        if not self._is_ended:
            await self._on_viewer_closed()

    async def wait_until_disconnected(self) -> None:
        if await self.wait_until_connected():  # which takes longer than many a command
            with suppress(TimeoutError):
                async with asyncio.timeout(VIEWER_TIMEOUT_S):
                    await self._viewer_disconnected_event.wait()

    def _pop_omission_note(self) -> bytes:
        left_out, self._omitted_bytes = self._omitted_bytes, 0
        return f"\n[...{left_out} bytes omitted...]\n".encode() if left_out else b""

    @property
    def _buffered_bytes(self) -> int:
        if self._writer is None:
            return len(self._unread_output)
        return self._writer.transport.get_write_buffer_size()

    def _write(self, data: bytes) -> None:
        if self._is_ended or self._viewer_disconnected_event.is_set():
            return
        if self._writer is None:
            self._unread_output += data
        else:
            self._writer.write(data)


class EditorTerminalViews:
    """Those of one editor."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._directory: Path | None = None
        self._server: asyncio.Server | None = None
        self._awaiting_views_by_number: dict[str, TerminalView] = {}
        self._view_count = 0
        self._server_start_lock = asyncio.Lock()

    @property
    def is_supported(self) -> bool:
        return bool(self._editor.capabilities.terminal)

    async def open_view(
        self,
        session_id: str,
        command: str,
        cwd: Path,
        on_viewer_closed: Callable[[], Awaitable[None]],
    ) -> TerminalView:
        """A terminal for a command that runs by now.

        Raises:
            RequestError, TimeoutError, ConnectionError, OSError
        """
        async with self._server_start_lock:
            directory = self._directory or await self._start_server()
        self._view_count += 1
        view = TerminalView(str(self._view_count), on_viewer_closed)
        self._awaiting_views_by_number[view.number] = view
        arguments = [view.number, to_one_line(command, 200)]
        try:
            view.terminal_id = await self._editor.open_terminal(
                session_id, str(directory / "show"), arguments, str(cwd)
            )
        except BaseException:
            self._awaiting_views_by_number.pop(view.number, None)
            view.end(None)  # a viewer may have come all the same
            raise
        return view

    async def release_after_viewer_closes(self, session_id: str, view: TerminalView) -> None:
        """Once the viewer is gone; what it has printed stays where it is shown."""
        await view.wait_until_disconnected()
        await self.release_now(session_id, view)

    async def release_now(self, session_id: str, view: TerminalView) -> None:
        """Whether or not anything is shown."""
        self._awaiting_views_by_number.pop(view.number, None)
        try:
            await self._editor.release_terminal(session_id, view.terminal_id)
        except (RequestError, TimeoutError, ConnectionError) as error:
            log.debug("terminal %s was not released: %s", view.terminal_id, error)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._directory is not None:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def _start_server(self) -> Path:
        directory = await asyncio.to_thread(_create_viewer_directory)
        try:
            self._server = await asyncio.start_unix_server(
                self._handle_viewer, directory / _SOCKET_NAME
            )
        except OSError:  # such as a name that is too long for a socket
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            raise
        self._directory = directory
        return directory

    async def _handle_viewer(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            number = (await reader.readline()).decode("ascii", "replace").strip()
            view = self._awaiting_views_by_number.pop(number, None)
            if view is not None:
                await view.serve_viewer(reader, writer)
        except (ConnectionError, ValueError) as error:
            log.debug("a viewer came and went: %s", error)
        finally:
            writer.close()


def _create_viewer_directory() -> Path:
    """A folder of our own, with what the editor is to start: its name is what people see."""
    _remove_stale_directories(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=_DIRECTORY_PREFIX))
    viewer = Path(__file__).with_name("terminal_viewer.py")
    argv = (sys.executable, "-I", "-S", str(viewer), str(directory / _SOCKET_NAME))
    script = directory / "show"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$1"\n', encoding="utf-8")
    script.chmod(0o700)
    return directory


def _remove_stale_directories(directory: Path) -> None:
    """Remove what those have left that were killed: nobody answers there any more."""
    for each in directory.glob(f"{_DIRECTORY_PREFIX}*"):
        try:
            status = each.lstat()
            if status.st_uid != os.getuid() or time.time() - status.st_mtime < _STARTUP_GRACE_S:
                continue
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(VIEWER_TIMEOUT_S)
                connection.connect(str(each / _SOCKET_NAME))
        except (ConnectionRefusedError, FileNotFoundError):
            shutil.rmtree(each, ignore_errors=True)
        except OSError as error:
            log.debug("%s stays: %s", each, error)


class CommandTerminals:
    def __init__(self, terminals: EditorTerminalViews, get_session_id: Callable[[], str]) -> None:
        self._terminals = terminals
        self._get_session_id = get_session_id
        self._is_enabled = True
        """The editor has not refused one yet, or had one that shows nothing."""
        self._views_by_task: dict[str, TerminalView] = {}
        """By task: commands of one task run one after the other."""
        self._late_openings: set[asyncio.Task[TerminalView | None]] = set()
        """Terminals that come too late, if at all."""
        self._release_jobs: set[asyncio.Task[None]] = set()

    async def handle(
        self, session: Session, encoder: UpdateEncoder, event: Event, stopped: asyncio.Event
    ) -> None:
        """Show what a command prints, before the encoder tells of it. Once it is `stopped`, the
        editor is not waited for."""
        if not self._terminals.is_supported:
            return
        match event:
            case CommandOutputDelta(output=output):
                view = self._views_by_task.get(session.id) or await self._open_view(
                    session, encoder, stopped
                )
                if view is not None:
                    view.print_output(output)
            case ToolFinished(tool=tool) if tool == COMMAND_TOOL:
                view = self._end_view(session.id, _get_shell_exit_code(event))
                if view is not None and not await view.wait_until_connected():
                    log.warning("the editor's terminal shows nothing, so output comes as text")
                    self._is_enabled = False
                    encoder.set_running_terminal(None)
            case TaskAborted() | TaskFailed() | TaskFinished():
                self._end_view(session.id, None)

    async def close(self) -> None:
        """What still runs is not shown any more."""
        for task_id in list(self._views_by_task):
            self._end_view(task_id, None)
        for opening in self._late_openings:
            opening.cancel()
        await asyncio.gather(*self._release_jobs)

    async def _open_view(
        self, session: Session, encoder: UpdateEncoder, stopped: asyncio.Event
    ) -> TerminalView | None:
        command = encoder.running_command
        if not self._is_enabled or command is None or not isinstance(session, Task):
            return None
        if stopped.is_set():
            return None
        opening_view = self._terminals.open_view(
            self._get_session_id(),
            command,
            session.runtime.workspace,
            session.runtime.terminal.kill_foreground,
        )
        opening = asyncio.create_task(self._await_view(opening_view))
        await _wait_for_either(opening, stopped)
        if not opening.done():
            self._late_openings.add(opening)
            self._start_release_job(self._release_late_view(opening))
            return None
        view = opening.result()
        if view is not None:
            encoder.set_running_terminal(view.terminal_id)
            self._views_by_task[session.id] = view
        return view

    async def _await_view(self, opening_view: Awaitable[TerminalView]) -> TerminalView | None:
        try:
            return await opening_view
        except (RequestError, TimeoutError, OSError) as error:
            reason = str(error) or "it does not answer"
            log.warning("the editor shows no terminal, so output comes as text: %s", reason)
            self._is_enabled = False
            return None

    async def _release_late_view(self, opening: asyncio.Task[TerminalView | None]) -> None:
        """Of a terminal that nobody waits for any more, when there is one."""
        await asyncio.wait((opening,))
        self._late_openings.discard(opening)
        view = None if opening.cancelled() else opening.result()
        if view is not None:
            view.end(None)
            await self._terminals.release_now(self._get_session_id(), view)

    def _start_release_job(self, release: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(release)
        self._release_jobs.add(task)
        task.add_done_callback(self._release_jobs.discard)

    def _end_view(self, task_id: str, code: int | None) -> TerminalView | None:
        view = self._views_by_task.pop(task_id, None)
        if view is None:
            return None
        view.end(code)
        self._start_release_job(
            self._terminals.release_after_viewer_closes(self._get_session_id(), view)
        )
        return view


def _get_shell_exit_code(event: ToolFinished) -> int | None:
    """As a shell tells it."""
    name = find_terminating_signal(event)
    return 128 + signal.Signals[name] if name in signal.Signals.__members__ else event.exit_code


async def _wait_for_either(task: asyncio.Task[Any], event: asyncio.Event) -> None:
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
