"""Programs: the only module that starts, feeds, reads and kills them, with all their children.

`run` is for a program that is started, read and awaited; `Process` for one whose output is read
while it runs. Each gets its own session. Starting does not suspend, so it cannot be cancelled
half-way, and `Process.end` leaves neither a process nor a descriptor, however often its caller is
cancelled: asyncio's own transports guarantee neither.

A child may leave the group and the session, and its parent may die, but it keeps the environment it
was started with. So a program can be marked there: its processes are those with the mark, those of
its session or group, and all their descendants. Only a process that cleared its environment, left
the session and was orphaned escapes. Without `/proc` only the process group is known.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import IO, NamedTuple, TypedDict, Unpack

from msgspec import Struct

log = logging.getLogger(__name__)

MARKER_VARIABLE = "JOEY_COMMAND"
"""Environment variable: the marks of all programs that a process belongs to, `:` between them."""
STDIN, STDOUT, STDERR = 0, 1, 2
_CHUNK_BYTES = 64 * 1024
_KILL_TIMEOUT_S = 5.0


class CompletedProgram(Struct, frozen=True):
    """A program that has ended, and the beginning of its output."""

    returncode: int
    """Below zero: the signal that ended it."""
    stdout: bytes
    stderr: bytes
    is_truncated: bool
    """It printed more on stdout than was kept."""
    is_flood: bool
    """It was killed because it printed more than it may."""


class ProgramTimeoutError(TimeoutError):
    """A program was killed because it took too long."""

    def __init__(self, completed: CompletedProgram) -> None:
        super().__init__("the program took too long")
        self.completed = completed


class StartOptions(TypedDict, total=False):
    """Options for starting a program; all are optional."""

    cwd: Path | str
    env: Mapping[str, str] | None
    merge_stderr: bool
    """Read stderr together with stdout."""
    is_marked: bool
    """Find and end also children that leave its session."""
    niceness: int
    pass_fds: Iterable[int]
    umask: int


async def run(
    command: Sequence[str],
    *,
    input: bytes | None = None,
    timeout_s: float | None = None,
    max_output_bytes: int = sys.maxsize,
    max_error_bytes: int = 0,
    max_printed_bytes: int = sys.maxsize,
    output_grace_s: float | None = None,
    **options: Unpack[StartOptions],
) -> CompletedProgram:
    """Run a program until it has exited and closed its output, or `output_grace_s` after its exit.

    Only the first bytes of stdout and stderr are kept, the rest is read and dropped; a program that
    prints more than `max_printed_bytes` is killed. Its remaining children are killed. Raises
    ProgramTimeoutError, and OSError or ValueError if it cannot be started.
    """
    process = Process(
        command, has_stdin=input is not None, has_stderr=max_error_bytes > 0, **options
    )
    kept = {STDOUT: bytearray(), STDERR: bytearray()}
    limits = {STDOUT: max_output_bytes, STDERR: max_error_bytes}
    printed = dict.fromkeys(kept, 0)

    def keep(fd: int, data: bytes) -> None:
        printed[fd] += len(data)
        kept[fd] += data[: max(limits[fd] - len(kept[fd]), 0)]
        if sum(printed.values()) > max_printed_bytes:
            process.signal_group(signal.SIGKILL)
            process.close_pipe(STDOUT)
            process.close_pipe(STDERR)

    timed_out = True
    try:
        for fd in process.output_fds:
            process.relay(fd, partial(keep, fd))
        if input is not None:
            process.feed(input, is_last=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await process.wait()
                await process.wait_for_output(output_grace_s)
                timed_out = False
    finally:
        await process.end()
    completed = CompletedProgram(
        -signal.SIGKILL if process.returncode is None else process.returncode,
        bytes(kept[STDOUT]),
        bytes(kept[STDERR]),
        printed[STDOUT] > max_output_bytes,
        sum(printed.values()) > max_printed_bytes,
    )
    if timed_out:
        raise ProgramTimeoutError(completed)
    return completed


def run_in_terminal(command: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Run a program that takes over the terminal, such as an editor. Raises OSError, ValueError."""
    return subprocess.call(command, env=env)


def start_in_terminal(command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start such a program without waiting for its end. Raises OSError, ValueError."""
    return subprocess.Popen(command, env=env)


class Process(asyncio.SubprocessTransport):
    """A running program, the leader of its own session. Until `close` it stays unreaped, so that
    its id remains that of its group, unless `reaps_at_exit`: for a program whose children may
    outlive it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        has_stdin: bool = False,
        has_stderr: bool = False,
        reaps_at_exit: bool = False,
        **options: Unpack[StartOptions],
    ) -> None:
        """Start it. Raises OSError, ValueError."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._reaps_at_exit = reaps_at_exit
        self._marker = f"run-{os.urandom(8).hex()}" if options.get("is_marked") else ""
        env = options.get("env")
        if self._marker:  # after the marks of the commands that joey itself belongs to
            env = os.environ if env is None else env
            outer = env.get(MARKER_VARIABLE) or os.environ.get(MARKER_VARIABLE, "")
            env = {**env, MARKER_VARIABLE: f"{outer}:{self._marker}".lstrip(":")}
        self.returncode: int | None = None
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._output_closed: asyncio.Future[None] = self._loop.create_future()
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._close_callbacks: dict[int, Callable[[], None]] = {}
        self._unsent = bytearray()
        self._is_input_complete = False
        self._is_closed = False
        kept_stderr = subprocess.PIPE if has_stderr else subprocess.DEVNULL
        self._popen = subprocess.Popen(
            command,
            bufsize=0,
            cwd=options.get("cwd"),
            env=env,
            stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if options.get("merge_stderr") else kept_stderr,
            start_new_session=True,
            pass_fds=tuple(options.get("pass_fds", ())),
            umask=options.get("umask", -1),
        )
        self.pid = self._popen.pid
        files = (self._popen.stdin, self._popen.stdout, self._popen.stderr)
        self._files: dict[int, IO[bytes]] = {
            fd: file for fd, file in enumerate(files) if file is not None
        }
        for file in self._files.values():
            os.set_blocking(file.fileno(), False)
        if niceness := options.get("niceness"):
            with suppress(OSError):  # already ended
                os.setpriority(os.PRIO_PGRP, self.pid, niceness)
        try:
            handle = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or no descriptor is left
            Thread(target=self._wait_in_thread, daemon=True).start()
        else:
            self._loop.add_reader(handle, self._notice_exit, handle)

    @property
    def output_fds(self) -> list[int]:
        """The descriptors of STDOUT and STDERR that are open."""
        return [fd for fd in (STDOUT, STDERR) if fd in self._files]

    async def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its exit, at most this long; its children and its output may continue."""
        await asyncio.wait((self._exited,), timeout=timeout_s)
        return self.returncode

    def add_exit_callback(self, on_exit: Callable[[], None]) -> None:
        self._exited.add_done_callback(lambda _: on_exit())

    async def wait_for_output(self, timeout_s: float | None = None) -> None:
        """Wait until it has closed all output that is being read."""
        await asyncio.wait((self._output_closed,), timeout=timeout_s)

    def relay(
        self, fd: int, on_data: Callable[[bytes], None], on_close: Callable[[], None] | None = None
    ) -> None:
        """Pass on all output as it arrives."""
        if on_close is not None:
            self._close_callbacks[fd] = on_close
        self._loop.add_reader(self._files[fd].fileno(), self._relay_available, fd, on_data)

    async def read(self, fd: int = STDOUT) -> bytes:
        """Read the next output; empty at the end. The program blocks until this is called."""
        while (file := self._files.get(fd)) is not None:
            ready = self._waiters[fd] = self._loop.create_future()
            self._loop.add_reader(file.fileno(), _resolve, ready)
            try:
                await ready
            finally:
                if not file.closed:
                    self._loop.remove_reader(file.fileno())
            if not file.closed and (data := self._read_available(fd)) is not None:
                if not data:
                    self.close_pipe(fd)
                return data
        return b""

    def feed(self, data: bytes, *, is_last: bool = False) -> None:
        """Feed its standard input as fast as it reads; it need not read all of it."""
        self._unsent += data
        self._is_input_complete = is_last
        self._send()

    async def write(self, data: bytes) -> None:
        """Write to its standard input and wait until all is sent. Raises BrokenPipeError if it
        stops reading."""
        self.feed(data)
        while self._unsent and STDIN in self._files:
            self._waiters[STDIN] = self._loop.create_future()
            await self._waiters[STDIN]
        if STDIN not in self._files:
            raise BrokenPipeError

    def signal_group(self, number: signal.Signals) -> None:
        if self._popen.returncode is None or not self._reaps_at_exit:
            send_signal_to_group(self.pid, number)

    async def end(self, *, grace_s: float = 0.0) -> None:
        """Kill it with all its processes, and release it; it has `grace_s` to react to SIGTERM.
        Cancelling skips the grace period, never the rest."""
        try:
            if grace_s and not self._is_closed:
                self.signal_group(signal.SIGTERM)
                await asyncio.wait((self._exited, self._output_closed), timeout=grace_s)
        finally:
            if not self._is_closed:
                self.signal_group(signal.SIGKILL)
                await self._see_end()

    async def _see_end(self) -> None:
        awaited: set[asyncio.Future[None]] = {self._exited}
        if self._marker:
            awaited.add(self._loop.run_in_executor(None, kill_marked_processes, self._marker))
        deadline = self._loop.time() + _KILL_TIMEOUT_S
        cancelled: asyncio.CancelledError | None = None
        while pending := {future for future in awaited if not future.done()}:
            if (left := deadline - self._loop.time()) <= 0:
                log.warning("process %d does not end, not even by SIGKILL", self.pid)
                break
            try:
                await asyncio.wait(pending, timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
        self.close()
        if cancelled is not None:
            raise cancelled

    # Methods of a transport

    def get_pid(self) -> int:
        return self.pid

    def get_returncode(self) -> int | None:
        return self.returncode

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Close its pipes, and reap it after its exit; it is not killed."""
        self._is_closed = True
        for fd in list(self._files):
            self.close_pipe(fd)
        if self.returncode is not None:
            self._popen.wait()

    def close_pipe(self, fd: int) -> None:
        if (file := self._files.pop(fd, None)) is None:
            return
        self._loop.remove_reader(file.fileno())
        self._loop.remove_writer(file.fileno())
        file.close()
        _resolve(self._waiters.pop(fd, None))
        if (on_close := self._close_callbacks.pop(fd, None)) is not None:
            on_close()
        if not self.output_fds:
            _resolve(self._output_closed)

    def _wait_in_thread(self) -> None:
        code = self._popen.wait()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._set_returncode, code)

    def _notice_exit(self, handle: int) -> None:
        self._loop.remove_reader(handle)
        os.close(handle)
        if self._reaps_at_exit or self._is_closed:
            self._set_returncode(self._popen.wait())
        else:
            end = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            assert end is not None
            is_exit = end.si_code == os.CLD_EXITED
            self._set_returncode(end.si_status if is_exit else -end.si_status)

    def _set_returncode(self, code: int) -> None:
        self.returncode = code
        _resolve(self._exited)

    def _relay_available(self, fd: int, on_data: Callable[[bytes], None]) -> None:
        if data := self._read_available(fd):
            on_data(data)
        elif data is not None:
            self.close_pipe(fd)

    def _read_available(self, fd: int) -> bytes | None:
        try:
            return os.read(self._files[fd].fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return None

    def _send(self) -> None:
        if (file := self._files.get(STDIN)) is None:
            return
        try:
            if self._unsent:
                del self._unsent[: os.write(file.fileno(), self._unsent[:_CHUNK_BYTES])]
        except BlockingIOError:
            pass
        except OSError:  # it no longer reads
            self.close_pipe(STDIN)
            return
        if self._unsent:
            self._loop.add_writer(file.fileno(), self._send)
            return
        self._loop.remove_writer(file.fileno())
        _resolve(self._waiters.pop(STDIN, None))
        if self._is_input_complete:
            self.close_pipe(STDIN)


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


_MARKER_VARIABLE_PREFIX = b"\0" + MARKER_VARIABLE.encode() + b"="
_PROC_ROOT = Path("/proc")
"""In the fourth column of /proc/net/tcp."""
_POLL_INTERVAL_S = 0.02
_MAX_KILL_ROUNDS = 100
_MAX_LOOKS = 50
_LOOK_INTERVAL_S = 0.001
_UNMARKED_TIMEOUT_S = 2.0
_MAX_ENVIRONMENT_BYTES = 8 * 1024**2
_KERNEL_THREADS_PARENT = 2
_ENVIRONMENT_FIELDS = slice(47, 49)
"""Of `/proc/PID/stat`, after the name: where the environment starts and ends."""


class _ProcessStat(NamedTuple):
    pid: int
    parent_pid: int
    group_id: int
    session_id: int


def find_processes(
    marker: str,
    leader: int | None = None,
    reaped: bool = False,
    unmarked: set[int] | None = None,
) -> list[int]:
    """Find the live processes that have `marker` (or, if it ends with `.`, one that begins with
    it), and those of the session that `leader` opened. `reaped` says that the leader has ended: a
    new process with its id is then unrelated. `unmarked` is filled with processes that are
    executing other programs, or ending: until they have, they show no mark."""
    if not (_PROC_ROOT / "self" / "stat").exists():
        return [] if leader is None or not process_group_exists(leader) else [-leader]
    stats = _read_process_stats()
    if reaped and any(stat.pid == leader for stat in stats):
        leader = None
    found = {
        stat.pid
        for stat in stats
        if (leader is not None and leader in (stat.group_id, stat.session_id))
        or _has_marker(stat, marker.encode(), unmarked)
    }
    children: dict[int, list[int]] = {}
    for stat in stats:
        children.setdefault(stat.parent_pid, []).append(stat.pid)
    unseen = list(found)
    while unseen:
        new = [pid for pid in children.get(unseen.pop(), ()) if pid not in found]
        found.update(new)
        unseen.extend(new)
    return sorted(found - {os.getpid()})


def format_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, and to process groups given as negative ids."""
    for pid in pids:
        # A process that changed its user (sudo) cannot be killed.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def send_signal_to_group(leader: int, number: signal.Signals) -> None:
    send_signal((-leader,), number)


def kill_marked_processes(marker: str) -> None:
    """Send SIGKILL to all processes with the mark, and to those that they start meanwhile."""
    looks = 0
    unmarked_before: set[int] = set()
    deadline = time.monotonic() + _UNMARKED_TIMEOUT_S
    for _ in range(_MAX_KILL_ROUNDS):
        unmarked: set[int] = set()
        while not (pids := find_processes(marker, unmarked=unmarked)):
            looks += 1
            # A process may be preempted while it shows no mark, or take long to end, so one that
            # stays so is waited for; others, strangers as a rule, are looked at a few times.
            awaited = unmarked if looks <= _MAX_LOOKS else unmarked & unmarked_before
            if not awaited or time.monotonic() > deadline:
                return
            unmarked, unmarked_before = set(), unmarked
            time.sleep(_LOOK_INTERVAL_S)
        send_signal(pids, signal.SIGKILL)


def kill_child_process_groups() -> None:
    """Kill the children, which are in their own process groups and would outlive this process."""
    for path in _PROC_ROOT.glob("self/task/*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text(encoding="ascii").split()):
                with suppress(OSError):
                    if os.getpgid(child) == child:
                        send_signal_to_group(child, signal.SIGKILL)


async def terminate_processes(find: Callable[[], list[int]], grace: float) -> None:
    """Send SIGTERM to all processes that `find` finds, then after `grace` seconds SIGKILL until
    none is left; cancelling skips the rest of the grace period, never the SIGKILL."""
    if not (pids := find()):
        return
    try:
        send_signal(pids, signal.SIGTERM)
        await wait_until_none(find, grace)
    finally:
        send_signal(find(), signal.SIGKILL)
    await wait_until_none(find, _KILL_TIMEOUT_S, insist=True)


async def wait_until_none(
    find: Callable[[], list[int]], seconds: float = _KILL_TIMEOUT_S, insist: bool = False
) -> None:
    """Wait until `find` finds no process; new ones are killed if we `insist`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (left := find()) and loop.time() < deadline:
        if insist:
            send_signal(left, signal.SIGKILL)
        await asyncio.sleep(_POLL_INTERVAL_S)


def _read_process_stats() -> list[_ProcessStat]:
    stats: list[_ProcessStat] = []
    for name in os.listdir(_PROC_ROOT):  # noqa: PTH208 (names only: this runs over every process)
        if name.isdigit():
            with suppress(OSError):  # it ended meanwhile
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    state, *ids = file.read().rpartition(b")")[2].split()[:4]
                if state not in (b"Z", b"X"):
                    stats.append(_ProcessStat(int(name), *map(int, ids)))
    return stats


def _has_marker(process: _ProcessStat, marker: bytes, unmarked: set[int] | None) -> bool:
    environment = b""
    path = f"/proc/{process.pid}/environ"
    try:
        with suppress(ProcessLookupError), open(path, "rb", buffering=0) as file:  # noqa: PTH123
            environment = file.read(_MAX_ENVIRONMENT_BYTES)  # at once: it may call exec meanwhile
        if not environment and unmarked is not None and _is_in_exec_or_ending(process):
            unmarked.add(process.pid)
    except OSError:
        return False  # It ended meanwhile, or belongs to another user.
    marks = (b"\0" + environment).partition(_MARKER_VARIABLE_PREFIX)[2].partition(b"\0")[0]
    return any(
        found == marker or (marker.endswith(b".") and found.startswith(marker))
        for found in marks.split(b":")
    )


def _is_in_exec_or_ending(process: _ProcessStat) -> bool:
    """Whether a process without a visible environment will show one in a moment, or did until now.
    Raises OSError."""
    if _KERNEL_THREADS_PARENT in (process.pid, process.parent_pid):
        return False
    fields = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    start, end = fields[_ENVIRONMENT_FIELDS]
    return start != end or end == b"0"


def process_group_exists(leader: int) -> bool:
    """Whether any process of a group is left, even a zombie; very cheap."""
    try:
        os.killpg(leader, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
