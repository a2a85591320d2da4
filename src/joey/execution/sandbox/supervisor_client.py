"""joey's end of a supervisor: starts, signals and watches one confined command.

The supervisor is not a child of joey (see `forkserver`), so it reports itself how the command has
ended; `SupervisorTransport` passes that on as asyncio would for a child process. A supervisor that
goes without a report was killed.

A control group limits the number of a task's processes. The kernel's limit per user does not hold
for root; a control group counts the processes put into it, whoever owns them. Only root can make
one without further privileges.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from joey.errors import ToolError
from joey.execution.sandbox.network_proxy import HostProxy, ProxyEndpoint
from joey.ports.execution import ConfinedProcess

_START_TIMEOUT_S = 30.0


class SupervisorHandle:
    def __init__(
        self,
        plan: dict[str, Any],
        begin: Callable[[dict[str, Any]], Awaitable[SupervisorTransport]],
        proxy: HostProxy | None = None,
    ) -> None:
        """`begin` has the plan carried out; `proxy` answers where only some hosts are reached."""
        self.plan = plan
        self._begin = begin
        self._proxy = proxy
        self._transport: SupervisorTransport | None = None
        self._proxy_endpoint: ProxyEndpoint | None = None

    async def start(self, protocol: asyncio.SubprocessProtocol) -> None:
        try:
            self._transport = await self._begin(self.plan)
        except OSError as error:
            raise failed(str(error)) from error
        answer, attached = await self._transport.answer(_START_TIMEOUT_S)
        if not answer.startswith(b"R"):
            self.close()
            raise failed(why_not(answer))
        self._transport.hand_over(int(answer[1:]), protocol)
        if attached is not None:
            assert self._proxy is not None
            self._proxy_endpoint = await self._proxy.answer(attached)

    def notes(self) -> list[str]:
        return [] if self._proxy_endpoint is None else self._proxy_endpoint.take_notes()

    def is_slack(self) -> bool:
        return self._transport is None or self._transport.is_slack

    def terminate(self) -> None:
        if self._transport is None:
            return
        try:
            self._transport.order(b"T")
        except OSError:
            return  # Everything has ended.

    def kill(self) -> None:
        if self._transport is None:
            return
        try:
            self._transport.end()
        except OSError:
            return  # Everything has ended.

    def close(self) -> None:
        if self._proxy_endpoint is not None:
            self._proxy_endpoint.close()
        if self._transport is not None:
            self._transport.let_go()


def why_not(answer: bytes) -> str:
    """The reason of a keeper that could not confine a command."""
    return answer[1:].decode(errors="replace").strip() or "it gave no reason"


def failed(reason: str) -> ToolError:
    return ToolError(
        f"The sandbox could not be set up, and the command was not run: {reason}."
        " This is not a failure of the command. Tell the user; `joey doctor` says what"
        " works on this machine."
    )


_fits: type[ConfinedProcess] = SupervisorHandle


_MAX_REPORT_BYTES = 4096
_CHUNK_BYTES = 256 * 1024
_STDOUT_FD = 1
_KILLED_RETURNCODE = -9
_LAST_REPORT_FLAG = b"!"

StartReply = tuple[bytes, socket.socket | None]
"""`R` and the number of the keeper when the command itself runs, together with the door to the
network if there is one; `F` and a reason when it could not be confined."""


class SupervisorTransport(asyncio.SubprocessTransport):
    def __init__(self, control: socket.socket, output: int, plan: int) -> None:
        """`plan` is a descriptor of the plan that moves when somebody reads it."""
        super().__init__()
        control.setblocking(False)
        os.set_blocking(output, False)
        self._control = control
        self._output: int | None = output
        self._plan: int | None = plan
        self._answered: asyncio.Future[StartReply] | None = None
        self._protocol: asyncio.SubprocessProtocol | None = None
        self._pid = 0
        self._returncode: int | None = None
        self._left = 2
        """The end of the command and that of its output are still to be told."""
        self.is_slack = False
        """Nothing is left inside."""
        self.is_untouched = False
        """Nobody has ever looked at the plan, and nobody will."""

    async def answer(self, patience: float) -> StartReply:
        """What comes of the command."""
        await self._wait_for_first_message(patience)
        assert self._answered is not None
        return self._answered.result() if self._answered.done() else (b"Fit took too long", None)

    async def is_taken_up(self, patience: float) -> bool:
        """Whether somebody has begun with it; waits for the answer, if that comes soon."""
        await self._wait_for_first_message(patience)
        return not self.is_untouched and (self._plan is None or _is_read(self._plan))

    async def _wait_for_first_message(self, patience: float) -> None:
        loop = asyncio.get_running_loop()
        if self._answered is None:
            self._answered = loop.create_future()
            loop.add_reader(self._control, self._read_control)
        try:
            await asyncio.wait((self._answered,), timeout=patience)
        except asyncio.CancelledError:
            self.let_go()
            raise

    def read_reply_blocking(self, patience: float) -> bytes:
        """The answer, once all has ended; without an event loop.

        Raises:
            OSError
        """
        self._control.settimeout(patience)
        answer = data = self._control.recv(_MAX_REPORT_BYTES)
        while data:
            data = self._control.recv(_MAX_REPORT_BYTES)
        return answer

    def hand_over(self, pid: int, protocol: asyncio.SubprocessProtocol) -> None:
        """From now on somebody hears of it."""
        assert self._output is not None
        self._pid = pid
        self._protocol = protocol
        protocol.connection_made(self)
        asyncio.get_running_loop().add_reader(self._output, self._read)
        if self._returncode is not None:
            asyncio.get_running_loop().call_soon(self._notify_process_exited)

    def order(self, word: bytes) -> None:
        """Raises OSError: everything has ended."""
        self._control.send(word)

    def end(self) -> None:
        """Nobody wants to hear more: everything inside is ended.

        Raises:
            OSError: it has ended.
        """
        self._control.shutdown(socket.SHUT_WR)

    def let_go(self) -> None:
        """The same, and hear nothing more of it."""
        self._stop_hearing()
        if self._protocol is None:
            self.close()

    # What a transport is asked

    def get_pid(self) -> int:
        return self._pid

    def get_returncode(self) -> int | None:
        return self._returncode

    def close(self) -> None:
        """Read no more of the output."""
        if self._output is None:
            return
        if self._protocol is not None:
            asyncio.get_running_loop().remove_reader(self._output)
            asyncio.get_running_loop().call_soon(self._output_ended)
        os.close(self._output)
        self._output = None

    # What the keeper says

    def _read_control(self) -> None:
        while not self.is_slack:
            try:
                data, attached, *_ = socket.recv_fds(self._control, _MAX_REPORT_BYTES, 1)
            except BlockingIOError:
                return
            except OSError:
                data, attached = b"", []  # It has gone without having listened.
            self._take(data, socket.socket(fileno=attached[0]) if attached else None)

    def _take(self, data: bytes, attached: socket.socket | None) -> None:
        if data.startswith(b"E"):
            if data.endswith(_LAST_REPORT_FLAG):
                self._stop_hearing()
            self._ended(int(data[1:].rstrip(_LAST_REPORT_FLAG)))
            return
        assert self._answered is not None
        if not self._answered.done():
            # Who held the other end is gone; who had the plan has read it first of all.
            self.is_untouched = not data and self._plan is not None and not _is_read(self._plan)
            self._forget_plan()
            self._answered.set_result((data, attached))
        elif attached is not None:
            attached.close()
        if not data:
            self._stop_hearing()
            self._ended(_KILLED_RETURNCODE)

    def _ended(self, code: int) -> None:
        if self._returncode is not None:
            return
        self._returncode = code
        if self._protocol is not None:
            self._notify_process_exited()

    def _notify_process_exited(self) -> None:
        assert self._protocol is not None
        self._protocol.process_exited()
        self._one_less()

    def _forget_plan(self) -> None:
        if self._plan is not None:
            os.close(self._plan)
            self._plan = None

    def _stop_hearing(self) -> None:
        self.is_slack = True
        self._forget_plan()
        if self._answered is not None and self._control.fileno() >= 0:
            self._answered.get_loop().remove_reader(self._control)
        self._control.close()

    # What the command says

    def _read(self) -> None:
        assert self._output is not None
        assert self._protocol is not None
        try:
            data = os.read(self._output, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if data:
            self._protocol.pipe_data_received(_STDOUT_FD, data)
        else:
            self.close()

    def _output_ended(self) -> None:
        assert self._protocol is not None
        self._protocol.pipe_connection_lost(_STDOUT_FD, None)
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if not self._left:
            assert self._protocol is not None
            self._protocol.connection_lost(None)


def _is_read(plan: int) -> bool:
    return os.lseek(plan, 0, os.SEEK_CUR) > 0


_CGROUP_ROOT = Path("/sys/fs/cgroup")
_GROUP_PREFIX = "joey-"
_numbers = count(1)


class ControlGroup:
    """Of one task; what is started in it stays in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def admit(self, pid: int) -> None:
        """From now on the process counts, and all that it starts. Takes some milliseconds."""
        (self._directory / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def close(self) -> None:
        try:
            self._directory.rmdir()
        except OSError:
            return  # Something is just ending; whoever makes the next group removes this one.


def make_group(most: int) -> ControlGroup | None:
    """A group of at most so many processes; None where none can be made."""
    if os.geteuid() != 0:
        return None
    for parent in _parents():
        directory = parent / f"{_GROUP_PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            directory.mkdir()
        except OSError:
            continue
        try:
            (directory / "pids.max").write_text(str(most), encoding="ascii")
        except OSError:
            directory.rmdir()
            continue
        _sweep(parent)
        return ControlGroup(directory)
    return None


def can_count() -> bool:
    """Whether the commands of this user can be limited in number."""
    if os.geteuid() != 0:
        return True
    group = make_group(1)
    if group is None:
        return False
    group.close()
    return True


def _sweep(parent: Path) -> None:
    """Remove what processes that were killed have left."""
    for each in parent.glob(f"{_GROUP_PREFIX}*"):
        owner = each.name.removeprefix(_GROUP_PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            ControlGroup(each).close()


def _parents() -> list[Path]:
    """Where ours may be made: controllers of the first generation, then of the second."""
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
