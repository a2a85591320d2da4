"""Questions to a person: one future per ask, answered once, by its id.

An ask ends in one of three ways: an answer given to it, a policy that answers in the person's
place, or the task being cancelled. Nothing polls, and nothing else can answer it (D17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, structs

from joey.core.events import AskAnswered, AskOpened, AskWithdrawn, Event
from joey.core.task import Answer
from joey.engine.unattended import Unattended


class AnswerPolicy(Protocol):
    """Answers asks where no person is there, or where the person said so beforehand."""

    name: str

    def answer(self, ask: AskOpened) -> Answer | None:
        """The answer, or None to wait for a person."""
        ...


class Lapse(Struct, frozen=True):
    """An answer that is taken when nobody gave one in time."""

    seconds: float
    answer: Answer


class Asks:
    def __init__(
        self,
        publish: Callable[[Event], object],
        now: Callable[[], int],
        policy: AnswerPolicy | None,
    ) -> None:
        self._publish = publish
        self._now = now
        self._policy = policy
        self._open: dict[int, asyncio.Future[Answer]] = {}

    @property
    def is_unattended(self) -> bool:
        """Whether a policy answers in place of a user."""
        return isinstance(self._policy, Unattended) and self._policy.replaces_user

    async def ask(self, opened: AskOpened, lapse: Lapse | None = None) -> Answer:
        """Put the question and wait for its answer, or for the time of `lapse` to be up."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[opened.ts] = future
        try:
            self._publish(opened)
            answer = self._policy.answer(opened) if self._policy is not None else None
            if answer is not None and self._policy is not None:
                self._settle(opened.ts, answer, self._policy.name)
            return await self._wait(opened.ts, future, lapse)
        except BaseException:
            if not future.done() or future.cancelled():
                self._publish(AskWithdrawn(ts=self._now(), ask_ts=opened.ts))
            raise
        finally:
            del self._open[opened.ts]

    async def _wait(
        self, ask_ts: int, future: asyncio.Future[Answer], lapse: Lapse | None
    ) -> Answer:
        if lapse is None:
            return await future
        await asyncio.wait([future], timeout=lapse.seconds)
        if not future.done():
            self._settle(ask_ts, lapse.answer, "timeout")
        return future.result()

    def answer(self, ask_ts: int, answer: Answer, by: str = "person") -> bool:
        """Give the answer. False when nothing waits under this id (any more)."""
        future = self._open.get(ask_ts)
        if future is None or future.done():
            return False
        self._settle(ask_ts, answer, by)
        return True

    def _settle(self, ask_ts: int, answer: Answer, by: str) -> None:
        answer = structs.replace(answer, by=by)
        self._publish(AskAnswered(ts=self._now(), ask_ts=ask_ts, answer=answer))
        self._open[ask_ts].set_result(answer)
