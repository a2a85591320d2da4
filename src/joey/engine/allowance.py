"""How far a task may go before it stops or asks: turns, money, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from joey.core.asks import AskKind
from joey.core.messages import UserBlock
from joey.engine.endings import Stop
from joey.engine.words import show_words, told_words

if TYPE_CHECKING:
    from joey.engine.task import Task

CENT_DUST = 0.0001


class Allowance:
    """Limits of this run end it with a result; limits of the settings ask whether to go on."""

    def __init__(self, task: Task) -> None:
        self._task = task
        facts = task.recorder.facts
        self._first_reply = facts.replies
        self._asked_at_request = facts.requests
        self._first_cost = self._asked_at_cost = facts.usage.total_cost

    async def check(self) -> tuple[UserBlock, ...]:
        """Words that came with a yes to going on."""
        self._check_limits()
        return await self._check_settings()

    def _check_limits(self) -> None:
        limits, facts = self._task.bench.limits, self._task.recorder.facts
        turns = facts.replies - self._first_reply
        if limits.max_turns is not None and turns >= limits.max_turns:
            raise Stop("turns", f"The limit of {limits.max_turns} turns is reached.")
        spent = facts.usage.total_cost - self._first_cost
        if limits.max_cost is not None and spent >= limits.max_cost:
            raise Stop("budget", f"The budget of ${limits.max_cost:.2f} is used up.")

    async def _check_settings(self) -> tuple[UserBlock, ...]:
        settings, facts = self._task.bench.settings, self._task.recorder.facts
        requests = facts.requests - self._asked_at_request + 1
        cost = facts.usage.total_cost - self._asked_at_cost
        if settings.allowed_max_requests and requests > settings.allowed_max_requests:
            return await self._ask(settings.allowed_max_requests, "requests")
        if settings.allowed_max_cost and cost > settings.allowed_max_cost + CENT_DUST:
            return await self._ask(f"{settings.allowed_max_cost:.2f}", "cost")
        return ()

    async def _ask(self, count: int | str, kind: str) -> tuple[UserBlock, ...]:
        text = msgspec.json.encode({"count": count, "type": kind}).decode()
        answer = await self._task.ask(AskKind.LIMIT_REACHED, text)
        show_words(self._task, answer)
        if not answer.approves:
            code = "budget" if kind == "cost" else "turns"
            raise Stop(code, f"The limit of {count} {kind} is reached.")
        facts = self._task.recorder.facts
        self._asked_at_request, self._asked_at_cost = facts.requests, facts.usage.total_cost
        return told_words(answer)
