"""joey's end of the socket to a starter of keepers."""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from joey.sandboxes.control_group import ControlGroup
from joey.sandboxes.keeper_process import KeeperProcess

_START = (
    "import sys\n"
    "house = type(sys)('joey')\n"
    "house.__path__ = [sys.argv[1]]\n"
    "sys.modules['joey'] = house\n"
    "from joey.sandboxes.starter import main\n"
    "main(int(sys.argv[2]))\n"
)
"""The package itself is not imported: that would take longer than all the rest."""
_PACKAGE = Path(__file__).parent.parent
_PATIENCE = 5.0


class StarterProcess:
    def __init__(self, group: ControlGroup | None = None) -> None:
        """`group` is where it counts, with all that it starts."""
        self._socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._theirs: int | None = theirs.detach()
        self._group = group
        self._transport: asyncio.SubprocessTransport | None = None
        self._end = _End()
        self._was_used = False
        self.fds: tuple[int, ...] = (self._theirs,)
        interpreter = (sys.executable, "-I", "-S", "-c", _START, str(_PACKAGE))
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

    def start(self, plan: dict[str, Any]) -> KeeperProcess:
        """Have a command kept.

        Raises:
            OSError
        """
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        output, written = os.pipe()
        file = os.memfd_create("plan")
        keeper = KeeperProcess(ours, output, os.dup(file))
        try:
            data = memoryview(marshal.dumps(plan))
            while data:
                data = data[os.write(file, data) :]
            os.lseek(file, 0, os.SEEK_SET)
            socket.send_fds(self._socket, [b"K"], [theirs.fileno(), written, file])
        except BaseException:
            keeper.let_go()
            raise
        finally:
            theirs.close()
            os.close(written)
            os.close(file)
        self._was_used = True
        return keeper

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
            async with asyncio.timeout(_PATIENCE):
                await self._end.over.wait()
        self._transport.close()


class _End(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.has_come = False
        self.over = asyncio.Event()

    def process_exited(self) -> None:
        self.has_come = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()
