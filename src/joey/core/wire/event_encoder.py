"""The encoder from a task's events to frames of the WebSocket API.

The same encoder serves a running task and one read back from its journal; for durable events both
produce the same frames. A transient event only updates the rows; the server decides when to send
them (see `apply_transient`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from joey.core import events as ev
from joey.core.history.branch import BranchTracker
from joey.core.history.state import TaskProjection
from joey.core.history.ui import RowChange, UiHistory, add_row_summary, get_ts
from joey.core.task_types import APPROVAL_ASKS, AskKind, AskView
from joey.core.wire import events as wire
from joey.core.wire.frames import EventFrame

INTERACTIVE_ASKS = APPROVAL_ASKS | {AskKind.FOLLOWUP}
RESUMABLE_ASKS = frozenset({AskKind.RESUME_TASK})


NamedPayload = tuple[str, Struct]
BuildAskView = Callable[[ev.AskOpened], AskView]
"""Wording is not for this package."""


class FrameEncoder:
    def __init__(self, task_id: str, build_ask_view: BuildAskView) -> None:
        self.task_id = task_id
        self._build_ask_view = build_ask_view
        self.ui = UiHistory()
        self.projection = TaskProjection()
        self.last_seq = 0
        self._next_part = 0
        """The number of the next frame that comes of this record, or of passing events after it."""
        self._pending_created_event: ev.TaskCreated | None = None
        self._subtask_by_call: dict[str, str] = {}
        """Calls that subtasks work on, each with its subtask."""
        self._returned_subtask_ids: list[str] = []
        """Subtasks whose results are there, while the task still waits for others."""
        self._branch = BranchTracker()

    def encode(self, seq: int, event: ev.Event) -> list[EventFrame]:
        """Encode a durable event as frames."""
        if type(event) in ev.TRANSIENT_EVENTS:
            raise ValueError(f"{type(event).__name__} is not durable")
        before, self.last_seq, self._next_part = self.last_seq, seq, 0
        durable: ev.Durable = event  # type: ignore[assignment]
        self.projection.ledger.apply(durable)
        path = self._branch.add(ev.Record(seq, durable))
        payloads = list(self._encode_next(durable) if path is None else self._encode_rewind(path))
        last = len(payloads) - 1
        return [
            self._build_frame(name, payload, seq if number == last else before)
            for number, (name, payload) in enumerate(payloads)
        ]

    def _encode_next(self, event: ev.Durable) -> Iterator[NamedPayload]:
        self.projection.apply_branch_event(event)
        changes = self.ui.apply(event)
        yield from self._encode_before_rows(event)
        yield from map(self._build_message_payload, changes)
        yield from self._encode_after_rows(event)

    def _encode_rewind(self, path: Sequence[ev.Record]) -> Iterator[NamedPayload]:
        """Encode the difference between the old history and the one made of other records."""
        facts = self.projection
        known = {get_ts(row): row for row in self.ui.rows}
        todos, mode, usage = facts.todos, facts.mode, facts.usage
        facts.reset()
        self.ui = UiHistory()
        for record in path:
            facts.apply_branch_event(record.event)
            self.ui.apply(record.event)
        self._subtask_by_call = {
            child.call_id: name for name, child in facts.spawned_subtasks.items()
        }
        rows = {get_ts(row): row for row in self.ui.rows}
        removed = tuple(ts for ts in known if ts not in rows)
        last = max(rows, default=None)
        yield "taskRewound", wire.RewoundPayload(message_ts=last, removed=removed)
        for ts, row in rows.items():
            if row != known.get(ts):
                yield self._build_message_payload(
                    RowChange("updated" if ts in known else "created", ts)
                )
        if facts.todos != todos:
            yield "todosUpdated", wire.TodosPayload(todos=facts.todos)
        if facts.mode != mode:
            yield "taskModeSwitched", wire.ModeSwitchedPayload(mode_slug=facts.mode)
        if facts.usage != usage:
            yield self._build_usage_payload()

    def apply_transient(self, event: ev.Event) -> tuple[RowChange, ...]:
        """Apply a transient event and return the rows that changed."""
        return self.ui.apply(event)

    def encode_row(self, change: RowChange) -> EventFrame | None:
        """Encode a row in its current state; None if it is gone."""
        if self.ui.get_row(change.ts) is None:
            return None
        return self._build_frame(*self._build_message_payload(change), self.last_seq)

    def encode_open_rows(self) -> list[EventFrame]:
        """Encode the growing rows in their current state."""
        return [
            self._build_frame(*self._build_message_payload(RowChange("updated", ts)), self.last_seq)
            for ts in self.ui.open_row_timestamps
        ]

    def encode_countdown(self, event: ev.RetryCountdown) -> EventFrame:
        payload = wire.CountdownPayload(
            seconds=event.seconds, message=event.message, attempt=event.attempt
        )
        return self._build_frame("countdown", payload, self.last_seq)

    def _build_frame(self, name: str, payload: Struct, seq: int) -> EventFrame:
        part, self._next_part = self._next_part, self._next_part + 1
        return EventFrame(
            event_name=name,
            task_id=self.task_id,
            payload=payload,
            seq=seq,
            record=self.last_seq,
            part=part,
        )

    def _build_message_payload(self, change: RowChange) -> NamedPayload:
        payload = wire.MessagePayload(
            action=change.action, message=add_row_summary(self.ui.get_row(change.ts))
        )
        return "message", payload

    def _encode_before_rows(self, event: ev.Event) -> Iterator[NamedPayload]:
        match event:
            case ev.TaskCreated():
                # It is announced with its title, which is in the next record.
                self._pending_created_event = event
            case ev.UserMessage(is_first=True) if self._pending_created_event is not None:
                yield "taskCreated", build_created_payload(self.projection)
                self._pending_created_event = None
            case ev.TaskImported():
                yield "taskCreated", build_created_payload(self.projection)
            case ev.UserMessage():
                yield "taskUserMessage", wire.Empty()

    def _encode_after_rows(self, event: ev.Event) -> Iterator[NamedPayload]:
        match event:
            case ev.AskOpened():
                yield _build_ask_payload(event, self._build_ask_view(event))
            case ev.AskAnswered():
                response = event.answer.response.value
                answered = wire.AskRespondedPayload(
                    ask_ts=event.ask_ts, response=response, by=event.answered_by
                )
                yield "taskAskResponded", answered
                yield "taskActive", wire.Empty()
            case ev.AskWithdrawn():
                yield "taskActive", wire.Empty()
            case ev.ModeSwitched(mode=mode):
                yield "taskModeSwitched", wire.ModeSwitchedPayload(mode_slug=mode)
            case ev.ToolFailed():
                failed = wire.ToolFailedPayload(
                    tool_name=event.tool, error=event.error, reason=event.reason
                )
                yield "taskToolFailed", failed
            case ev.TodosChanged(todos=todos):
                yield "todosUpdated", wire.TodosPayload(todos=todos)
            case (
                ev.MessageQueued() | ev.MessageUnqueued() | ev.RequestStarted(dequeued_ids=(_, *_))
            ):
                queue = wire.QueuePayload(queue=list_queued_messages(self.projection))
                yield "queuedMessagesUpdated", queue
            case ev.RequestEnded() if event.usage is not None:
                yield self._build_usage_payload()
            case _:
                yield from self._encode_lifecycle(event)

    def _build_usage_payload(self) -> NamedPayload:
        payload = wire.UsagePayload(
            usage=wire.to_usage_totals(self.projection.usage),
            tool_usage=self.projection.ledger.tool_tallies,
        )
        return "taskTokenUsageUpdated", payload

    def _encode_lifecycle(self, event: ev.Event) -> Iterator[NamedPayload]:
        match event:
            case ev.TaskStarted():
                yield "taskStarted", wire.Empty()
                yield "taskActive", wire.Empty()
            case ev.TaskCompleted():
                yield (
                    "taskCompleted",
                    wire.CompletedPayload(
                        usage=wire.to_usage_totals(event.usage),
                        tool_usage=event.tool_usage,
                        is_subtask=self.projection.parent_id is not None,
                    ),
                )
            case ev.TaskFinished():
                yield "taskFinished", wire.Empty()
            case ev.TaskAborted(reason=reason):
                yield "taskAborted", wire.AbortedPayload(reason=reason)
            case ev.TaskFailed():
                yield "taskFailed", wire.FailedPayload(code=event.code, message=event.message)
            case ev.SubtaskSpawned(child_id=child_id):
                self._subtask_by_call[event.call_id] = child_id
                yield "taskSpawned", wire.SpawnedPayload(child_task_id=child_id)
            case ev.TaskPaused(child_ids=child_ids):
                yield "taskPaused", wire.PausedPayload(child_task_ids=child_ids)
                for child_id in child_ids:
                    yield "taskDelegated", wire.DelegationPayload(child_task_id=child_id)
            case ev.RowAdded(subtask_id=str(child_id), text=summary):
                yield (
                    "taskDelegationCompleted",
                    wire.DelegationCompletedPayload(child_task_id=child_id, summary=summary),
                )
            case ev.ToolFinished(call_id=call_id) if call_id in self._subtask_by_call:
                self._returned_subtask_ids.append(self._subtask_by_call.pop(call_id))
            case ev.TaskUnpaused():
                yield "taskUnpaused", wire.Empty()
                for child_id in self._returned_subtask_ids:
                    yield "taskDelegationResumed", wire.DelegationPayload(child_task_id=child_id)
                self._returned_subtask_ids.clear()
                yield "taskActive", wire.Empty()


def build_created_payload(facts: TaskProjection) -> wire.CreatedPayload:
    """Build the announcement of a new task."""
    return wire.CreatedPayload(
        workspace=facts.workspace,
        mode=facts.mode,
        title=facts.title[:200],
        protocol=facts.tool_protocol.value,
        profile=facts.route.profile,
        model=facts.route.model,
        parent_id=facts.parent_id,
    )


def list_queued_messages(facts: TaskProjection) -> tuple[wire.QueuedMessage, ...]:
    """List the messages that the model has not seen yet."""
    return tuple(
        wire.QueuedMessage(id=m.id, text=m.text, timestamp=m.ts, images=m.images)
        for m in facts.queued_messages.values()
    )


def _build_ask_payload(event: ev.AskOpened, view: AskView) -> NamedPayload:
    name = "taskIdle"
    if event.ask in INTERACTIVE_ASKS:
        name = "taskInteractive"
    elif event.ask in RESUMABLE_ASKS:
        name = "taskResumable"
    payload = wire.AskPayload(
        ask_ts=event.ts,
        ask=event.ask.value,
        always_rule=event.always_rule,
        always_scopes=event.always_scopes,
        network=event.network,
        reason=event.reason,
        reasons=event.reasons,
        sandbox=event.sandbox,
        view=view,
    )
    return name, payload


def encode_records(
    task_id: str, records: Iterable[ev.Record], build_ask_view: BuildAskView
) -> tuple[FrameEncoder, list[EventFrame]]:
    """Encode a task from its journal."""
    encoder = FrameEncoder(task_id, build_ask_view)
    frames = [frame for record in records for frame in encoder.encode(record.seq, record.event)]
    return encoder, frames


class ReplayNormalizer:
    """Normalizes replayed frames: the first frame about a row says `created`."""

    def __init__(self) -> None:
        self._seen_rows: set[int] = set()

    def normalize(self, frame: EventFrame) -> EventFrame:
        payload = frame.payload
        if isinstance(payload, wire.RewoundPayload):
            self._seen_rows.difference_update(payload.removed)
        if not isinstance(payload, wire.MessagePayload):
            return frame
        ts = get_ts(payload.message)
        action: Literal["created", "updated"] = "updated" if ts in self._seen_rows else "created"
        self._seen_rows.add(ts)
        if action == payload.action:
            return frame
        return structs.replace(frame, payload=structs.replace(payload, action=action))
