"""Usage of an attempt: what its task and its subtasks did and cost, read from their journals.

Only the journals are complete: a process that died may not have written anything else.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from msgspec import Struct

from joey.batch.results import RefusedCall, TokenCounts
from joey.core import events as ev
from joey.core.history.usage_ledger import UsageLedger
from joey.core.task_types import APPROVAL_ASKS
from joey.errors import StoreError, TaskNotFoundError
from joey.ports.storage import Store

log = logging.getLogger(__name__)


class AttemptUsage(Struct, frozen=True):
    turns: int = 0
    requests: int = 0
    resumed: int = 0
    """How often the task was resumed after an interruption."""
    tokens: TokenCounts = TokenCounts()
    cost: float = 0.0
    refused: tuple[RefusedCall, ...] = ()


def read_usage(tasks: Store, task_id: str | None) -> AttemptUsage:
    """Read the usage of a task and its subtasks; zero if it never started."""
    turns = requests = resumed = 0
    total = ev.TokenUsage()
    refused: list[RefusedCall] = []
    unread, seen = [task_id] if task_id else [], set[str]()
    while unread:
        current = unread.pop()
        if current in seen:
            continue
        seen.add(current)
        events = _read_events(tasks, current)
        ledger = UsageLedger()
        for event in events:
            ledger.apply(event)
        total = total.plus(ledger.usage)
        turns += _count(events, ev.ReplyReceived)
        requests += _count(events, ev.RequestStarted)
        refused += _find_refused_calls(events)
        if current == task_id:
            resumed = sum(isinstance(each, ev.TaskStarted) and each.resumed for each in events)
        unread += [each.child_id for each in events if isinstance(each, ev.SubtaskSpawned)]
    cached = total.total_cache_reads + total.total_cache_writes
    tokens = TokenCounts(
        max(total.total_tokens_in - cached, 0),
        total.total_tokens_out,
        total.total_cache_reads,
        total.total_cache_writes,
    )
    return AttemptUsage(turns, requests, resumed, tokens, total.total_cost, tuple(refused))


def _read_events(tasks: Store, task_id: str) -> list[ev.Durable]:
    try:
        return [each.event for each in tasks.read_records(task_id)]
    except TaskNotFoundError:
        return []
    except StoreError as error:
        log.warning("the journal %s cannot be read: %s", task_id, error)
        return []


def _count(events: Sequence[ev.Durable], kind: type[ev.Durable]) -> int:
    return sum(isinstance(each, kind) for each in events)


def _find_refused_calls(events: Sequence[ev.Durable]) -> list[RefusedCall]:
    """Find calls that were refused because no user was there to allow them."""
    found: list[RefusedCall] = []
    asked: ev.AskOpened | None = None
    for event in events:
        match event:
            case ev.AskOpened():
                asked = event
            case ev.AskAnswered() if asked is not None:
                if asked.ask in APPROVAL_ASKS and not event.answer.approves:
                    found.append(
                        RefusedCall(asked.tool or asked.ask.value, asked.path or asked.text)
                    )
                asked = None
    return found
