"""A person's wish that a task's conversation be condensed.

A task at work grants it before its next request. One that rests, or comes to rest before, grants
it then, and goes on resting as it did: no state changes, only what the model will be shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.core.events import ContextCondensed, Said
from joey.core.task import AT_REST
from joey.engine.condensing import ERROR_ROW, STOPPED, check_enough, condense
from joey.errors import CondenseError, StoreError

if TYPE_CHECKING:
    from joey.engine.task import Task


class _Wish(Struct, frozen=True):
    instructions: str
    granted: asyncio.Future[ContextCondensed]


class Wishes:
    """One at a time."""

    def __init__(self) -> None:
        self._wish: _Wish | None = None

    def add(self, task: Task, instructions: str) -> asyncio.Future[ContextCondensed]:
        """Raises CondenseError: there is nothing to wish for."""
        if self._wish is not None:
            raise CondenseError("The conversation is about to be condensed already.")
        if not task.running or task.state in AT_REST:  # its last words may still be saved
            _check(task)
        granted: asyncio.Future[ContextCondensed] = asyncio.get_running_loop().create_future()
        granted.add_done_callback(_look)
        self._wish = _Wish(instructions, granted)
        if not task.running:
            task.work(self._grant_at_rest(task))
        return granted

    async def grant(self, task: Task) -> bool:
        """Carry out the wish, if there is one; whether it worked is told to who waits for it."""
        if (wish := self._wish) is None:
            return False
        try:
            _check(task)
        except CondenseError as error:
            task.publish(Said(ts=task.now(), say=ERROR_ROW, text=str(error)))
            self._settle(error)
            return True
        try:
            event = await condense(task, wish.instructions)
        except CondenseError as error:
            self._settle(error)
        except BaseException as error:
            self._settle(error if isinstance(error, Exception) else CondenseError(STOPPED))
            raise
        else:
            self._settle(event)
        return True

    def catch_up(self, task: Task, was_stopped: bool) -> None:
        """A run is over: grant what it did not get to, unless somebody stopped it."""
        if self._wish is None:
            return
        if was_stopped:
            self._settle(CondenseError(STOPPED))
        else:
            task.work(self._grant_at_rest(task))

    async def _grant_at_rest(self, task: Task) -> None:
        try:
            await self.grant(task)
        except StoreError as error:
            task.break_down(error)
        else:
            await task.save()

    def _settle(self, outcome: ContextCondensed | BaseException) -> None:
        wish, self._wish = self._wish, None
        if wish is None or wish.granted.done():
            return
        if isinstance(outcome, ContextCondensed):
            wish.granted.set_result(outcome)
        else:
            wish.granted.set_exception(outcome)


def _check(task: Task) -> None:
    check_enough(task)
    if task.recorder.delegated:
        raise CondenseError("Its subtasks have not returned: resume the task first.")


def _look(granted: asyncio.Future[ContextCondensed]) -> None:
    """Nobody has to wait for it: a row tells the same."""
    if not granted.cancelled():
        granted.exception()
