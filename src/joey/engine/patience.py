"""How long failed requests are waited out, and how the wait is announced.

One budget per stretch of failures: attempts and total waiting are both bounded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from joey.core.events import Countdown, Said
from joey.core.settings import Settings
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


async def count_down(task: Task, error: ProviderError, wait: float, budget: Budget) -> None:
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
