"""joey's end of a task's fork server: starts it, sends it orders, stops it when idle.

`ForkServerManager` keeps the fork server alive between commands and replaces one that was killed;
`ForkServerClient` is the process itself.
"""

from __future__ import annotations

import asyncio
import errno
import marshal
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

from joey.execution.sandbox.supervisor_client import ControlGroup, SupervisorTransport

_IDLE_TIMEOUT_S = 300.0
_ORDER_TIMEOUT_S = 10.0
"""Seconds in which a starter takes up what it is told, however busy the machine is."""
_MAX_START_ATTEMPTS = 3
_MAX_IDLE_SERVERS = 16
"""That wait in one process, whatever the number of tasks."""


_waiting: WeakSet[ForkServerManager] = WeakSet()


class ForkServerManager:
    def __init__(self, group: Callable[[], ControlGroup | None]) -> None:
        self._group = group
        self._making: asyncio.Task[ForkServerClient] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dismissals: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self, plan: dict[str, Any]) -> SupervisorTransport:
        """Have a command kept.

        Raises:
            OSError
        """
        try:
            for _ in range(_MAX_START_ATTEMPTS):
                making = self._begun()
                supervisor = await _taken_up(await asyncio.shield(making), plan)
                if supervisor is not None:
                    return supervisor
                if self._making is making:  # else somebody who waited too has begun another
                    self._dismiss()
            return (await asyncio.shield(self._begun())).start(plan)
        except OSError:
            self._dismiss()
            raise
        finally:
            self._let_wait()

    def begin(self) -> None:
        """A starter will be needed at once."""
        if not self._closed:
            self._begun()

    def prepare(self) -> None:
        """One will be needed, sooner or later."""
        if not self._closed and (self in _waiting or len(_waiting) < _MAX_IDLE_SERVERS):
            self.begin()
            self._let_wait()

    async def close(self) -> None:
        """Nobody waits any more, and nobody will."""
        self._closed = True
        self._dismiss()
        await asyncio.gather(*self._dismissals)

    def _let_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed or (self not in _waiting and len(_waiting) >= _MAX_IDLE_SERVERS):
            self._dismiss()
        elif self._making is not None:
            _waiting.add(self)
            self._timer = asyncio.get_running_loop().call_later(_IDLE_TIMEOUT_S, self._dismiss)

    def _begun(self) -> asyncio.Task[ForkServerClient]:
        if self._closed:
            raise OSError(errno.ECANCELED, "its task is being closed")
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
        return self._making

    async def _make(self) -> ForkServerClient:
        server = ForkServerClient(self._group())
        await server.spawn()
        return server

    def _dismiss(self) -> None:
        _waiting.discard(self)
        making, self._making = self._making, None
        if making is not None:
            task = asyncio.get_running_loop().create_task(_dismissed(making))
            self._dismissals.add(task)
            task.add_done_callback(self._dismissals.discard)


async def _taken_up(server: ForkServerClient, plan: dict[str, Any]) -> SupervisorTransport | None:
    """Who keeps the command; None when nobody has begun with it, and nobody will."""
    if not server.waits:
        return None
    try:
        supervisor = server.start(plan)
    except (BrokenPipeError, ConnectionResetError):
        return None  # It has just been killed.
    try:
        if not await supervisor.is_taken_up(_ORDER_TIMEOUT_S):
            await server.kill()
            await supervisor.is_taken_up(_ORDER_TIMEOUT_S)
    except BaseException:
        supervisor.let_go()
        raise
    if supervisor.is_untouched:
        supervisor.let_go()
        return None
    return supervisor


async def _dismissed(making: asyncio.Task[ForkServerClient]) -> None:
    try:
        server = await making
    except OSError:
        return  # There is none.
    await server.dismiss()


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
        """`group` is where it counts, with all that it starts."""
        self._socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._theirs: int | None = theirs.detach()
        self._group = group
        self._transport: asyncio.SubprocessTransport | None = None
        self._end = _ExitWatcher()
        self._was_used = False
        self.fds: tuple[int, ...] = (self._theirs,)
        interpreter = (sys.executable, "-I", "-S", "-c", _BOOTSTRAP_CODE, str(_PACKAGE_DIRECTORY))
        self.argv: tuple[str, ...] = (*interpreter, str(self._theirs))

    async def spawn(self) -> None:
        """Start it.

        Raises:
            OSError
        """
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: self._end,
                *self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=self.fds,
                start_new_session=True,
            )
        finally:
            self.let_go()
        self._transport = transport
        if self._group is not None:
            await asyncio.to_thread(self._group.admit, transport.get_pid())

    @property
    def waits(self) -> bool:
        is_there = self._transport is not None and not self._end.has_come
        return is_there and self._socket.fileno() >= 0

    def start(self, plan: dict[str, Any]) -> SupervisorTransport:
        """Have a command kept.

        Raises:
            OSError
        """
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        output, written = os.pipe()
        file = os.memfd_create("plan")
        supervisor = SupervisorTransport(ours, output, os.dup(file))
        try:
            data = memoryview(marshal.dumps(plan))
            while data:
                data = data[os.write(file, data) :]
            os.lseek(file, 0, os.SEEK_SET)
            socket.send_fds(self._socket, [b"K"], [theirs.fileno(), written, file])
        except BaseException:
            supervisor.let_go()
            raise
        finally:
            theirs.close()
            os.close(written)
            os.close(file)
        self._was_used = True
        return supervisor

    def let_go(self) -> None:
        """Close what only the child needs."""
        if self._theirs is not None:
            os.close(self._theirs)
            self._theirs = None

    def release(self) -> None:
        """It is not needed any more: it ends when its keepers have."""
        self.let_go()
        self._socket.close()

    async def dismiss(self) -> None:
        """The same, and see it end."""
        if self._was_used:
            self.release()
            await self._see_end()
        else:
            await self.kill()  # sooner than it would hear of it

    async def kill(self) -> None:
        """See it end, whatever it does; its keepers go on."""
        self.release()
        if self._transport is not None and self._transport.get_returncode() is None:
            # Not the transport's own: it reaps one that has just ended, and asyncio misses it.
            with suppress(ProcessLookupError):
                os.kill(self._transport.get_pid(), signal.SIGKILL)
        await self._see_end()

    async def _see_end(self) -> None:
        if self._transport is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_TIMEOUT_S):
                await self._end.over.wait()
        self._transport.close()


class _ExitWatcher(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.has_come = False
        self.over = asyncio.Event()

    def process_exited(self) -> None:
        self.has_come = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()
