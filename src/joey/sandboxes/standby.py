"""Keepers of one task: one waits for the next command, unless none has come for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakSet

from joey.sandboxes.control_group import ControlGroup
from joey.sandboxes.keeper_process import KeeperProcess

_LONG = 300.0
_MOST = 16
"""That wait in one process, whatever the number of tasks."""


_waiting: WeakSet[Spares] = WeakSet()


class Spares:
    def __init__(self, group: Callable[[], ControlGroup | None]) -> None:
        self._group = group
        self._next: asyncio.Task[KeeperProcess] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dismissals: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self) -> KeeperProcess:
        """One that waits by now.

        Raises:
            OSError
        """
        self._forget_timer()
        _waiting.discard(self)
        making = self._next or self._begin()
        self._next = None
        try:
            keeper = await asyncio.shield(making)
        except asyncio.CancelledError:
            self._dismiss(making)
            raise
        if not keeper.waits:
            self._dismiss(making)
            keeper = await self._make()
        self.prepare()
        return keeper

    def begin(self) -> None:
        """One will be needed at once."""
        if self._next is None and not self._closed:
            self._next = self._begin()

    def prepare(self) -> None:
        """One will be needed, sooner or later."""
        if self._next is None and not self._closed and len(_waiting) < _MOST:
            _waiting.add(self)
            self._next = self._begin()
            self._timer = asyncio.get_running_loop().call_later(_LONG, self._expire)

    async def close(self) -> None:
        """Nobody waits any more, and nobody will."""
        self._closed = True
        self._forget_timer()
        self._expire()
        await asyncio.gather(*self._dismissals)

    def _expire(self) -> None:
        _waiting.discard(self)
        if self._next is not None:
            self._dismiss(self._next)
            self._next = None

    def _begin(self) -> asyncio.Task[KeeperProcess]:
        return asyncio.get_running_loop().create_task(self._make())

    async def _make(self) -> KeeperProcess:
        keeper = KeeperProcess(self._group())
        await keeper.spawn()
        return keeper

    def _dismiss(self, making: asyncio.Task[KeeperProcess]) -> None:
        task = asyncio.get_running_loop().create_task(_dismissed(making))
        self._dismissals.add(task)
        task.add_done_callback(self._dismissals.discard)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _dismissed(making: asyncio.Task[KeeperProcess]) -> None:
    try:
        keeper = await making
    except OSError:
        return  # There is none.
    await keeper.dismiss()
