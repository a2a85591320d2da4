"""How far a task may go before it stops or asks: turns, money, time, requests.

A task and all its subtasks draw from one allowance. Whoever reaches a limit first stops; the
others find it reached before their next request, up to the task that was started by a person.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec import Struct

from joey.core.asks import AskKind
from joey.core.history.facts import TaskFacts
from joey.core.messages import UserBlock
from joey.core.settings import Limits, Settings
from joey.engine.endings import Failed, Stop
from joey.engine.words import show_words, told_words

if TYPE_CHECKING:
    from joey.engine.task import Task

CENT_DUST = 0.0001


class _Share(Struct, frozen=True):
    """What one task had used before it joined."""

    requests: int
    cost: float


class Allowance:
    """Limits of this run end it with a result; limits of the settings ask whether to go on."""

    def __init__(self, limits: Limits, settings: Settings) -> None:
        self._limits = limits
        self._settings = settings
        self._shares: dict[TaskFacts, _Share] = {}
        self._turns = 0
        self._asked_at_request = 0
        self._asked_at_cost = 0.0
        self._asking = asyncio.Lock()
        self._refusal: Failed | None = None
        """What a person said no to: one no is for the whole tree."""
        now = asyncio.get_running_loop().time()
        # One moment for the whole tree, so that all of it ends by the clock and nobody by another.
        self.deadline = None if limits.max_seconds is None else now + limits.max_seconds

    @classmethod
    def of(cls, task: Task) -> Self:
        return cls(task.bench.limits, task.bench.settings)

    def join(self, facts: TaskFacts) -> None:
        """What this task uses from here on counts."""
        share = _Share(facts.ledger.requests, facts.ledger.usage.total_cost)
        self._shares.setdefault(facts, share)

    @property
    def late(self) -> Failed:
        return Failed("time", f"The time limit of {self._limits.max_seconds:g} seconds is reached.")

    async def check(self, task: Task) -> tuple[UserBlock, ...]:
        """Take one turn out of it. Words that came with a yes to going on."""
        self._check_limits()
        async with self._asking:
            words = await self._check_settings(task)
        self._check_limits()
        self._turns += 1
        return words

    def _check_limits(self) -> None:
        limits = self._limits
        if limits.max_turns is not None and self._turns >= limits.max_turns:
            raise Stop("turns", f"The limit of {limits.max_turns} turns is reached.")
        if limits.max_cost is not None and self._cost >= limits.max_cost:
            raise Stop("budget", f"The budget of ${limits.max_cost:.2f} is used up.")

    async def _check_settings(self, task: Task) -> tuple[UserBlock, ...]:
        if self._refusal is not None:
            raise Stop(self._refusal.code, self._refusal.message)
        settings = self._settings
        requests = self._requests - self._asked_at_request + 1
        cost = self._cost - self._asked_at_cost
        if settings.allowed_max_requests and requests > settings.allowed_max_requests:
            return await self._ask(task, settings.allowed_max_requests, "requests")
        if settings.allowed_max_cost and cost > settings.allowed_max_cost + CENT_DUST:
            return await self._ask(task, f"{settings.allowed_max_cost:.2f}", "cost")
        return ()

    async def _ask(self, task: Task, count: int | str, kind: str) -> tuple[UserBlock, ...]:
        text = msgspec.json.encode({"count": count, "type": kind}).decode()
        answer = await task.ask(AskKind.LIMIT_REACHED, text)
        show_words(task, answer)
        if not answer.approves:
            code = "budget" if kind == "cost" else "turns"
            self._refusal = Failed(code, f"The limit of {count} {kind} is reached.")
            raise Stop(self._refusal.code, self._refusal.message)
        self._asked_at_request, self._asked_at_cost = self._requests, self._cost
        return told_words(answer)

    @property
    def _requests(self) -> int:
        return sum(facts.ledger.requests - share.requests for facts, share in self._shares.items())

    @property
    def _cost(self) -> float:
        return sum(
            facts.ledger.usage.total_cost - share.cost for facts, share in self._shares.items()
        )
