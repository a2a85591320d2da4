"""The starter of one task's keepers: at hand, unless no command has come for long."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from joey.sandboxes.control_group import ControlGroup
from joey.sandboxes.keeper_process import KeeperProcess
from joey.sandboxes.starter_process import StarterProcess

_LONG = 300.0
_SOON = 10.0
"""Seconds in which a starter takes up what it is told, however busy the machine is."""
_ATTEMPTS = 3
_MOST = 16
"""That wait in one process, whatever the number of tasks."""


_waiting: WeakSet[Standby] = WeakSet()


class Standby:
    def __init__(self, group: Callable[[], ControlGroup | None]) -> None:
        self._group = group
        self._making: asyncio.Task[StarterProcess] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dismissals: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self, plan: dict[str, Any]) -> KeeperProcess:
        """Have a command kept.

        Raises:
            OSError
        """
        try:
            for _ in range(_ATTEMPTS):
                making = self._begun()
                keeper = await _taken_up(await asyncio.shield(making), plan)
                if keeper is not None:
                    return keeper
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
        if not self._closed and (self in _waiting or len(_waiting) < _MOST):
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
        if self._closed or (self not in _waiting and len(_waiting) >= _MOST):
            self._dismiss()
        elif self._making is not None:
            _waiting.add(self)
            self._timer = asyncio.get_running_loop().call_later(_LONG, self._dismiss)

    def _begun(self) -> asyncio.Task[StarterProcess]:
        if self._closed:
            raise OSError(errno.ECANCELED, "its task is being closed")
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
        return self._making

    async def _make(self) -> StarterProcess:
        starter = StarterProcess(self._group())
        await starter.spawn()
        return starter

    def _dismiss(self) -> None:
        _waiting.discard(self)
        making, self._making = self._making, None
        if making is not None:
            task = asyncio.get_running_loop().create_task(_dismissed(making))
            self._dismissals.add(task)
            task.add_done_callback(self._dismissals.discard)


async def _taken_up(starter: StarterProcess, plan: dict[str, Any]) -> KeeperProcess | None:
    """Who keeps the command; None when nobody has begun with it, and nobody will."""
    if not starter.waits:
        return None
    try:
        keeper = starter.start(plan)
    except (BrokenPipeError, ConnectionResetError):
        return None  # It has just been killed.
    try:
        if not await keeper.is_taken_up(_SOON):
            await starter.kill()
            await keeper.is_taken_up(_SOON)
    except BaseException:
        keeper.let_go()
        raise
    if keeper.is_untouched:
        keeper.let_go()
        return None
    return keeper


async def _dismissed(making: asyncio.Task[StarterProcess]) -> None:
    try:
        starter = await making
    except OSError:
        return  # There is none.
    await starter.dismiss()
