"""The usage ledger of a task: totals that a rewind does not take back.

A rewind removes messages, not money, time, or the messages already sent to the model. The totals
of an imported task are read from the rows of its requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import msgspec
from msgspec import Struct, structs

from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.messages import CallPart, Usage
from joey.core.settings import Limits, ModelRoute
from joey.core.task_types import RowKind

_WORK_EVENTS = (
    ev.TaskStarted,
    ev.RequestStarted,
    ev.RequestEnded,
    ev.ReplyReceived,
    ev.ToolStarted,
    ev.ToolFinished,
    ev.TaskPaused,
)
_RUN_END_EVENTS = (ev.TaskFinished, ev.TaskAborted, ev.TaskFailed, ev.TaskRewound)


class LatestRun(Struct, frozen=True):
    """The latest run, which may have been interrupted by the death of its process."""

    budget_id: str
    limits: Limits | None
    """Its own; None when it draws from those of the task above."""
    spending_before: ev.Spending
    """What the task had spent until then."""
    last_started_ts: int
    worked_ms: int = 0
    """Milliseconds of work before that."""
    is_over: bool = False


class UsageLedger:
    """Totals folded from every record, on the path or not."""

    def __init__(self) -> None:
        self.updated = 0
        self.configuration: dict[str, Any] = {}
        """Settings given to this task alone."""
        self.protocol_change: ev.ProtocolChanged | None = None
        """The latest."""
        self.first_route: ModelRoute | None = None
        """The model of the first run."""
        self.usage = ev.TokenUsage()
        self._subtask_by_call: dict[str, str] = {}
        self._usage_by_subtask: dict[str, ev.TokenUsage] = {}
        """Of each subtask that has returned; one that does so again tells of all that it used."""
        self.tool_tallies: dict[str, ev.ToolTally] = {}
        self._is_completion_counted = False
        """The completing call was counted with its result, before it ended."""
        self.queued_messages: dict[str, ev.MessageQueued] = {}
        self.last_checkpoint: str | None = None
        """The files of the workspace as this task last knew them."""
        self.total_spending = ev.Spending()
        """By the task, and by the subtasks that have returned."""
        self.last_run: LatestRun | None = None
        self.last_work_ts = 0
        """When something was last recorded that only work makes."""

    def apply(self, event: ev.Durable) -> None:
        self.updated = max(self.updated, event.ts)
        self._apply_spending(event)
        route = event.route if isinstance(event, ev.TaskStarted | ev.TaskForked) else None
        self.first_route = self.first_route or route
        self._apply_tool_call(event)
        match event:
            case ev.MessageQueued():
                self.queued_messages[event.id] = event
            case ev.MessageUnqueued():
                self.queued_messages.pop(event.id, None)
            case ev.RequestStarted():
                for message_id in event.dequeued_ids:
                    self.queued_messages.pop(message_id, None)
            case (
                ev.RequestEnded(usage=Usage() as usage)
                | ev.ContextCondensed(usage=Usage() as usage)
            ):
                counts = usage.input, usage.output, usage.cache_writes, usage.cache_reads
                self.usage = self.usage.plus(ev.TokenUsage(*counts, event.cost or 0.0))
            case ev.SubtaskSpawned():
                self._subtask_by_call[event.call_id] = event.child_id
            case ev.ToolFinished(subtask_usage=ev.TokenUsage() as usage):
                child_id = self._subtask_by_call.get(event.call_id, event.call_id)
                self._usage_by_subtask[child_id] = usage
            case ev.CheckpointSaved(id=checkpoint) | ev.FilesRestored(checkpoint=checkpoint):
                self.last_checkpoint = checkpoint
            case ev.TaskCreated() | ev.TaskConfigured():
                self.configuration = event.configuration or {}
            case ev.ProtocolChanged():
                self.protocol_change = event
            case ev.TaskImported():
                self.usage = self.usage.plus(sum_row_usage(event.rows))
            case ev.TaskForked():
                # Records copied from another task count there.
                self.total_spending, self.last_run = ev.Spending(), None
                self.usage = ev.TokenUsage()
                self.tool_tallies, self.queued_messages, self._usage_by_subtask = {}, {}, {}

    def _apply_tool_call(self, event: ev.Durable) -> None:
        match event:
            case ev.ReplyReceived():
                self._is_completion_counted = False
            case ev.TaskCompleted(is_plain_answer=False):
                self.tool_tallies = add_to_tallies(self.tool_tallies, COMPLETION_TOOL_NAME)
                self._is_completion_counted = True
            case ev.ToolFinished(tool=tool):
                if not (tool == COMPLETION_TOOL_NAME and self._is_completion_counted):
                    self.tool_tallies = add_to_tallies(self.tool_tallies, tool)
            case ev.ToolFailed(tool=tool):
                self.tool_tallies = add_to_tallies(self.tool_tallies, tool, failed=True)

    @property
    def subtask_usage(self) -> ev.TokenUsage:
        """The usage of subtasks that have returned."""
        return reduce(ev.TokenUsage.plus, self._usage_by_subtask.values(), ev.TokenUsage())

    def get_run_spending(self, run: str) -> ev.Spending:
        """Return the spending of the latest run, if it has this id."""
        if self.last_run is None or self.last_run.budget_id != run:
            return ev.Spending()
        return self.last_run_spending

    @property
    def last_run_spending(self) -> ev.Spending:
        """The spending of the latest run; excludes what a task spent before it was forked."""
        before = ev.Spending() if self.last_run is None else self.last_run.spending_before
        return self.total_spending.minus(before)

    def _apply_spending(self, event: ev.Durable) -> None:
        spent = ev.Spending()
        match event:
            case ev.TaskStarted():
                self._start_run(event)
            case ev.RequestStarted():
                spent = ev.Spending(requests=1)
            case ev.ReplyReceived():
                parts = [placed.part for placed in event.parts]
                calls = [part.call for part in parts if isinstance(part, CallPart)]
                counted = sum(call.name != COMPLETION_TOOL_NAME for call in calls)
                spent = ev.Spending(turns=0 if event.interrupted else 1, calls=counted)
            case (
                ev.RequestEnded(usage=Usage() as usage)
                | ev.ContextCondensed(usage=Usage() as usage)
            ):
                spent = ev.Spending(tokens=usage.input + usage.output, cost=event.cost or 0.0)
            case ev.ToolFinished(subtask_spending=ev.Spending() as spent):
                pass
        self.total_spending = self.total_spending.plus(spent)
        if self.last_run is not None and isinstance(event, _RUN_END_EVENTS):
            self.last_run = structs.replace(self.last_run, is_over=True)
        if isinstance(event, _WORK_EVENTS):
            self.last_work_ts = event.ts

    def _start_run(self, event: ev.TaskStarted) -> None:
        run = self.last_run
        if run is None or run.budget_id != event.budget_id:
            self.last_run = LatestRun(event.budget_id, event.limits, self.total_spending, event.ts)
            return
        worked = run.worked_ms + max(0, self.last_work_ts - run.last_started_ts)
        self.last_run = structs.replace(
            run, last_started_ts=event.ts, worked_ms=worked, is_over=False
        )


def add_to_tallies(
    tallies: Mapping[str, ev.ToolTally], tool: str, *, failed: bool = False
) -> dict[str, ev.ToolTally]:
    """Add one attempt or failure of a tool to the tallies."""
    tally = tallies.get(tool, ev.ToolTally())
    return {**tallies, tool: ev.ToolTally(tally.attempts + (not failed), tally.failures + failed)}


_MAX_SAFE_INTEGER = 2**53
_Row = dict[str, Any]


class _RequestRowText(Struct, rename="camel"):
    """The text of a request's row. Old ones also contain the whole request, which is ignored."""

    tokens_in: Any = 0
    tokens_out: Any = 0
    cache_writes: Any = 0
    cache_reads: Any = 0
    cost: Any = 0.0


_decode_request_row = msgspec.json.Decoder(_RequestRowText).decode
_EMPTY_REQUEST_ROW_TEXT = _RequestRowText()


def sum_row_usage(rows: Iterable[_Row]) -> ev.TokenUsage:
    """Sum the usage of all requests and summaries."""
    total = ev.TokenUsage()
    for row in rows:
        match row.get("say"):
            case RowKind.API_REQ_STARTED:
                request = _parse_request_row(row)
                tokens = ev.TokenUsage(*map(_parse_count, structs.astuple(request)[:4]))
                total = total.plus(structs.replace(tokens, total_cost=_parse_number(request.cost)))
            case RowKind.CONDENSE_CONTEXT:
                cost = _parse_number(_get_condense_info(row).get("cost"))
                total = total.plus(ev.TokenUsage(total_cost=cost))
    return total


def find_context_tokens(rows: Sequence[_Row]) -> int:
    """Find the size of the context after the latest request or summary that reports it."""
    for row in reversed(rows):
        tokens = 0
        match row.get("say"):
            case RowKind.API_REQ_STARTED:
                request = _parse_request_row(row)
                tokens = _parse_count(request.tokens_in) + _parse_count(request.tokens_out)
            case RowKind.CONDENSE_CONTEXT:
                tokens = _parse_count(_get_condense_info(row).get("newContextTokens"))
        if tokens:
            return tokens
    return 0


def _parse_request_row(row: _Row) -> _RequestRowText:
    text = row.get("text")
    try:
        return _decode_request_row(text) if isinstance(text, str) else _EMPTY_REQUEST_ROW_TEXT
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # rows of an interrupted save, or of a program that writes plain text there
        return _EMPTY_REQUEST_ROW_TEXT


def _get_condense_info(row: _Row) -> _Row:
    info = row.get("contextCondense")
    return info if isinstance(info, dict) else {}


def _parse_count(value: Any) -> int:
    return int(_parse_number(value))


def _parse_number(value: Any) -> float:
    return value if isinstance(value, int | float) and 0 <= value < _MAX_SAFE_INTEGER else 0.0
