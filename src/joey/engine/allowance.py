"""How far a task may go before it stops or asks: turns, calls, tokens, money, time, requests.

A task and all its subtasks draw from one allowance. Whoever reaches a limit first stops; the
others find it reached before their next request, up to the task that was started by a person.

Limits are those of a run, which begins when a task is set to work and is over when its ending is
recorded. A run whose process died is not over: whoever resumes its task without naming other
limits goes on with what was left, of time too; while nobody worked, it stood still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec import Struct

from joey.core.events import Spent
from joey.core.history.ledger import Ledger
from joey.core.history.state import TaskFacts
from joey.core.messages import UserBlock
from joey.core.settings import Limits, Settings
from joey.core.task import AskKind
from joey.engine.endings import Failed, Stop
from joey.engine.words import show_words, told_words

if TYPE_CHECKING:
    from joey.engine.task import Task

CENT_DUST = 0.0001


class Share(Struct, frozen=True):
    """What one task has taken: `ledger` says it, less what it said before."""

    parent_id: str | None
    ledger: Ledger
    before: Spent

    @property
    def spent(self) -> Spent:
        return self.ledger.spent.minus(self.before)


class Allowance:
    """Limits of this run end it with a result; limits of the settings ask whether to go on."""

    def __init__(self, run: str, limits: Limits, settings: Settings, worked: float = 0.0) -> None:
        """`worked` is how many seconds were used before."""
        self.run = run
        self.limits = limits
        self._settings = settings
        self._shares: dict[str, Share] = {}
        self._folded: set[str] = set()
        self._turns = 0
        self._calls = 0
        self._asked_at = Spent()
        self._asking = asyncio.Lock()
        self._refusal: Failed | None = None
        """What a person said no to: one no is for the whole tree."""
        # One moment for the whole tree, so that all of it ends by the clock and nobody by another.
        self.deadline: float | None = None
        if limits.max_seconds is not None:
            self.deadline = asyncio.get_running_loop().time() + limits.max_seconds - worked

    @classmethod
    def of(cls, task: Task) -> Self:
        """That of a run which begins now, or which was interrupted and goes on."""
        bench, run = task.bench, task.recorder.facts.ledger.run
        if run is None or run.is_over or run.limits is None or bench.limits != Limits():
            return cls(f"{task.id}/{task.now()}", bench.limits, bench.settings)
        below = task.subtasks.unreturned(task)
        ledgers = [task.recorder.facts.ledger, *(facts.ledger for facts in below)]
        until = max(ledger.worked_until for ledger in ledgers)
        worked = (run.worked + max(0, until - run.since)) / 1000
        allowance = cls(run.name, run.limits, bench.settings, worked)
        for facts in below:
            allowance.join(facts)
        return allowance

    def join(self, facts: TaskFacts) -> None:
        """What this task uses from here on counts, and what it has used in this run before."""
        ledger = facts.ledger
        earlier = Spent() if facts.task_id in self._folded else ledger.spent_in(self.run)
        if facts.task_id not in self._shares:
            self._turns += earlier.turns
            self._calls += earlier.calls
            self._asked_at = self._asked_at.plus(earlier)
        elif self._shares[facts.task_id].ledger is ledger:
            return
        before = ledger.spent.minus(earlier)
        self._shares[facts.task_id] = Share(facts.parent_id, ledger, before)

    def fold(self, task_id: str) -> Spent:
        """A subtask returns: what it and those below it have spent counts as its parent's."""
        self._folded.add(task_id)
        share = self._shares.pop(task_id, None)
        own = Spent() if share is None else share.spent
        below = [name for name, each in self._shares.items() if each.parent_id == task_id]
        return reduce(Spent.plus, map(self.fold, below), own)

    @property
    def late(self) -> Failed:
        return Failed(
            "time", f"The time limit of {_counted(self.limits.max_seconds, 'second')} is reached."
        )

    async def check(self, task: Task) -> tuple[UserBlock, ...]:
        """Take one turn out of it. Words that came with a yes to going on."""
        self._check_counts()
        self.require()
        async with self._asking:
            words = await self._check_settings(task)
        self._check_counts()
        self.require()
        self._turns += 1
        return words

    def require(self) -> None:
        """Nothing more is sent when what was sent has used it up.

        Raises:
            Stop
        """
        limits, spent = self.limits, self._spent
        if limits.max_cost is not None and spent.cost >= limits.max_cost:
            raise Stop("budget", f"The budget of ${limits.max_cost:.2f} is used up.")
        if limits.max_tokens is not None and spent.tokens >= limits.max_tokens:
            raise Stop("tokens", f"The limit of {_counted(limits.max_tokens, 'token')} is reached.")

    def take_call(self) -> str | None:
        """Take one call out of it; why it must not be made, when there is none left."""
        self._calls += 1
        return self._calls_used_up

    def _check_counts(self) -> None:
        limits = self.limits
        if limits.max_turns is not None and self._turns >= limits.max_turns:
            raise Stop("turns", f"The limit of {_counted(limits.max_turns, 'turn')} is reached.")
        if reason := self._calls_used_up:
            raise Stop("calls", reason)

    @property
    def _calls_used_up(self) -> str | None:
        most = self.limits.max_tool_calls
        if most is None or self._calls <= most:
            return None
        return f"The limit of {_counted(most, 'tool call')} is reached."

    async def _check_settings(self, task: Task) -> tuple[UserBlock, ...]:
        if self._refusal is not None:
            raise Stop(self._refusal.code, self._refusal.message)
        settings, since = self._settings, self._spent.minus(self._asked_at)
        if settings.allowed_max_requests and since.requests >= settings.allowed_max_requests:
            return await self._ask(task, settings.allowed_max_requests, "requests")
        if settings.allowed_max_cost and since.cost > settings.allowed_max_cost + CENT_DUST:
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
        self._asked_at = self._spent
        return told_words(answer)

    @property
    def _spent(self) -> Spent:
        shares: Sequence[Share] = tuple(self._shares.values())
        return reduce(Spent.plus, (share.spent for share in shares), Spent())


def check_spending(task: Task) -> None:
    """Right before something is sent: siblings may have spent the rest meanwhile. Raises Stop."""
    if task.allowance is not None:
        task.allowance.require()


def _counted(number: float | None, thing: str) -> str:
    return f"{number or 0:.15g} {thing}{'' if number == 1 else 's'}"
