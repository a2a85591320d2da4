"""joey's end of a task's fork server: starts it, sends it orders, stops it when idle.

`ForkServerManager` keeps the fork server alive between commands and replaces one that was killed;
`ForkServerClient` is the process itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from joey.execution.sandbox.supervisor_client import ControlGroup, SupervisorTransport, TaskNetwork

_IDLE_TIMEOUT_S = 300.0
_ORDER_TIMEOUT_S = 10.0
"""To take up what it is told, however busy the machine is."""
_MAX_START_ATTEMPTS = 3
_MAX_IDLE_SERVERS = 16
"""That wait in one process, whatever the number of tasks."""


_idle_managers: WeakSet[ForkServerManager] = WeakSet()


class ForkServerManager:
    def __init__(self, get_control_group: Callable[[], ControlGroup | None]) -> None:
        self._get_control_group = get_control_group
        self._server_task: asyncio.Task[ForkServerClient] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stop_tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._network = TaskNetwork()
        self._spare: tuple[dict[str, Any], SupervisorTransport | None] = ({}, None)
        """A sandbox that was prepared for the next command, with its plan."""

    async def start_command(self, plan: dict[str, Any]) -> SupervisorTransport:
        """Start a command, in the spare sandbox if there is one. Raises OSError."""
        try:
            supervisor = await self._try_spare(plan)
            for _ in range(_MAX_START_ATTEMPTS):
                if supervisor is not None:
                    break
                server_task = self._ensure_server()
                supervisor = await self._try_start_command(await asyncio.shield(server_task), plan)
                # otherwise another waiting caller has started one
                if supervisor is None and self._server_task is server_task:
                    self._stop_server()
            if supervisor is None:
                server = await asyncio.shield(self._ensure_server())
                supervisor = server.start_supervisor(
                    plan["sandbox"], plan["command"], self._network
                )
        except OSError:
            self._stop_server()
            raise
        finally:
            self._schedule_idle_stop()
        if not supervisor.was_refused:
            asyncio.get_running_loop().call_soon(self._prepare_spare, plan["sandbox"])
        return supervisor

    async def _try_start_command(
        self, server: ForkServerClient, plan: dict[str, Any]
    ) -> SupervisorTransport | None:
        """Try to start a command; return its supervisor, or None if it was not started and never
        will be."""
        if not server.is_alive:
            return None
        try:
            supervisor = server.start_supervisor(plan["sandbox"], plan["command"], self._network)
        except (BrokenPipeError, ConnectionResetError):
            return None  # It has just been killed.
        await _wait_until_begun(server, supervisor)
        if supervisor.was_never_started:
            supervisor.disconnect()
            return None
        return supervisor

    async def _try_spare(self, plan: dict[str, Any]) -> SupervisorTransport | None:
        """Try the spare sandbox; None if it does not fit the command."""
        (sandbox, supervisor), self._spare = self._spare, ({}, None)
        if supervisor is None or self._server_task is None:
            return None
        if sandbox == plan["sandbox"] and supervisor.is_in_task_network:
            server = await asyncio.shield(self._server_task)
            supervisor.send_command(plan["command"])
            if sandbox["level"] == "full":  # takes longest
                self._prepare_spare(sandbox)
            await _wait_until_begun(server, supervisor)
            if not supervisor.was_refused:
                return supervisor
        supervisor.disconnect()
        return None

    def _prepare_spare(self, sandbox: dict[str, Any]) -> None:
        """Prepare a spare sandbox, which the next command will most likely need."""
        server_task, (_, spare) = self._server_task, self._spare
        if spare is None and server_task is not None and server_task.done():
            with suppress(OSError):  # then the next command reports it
                server = server_task.result()
                self._spare = (sandbox, server.start_supervisor(sandbox, network=self._network))

    def start_server(self) -> None:
        """Start the server, because it is needed now."""
        if not self._is_closed:
            self._ensure_server()

    def prewarm(self) -> None:
        """Start the server ahead of the first command."""
        if self._can_wait:
            self.start_server()
            self._schedule_idle_stop()

    @property
    def _can_wait(self) -> bool:
        has_place = self in _idle_managers or len(_idle_managers) < _MAX_IDLE_SERVERS
        return has_place and not self._is_closed

    async def close(self) -> None:
        """Close the manager; no caller waits any more."""
        self._is_closed = True
        self._stop_server()
        await asyncio.gather(*self._stop_tasks)
        self._network.close()

    def _schedule_idle_stop(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if not self._can_wait:
            self._stop_server()
        elif self._server_task is not None:
            _idle_managers.add(self)
            self._idle_timer = asyncio.get_running_loop().call_later(
                _IDLE_TIMEOUT_S, self._stop_server
            )

    def _ensure_server(self) -> asyncio.Task[ForkServerClient]:
        if self._is_closed:
            raise OSError(errno.ECANCELED, "its task is being closed")
        if self._server_task is None:
            self._server_task = asyncio.get_running_loop().create_task(self._spawn_server())
        return self._server_task

    async def _spawn_server(self) -> ForkServerClient:
        server = ForkServerClient(self._get_control_group())
        await server.spawn()
        return server

    def _stop_server(self) -> None:
        _idle_managers.discard(self)
        (_, spare), self._spare = self._spare, ({}, None)
        if spare is not None:
            spare.disconnect()
        server_task, self._server_task = self._server_task, None
        if server_task is not None:
            task = asyncio.get_running_loop().create_task(_stop_when_started(server_task))
            self._stop_tasks.add(task)
            task.add_done_callback(self._stop_tasks.discard)


async def _wait_until_begun(server: ForkServerClient, supervisor: SupervisorTransport) -> None:
    """Wait until the command has started or never will; a stuck server is killed."""
    try:
        is_begun = await supervisor.wait_until_begun(_ORDER_TIMEOUT_S)
        if not is_begun and not supervisor.was_never_started:
            await server.kill()
            await supervisor.wait_until_begun(_ORDER_TIMEOUT_S)
    except BaseException:
        supervisor.disconnect()
        raise


async def _stop_when_started(server_task: asyncio.Task[ForkServerClient]) -> None:
    try:
        server = await server_task
    except OSError:
        return  # There is none.
    await server.stop()


_BOOTSTRAP_CODE = (
    "import sys\n"
    "house = type(sys)('joey')\n"
    "house.__path__ = [sys.argv[1]]\n"
    "sys.modules['joey'] = house\n"
    "from joey.execution.sandbox.forkserver import main\n"
    "main(int(sys.argv[2]))\n"
)
"""The package itself is not imported: that would take longer than all the rest."""
_PACKAGE_DIRECTORY = Path(__file__).parent.parent.parent
_EXIT_TIMEOUT_S = 5.0


class ForkServerClient:
    def __init__(self, group: ControlGroup | None = None) -> None:
        """`group` counts the server and everything it starts."""
        self._socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._child_fd: int | None = theirs.detach()
        self._control_group = group
        self._process_transport: asyncio.SubprocessTransport | None = None
        self._exit_watcher = _ExitWatcher()
        self._was_used = False
        self.child_fds = (self._child_fd,)
        bootstrap = (_BOOTSTRAP_CODE, str(_PACKAGE_DIRECTORY), str(self._child_fd))
        self.argv = (sys.executable, "-I", "-S", "-c", *bootstrap)

    async def spawn(self) -> None:
        """Start the server. Raises OSError."""
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: self._exit_watcher,
                *self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=self.child_fds,
                start_new_session=True,
            )
        finally:
            self.close_child_fd()
        self._process_transport = transport
        if self._control_group is not None:
            await asyncio.to_thread(self._control_group.add_process, transport.get_pid())

    @property
    def is_alive(self) -> bool:
        is_there = self._process_transport is not None and not self._exit_watcher.has_exited
        return is_there and self._socket.fileno() >= 0

    def start_supervisor(
        self,
        sandbox: dict[str, Any],
        command: dict[str, Any] | None = None,
        network: TaskNetwork | None = None,
    ) -> SupervisorTransport:
        """Start a supervisor that sets up a sandbox and runs a command in it. Raises OSError."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        output, written = os.pipe()
        try:
            supervisor = SupervisorTransport(ours, output, sandbox, network)
            try:
                socket.send_fds(self._socket, [b"K"], [theirs.fileno(), written])
            except BaseException:
                supervisor.disconnect()
                raise
        finally:
            theirs.close()
            os.close(written)
        self._was_used = True
        if command is not None:
            supervisor.send_command(command)
        return supervisor

    def close_child_fd(self) -> None:
        """Close the descriptors that only the child needs."""
        if self._child_fd is not None:
            os.close(self._child_fd)
            self._child_fd = None

    def close(self) -> None:
        """Close the socket: the server exits when its supervisors have."""
        self.close_child_fd()
        self._socket.close()

    async def stop(self) -> None:
        """Close the socket and wait for the server to exit."""
        if self._was_used:
            self.close()
            await self._wait_for_exit()
        else:
            await self.kill()  # faster than waiting for it to notice

    async def kill(self) -> None:
        """Kill the server and wait for its exit; its supervisors continue."""
        self.close()
        if self._process_transport is not None and self._process_transport.get_returncode() is None:
            # Not the transport's method: it reaps a process that has just ended, and asyncio misses
            # it.
            with suppress(ProcessLookupError):
                os.kill(self._process_transport.get_pid(), signal.SIGKILL)
        await self._wait_for_exit()

    async def _wait_for_exit(self) -> None:
        if self._process_transport is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_TIMEOUT_S):
                await self._exit_watcher.closed_event.wait()
        self._process_transport.close()


class _ExitWatcher(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.has_exited = False
        self.closed_event = asyncio.Event()

    def process_exited(self) -> None:
        self.has_exited = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed_event.set()
