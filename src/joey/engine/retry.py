"""Failed requests: which are tried again, how long to wait, and when to ask a person.

A person who says yes to trying again opens a new budget (see `patience`). A request that the
service finds too long is made shorter (see `context`); that is counted apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from joey.core.events import Placed, RequestStarted, Said
from joey.core.messages import UserBlock
from joey.core.models import ModelRequest
from joey.core.task import AskKind
from joey.engine.allowance import check_spending
from joey.engine.context import MOST_RECOVERIES, recover
from joey.engine.endings import Stop
from joey.engine.patience import Budget, count_down
from joey.engine.turn import take_turn
from joey.engine.words import show_words, told_words
from joey.errors import ProviderError, Trouble

if TYPE_CHECKING:
    from joey.engine.task import Task


async def take_turn_with_patience(
    task: Task, request: ModelRequest, request_ts: int
) -> tuple[Placed, ...]:
    """A committed reply, after as many attempts as the budget allows.

    Raises:
        Stop: the person, or the policy in their place, gave up.
    """
    budget, recoveries = Budget(task.bench.settings), 0
    while True:
        try:
            return await take_turn(task, request, request_ts)
        except ProviderError as error:
            if error.trouble is Trouble.EMPTY and budget.attempts > 0:
                task.publish(Said(ts=task.now(), say="error", text="MODEL_NO_ASSISTANT_MESSAGES"))
            words: tuple[UserBlock, ...] = ()
            wait = budget.wait_after(error)
            if error.trouble is Trouble.OVERFLOW and recoveries < MOST_RECOVERIES:
                recoveries += 1
                words = await recover(task)
            elif wait is None:
                words = await _ask_to_try_again(task, error)
                budget, recoveries = Budget(task.bench.settings), 0
            else:
                await count_down(task, error, wait, budget)
        check_spending(task)
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
