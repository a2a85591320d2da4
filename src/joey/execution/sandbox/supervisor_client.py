"""joey's end of a supervisor: starts, signals and watches one sandboxed command.

The supervisor is not a child of joey (see `forkserver`), so it reports itself how the command has
ended; `SupervisorTransport` passes that on as asyncio would for a child process. A supervisor that
ends without a report was killed.

A control group limits the number of a task's processes. The kernel's limit per user does not apply
to root; a control group counts all processes put into it. Only root can create one without further
privileges.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from joey.execution.sandbox.sandbox import build_setup_error
from joey.ports.execution import ConfinedProcess

_START_TIMEOUT_S = 30.0


class SupervisorHandle:
    def __init__(
        self,
        plan: dict[str, Any],
        start_command: Callable[[dict[str, Any]], Awaitable[SupervisorTransport]],
    ) -> None:
        """`start_command` executes the plan."""
        self.plan = plan
        self._start_command = start_command
        self._transport: SupervisorTransport | None = None
        self._attached_socket: socket.socket | None = None
        """Listens inside, at the port that the plan names."""

    async def start(self, protocol: asyncio.SubprocessProtocol) -> None:
        try:
            self._transport = await self._start_command(self.plan)
        except OSError as error:
            raise build_setup_error(str(error)) from error
        answer, self._attached_socket = await self._transport.wait_for_reply(_START_TIMEOUT_S)
        if not answer.startswith(b"R"):
            self.close()
            raise build_setup_error(parse_failure_reason(answer))
        self._transport.attach_protocol(int(answer[1:]), protocol)

    def take_denial_messages(self) -> list[str]:
        return []

    def has_no_processes(self) -> bool:
        return self._transport is None or self._transport.has_no_processes

    def terminate(self) -> None:
        if self._transport is not None:
            self._transport.request_end()

    def kill(self) -> None:
        if self._transport is not None:
            self._transport.request_kill()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.disconnect()


def parse_failure_reason(answer: bytes) -> str:
    """Parse the reason of a supervisor that could not sandbox a command."""
    return answer[1:].decode(errors="replace").strip() or "it gave no reason"


_protocol_check: type[ConfinedProcess] = SupervisorHandle


_MAX_REPORT_BYTES = 4096
_CHUNK_BYTES = 256 * 1024
_STDOUT_FD = 1
_KILLED_RETURNCODE = -9
_LAST_REPORT_FLAG = b"!"

StartReply = tuple[bytes, socket.socket | None]
"""`R` and the number of the supervisor when the command itself runs, together with a socket that
listens inside if there is one; `F` and a reason when it could not be confined."""


class TaskNetwork:
    """The loopback network of a task's commands: created by the first of them, joined by the
    others.

    It exists as long as a process is in it or it is held here.
    """

    def __init__(self) -> None:
        self.descriptor: int | None = None

    def keep(self, descriptor: int) -> None:
        """Hold the network of a command, unless there is one already."""
        if self.descriptor is None:
            self.descriptor = descriptor
        else:
            os.close(descriptor)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class SupervisorTransport(asyncio.SubprocessTransport):
    def __init__(
        self,
        control: socket.socket,
        output: int,
        sandbox: dict[str, Any],
        network: TaskNetwork | None = None,
    ) -> None:
        """`sandbox` is prepared at once, for a later command."""
        super().__init__()
        self._network = network if sandbox.get("shares_network") else None
        control.setblocking(False)
        os.set_blocking(output, False)
        self._control_socket = control
        self._output_fd: int | None = output
        self._command_fd: int | None = None
        """The command's plan; its position moves when somebody reads it."""
        self._reply_future: asyncio.Future[StartReply] | None = None
        self._protocol: asyncio.SubprocessProtocol | None = None
        self._pid = 0
        self._returncode: int | None = None
        self._pending_end_count = 2
        """The end of the command and that of its output are still to be told."""
        self.has_no_processes = False
        self.was_never_started = False
        """Nobody has ever looked at the command, and nobody will."""
        self._joined_network = None if self._network is None else self._network.descriptor
        os.close(self._send_plan(sandbox, self._joined_network))

    def send_command(self, plan: dict[str, Any]) -> None:
        """Send a command to run; `wait_for_reply` reports the outcome."""
        self._command_fd = self._send_plan(plan)

    def _send_plan(self, plan: dict[str, Any], network: int | None = None) -> int:
        file = os.memfd_create("plan")
        try:
            data = memoryview(marshal.dumps(plan))
            while data:
                data = data[os.write(file, data) :]
            os.lseek(file, 0, os.SEEK_SET)
            with suppress(BrokenPipeError, ConnectionResetError):  # the reply says why
                attached = [file] if network is None else [file, network]
                socket.send_fds(self._control_socket, [b"P"], attached)
        except BaseException:
            os.close(file)
            raise
        return file

    @property
    def is_in_task_network(self) -> bool:
        """Whether current commands would be in the same network, if they share one."""
        return self._network is None or self._network.descriptor == self._joined_network

    async def wait_for_reply(self, patience: float) -> StartReply:
        """Wait for the reply to the command."""
        reply = await self._wait_for_first_message(patience)
        return reply.result() if reply.done() else (b"Fit took too long", None)

    async def wait_until_begun(self, patience: float) -> bool:
        """Whether the command was started; waits for the answer if it comes soon."""
        await self._wait_for_first_message(patience)
        return not self.was_never_started and self._is_command_read

    @property
    def was_refused(self) -> bool:
        """Whether the command was rejected, and no part of it has run or will run."""
        reply = self._reply_future
        is_refused = reply is not None and reply.done() and reply.result()[0].startswith(b"F")
        return is_refused or self.was_never_started

    async def _wait_for_first_message(self, patience: float) -> asyncio.Future[StartReply]:
        loop = asyncio.get_running_loop()
        if self._reply_future is None:
            self._reply_future = loop.create_future()
            loop.add_reader(self._control_socket, self._read_control)
        try:
            await asyncio.wait((self._reply_future,), timeout=patience)
        except asyncio.CancelledError:
            self.disconnect()
            raise
        return self._reply_future

    def read_reply_blocking(self, patience: float) -> bytes:
        """Read the answer once everything has ended, without an event loop. Raises OSError."""
        self._control_socket.settimeout(patience)
        answer = data = self._control_socket.recv(_MAX_REPORT_BYTES)
        while data:
            data = self._control_socket.recv(_MAX_REPORT_BYTES)
        return answer

    def attach_protocol(self, pid: int, protocol: asyncio.SubprocessProtocol) -> None:
        """Attach a protocol, which is told about events from now on."""
        assert self._output_fd is not None
        self._pid = pid
        self._protocol = protocol
        protocol.connection_made(self)
        asyncio.get_running_loop().add_reader(
            self._output_fd, self._read_output, self._output_fd, protocol
        )
        if self._returncode is not None:
            asyncio.get_running_loop().call_soon(self._notify_end, protocol.process_exited)

    def request_end(self) -> None:
        """Ask everything inside to end."""
        with suppress(OSError):  # everything has ended
            self._control_socket.send(b"T")

    def request_kill(self) -> None:
        """Kill everything inside; later reports are ignored."""
        with suppress(OSError):  # everything has ended
            self._control_socket.shutdown(socket.SHUT_WR)

    def disconnect(self) -> None:
        """Kill everything inside and close the connection."""
        self._close_control()
        if self._protocol is None:
            self.close()

    # Methods of a transport

    def get_pid(self) -> int:
        return self._pid

    def get_returncode(self) -> int | None:
        return self._returncode

    def close(self) -> None:
        """Read no more of the output."""
        if self._output_fd is None:
            return
        if self._protocol is not None:
            ended = partial(self._protocol.pipe_connection_lost, _STDOUT_FD, None)
            asyncio.get_running_loop().remove_reader(self._output_fd)
            asyncio.get_running_loop().call_soon(self._notify_end, ended)
        os.close(self._output_fd)
        self._output_fd = None

    # Messages of the supervisor

    def _read_control(self) -> None:
        while not self.has_no_processes:
            try:
                data, attached, *_ = socket.recv_fds(
                    self._control_socket, _MAX_REPORT_BYTES, 1, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:
                data, attached = b"", []  # It ended without having read anything.
            if attached and self._network is not None:
                self._network.keep(attached.pop())
            self._handle_message(data, socket.socket(fileno=attached[0]) if attached else None)

    def _handle_message(self, data: bytes, attached: socket.socket | None) -> None:
        if data.startswith(b"E"):
            if data.endswith(_LAST_REPORT_FLAG):
                self._close_control()
            self._set_returncode(int(data[1:].rstrip(_LAST_REPORT_FLAG)))
            return
        assert self._reply_future is not None
        if not self._reply_future.done():
            # The other end is closed; the plan would have been read first.
            self.was_never_started = not data and not self._is_command_read
            self._close_command()
            self._reply_future.set_result((data, attached))
        elif attached is not None:
            attached.close()
        if not data:
            self._close_control()
            self._set_returncode(_KILLED_RETURNCODE)

    def _set_returncode(self, code: int) -> None:
        if self._returncode is not None:
            return
        self._returncode = code
        if self._protocol is not None:
            self._notify_end(self._protocol.process_exited)

    @property
    def _is_command_read(self) -> bool:
        return self._command_fd is None or os.lseek(self._command_fd, 0, os.SEEK_CUR) > 0

    def _close_command(self) -> None:
        if self._command_fd is not None:
            os.close(self._command_fd)
            self._command_fd = None

    def _close_control(self) -> None:
        self.has_no_processes = True
        self._close_command()
        if self._reply_future is not None and self._control_socket.fileno() >= 0:
            self._reply_future.get_loop().remove_reader(self._control_socket)
        self._control_socket.close()

    # Output of the command

    def _read_output(self, output: int, protocol: asyncio.SubprocessProtocol) -> None:
        try:
            data = os.read(output, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if data:
            protocol.pipe_data_received(_STDOUT_FD, data)
        else:
            self.close()

    def _notify_end(self, notify: Callable[[], None]) -> None:
        notify()
        self._pending_end_count -= 1
        if not self._pending_end_count and self._protocol is not None:
            self._protocol.connection_lost(None)


_CGROUP_ROOT = Path("/sys/fs/cgroup")
_GROUP_PREFIX = "joey-"
_group_numbers = count(1)


class ControlGroup:
    """The control group of one task; processes started in it stay in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add_process(self, pid: int) -> None:
        """Add a process and its future children to the group. Takes a few milliseconds."""
        (self._directory / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def close(self) -> None:
        try:
            self._directory.rmdir()
        except OSError:
            return  # A process is just ending; this group is removed when the next one is created.


def create_control_group(max_processes: int) -> ControlGroup | None:
    """Create a group with a limit of processes; None if that is not possible."""
    if os.geteuid() != 0:
        return None
    for parent in _find_parent_groups():
        directory = parent / f"{_GROUP_PREFIX}{os.getpid()}-{next(_group_numbers)}"
        try:
            directory.mkdir()
        except OSError:
            continue
        try:
            (directory / "pids.max").write_text(str(max_processes), encoding="ascii")
        except OSError:
            directory.rmdir()
            continue
        for each in parent.glob(f"{_GROUP_PREFIX}*"):  # left by processes that were killed
            owner = each.name.removeprefix(_GROUP_PREFIX).partition("-")[0]
            if not Path("/proc", owner).exists():
                ControlGroup(each).close()
        return ControlGroup(directory)
    return None


def can_limit_processes() -> bool:
    """Whether the number of this user's processes can be limited."""
    if os.geteuid() != 0:
        return True
    if group := create_control_group(1):
        group.close()
    return group is not None


def _find_parent_groups() -> list[Path]:
    """Find parent groups in which groups can be created: of version 1, then of version 2."""
    found: list[Path] = []
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        own = path.strip("/")
        if "pids" in controllers.split(","):
            found.append(_CGROUP_ROOT / controllers / own)
        elif number == "0":
            # A group with processes of its own may have no limited groups below it.
            found += [(_CGROUP_ROOT / own).parent if own else _CGROUP_ROOT, _CGROUP_ROOT / own]
    return [each for each in found if each.is_dir() and each.is_relative_to(_CGROUP_ROOT)]
