"""Limits of a run: spending, mistakes, repeated calls, retries and the countdown before each.

A task and all its subtasks draw from one `RunLimits` of turns, calls, tokens, money, time and
requests. The task that reaches a limit first stops; the others find it reached before their next
request, up to the task that a user started.

The limits are those of a run, which lasts from the start of a task until its ending is recorded. A
run whose process died is not over: resuming its task without other limits continues with what was
left, including time; the clock stood still while no process worked.

`FailureCounter` counts consecutive replies without success. It also detects models that are stuck:
the same call with the same result too often, or the same calls after every summary.

`RetryBudget` bounds the attempts and the total wait of one series of failed requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import Struct

from joey.core.events import RetryCountdown, Spending
from joey.core.history.state import TaskProjection
from joey.core.history.usage_ledger import UsageLedger
from joey.core.messages import UserBlock
from joey.core.settings import Limits, Settings
from joey.core.task_types import AskKind, RowKind
from joey.engine.asks import build_feedback_blocks, publish_feedback
from joey.engine.outcomes import Failed, RunStopped
from joey.errors import (
    NOT_RUNNING_CODE,
    UNREACHABLE_CODE,
    FailureCode,
    ProviderError,
    ProviderFailureKind,
)

if TYPE_CHECKING:
    from joey.engine.task import Task
    from joey.ports.model import Provider


COST_EPSILON_USD = 0.0001


class TaskSpending(Struct, frozen=True):
    """What one task has spent: the `ledger` now, less its earlier totals."""

    parent_id: str | None
    ledger: UsageLedger
    baseline: Spending

    @property
    def spending(self) -> Spending:
        return self.ledger.total_spending.minus(self.baseline)


_MIN_TURN_S = 20.0


class RunLimits:
    """Limits of this run end it with a result; limits in the settings ask whether to continue."""

    def __init__(
        self, budget_id: str, limits: Limits, settings: Settings, worked_s: float = 0.0
    ) -> None:
        """`worked` is the number of seconds used before."""
        self.budget_id = budget_id
        self.limits = limits
        self._settings = settings
        self._task_spending: dict[str, TaskSpending] = {}
        self._folded_task_ids: set[str] = set()
        self._turn_count = 0
        self._call_count = 0
        self._spending_at_last_ask = Spending()
        self._ask_lock = asyncio.Lock()
        self._user_refusal: Failed | None = None
        """What a user said no to: one no is for the whole tree."""
        self.answered_addresses: set[str] = set()
        """Services that have replied in this run."""
        # One deadline for the whole tree, so that all of it ends on time and no task by another.
        self.deadline: float | None = None
        if limits.max_seconds is not None:
            self.deadline = asyncio.get_running_loop().time() + limits.max_seconds - worked_s

    @classmethod
    def from_task(cls, task: Task) -> Self:
        """Create the limits of a new run, or of an interrupted one that continues."""
        runtime, run = task.runtime, task.recorder.projection.ledger.last_run
        if run is None or run.is_over or run.limits is None or runtime.limits != Limits():
            return cls(f"{task.id}/{task.next_ts()}", runtime.limits, runtime.settings)
        below = task.subtasks.load_unfinished_projections(task)
        ledgers = [task.recorder.projection.ledger, *(projection.ledger for projection in below)]
        until = max(ledger.last_work_ts for ledger in ledgers)
        worked_s = (run.worked_ms + max(0, until - run.last_started_ts)) / 1000
        run_limits = cls(run.budget_id, run.limits, runtime.settings, worked_s)
        for projection in below:
            run_limits.add_task(projection)
        return run_limits

    def add_task(self, projection: TaskProjection) -> None:
        """Count what this task spends from now on, and what it has spent in this run before."""
        ledger = projection.ledger
        is_folded = projection.task_id in self._folded_task_ids
        previous = Spending() if is_folded else ledger.get_run_spending(self.budget_id)
        if projection.task_id not in self._task_spending:
            self._turn_count += previous.turns
            self._call_count += previous.calls
            self._spending_at_last_ask = self._spending_at_last_ask.plus(previous)
        elif self._task_spending[projection.task_id].ledger is ledger:
            return
        before = ledger.total_spending.minus(previous)
        self._task_spending[projection.task_id] = TaskSpending(projection.parent_id, ledger, before)

    def fold_subtask(self, task_id: str) -> Spending:
        """Count what a returning subtask and those below it have spent as its parent's."""
        self._folded_task_ids.add(task_id)
        share = self._task_spending.pop(task_id, None)
        own = Spending() if share is None else share.spending
        below = [name for name, each in self._task_spending.items() if each.parent_id == task_id]
        return reduce(Spending.plus, map(self.fold_subtask, below), own)

    @property
    def timeout_failure(self) -> Failed:
        return Failed(
            FailureCode.TIME_LIMIT,
            f"The time limit of {_format_count(self.limits.max_seconds, 'second')} is reached.",
        )

    async def consume_turn(self, task: Task) -> tuple[UserBlock, ...]:
        """Use up one turn. Returns content that came with the answer to continue."""
        self._ensure_within_limits()
        async with self._ask_lock:
            blocks = await self._ask_if_settings_limit_reached(task)
        self._ensure_within_limits()
        self._turn_count += 1
        return blocks

    @property
    def has_turn_left(self) -> bool:
        """Whether the model can be asked once more, with time left to answer."""
        now = asyncio.get_running_loop().time()
        if self.deadline is not None and self.deadline - now < _MIN_TURN_S:
            return False
        try:
            self._ensure_within_limits()
        except RunStopped:
            return False
        return True

    def ensure_within_budget(self) -> None:
        """Check the budget before anything more is sent. Raises RunStopped if it is used up."""
        limits, spent = self.limits, self._total_spending
        if limits.max_cost is not None and spent.cost >= limits.max_cost:
            raise RunStopped(
                FailureCode.COST_LIMIT, f"The budget of ${limits.max_cost:.2f} is used up."
            )
        if limits.max_tokens is not None and spent.tokens >= limits.max_tokens:
            raise RunStopped(
                FailureCode.TOKEN_LIMIT,
                f"The limit of {_format_count(limits.max_tokens, 'token')} is reached.",
            )

    def consume_call(self) -> str | None:
        """Use up one call; return why it must not be made if none is left."""
        self._call_count += 1
        return self._call_limit_message

    def _ensure_within_limits(self) -> None:
        limits = self.limits
        if limits.max_turns is not None and self._turn_count >= limits.max_turns:
            raise RunStopped(
                FailureCode.TURN_LIMIT,
                f"The limit of {_format_count(limits.max_turns, 'turn')} is reached.",
            )
        if reason := self._call_limit_message:
            raise RunStopped(FailureCode.CALL_LIMIT, reason)
        self.ensure_within_budget()

    @property
    def _call_limit_message(self) -> str | None:
        max_calls = self.limits.max_tool_calls
        if max_calls is None or self._call_count <= max_calls:
            return None
        return f"The limit of {_format_count(max_calls, 'tool call')} is reached."

    async def _ask_if_settings_limit_reached(self, task: Task) -> tuple[UserBlock, ...]:
        if self._user_refusal is not None:
            raise RunStopped(self._user_refusal.code, self._user_refusal.message)
        settings, since = self._settings, self._total_spending.minus(self._spending_at_last_ask)
        if settings.allowed_max_requests and since.requests >= settings.allowed_max_requests:
            return await self._ask_to_continue(task, settings.allowed_max_requests, "requests")
        if settings.allowed_max_cost and since.cost > settings.allowed_max_cost + COST_EPSILON_USD:
            return await self._ask_to_continue(task, f"{settings.allowed_max_cost:.2f}", "cost")
        return ()

    async def _ask_to_continue(
        self, task: Task, count: int | str, kind: str
    ) -> tuple[UserBlock, ...]:
        text = msgspec.json.encode({"count": count, "type": kind}).decode()
        answer = await task.ask(AskKind.LIMIT_REACHED, text)
        publish_feedback(task, answer)
        if not answer.approves:
            code = FailureCode.COST_LIMIT if kind == "cost" else FailureCode.TURN_LIMIT
            limit = f"${count}" if kind == "cost" else f"{count} {kind}"
            self._user_refusal = Failed(code, f"The limit of {limit} is reached.")
            raise RunStopped(self._user_refusal.code, self._user_refusal.message)
        self._spending_at_last_ask = self._total_spending
        return build_feedback_blocks(answer)

    @property
    def _total_spending(self) -> Spending:
        spent = (share.spending for share in self._task_spending.values())
        return reduce(Spending.plus, spent, Spending())


def ensure_run_within_budget(task: Task) -> None:
    """Check the budget right before a request: siblings may have spent the rest meanwhile. Raises
    RunStopped."""
    if task.run_limits is not None:
        task.run_limits.ensure_within_budget()


def _format_count(number: float | None, noun: str) -> str:
    return f"{number or 0:.15g} {noun}{'' if number == 1 else 's'}"


MIN_UNATTENDED_FAILURE_LIMIT = 10
"""In a row, where no user can help the model."""


class FailureCounter:
    """Counters of one run. A mistake is a reply without any success; a limit of 0 allows any
    number."""

    def __init__(self, limit: int, *, is_unattended: bool) -> None:
        is_raised = is_unattended and limit > 0
        self.limit = max(limit, MIN_UNATTENDED_FAILURE_LIMIT) if is_raised else limit
        self.count = 0
        self.last_errors: tuple[str, ...] = ()
        """What went wrong in the latest of them."""
        self.plain_reply_texts: list[str] = []
        """The texts of the latest replies in a row that made no call."""
        self.cut_reply_text = ""
        """The text of the latest replies that were cut off; the next one continues it."""
        self.unusable_reply_count = 0
        """Replies in a row that tried to call a tool and made no call."""
        self.repeated_call_detector = RepeatedCallDetector(limit)
        self.repeated_round_detector = RepeatedRoundDetector(limit)
        self._should_warn = is_raised

    @property
    def is_limit_reached(self) -> bool:
        return 0 < self.limit <= self.count

    @property
    def is_warning_due(self) -> bool:
        """Whether to warn: half way to the limit, and again before the last allowed mistake."""
        return self._should_warn and self.count in (self.limit // 2, self.limit - 1)

    def record_failure(self, errors: Sequence[str]) -> None:
        self.count += 1
        self.last_errors = tuple(errors)

    def reset(self) -> None:
        self.count = 0


_MAX_COMPARED_CALLS_PER_ROUND = 50


class RepetitionVerdict(Enum):
    """Whether a call may be made."""

    ALLOW = auto()
    STOP = auto()
    """The same call had the same result too often."""
    STOP_AGAIN = auto()
    """It was stopped before, with that result."""


class RepeatedCallDetector:
    """Counts identical calls in a row that had the same result.

    With a limit of 3 the fourth one is stopped; then the count starts over. A limit of 0 or less
    allows everything.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending_calls: deque[tuple[str, bytes]] = deque()
        """Calls whose results are not known yet: their ids and fingerprints."""
        self._last_call_and_result: tuple[bytes, bytes] | None = None
        """Fingerprints of the latest call with a result, and of that result."""
        self._repeat_count = 0
        """How often in a row it had that result."""
        self._stopped_calls_and_results: set[tuple[bytes, bytes]] = set()

    def check_call(
        self, call_id: str, name: str, arguments: Mapping[str, Any], *, is_busy: bool
    ) -> RepetitionVerdict:
        """Judge a call before it is made; `is_busy` means that a background command is running."""
        if self._limit <= 0:
            return RepetitionVerdict.ALLOW
        call = _hash_value((name, arguments))
        latest = self._last_call_and_result
        if is_busy or latest is None or latest[0] != call or self._repeat_count < self._limit:
            self._pending_calls.append((call_id, call))
            return RepetitionVerdict.ALLOW
        verdict = (
            RepetitionVerdict.STOP_AGAIN
            if latest in self._stopped_calls_and_results
            else RepetitionVerdict.STOP
        )
        self._stopped_calls_and_results.add(latest)
        self._repeat_count = 0
        return verdict

    def compare_results(
        self, find_result: Callable[[str], object | None], *, is_busy: bool
    ) -> None:
        """Compare the results known by now, in the order of their calls."""
        while self._pending_calls:
            call_id, call = self._pending_calls[0]
            result = find_result(call_id)
            if result is None:
                return
            self._pending_calls.popleft()
            latest = (call, _hash_value(result))
            if latest != self._last_call_and_result:
                self._last_call_and_result, self._repeat_count = latest, 1
            elif not is_busy:
                self._repeat_count += 1

    def discard_pending(self) -> None:
        """Drop calls of a finished reply that got no result."""
        self._pending_calls.clear()


class RepeatedRoundDetector:
    """Counts similar rounds in a row: the calls between one summary and the next.

    How far a round gets depends on the length of the summary, so rounds are similar if one begins
    with the whole of the other. A limit of 0 or less allows everything.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._summary_id: str | None = None
        self._previous_calls: list[bytes] | None = None
        self._current_calls: list[bytes] = []
        self._repeat_count = 0

    @property
    def is_limit_reached(self) -> bool:
        return 0 < self._limit <= self._repeat_count

    def reset(self) -> None:
        self._repeat_count = 0

    def record_call(self, name: str, arguments: Mapping[str, Any]) -> None:
        if self._limit > 0 and len(self._current_calls) < _MAX_COMPARED_CALLS_PER_ROUND:
            self._current_calls.append(_hash_value((name, arguments)))

    def start_round_if_new_summary(self, summary_id: str | None) -> None:
        """Start a round if there is a new summary, which ends the previous round."""
        if summary_id == self._summary_id:
            return
        if self._previous_calls is not None:
            common = min(len(self._previous_calls), len(self._current_calls))
            is_alike = self._previous_calls[:common] == self._current_calls[:common]
            self._repeat_count = self._repeat_count + 1 if is_alike else 0
        self._summary_id = summary_id
        self._previous_calls = self._current_calls or self._previous_calls
        self._current_calls = []


def _hash_value(value: object) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=16).digest()


TRANSIENT_FAILURES = frozenset(
    {
        ProviderFailureKind.RATE_LIMIT,
        ProviderFailureKind.OVERLOAD,
        ProviderFailureKind.NETWORK,
        ProviderFailureKind.MALFORMED_STREAM,
        ProviderFailureKind.EMPTY_REPLY,
    }
)
MAX_RETRY_WAIT_S = 600.0
_MAX_RETRIES_BY_CODE = {UNREACHABLE_CODE: 2, NOT_RUNNING_CODE: 1}
_NOT_RUNNING_WAIT_S = 1.0
"""Of servers that have not answered in this run: they are not running, or just being started."""


class RetryBudget:
    """How often and how long one series of failures may be retried."""

    def __init__(self, settings: Settings, *, has_answered: bool = False) -> None:
        self._settings = settings
        self.has_answered = has_answered
        """The service was there in this run, so a refused connection may be a restart."""
        self.attempts = 0
        self.waited_s = 0.0

    def consume_retry(self, error: ProviderError) -> float | None:
        """Return the seconds to wait before the next attempt; None if there should be none."""
        if error.code not in _MAX_RETRIES_BY_CODE:
            self.has_answered = True
        if error.failure not in TRANSIENT_FAILURES or self.attempts >= self.compute_max_attempts(
            error
        ):
            return None
        wait = min(self._settings.request_delay_seconds * 2.0**self.attempts, MAX_RETRY_WAIT_S)
        if error.code == NOT_RUNNING_CODE and not self.has_answered:
            wait = min(wait, _NOT_RUNNING_WAIT_S)
        if error.retry_after is not None:
            wait = error.retry_after
        if self.waited_s + wait > self._settings.max_retry_wait_seconds:
            return None
        self.attempts += 1
        self.waited_s += wait
        return wait

    def compute_max_attempts(self, error: ProviderError) -> int:
        """Return the number of attempts for such a failure."""
        retries = self._settings.max_retries
        if self.has_answered:
            return retries
        return min(retries, _MAX_RETRIES_BY_CODE.get(error.code or "", retries))


async def wait_for_admission(task: Task, provider: Provider) -> None:
    """Wait until a request to the provider may be sent. The loop waits before recording the request
    as started, so that one that is never sent does not count."""
    if (gate := task.runtime.request_gate) is not None:
        await gate.admit(provider.address)


def start_retry_budget(task: Task, provider: Provider) -> RetryBudget:
    limits = task.run_limits
    has_answered = limits is not None and provider.address in limits.answered_addresses
    return RetryBudget(task.runtime.settings, has_answered=has_answered)


async def wait_with_countdown(
    task: Task, error: ProviderError, wait_s: float, budget: RetryBudget
) -> None:
    """Announce the wait second by second, in a row that remains afterwards."""
    message = str(error) if error.status is None else f"{error.status}\n{error}"
    ts = task.next_ts()
    remaining = wait_s
    try:
        while remaining > 0:
            task.publish(
                RetryCountdown(
                    ts=ts,
                    seconds=math.ceil(remaining),
                    message=message,
                    attempt=budget.attempts,
                    max_attempts=budget.compute_max_attempts(error),
                )
            )
            step = min(1.0, remaining)
            await task.runtime.clock.sleep(step)
            remaining -= step
    finally:
        task.add_row(RowKind.API_REQ_RETRY_DELAYED, message, ts)


_CHOICES = " Tell it how to continue, say yes to let it try again, or no to stop."
FAILURE_LIMIT_QUESTION = (
    f"The model has trouble with this step: several of its replies in a row went wrong.{_CHOICES}"
)
REPEATED_ROUNDS_QUESTION = (
    "The model goes round in circles: after several summaries in a row it has done the same again."
    f"{_CHOICES}"
)
