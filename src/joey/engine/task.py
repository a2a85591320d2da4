"""One task: who it is, what it hears and says, and how it is started, answered and stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from msgspec import structs

from joey.core.asks import Answer, AskKind, Response
from joey.core.event_base import TokenUsage
from joey.core.events import (
    AskOpened,
    Event,
    MessageQueued,
    Record,
    TaskAborted,
    TaskFailed,
    TaskFinished,
    TaskStarted,
)
from joey.core.history.ui import Row
from joey.core.messages import Message, well_formed
from joey.core.modes import Mode, find_mode, usual_mode
from joey.core.state import AT_REST, TaskState
from joey.engine import loop
from joey.engine.allowance import Allowance
from joey.engine.asks import AnswerPolicy, Asks, Lapse
from joey.engine.bus import Bus, Subscription
from joey.engine.endings import Completed, Ending, Failed
from joey.engine.opening import Opening
from joey.engine.recorder import Recorder
from joey.engine.subtasks import Subtasks
from joey.engine.workbench import Workbench
from joey.errors import JoeyError, StoreError, TaskStateError
from joey.ports import Provider, TaskLog

log = logging.getLogger(__name__)

ENDED = (TaskFinished, TaskAborted, TaskFailed)


class Task:
    """A conversation with a goal. Made by the `Engine`; safe to use from one event loop."""

    def __init__(
        self,
        journal: TaskLog,
        records: Sequence[Record],
        bench: Workbench,
        subtasks: Subtasks,
        policy: AnswerPolicy | None = None,
    ) -> None:
        self.bench = bench
        self.subtasks = subtasks
        self.recorder = Recorder(journal, records)
        self.bus = Bus(records, self.recorder.hear)
        self.asks = Asks(self.publish, self.now, policy)
        self.error: JoeyError | None = None
        """Why the latest run broke down, where the journal could not be told."""
        self.allowance: Allowance | None = None
        """What the latest run may use."""
        self.is_awaited = False
        """A parent waits for the result of the latest run."""
        self._last_ts = max((record.event.ts for record in records), default=0)
        self._runner: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._goes_on = False
        """Words came in while the latest run was winding down."""

    # What anybody may look at

    @property
    def id(self) -> str:
        return self.recorder.facts.task_id

    @property
    def state(self) -> TaskState:
        return self.recorder.facts.state

    @property
    def running(self) -> bool:
        """The loop is alive: it works, or waits for an answer."""
        return self._runner is not None and not self._runner.done()

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
    def provider(self) -> Provider:
        """The model that the task talks to in the mode that it is in."""
        return self.bench.provider_for(self.mode)

    async def child(self, task_id: str) -> Task | None:
        """One of its subtasks, while it is open."""
        return self.subtasks.find(task_id)

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

    # What anybody may do

    async def send(self, text: str, images: tuple[str, ...] = ()) -> None:
        """Say something: it answers the open question, or waits for the model's next turn.

        Returns when the words are safe on disk. A task at rest goes on with them.
        """
        text = well_formed(text)
        pending = self.pending
        if pending is not None and self.asks.answer(
            pending.ts, Answer(Response.MESSAGE, text=text, images=images)
        ):
            await self.recorder.commit()
            return
        ts = self.now()
        self.publish(MessageQueued(ts=ts, id=f"queued_{ts}", text=text, images=images))
        await self.recorder.commit()
        if not self.running:
            self.start(Opening.MESSAGE)
        elif self._winding_down:
            self._goes_on = True

    async def answer(self, ask_ts: int, answer: Answer) -> bool:
        """Answer one question; the first answer counts. Returns when it is safe on disk."""
        answer = structs.replace(answer, text=well_formed(answer.text))
        accepted = self.asks.answer(ask_ts, answer)
        if accepted:
            await self.recorder.commit()
        return accepted

    async def approve(self, text: str = "") -> bool:
        """Say yes to the open question."""
        return await self._respond(Response.YES, text)

    async def reject(self, text: str = "") -> bool:
        """Say no to the open question."""
        return await self._respond(Response.NO, text)

    async def _respond(self, response: Response, text: str) -> bool:
        if self.pending is None:
            return False
        return await self.answer(self.pending.ts, Answer(response, text=text))

    async def cancel(self) -> None:
        """Stop now. Both histories stay valid and the task can be resumed."""
        runner = self._runner
        if runner is None or runner.done():
            return
        if not runner.cancelling():
            runner.cancel()
        await asyncio.wait([runner])

    async def wait(self) -> Ending:
        """The ending of the current run."""
        if self._runner is not None:
            await asyncio.wait([self._runner])
        if self.error is not None:
            raise self.error
        return self.ending

    async def close(self) -> None:
        """Stop, save, unlock. The task may be opened again by anybody."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self.cancel()
            await self.cancel()  # words that came in meanwhile may have set it to work again
            self.bus.close()
            await self.recorder.rest()
        finally:
            await self.bench.close()
            self.recorder.log.close()

    # What the engine does with it

    def now(self) -> int:
        """A number of milliseconds that no other event of this task has."""
        self._last_ts = max(self.bench.clock.now(), self._last_ts + 1)
        return self._last_ts

    def publish(self, event: Event) -> None:
        self.bus.publish(event)

    async def ask(
        self, kind: AskKind, text: str = "", *, lapse: Lapse | None = None, **about: Any
    ) -> Answer:
        """Ask a person. Keyword arguments are fields of `AskOpened` (`ts` names an open row)."""
        opened = AskOpened(ts=about.pop("ts", None) or self.now(), ask=kind, text=text, **about)
        saving = asyncio.ensure_future(self._save_while_waiting())
        try:
            return await self.asks.ask(opened, lapse)
        finally:
            saving.cancel()

    async def _save_while_waiting(self) -> None:
        """A task that waits for a person is at rest; one answered at once by a policy is not."""
        await asyncio.sleep(0)
        if self.pending is not None:
            await asyncio.shield(self.save())

    async def save(self) -> None:
        try:
            await self.recorder.rest()
        except StoreError as error:
            log.warning("task %s: the history files could not be written: %s", self.id, error)

    def start(self, opening: Opening, allowance: Allowance | None = None) -> None:
        """Set the loop to work: by itself, or drawing from the allowance of whoever awaits it.

        Whoever awaited the run before still waits: a parent lets go of its subtasks with a close.
        """
        if self.running:
            raise TaskStateError(f"task {self.id} is already at work")
        self.error = None
        if allowance is None and self.is_awaited:
            allowance = self.allowance
        self.is_awaited = allowance is not None
        self.allowance = allowance or Allowance.of(self)
        self.allowance.join(self.recorder.facts)
        self.publish(TaskStarted(ts=self.now(), resumed=opening.resumed, route=self.bench.route))
        self._goes_on = False
        self._runner = asyncio.create_task(
            self._run(opening, self.allowance), name=f"joey-{self.id}"
        )
        self._runner.add_done_callback(self._after_run)

    async def _run(self, opening: Opening, allowance: Allowance) -> None:
        try:
            match await loop.run(self, opening, allowance):
                case Completed():
                    self._end(TaskFinished(ts=self.now()))
                case Failed(code, message):
                    self._end(TaskFailed(ts=self.now(), code=code, message=message))
        except asyncio.CancelledError:
            await self.bench.terminal.close()
            self._end(TaskAborted(ts=self.now()))
        except StoreError as error:
            self._break_down(error)
        except Exception as error:
            log.exception("task %s stopped by a defect", self.id)
            self._end(TaskFailed(ts=self.now(), code="internal", message=repr(error)))
        if self.error is None:
            await self.save()

    def _after_run(self, runner: asyncio.Task[None]) -> None:
        if runner.cancelled() and self.state not in AT_REST:
            # Cancelled before the loop took its first step.
            self._end(TaskAborted(ts=self.now()))
        if self._goes_on and self.error is None:
            self.start(Opening.MESSAGE)

    def _end(self, event: TaskFinished | TaskAborted | TaskFailed) -> None:
        try:
            self.publish(event)
        except StoreError as error:
            self._break_down(error)

    def _break_down(self, error: StoreError) -> None:
        """The journal itself failed: nothing more can be recorded."""
        self.error = error
        self.bus.close()

    @property
    def _winding_down(self) -> bool:
        """The run is over, or was told to stop, but its last words are still being saved."""
        runner = self._runner
        if runner is None or runner.done():
            return False
        return self.state in AT_REST or runner.cancelling() > 0
