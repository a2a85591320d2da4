"""What anybody may look at of a task."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from joey.core.events import (
    AskOpened,
    Event,
    TaskAborted,
    TaskFailed,
    TaskFinished,
    TaskStarted,
    TokenUsage,
)
from joey.core.history.ui import Row
from joey.core.messages import Message
from joey.core.modes import Mode, find_mode, usual_mode
from joey.core.settings import Settings
from joey.core.task import AT_REST, TaskState
from joey.engine import loop
from joey.engine.bus import Bus, Subscription
from joey.engine.endings import Ending
from joey.engine.granted import Granted
from joey.engine.recorder import Recorder
from joey.engine.subtasks import Subtasks
from joey.engine.workbench import Workbench
from joey.ports import Provider

ENDED = (TaskFinished, TaskAborted, TaskFailed)


class TaskView:
    """The half of a `Task` that changes nothing."""

    bench: Workbench
    subtasks: Subtasks
    recorder: Recorder
    bus: Bus
    granted: Granted

    @property
    def id(self) -> str:
        return self.recorder.facts.task_id

    @property
    def state(self) -> TaskState:
        return self.recorder.facts.state

    @property
    def pending(self) -> AskOpened | None:
        """The question the task waits for, if it waits."""
        return self.recorder.facts.pending

    @property
    def usage(self) -> TokenUsage:
        return self.recorder.facts.usage

    @property
    def total_usage(self) -> TokenUsage:
        """Its own and that of its subtasks: those that have returned, and those cut off here."""
        return self.usage.plus(self.recorder.facts.ledger.subtask_usage).plus(self.subtasks.usage)

    @property
    def seq(self) -> int:
        """The number of the latest durable event."""
        return self.bus.seq

    @property
    def first(self) -> int:
        """The number of the last event from before it was opened here."""
        return self.bus.opened_at

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The subtasks that it waits for."""
        return self.recorder.facts.waits_for

    @property
    def result(self) -> str | None:
        """The result presented last."""
        return self.recorder.facts.result

    @property
    def ending(self) -> Ending:
        """How the latest run ended, when it has."""
        return loop.ending_of(self.recorder.facts)

    @property
    def rows(self) -> Sequence[Row | dict[str, Any]]:
        """The UI history."""
        return self.recorder.ui.rows

    @property
    def messages(self) -> Sequence[Message]:
        """The API history."""
        return self.recorder.api.rendered()

    @property
    def mode(self) -> Mode:
        slug = self.recorder.facts.mode
        modes = self.bench.modes
        return find_mode(slug, modes) or usual_mode(self.bench.settings.mode, modes)

    @property
    def settings(self) -> Settings:
        """Its own, with the rules that the person has added meanwhile."""
        return self.granted.over(self.bench.settings)

    @property
    def provider(self) -> Provider:
        """The model that the task talks to in the mode that it is in."""
        return self.bench.provider_for(self.mode)

    def subscribe(self, since: int | None = None) -> Subscription:
        """Numbered events, without end until the task is closed."""
        return self.bus.subscribe(since)

    async def events(self, since: int | None = None) -> AsyncIterator[Event]:
        """Events until the task comes to rest; by default from its very beginning."""
        over = self.state in AT_REST and self.state is not TaskState.CREATED
        if since is not None and over and not self.bus.after(since):
            return
        with self.bus.subscribe(0 if since is None else since) as subscription:
            async for heard in subscription:
                yield heard.event
                if isinstance(heard.event, ENDED) and not self._goes_on_after(heard.seq):
                    return

    def _goes_on_after(self, seq: int) -> bool:
        return any(isinstance(record.event, TaskStarted) for record in self.bus.after(seq))
