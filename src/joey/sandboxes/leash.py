"""joey's end of the socket to a command's keeper."""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
import sys
from pathlib import Path
from typing import Any

from joey.errors import ToolError
from joey.ports.sandbox import Leash
from joey.sandboxes.control_group import ControlGroup

_START = (
    "import sys\n"
    "house = type(sys)('joey')\n"
    "house.__path__ = [sys.argv[1]]\n"
    "sys.modules['joey'] = house\n"
    "from joey.sandboxes.keeper import main\n"
    "main(int(sys.argv[2]), int(sys.argv[3]))\n"
)
"""The package itself is not imported: that would take longer than all the rest."""
_PACKAGE = Path(__file__).parent.parent
_PATIENCE = 30.0


class KeeperLeash:
    def __init__(
        self, plan: dict[str, Any], env: dict[str, str], group: ControlGroup | None = None
    ) -> None:
        self.env = env
        self._group = group
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs: int | None = theirs.detach()
        self._plan: int | None = os.memfd_create("plan")
        data = memoryview(marshal.dumps(plan))
        while data:
            data = data[os.write(self._plan, data) :]
        os.lseek(self._plan, 0, os.SEEK_SET)
        self.fds: tuple[int, ...] = (self._plan, self._theirs)
        interpreter = (sys.executable, "-I", "-S", "-c", _START, str(_PACKAGE))
        self.argv: tuple[str, ...] = (*interpreter, str(self._plan), str(self._theirs))

    async def started(self, pid: int) -> None:
        self.let_go()
        await asyncio.to_thread(self.begin, pid)
        answer = await self._answer()
        if answer != b"R":
            reason = answer[1:].decode(errors="replace").strip() or "it gave no reason"
            self.close()
            raise ToolError(
                f"The sandbox could not be set up, and the command was not run: {reason}."
                " This is not a failure of the command. Tell the user; `joey doctor` says what"
                " works on this machine."
            )

    def begin(self, pid: int) -> None:
        """Let the keeper go ahead, once it counts."""
        try:
            if self._group is not None:
                self._group.admit(pid)
            self._ours.send(b"G")
        except OSError as error:
            raise ToolError(
                f"The command could not be limited, and was not run: {error}"
            ) from error

    def heard(self, pid: int, patience: float) -> str | None:
        """Wait, without an event loop; why the command could not be confined."""
        self.let_go()
        self.begin(pid)
        self._ours.settimeout(patience)
        answer = b""
        try:
            while answer != b"R" and (data := self._ours.recv(4096)):
                answer += data
        except OSError as error:
            return f"it did not start: {error}"
        finally:
            self._ours.setblocking(False)
        return None if answer == b"R" else answer[1:].decode(errors="replace").strip()

    async def _answer(self) -> bytes:
        loop, answer = asyncio.get_running_loop(), b""
        try:
            async with asyncio.timeout(_PATIENCE):
                while data := await loop.sock_recv(self._ours, 4096):
                    answer += data
                    if answer == b"R":
                        break
        except TimeoutError:
            return b"Fit took too long"
        except OSError as error:
            return b"F" + str(error).encode()
        return answer

    def let_go(self) -> None:
        """Close what only the child needs."""
        for descriptor in (self._plan, self._theirs):
            if descriptor is not None:
                os.close(descriptor)
        self._plan = self._theirs = None

    def is_slack(self) -> bool:
        try:
            return self._ours.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def terminate(self) -> None:
        try:
            self._ours.send(b"T")
        except OSError:
            return  # Everything has ended.

    def kill(self) -> None:
        self.let_go()
        try:
            self._ours.shutdown(socket.SHUT_WR)
        except OSError:
            return  # Everything has ended.

    def close(self) -> None:
        self.let_go()
        self._ours.close()


_fits: type[Leash] = KeeperLeash
