"""joey's end of the socket to a keeper that waits for a command to keep.

Python takes longer to start than the sandbox takes to be set up. So a task that has run a command
has the next keeper waiting.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from joey.sandboxes.control_group import ControlGroup

_START = (
    "import sys\n"
    "house = type(sys)('joey')\n"
    "house.__path__ = [sys.argv[1]]\n"
    "sys.modules['joey'] = house\n"
    "from joey.sandboxes.keeper import main\n"
    "main(int(sys.argv[2]))\n"
)
"""The package itself is not imported: that would take longer than all the rest."""
_PACKAGE = Path(__file__).parent.parent
_PATIENCE = 5.0


class KeeperProcess:
    def __init__(self, group: ControlGroup | None = None) -> None:
        """`group` is where it counts, with all that it starts."""
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        self._theirs: int | None = theirs.detach()
        self._group = group
        self._transport: asyncio.SubprocessTransport | None = None
        self._idle = _Idle()
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
                lambda: self._idle,
                *self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
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
        """It is there, and nothing was asked of it."""
        return self._transport is not None and not self._idle.has_exited

    def hand_over(self, protocol: asyncio.SubprocessProtocol) -> None:
        """From now on somebody else hears of it."""
        assert self._transport is not None
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)

    def begin(self, plan: dict[str, Any]) -> None:
        """Raises OSError."""
        file = os.memfd_create("plan")
        try:
            data = memoryview(marshal.dumps(plan))
            while data:
                data = data[os.write(file, data) :]
            os.lseek(file, 0, os.SEEK_SET)
            socket.send_fds(self.socket, [b"G"], [file])
        finally:
            os.close(file)

    def let_go(self) -> None:
        """Close what only the child needs."""
        if self._theirs is not None:
            os.close(self._theirs)
            self._theirs = None

    async def dismiss(self) -> None:
        """It is not needed. Nothing was asked of it, so it may end at once, whatever it is at."""
        self.let_go()
        self.socket.close()
        if self._transport is not None:
            with suppress(ProcessLookupError):
                self._transport.kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._idle.over.wait()
            self._transport.close()


class _Idle(asyncio.SubprocessProtocol):
    """Hears of a process that has nothing to say yet."""

    def __init__(self) -> None:
        self.has_exited = False
        self.over = asyncio.Event()

    def process_exited(self) -> None:
        self.has_exited = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()
