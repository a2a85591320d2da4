"""The encoder from a task's events to frames of the WebSocket API.

The same encoder serves a running task and one that is read back from its journal; for durable
events both give the same frames. A passing event only updates the rows; the server decides when to
send them (see `changed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from joey.core.events import (
    TRANSIENT_EVENTS,
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    Durable,
    Event,
    MessageQueued,
    MessageUnqueued,
    ModeSwitched,
    Record,
    RequestEnded,
    RequestStarted,
    RetryCountdown,
    RowAdded,
    SubtaskSpawned,
    TaskAborted,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskFinished,
    TaskImported,
    TaskPaused,
    TaskStarted,
    TaskUnpaused,
    TodosChanged,
    ToolFailed,
    ToolFinished,
    UserMessage,
)
from joey.core.history.branch import BranchTracker
from joey.core.history.state import TaskProjection
from joey.core.history.ui import RowChange, UiHistory
from joey.core.rewind import ts_of
from joey.core.task import APPROVAL_ASKS, AskKind
from joey.core.wire.events import (
    AbortedPayload,
    AskPayload,
    AskRespondedPayload,
    CompletedPayload,
    CountdownPayload,
    CreatedPayload,
    DelegationCompletedPayload,
    DelegationPayload,
    Empty,
    FailedPayload,
    MessagePayload,
    ModeSwitchedPayload,
    PausedPayload,
    QueuedMessage,
    QueuePayload,
    RewoundPayload,
    SpawnedPayload,
    TodosPayload,
    ToolFailedPayload,
    UsagePayload,
    totals,
)
from joey.core.wire.frames import EventFrame

INTERACTIVE_ASKS = APPROVAL_ASKS | {AskKind.FOLLOWUP}
RESUMABLE_ASKS = frozenset({AskKind.RESUME_TASK})


NamedPayload = tuple[str, Struct]


class FrameEncoder:
    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.ui = UiHistory()
        self.facts = TaskProjection()
        self.seq = 0
        """The last record that was told."""
        self._created: TaskCreated | None = None
        self._handed_on: dict[str, str] = {}
        """Calls that subtasks work on, each with its subtask."""
        self._returned: list[str] = []
        """Subtasks whose results are there, while the task still waits for others."""
        self._path = BranchTracker()

    def encode(self, seq: int, event: Event) -> list[EventFrame]:
        """The frames of a durable event."""
        if type(event) in TRANSIENT_EVENTS:
            raise ValueError(f"{type(event).__name__} is not durable")
        before, self.seq = self.seq, seq
        durable: Durable = event  # type: ignore[assignment]
        self.facts.ledger.apply(durable)
        path = self._path.add(Record(seq, durable))
        payloads = list(self._go_on(durable) if path is None else self._go_back(path))
        last = len(payloads) - 1
        return [
            self._frame(name, payload, seq if number == last else before)
            for number, (name, payload) in enumerate(payloads)
        ]

    def _go_on(self, event: Durable) -> Iterator[NamedPayload]:
        self.facts.follow(event)
        changes = self.ui.apply(event)
        yield from self._before_rows(event)
        yield from map(self._message, changes)
        yield from self._after_rows(event)

    def _go_back(self, path: Sequence[Record]) -> Iterator[NamedPayload]:
        """What is different now that the history is made of other records."""
        facts = self.facts
        known = {ts_of(row): row for row in self.ui.rows}
        todos, mode, usage = facts.todos, facts.mode, facts.usage
        facts.restart()
        self.ui = UiHistory()
        for record in path:
            facts.follow(record.event)
            self.ui.apply(record.event)
        self._handed_on = {child.call_id: name for name, child in facts.children.items()}
        rows = {ts_of(row): row for row in self.ui.rows}
        removed = tuple(ts for ts in known if ts not in rows)
        last = max(rows, default=None)
        yield "taskRewound", RewoundPayload(message_ts=last, removed=removed)
        for ts, row in rows.items():
            if row != known.get(ts):
                yield self._message(RowChange("updated" if ts in known else "created", ts))
        if facts.todos != todos:
            yield "todosUpdated", TodosPayload(todos=facts.todos)
        if facts.mode != mode:
            yield "taskModeSwitched", ModeSwitchedPayload(mode_slug=facts.mode)
        if facts.usage != usage:
            yield self._usage()

    def changed(self, event: Event) -> tuple[RowChange, ...]:
        """Take in a passing event; the rows that look different now."""
        return self.ui.apply(event)

    def row_frame(self, change: RowChange) -> EventFrame | None:
        """A row as it looks now; None when it is gone."""
        if self.ui.row(change.ts) is None:
            return None
        return self._frame(*self._message(change), self.seq)

    def growing(self) -> list[EventFrame]:
        """The rows that still grow, as they look now."""
        return [
            self._frame(*self._message(RowChange("updated", ts)), self.seq)
            for ts in self.ui.growing
        ]

    def countdown(self, event: RetryCountdown) -> EventFrame:
        payload = CountdownPayload(
            seconds=event.seconds, message=event.message, attempt=event.attempt
        )
        return self._frame("countdown", payload, self.seq)

    def _frame(self, name: str, payload: Struct, seq: int) -> EventFrame:
        return EventFrame(event_name=name, task_id=self.task_id, payload=payload, seq=seq)

    def _message(self, change: RowChange) -> NamedPayload:
        payload = MessagePayload(action=change.action, message=self.ui.row(change.ts))
        return "message", payload

    def _before_rows(self, event: Event) -> Iterator[NamedPayload]:
        match event:
            case TaskCreated():
                # It is told with its title, which the next record brings.
                self._created = event
            case UserMessage(is_first=True) if self._created is not None:
                yield "taskCreated", created_payload(self.facts)
                self._created = None
            case TaskImported():
                yield "taskCreated", created_payload(self.facts)
            case UserMessage():
                yield "taskUserMessage", Empty()

    def _after_rows(self, event: Event) -> Iterator[NamedPayload]:
        match event:
            case AskOpened():
                yield _asked(event)
            case AskAnswered():
                yield (
                    "taskAskResponded",
                    AskRespondedPayload(
                        ask_ts=event.ask_ts, response=event.answer.response.value, by=event.by
                    ),
                )
                yield "taskActive", Empty()
            case AskWithdrawn():
                yield "taskActive", Empty()
            case ModeSwitched(mode=mode):
                yield "taskModeSwitched", ModeSwitchedPayload(mode_slug=mode)
            case ToolFailed():
                yield "taskToolFailed", ToolFailedPayload(tool_name=event.tool, error=event.error)
            case TodosChanged(todos=todos):
                yield "todosUpdated", TodosPayload(todos=todos)
            case MessageQueued() | MessageUnqueued():
                yield "queuedMessagesUpdated", QueuePayload(queue=waiting(self.facts))
            case RequestStarted() if event.dequeued_ids:
                yield "queuedMessagesUpdated", QueuePayload(queue=waiting(self.facts))
            case RequestEnded() if event.usage is not None:
                yield self._usage()
            case _:
                yield from self._life(event)

    def _usage(self) -> NamedPayload:
        tools = dict(self.facts.ledger.tools)
        payload = UsagePayload(usage=totals(self.facts.usage), tool_usage=tools)
        return "taskTokenUsageUpdated", payload

    def _life(self, event: Event) -> Iterator[NamedPayload]:
        match event:
            case TaskStarted():
                yield "taskStarted", Empty()
                yield "taskActive", Empty()
            case TaskCompleted():
                yield (
                    "taskCompleted",
                    CompletedPayload(
                        usage=totals(event.usage),
                        tool_usage=event.tool_usage,
                        is_subtask=self.facts.parent_id is not None,
                    ),
                )
            case SubtaskSpawned() | TaskPaused() | TaskUnpaused() | ToolFinished() | RowAdded():
                yield from self._delegation(event)
            case TaskFinished():
                yield "taskFinished", Empty()
            case TaskAborted(reason=reason):
                yield "taskAborted", AbortedPayload(reason=reason)
            case TaskFailed():
                yield "taskFailed", FailedPayload(code=event.code, message=event.message)

    def _delegation(
        self, event: SubtaskSpawned | TaskPaused | TaskUnpaused | ToolFinished | RowAdded
    ) -> Iterator[NamedPayload]:
        match event:
            case SubtaskSpawned(child_id=child_id):
                self._handed_on[event.call_id] = child_id
                yield "taskSpawned", SpawnedPayload(child_task_id=child_id)
            case TaskPaused(child_ids=child_ids):
                yield "taskPaused", PausedPayload(child_task_ids=child_ids)
                for child_id in child_ids:
                    yield "taskDelegated", DelegationPayload(child_task_id=child_id)
            case RowAdded(subtask_id=str(child_id), text=summary):
                yield (
                    "taskDelegationCompleted",
                    DelegationCompletedPayload(child_task_id=child_id, summary=summary),
                )
            case ToolFinished(call_id=call_id) if call_id in self._handed_on:
                self._returned.append(self._handed_on.pop(call_id))
            case TaskUnpaused():
                yield "taskUnpaused", Empty()
                for child_id in self._returned:
                    yield "taskDelegationResumed", DelegationPayload(child_task_id=child_id)
                self._returned.clear()
                yield "taskActive", Empty()


def created_payload(facts: TaskProjection) -> CreatedPayload:
    """What everybody is told of a new task."""
    return CreatedPayload(
        workspace=facts.workspace,
        mode=facts.mode,
        title=facts.title[:200],
        protocol=facts.protocol.value,
        profile=facts.route.profile,
        model=facts.route.model,
        parent_id=facts.parent_id,
    )


def waiting(facts: TaskProjection) -> tuple[QueuedMessage, ...]:
    """Words that the model has not heard yet."""
    return tuple(
        QueuedMessage(id=m.id, text=m.text, timestamp=m.ts, images=m.images)
        for m in facts.queue.values()
    )


def _asked(event: AskOpened) -> NamedPayload:
    name = "taskIdle"
    if event.ask in INTERACTIVE_ASKS:
        name = "taskInteractive"
    elif event.ask in RESUMABLE_ASKS:
        name = "taskResumable"
    payload = AskPayload(
        ask_ts=event.ts,
        ask=event.ask.value,
        always_rule=event.always_rule,
        reason=event.reason,
        sandbox=event.sandbox,
    )
    return name, payload


def narrate(task_id: str, records: Iterable[Record]) -> tuple[FrameEncoder, list[EventFrame]]:
    """A task as its journal tells it."""
    encoder = FrameEncoder(task_id)
    frames = [frame for record in records for frame in encoder.encode(record.seq, record.event)]
    return encoder, frames


class ReplayNormalizer:
    """Frames told again to somebody who was away: a row is `created` when it is first met."""

    def __init__(self) -> None:
        self._met: set[int] = set()

    def retell(self, frame: EventFrame) -> EventFrame:
        payload = frame.payload
        if isinstance(payload, RewoundPayload):
            self._met.difference_update(payload.removed)
        if not isinstance(payload, MessagePayload):
            return frame
        ts = row_ts(payload)
        action: Literal["created", "updated"] = "updated" if ts in self._met else "created"
        self._met.add(ts)
        if action == payload.action:
            return frame
        return structs.replace(frame, payload=structs.replace(payload, action=action))


def row_ts(payload: MessagePayload) -> int:
    row = payload.message
    return int(row["ts"]) if isinstance(row, dict) else int(row.ts)
