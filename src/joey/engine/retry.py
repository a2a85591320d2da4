"""Failed requests: which are tried again, how long to wait, and when to ask a person.

One budget per stretch of failures: attempts and total waiting are both bounded. A person who says
yes to trying again opens a new budget.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import structs

from joey.core.asks import AskKind
from joey.core.events import Countdown, Placed, RequestStarted, Said
from joey.core.messages import UserBlock
from joey.core.models import ModelRequest
from joey.core.settings import Settings
from joey.engine.endings import Stop
from joey.engine.turn import take_turn
from joey.engine.words import show_words, told_words
from joey.errors import UNREACHABLE, ProviderError, Trouble

if TYPE_CHECKING:
    from joey.engine.task import Task

PASSING_TROUBLE = frozenset(
    {Trouble.RATE, Trouble.OVERLOAD, Trouble.NETWORK, Trouble.MALFORMED, Trouble.EMPTY}
)
LONGEST_WAIT = 600.0
FEW_RETRIES = 2


class Budget:
    """How often and how long one stretch of failures may be waited out."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.attempts = 0
        self.waited = 0.0

    def wait_after(self, error: ProviderError) -> float | None:
        """Seconds to wait before the next attempt; None when it should not be made."""
        if error.trouble not in PASSING_TROUBLE or self.attempts >= self.most(error):
            return None
        wait = min(self._settings.request_delay_seconds * 2.0**self.attempts, LONGEST_WAIT)
        if error.retry_after is not None:
            wait = error.retry_after
        if self.waited + wait > self._settings.max_retry_wait_seconds:
            return None
        self.attempts += 1
        self.waited += wait
        return wait

    def most(self, error: ProviderError) -> int:
        """How many attempts such a failure is worth."""
        retries = self._settings.max_retries
        return min(retries, FEW_RETRIES) if error.code == UNREACHABLE else retries


async def take_turn_with_patience(
    task: Task, request: ModelRequest, request_ts: int
) -> tuple[Placed, ...]:
    """A committed reply, after as many attempts as the budget allows.

    Raises:
        Stop: the person, or the policy in their place, gave up.
    """
    budget = Budget(task.bench.settings)
    while True:
        try:
            return await take_turn(task, request, request_ts)
        except ProviderError as error:
            if error.trouble is Trouble.EMPTY and budget.attempts > 0:
                task.publish(Said(ts=task.now(), say="error", text="MODEL_NO_ASSISTANT_MESSAGES"))
            words: tuple[UserBlock, ...] = ()
            wait = budget.wait_after(error)
            if wait is None:
                words = await _ask_to_try_again(task, error)
                budget = Budget(task.bench.settings)
            else:
                await _count_down(task, error, wait, budget)
        request_ts = task.now()
        protocol = task.provider.api_protocol
        task.publish(RequestStarted(ts=request_ts, api_protocol=protocol, content=words))
        request = structs.replace(request, messages=tuple(task.recorder.api.messages))


async def _ask_to_try_again(task: Task, error: ProviderError) -> tuple[UserBlock, ...]:
    """Words that came with a yes."""
    answer = await task.ask(AskKind.API_REQ_FAILED, str(error))
    show_words(task, answer)
    if not answer.approves:
        raise Stop(f"provider:{error.trouble}", str(error)) from error
    task.publish(Said(ts=task.now(), say="api_req_retried"))
    return told_words(answer)


async def _count_down(task: Task, error: ProviderError, wait: float, budget: Budget) -> None:
    """Announce the wait second by second, in a row that stays when it is over."""
    status = f"{error.status}\n" if error.status is not None else ""
    message = f"{status}{error}"
    ts = task.now()
    remaining = wait
    try:
        while remaining > 0:
            seconds = math.ceil(remaining)
            task.publish(
                Countdown(
                    ts=ts,
                    seconds=seconds,
                    message=message,
                    attempt=budget.attempts,
                    attempts=budget.most(error),
                )
            )
            step = min(1.0, remaining)
            await task.bench.clock.sleep(step)
            remaining -= step
    finally:
        task.publish(Said(ts=ts, say="api_req_retry_delayed", text=message))
