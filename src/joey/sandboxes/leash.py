"""What holds one command: joey's orders to its keeper, and what the keeper answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from joey.errors import ToolError
from joey.ports.sandbox import Leash
from joey.sandboxes.host_proxy import Door, HostProxy
from joey.sandboxes.keeper_process import KeeperProcess

_PATIENCE = 30.0


class KeeperLeash:
    def __init__(
        self,
        plan: dict[str, Any],
        keeper: Callable[[], Awaitable[KeeperProcess]],
        proxy: HostProxy | None = None,
    ) -> None:
        """`keeper` gives the one that waits; `proxy` answers where only some hosts are reached."""
        self._plan = plan
        self._find = keeper
        self._proxy = proxy
        self._keeper: KeeperProcess | None = None
        self._door: Door | None = None

    async def start(self, protocol: asyncio.SubprocessProtocol) -> None:
        self._keeper = await self._find()
        self._keeper.hand_over(protocol)
        try:
            self._keeper.begin(self._plan)
        except OSError as error:
            raise _failed(str(error)) from error
        answer, attached = await self._answer()
        if answer != b"R":
            reason = answer[1:].decode(errors="replace").strip() or "it gave no reason"
            self.close()
            raise _failed(reason)
        if attached is not None:
            assert self._proxy is not None
            self._door = await self._proxy.answer(attached)

    def heard(self, keeper: KeeperProcess, patience: float) -> str | None:
        """Wait, without an event loop; why the command could not be confined."""
        self._keeper = keeper
        keeper.let_go()
        keeper.socket.settimeout(patience)
        answer = b""
        try:
            keeper.begin(self._plan)
            while answer != b"R" and (data := keeper.socket.recv(4096)):
                answer += data
        except OSError as error:
            return f"it did not start: {error}"
        finally:
            keeper.socket.setblocking(False)
        return None if answer == b"R" else answer[1:].decode(errors="replace").strip()

    async def _answer(self) -> tuple[bytes, socket.socket | None]:
        assert self._keeper is not None
        loop, ours = asyncio.get_running_loop(), self._keeper.socket
        ready = asyncio.Event()
        loop.add_reader(ours, ready.set)
        answer = b""
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    await ready.wait()
                    ready.clear()
                    try:
                        data, attached, _, _ = socket.recv_fds(ours, 4096, 1)
                    except BlockingIOError:
                        continue  # It was told twice of the same.
                    answer += data
                    if attached:
                        return answer, socket.socket(fileno=attached[0])
                    if not data or answer == b"R":
                        return answer, None
        except TimeoutError:
            return b"Fit took too long", None
        except OSError as error:
            return b"F" + str(error).encode(), None
        finally:
            loop.remove_reader(ours)

    def notes(self) -> list[str]:
        return [] if self._door is None else self._door.take_notes()

    def is_slack(self) -> bool:
        if self._keeper is None:
            return True
        try:
            return self._keeper.socket.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def terminate(self) -> None:
        if self._keeper is None:
            return
        try:
            self._keeper.socket.send(b"T")
        except OSError:
            return  # Everything has ended.

    def kill(self) -> None:
        if self._keeper is None:
            return
        try:
            self._keeper.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # Everything has ended.

    def close(self) -> None:
        if self._door is not None:
            self._door.close()
        if self._keeper is not None:
            self._keeper.socket.close()


def _failed(reason: str) -> ToolError:
    return ToolError(
        f"The sandbox could not be set up, and the command was not run: {reason}."
        " This is not a failure of the command. Tell the user; `joey doctor` says what"
        " works on this machine."
    )


_fits: type[Leash] = KeeperLeash
