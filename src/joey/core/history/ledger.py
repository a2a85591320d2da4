"""The usage ledger of a task: totals that a rewind does not take back.

A rewind removes messages, not money, time, or the messages already sent to the model. The totals
of an imported task are read from the rows of its requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.core.events import (
    CheckpointSaved,
    ContextCondensed,
    Durable,
    FilesRestored,
    MessageQueued,
    MessageUnqueued,
    ReplyReceived,
    RequestEnded,
    RequestStarted,
    Spending,
    SubtaskSpawned,
    TaskAborted,
    TaskConfigured,
    TaskCreated,
    TaskFailed,
    TaskFinished,
    TaskForked,
    TaskImported,
    TaskPaused,
    TaskRewound,
    TaskStarted,
    TokenUsage,
    ToolFailed,
    ToolFinished,
    ToolStarted,
    ToolTally,
)
from joey.core.history.api import COMPLETION_TOOL
from joey.core.messages import CallPart, Usage
from joey.core.settings import Limits

_WORK_EVENTS = (
    TaskStarted,
    RequestStarted,
    RequestEnded,
    ReplyReceived,
    ToolStarted,
    ToolFinished,
    TaskPaused,
)
"""What is recorded only while a task works."""
_RUN_END_EVENTS = (TaskFinished, TaskAborted, TaskFailed, TaskRewound)


class Run(Struct, frozen=True):
    """The latest run, which may have been interrupted by the death of its process."""

    name: str
    limits: Limits | None
    """Its own; None when it draws from those of the task above."""
    before: Spending
    """What the task had spent until then."""
    since: int
    """When it was last set to work."""
    worked: int = 0
    """Milliseconds of work before that."""
    is_over: bool = False


class UsageLedger:
    """Folded from every record, on the path or not."""

    def __init__(self) -> None:
        self.updated = 0
        self.configuration: dict[str, Any] = {}
        """Settings given to this task alone."""
        self.usage = TokenUsage()
        self._spawned: dict[str, str] = {}
        self._returned: dict[str, TokenUsage] = {}
        """Of each subtask that has returned; one that does so again tells of all that it used."""
        self.tools: dict[str, ToolTally] = {}
        self.queue: dict[str, MessageQueued] = {}
        """Words that the model has not been told yet."""
        self.checkpoint: str | None = None
        """The files of the workspace as this task last knew them."""
        self.spent = Spending()
        """By the task, and by the subtasks that have returned."""
        self.run: Run | None = None
        self.worked_until = 0
        """When something was last recorded that only work makes."""

    def apply(self, event: Durable) -> None:
        self.updated = max(self.updated, event.ts)
        self._keep_account(event)
        match event:
            case MessageQueued():
                self.queue[event.id] = event
            case MessageUnqueued():
                self.queue.pop(event.id, None)
            case RequestStarted():
                for message_id in event.dequeued_ids:
                    self.queue.pop(message_id, None)
            case RequestEnded(usage=Usage() as usage) | ContextCondensed(usage=Usage() as usage):
                self._add_usage(usage, event.cost or 0.0)
            case SubtaskSpawned():
                self._spawned[event.call_id] = event.child_id
            case ToolFinished():
                if event.usage is not None:
                    self._returned[self._spawned.get(event.call_id, event.call_id)] = event.usage
                self._tally(event.tool, failed=False)
            case ToolFailed():
                self._tally(event.tool, failed=True)
            case CheckpointSaved():
                self.checkpoint = event.id
            case FilesRestored():
                self.checkpoint = event.checkpoint
            case TaskCreated() | TaskConfigured():
                self.configuration = event.configuration or {}
            case TaskImported():
                self.usage = self.usage.plus(usage_of_rows(event.rows))
            case TaskForked():
                self._begin_anew()

    @property
    def subtask_usage(self) -> TokenUsage:
        """Of the subtasks that have returned."""
        return reduce(TokenUsage.plus, self._returned.values(), TokenUsage())

    def spent_in(self, run: str) -> Spending:
        """In the latest run, if that is its name."""
        if self.run is None or self.run.name != run:
            return Spending()
        return self.spent.minus(self.run.before)

    def _keep_account(self, event: Durable) -> None:
        match event:
            case TaskStarted():
                self._start(event)
            case RequestStarted():
                self._spend(Spending(requests=1))
            case ReplyReceived():
                parts = [placed.part for placed in event.parts]
                calls = [part.call for part in parts if isinstance(part, CallPart)]
                counted = sum(call.name != COMPLETION_TOOL for call in calls)
                self._spend(Spending(turns=0 if event.interrupted else 1, calls=counted))
            case RequestEnded(usage=Usage() as usage) | ContextCondensed(usage=Usage() as usage):
                self._spend(Spending(tokens=usage.input + usage.output, cost=event.cost or 0.0))
            case ToolFinished(spent=Spending() as spent):
                self._spend(spent)
        if self.run is not None and isinstance(event, _RUN_END_EVENTS):
            self.run = structs.replace(self.run, is_over=True)
        if isinstance(event, _WORK_EVENTS):
            self.worked_until = event.ts

    def _start(self, event: TaskStarted) -> None:
        run = self.run
        if run is None or run.name != event.run_id:
            self.run = Run(event.run_id, event.limits, self.spent, event.ts)
            return
        worked = run.worked + max(0, self.worked_until - run.since)
        self.run = structs.replace(run, since=event.ts, worked=worked, is_over=False)

    def _spend(self, spent: Spending) -> None:
        self.spent = self.spent.plus(spent)

    def _begin_anew(self) -> None:
        """What was taken over from another task was used, asked and queued there."""
        self.spent, self.run = Spending(), None
        self.usage = TokenUsage()
        self.tools, self.queue, self._returned = {}, {}, {}

    def _add_usage(self, usage: Usage, cost: float) -> None:
        self.usage = self.usage.plus(
            TokenUsage(
                total_tokens_in=usage.input,
                total_tokens_out=usage.output,
                total_cache_writes=usage.cache_writes,
                total_cache_reads=usage.cache_reads,
                total_cost=cost,
            )
        )

    def _tally(self, tool: str, *, failed: bool) -> None:
        tally = self.tools.get(tool, ToolTally())
        self.tools[tool] = (
            structs.replace(tally, failures=tally.failures + 1)
            if failed
            else structs.replace(tally, attempts=tally.attempts + 1)
        )


_MAX_SAFE_INTEGER = 2**53
_Row = dict[str, Any]


class _RequestRow(Struct, rename="camel"):
    """The text of a request's row. Old ones also hold all that was sent, which is passed over."""

    tokens_in: Any = 0
    tokens_out: Any = 0
    cache_writes: Any = 0
    cache_reads: Any = 0
    cost: Any = 0.0


_decode = msgspec.json.Decoder(_RequestRow).decode
_EMPTY_REQUEST_ROW = _RequestRow()


def usage_of_rows(rows: Iterable[_Row]) -> TokenUsage:
    """The totals of all requests and summaries."""
    sent = received = written = read = 0
    cost = 0.0
    for row in rows:
        match row.get("say"):
            case "api_req_started":
                request = _request(row)
                sent += _count(request.tokens_in)
                received += _count(request.tokens_out)
                written += _count(request.cache_writes)
                read += _count(request.cache_reads)
                cost += _cost(request.cost)
            case "condense_context":
                cost += _cost(_condensed(row).get("cost"))
    return TokenUsage(
        total_tokens_in=sent,
        total_tokens_out=received,
        total_cache_writes=written,
        total_cache_reads=read,
        total_cost=cost,
    )


def context_of_rows(rows: Sequence[_Row]) -> int:
    """How full the window was after the latest request or summary that tells."""
    for row in reversed(rows):
        tokens = 0
        match row.get("say"):
            case "api_req_started":
                request = _request(row)
                tokens = _count(request.tokens_in) + _count(request.tokens_out)
            case "condense_context":
                tokens = _count(_condensed(row).get("newContextTokens"))
        if tokens:
            return tokens
    return 0


def _request(row: _Row) -> _RequestRow:
    text = row.get("text")
    try:
        return _decode(text) if isinstance(text, str) else _EMPTY_REQUEST_ROW
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # rows of an interrupted save, or of a program that writes words there
        return _EMPTY_REQUEST_ROW


def _condensed(row: _Row) -> _Row:
    info = row.get("contextCondense")
    return info if isinstance(info, dict) else {}


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < _MAX_SAFE_INTEGER else 0


def _cost(cost: Any) -> float:
    return float(cost) if isinstance(cost, int | float) and 0 <= cost < _MAX_SAFE_INTEGER else 0.0
