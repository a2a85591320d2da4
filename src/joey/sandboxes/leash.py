"""What holds one command: joey's orders to its keeper, and what the keeper answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from joey.errors import ToolError
from joey.ports.execution import Leash
from joey.sandboxes.host_proxy import Door, HostProxy
from joey.sandboxes.keeper_process import KeeperProcess

_PATIENCE = 30.0


class KeeperLeash:
    def __init__(
        self,
        plan: dict[str, Any],
        begin: Callable[[dict[str, Any]], Awaitable[KeeperProcess]],
        proxy: HostProxy | None = None,
    ) -> None:
        """`begin` has the plan carried out; `proxy` answers where only some hosts are reached."""
        self.plan = plan
        self._begin = begin
        self._proxy = proxy
        self._keeper: KeeperProcess | None = None
        self._door: Door | None = None

    async def start(self, protocol: asyncio.SubprocessProtocol) -> None:
        try:
            self._keeper = await self._begin(self.plan)
        except OSError as error:
            raise failed(str(error)) from error
        answer, attached = await self._keeper.answer(_PATIENCE)
        if not answer.startswith(b"R"):
            self.close()
            raise failed(why_not(answer))
        self._keeper.hand_over(int(answer[1:]), protocol)
        if attached is not None:
            assert self._proxy is not None
            self._door = await self._proxy.answer(attached)

    def notes(self) -> list[str]:
        return [] if self._door is None else self._door.take_notes()

    def is_slack(self) -> bool:
        return self._keeper is None or self._keeper.is_slack

    def terminate(self) -> None:
        if self._keeper is None:
            return
        try:
            self._keeper.order(b"T")
        except OSError:
            return  # Everything has ended.

    def kill(self) -> None:
        if self._keeper is None:
            return
        try:
            self._keeper.end()
        except OSError:
            return  # Everything has ended.

    def close(self) -> None:
        if self._door is not None:
            self._door.close()
        if self._keeper is not None:
            self._keeper.let_go()


def why_not(answer: bytes) -> str:
    """The reason of a keeper that could not confine a command."""
    return answer[1:].decode(errors="replace").strip() or "it gave no reason"


def failed(reason: str) -> ToolError:
    return ToolError(
        f"The sandbox could not be set up, and the command was not run: {reason}."
        " This is not a failure of the command. Tell the user; `joey doctor` says what"
        " works on this machine."
    )


_fits: type[Leash] = KeeperLeash
