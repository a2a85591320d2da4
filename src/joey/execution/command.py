"""A running shell command: its process group, its output, and how it ends.

A command has ended when its shell has exited and its output has been read. A background process
that it left may hold the output open for days, so after a short grace period the command counts as
ended anyway; the rest keeps running, watched, until it ends or is killed.

The output is always drained. Its beginning and end are held in bounded memory (`OutputBuffer`); all
of it, up to a limit, is written to a file (`OutputFile`).
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from msgspec import structs

from joey.core.terminal_text import count_incomplete_utf8_bytes, render_terminal_output
from joey.ports.execution import CommandExit, ConfinedProcess, RunningCommand
from joey.system.files import make_private_directory, open_private_file
from joey.system.subprocess import (
    STDOUT,
    Process,
    find_processes,
    format_signal,
    process_group_exists,
    send_signal_to_group,
    terminate_processes,
    wait_until_none,
)

log = logging.getLogger(__name__)

_EXIT_POLL_INTERVAL_S = 0.02
_TCP_LISTEN_STATE = "0A"
"""In `/proc/PID/net/tcp`."""
_MAX_OPEN_OUTPUT_GRACE_PERIODS = 5
"""How many graces an output may stay open after the shell, held by nobody that we can find."""
_REAP_TIMEOUT_S = 5.0
_MAX_NEW_OUTPUT_BYTES = 8 * 1024
"""In one look at a background command."""


class OutputSink:
    def __init__(self, artifact: Path | None, on_output: Callable[[str], None] | None) -> None:
        self.buffer = OutputBuffer()
        self.is_open = True
        self._output_file = OutputFile(artifact) if artifact is not None else None
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        self.buffer.feed(data)
        if self._output_file is not None:
            self._output_file.write(data)
        self._decode_and_notify(data)

    def close(self) -> None:
        self.is_open = False
        self.buffer.is_closed = True
        if self._output_file is not None:
            self._output_file.close()
        self._decode_and_notify(b"", is_last=True)

    def _decode_and_notify(self, data: bytes, *, is_last: bool = False) -> None:
        if (text := self._decoder.decode(data, is_last)) and self._on_output is not None:
            self._on_output(text)


class LocalCommand(asyncio.SubprocessProtocol):
    def __init__(
        self,
        command: str,
        cwd: Path,
        marker: str,
        artifact: Path | None,
        on_output: Callable[[str], None] | None,
        kill_grace: float,
        exit_grace: float,
    ) -> None:
        self.pid = 0
        self.command = command
        self.cwd = cwd
        self.artifact = artifact
        self.is_expected_to_end = False
        self.is_end_recorded = False
        self.is_in_background = False
        self.confined_process: ConfinedProcess | None = None
        """What holds it, when it is confined: its supervisor lives as long as anything inside
        does."""
        self._process: Process | None = None
        """What runs it, when it is not confined."""
        self._marker = marker
        self._output_sink = OutputSink(artifact, on_output)
        self._kill_grace_s = kill_grace
        self._exit_grace_s = exit_grace
        self._returncode: int | None = None
        self._exit_time = 0.0
        self._was_killed = False
        self._active_kill_count = 0
        """How many are at work right now: until they are done, nothing counts as left behind."""
        self._was_exit_reported = False
        self._start_time = time.monotonic()
        self.exit: CommandExit | None = None
        self._exited_event = asyncio.Event()
        self._finished_event = asyncio.Event()
        self._waiter_timeouts: set[asyncio.Timeout] = set()
        """How long each of those waits who wait for it."""
        self._closed_event = asyncio.Event()

    # The port's interface

    @property
    def is_running(self) -> bool:
        if self.exit is None:
            return True
        return self.exit.has_background_processes and not self._has_no_leftover_processes

    @property
    def is_listening(self) -> bool:
        return has_listening_socket(self._find_processes())

    @property
    def running_s(self) -> float:
        return time.monotonic() - self._start_time

    @property
    def output_bytes(self) -> int:
        return self._output_sink.buffer.total_bytes

    def render_truncated(self, budget: int) -> str:
        return render_terminal_output(self._output_sink.buffer.render_truncated(budget))

    def read_new_output(self) -> str:
        self._was_exit_reported = self.exit is not None and not self._output_sink.is_open
        return render_terminal_output(self._output_sink.buffer.read_new_text(_MAX_NEW_OUTPUT_BYTES))

    async def wait(self, timeout_s: float | None = None) -> CommandExit | None:
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                self._waiter_timeouts.add(limit)
                await self._finished_event.wait()
        except TimeoutError:
            self.is_in_background = self.is_in_background or self.exit is None
        except asyncio.CancelledError:
            if self.exit is None and not self.is_in_background:
                await self.kill()
            raise
        finally:
            self._waiter_timeouts.discard(limit)
        return self.exit

    async def wait_for_processes(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        await self.wait(timeout_s)
        if self.exit is not None:
            await wait_until_none(
                lambda: [self.pid] if self.is_running else [], deadline - loop.time()
            )

    def detach(self) -> bool:
        if self.exit is not None:
            return False
        for limit in self._waiter_timeouts:
            limit.reschedule(asyncio.get_running_loop().time())
        return bool(self._waiter_timeouts)

    async def kill(self) -> CommandExit:
        self._was_killed = self._was_killed or self._returncode is None
        self._active_kill_count += 1
        try:
            if self.confined_process is None:
                await self._terminate_unconfined(self._kill_grace_s)
            else:
                await self._terminate_confined(self.confined_process)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REAP_TIMEOUT_S):
                    await self._exited_event.wait()
            if self._returncode is None:
                log.warning("process %d does not end, not even by SIGKILL", self.pid)
            self._transport.close()
            self.exit = structs.replace(
                self._finish(left_running=False), has_background_processes=False
            )
        finally:
            self._active_kill_count -= 1
            self._finish_if_ended()
        if self._returncode is not None:
            await self._closed_event.wait()
        return self.exit

    # Called by the terminal

    @property
    def is_listed_as_background(self) -> bool:
        """Whether it is a background command with something left to report."""
        return self.is_in_background and not self._was_exit_reported

    @property
    def can_discard(self) -> bool:
        """Whether nothing is left to drain, kill or report."""
        end, is_closed = self.exit, self._closed_event.is_set()
        if end is None or not is_closed or self.is_listed_as_background:
            return False
        return not end.has_background_processes or self._has_no_leftover_processes

    async def abort_start(self) -> None:
        """Kill a command that was not started properly, or whose caller was cancelled."""
        if self.confined_process is None:
            await self._terminate_unconfined(grace_s=0)
            return
        self.confined_process.kill()
        if self.pid:
            # The supervisor exits by itself after cleaning up.
            asyncio.get_running_loop().call_later(_REAP_TIMEOUT_S, self._kill_supervisor)

    async def _terminate_unconfined(self, grace_s: float) -> None:
        if self._process is not None:
            try:
                await terminate_processes(self._find_processes, grace_s)
            finally:
                await self._process.end()

    async def _terminate_confined(self, process: ConfinedProcess) -> None:
        """Terminate like `terminate_processes`, but by the supervisor, which knows all processes
        inside."""

        def find() -> list[int]:
            return [] if process.has_no_processes() else [self.pid]

        try:
            process.terminate()
            await wait_until_none(find, self._kill_grace_s)
        finally:
            process.kill()
        await wait_until_none(find)
        if find():
            send_signal_to_group(self.pid, signal.SIGKILL)

    def close_confined_process(self) -> None:
        """Close the sandbox; no process is left inside."""
        if self.confined_process is not None:
            self.confined_process.close()

    def _kill_supervisor(self) -> None:
        if self._returncode is None:
            send_signal_to_group(self.pid, signal.SIGKILL)

    # Called by its process or its supervisor

    def attach(self, process: Process) -> None:
        self.connection_made(process)
        process.relay(STDOUT, self._output_sink.feed, partial(self.pipe_connection_lost, 1, None))
        process.add_exit_callback(self.process_exited)
        self._process = process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self.pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._output_sink.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._append_denial_messages()
        self._output_sink.close()
        self._finish_if_ended()

    def process_exited(self) -> None:
        self._returncode = self._transport.get_returncode()
        self._exit_time = asyncio.get_running_loop().time()
        self._exited_event.set()
        self._finish_if_ended()

    # How it ends

    @property
    def _has_no_leftover_processes(self) -> bool:
        if self.confined_process is None:
            return not process_group_exists(self.pid)
        return self.confined_process.has_no_processes()

    def _find_processes(self) -> list[int]:
        return find_processes(self._marker, self.pid, reaped=self._returncode is not None)

    def _finish_if_ended(self) -> None:
        """Finish if both the shell and the output have ended."""
        if self._returncode is not None and not self._output_sink.is_open:
            self._transport.close()
            self._closed_event.set()
        if self.exit is not None or self._returncode is None or self._active_kill_count:
            return
        if not self._output_sink.is_open and self._has_no_leftover_processes:
            self._finish(left_running=False)
            return
        loop = asyncio.get_running_loop()
        waited = loop.time() - self._exit_time
        if waited >= self._exit_grace_s:
            left = not self._has_no_leftover_processes
            if self.confined_process is None:
                left = bool(self._find_processes())
            is_late = waited >= _MAX_OPEN_OUTPUT_GRACE_PERIODS * self._exit_grace_s
            if left or is_late or not self._output_sink.is_open:
                self._finish(left_running=left or self._output_sink.is_open)
                return
        loop.call_later(_EXIT_POLL_INTERVAL_S, self._finish_if_ended)

    def _append_denial_messages(self) -> None:
        """Append denied accesses to the command's output."""
        if self.confined_process is not None and self._output_sink.is_open:
            for note in self.confined_process.take_denial_messages():
                self._output_sink.feed(f"[joey: {note}]\n".encode())

    def _finish(self, left_running: bool) -> CommandExit:
        if self.exit is None:
            self._append_denial_messages()
            self.is_in_background = self.is_in_background or left_running
            code, killed = self._returncode, self._was_killed
            self.exit = _build_command_exit(code, killed, left_running)
            self._finished_event.set()
            if not left_running:
                self.close_confined_process()
        return self.exit


def _build_command_exit(returncode: int | None, killed: bool, left_running: bool) -> CommandExit:
    """Build the exit as it was; a killed command never looks successful."""
    if returncode is None:
        return CommandExit(None, "SIGKILL")
    if returncode < 0:
        return CommandExit(None, format_signal(-returncode), left_running)
    if killed:
        return CommandExit(returncode or None, "SIGTERM")
    return CommandExit(returncode, has_background_processes=left_running)


_protocol_check: type[RunningCommand] = LocalCommand


MAX_HEAD_BYTES = 128 * 1024
MAX_TAIL_BYTES = 256 * 1024


class OutputBuffer:
    """Bytes in, text out, in bounded memory: at most ``head + 2 * tail`` bytes are held, addressed
    by their offset in the whole output. Texts say how much is missing in between."""

    def __init__(self, head: int = MAX_HEAD_BYTES, tail: int = MAX_TAIL_BYTES) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._read_offset = 0
        self.is_closed = False
        """No more bytes follow: a character that is still incomplete will stay so."""
        self.total_bytes = 0

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) > self._tail_limit:
            self._tail.clear()
            data = data[-self._tail_limit :]
        self._tail += data
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    def render_truncated(self, budget: int) -> str:
        """Render all of the output if it fits into `budget` bytes, else half of that from each
        end."""
        return self._render_range(0, self.total_bytes, budget)

    def read_new_text(self, budget: int) -> str:
        """Return the output since the last call, in the form of `render_truncated`."""
        end = self.total_bytes
        if not self.is_closed:
            last = self._read_suffix(max(self._read_offset, end - 3), end)
            end -= count_incomplete_utf8_bytes(last)
        text = self._render_range(self._read_offset, end, budget)
        self._read_offset = end
        return text

    def _render_range(self, start: int, end: int, budget: int) -> str:
        if end - start <= budget and len(whole := self._read_prefix(start, end)) == end - start:
            return _decode_utf8(whole)
        head_size = budget // 2
        first = self._read_prefix(start, min(start + head_size, end))
        first = first[: len(first) - count_incomplete_utf8_bytes(first)]
        rest_start = max(start + len(first), end - (budget - head_size))
        last = self._read_suffix(rest_start, end)
        starts = (at for at, byte in enumerate(last[:3]) if byte & 0xC0 != 0x80)
        last = last[next(starts, 3) :]  # an incomplete character
        omitted = end - start - len(first) - len(last)
        return f"{_decode_utf8(first)}\n[...{omitted} bytes omitted...]\n{_decode_utf8(last)}"

    def _read_prefix(self, start: int, end: int) -> bytes:
        """Return the kept part of [start, end) without a gap from `start` on."""
        found = bytes(self._head[start:end])
        reached, tail_start = start + len(found), self.total_bytes - len(self._tail)
        if tail_start <= reached < end:
            found += self._tail[reached - tail_start : end - tail_start]
        return found

    def _read_suffix(self, start: int, end: int) -> bytes:
        """Return the kept part of [start, end) without a gap up to `end`."""
        tail_start = self.total_bytes - len(self._tail)
        if start >= tail_start or tail_start > len(self._head):
            return bytes(self._tail[max(0, start - tail_start) : max(0, end - tail_start)])
        return self._read_prefix(start, end)


def _decode_utf8(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


MAX_OUTPUT_FILE_BYTES = 256 * 1024 * 1024


class OutputFile:
    """The file of the whole output, created at the first byte, so that a silent command leaves no
    file."""

    def __init__(self, path: Path, cap: int = MAX_OUTPUT_FILE_BYTES) -> None:
        self._path = path
        self._max_bytes = cap
        self._remaining_bytes = cap
        self._file: BinaryIO | None = None
        self._is_closed = False

    def write(self, data: bytes) -> None:
        """Write `data`; a full disk must not disturb the command."""
        if self._is_closed:
            return
        try:
            if self._file is None:
                make_private_directory(self._path.parent)
                descriptor = open_private_file(self._path, os.O_WRONLY | os.O_TRUNC)
                self._file = os.fdopen(descriptor, "wb")
            self._file.write(data[: self._remaining_bytes])
            self._remaining_bytes -= len(data)
            if self._remaining_bytes < 0:
                size = self._max_bytes // (1024 * 1024)
                self._file.write(b"\n[...output after the first %d MiB was not kept...]\n" % size)
                self.close()
            else:
                self._file.flush()
        except OSError as error:
            log.warning("output of a command is no longer stored in %s: %s", self._path, error)
            self.close()

    def close(self) -> None:
        self._is_closed = True
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as error:
            log.warning("the end of %s could not be written: %s", self._path, error)
        self._file = None


def has_listening_socket(pids: Iterable[int]) -> bool:
    """Whether one of the processes accepts TCP connections; False if /proc does not tell."""
    return any(not _list_listening_inodes(pid).isdisjoint(_list_socket_inodes(pid)) for pid in pids)


def _list_listening_inodes(pid: int) -> set[str]:
    """List the listening sockets of the process's network namespace."""
    rows: list[list[str]] = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            text = Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii")
            rows += (line.split() for line in text.splitlines()[1:])
    return {row[9] for row in rows if row[3] == _TCP_LISTEN_STATE}


def _list_socket_inodes(pid: int) -> set[str]:
    links: set[str] = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                links.add(str(descriptor.readlink()))
    return {link[8:-1] for link in links if link.startswith("socket:[")}
