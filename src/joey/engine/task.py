"""A task: its state, the actions on it, and its runs (start, cancel, rest)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

from joey.core import events as ev
from joey.core.context.window import TokenEstimator
from joey.core.history.ui import Row
from joey.core.messages import Message, replace_lone_surrogates
from joey.core.models import ToolProtocol
from joey.core.modes import Mode, choose_fallback_mode, find_mode
from joey.core.permissions.reasons import Reason, format_reasons
from joey.core.prompts.conditions import WorkingConditions
from joey.core.settings import Limits, Settings
from joey.core.task_types import IDLE_STATES, Answer, AskKind, Response, RowKind, TaskState
from joey.engine import loop, outcomes
from joey.engine import rewind as rewinding
from joey.engine.approval import TaskGrants
from joey.engine.asks import AnswerPolicy, PendingAsks, TimeoutAnswer
from joey.engine.bus import EventBus, Subscription
from joey.engine.condense import CondenseRequests
from joey.engine.environment import KnownEnvironment, left_command_running
from joey.engine.hooks import run_hooks_while_asking
from joey.engine.limits import RunLimits
from joey.engine.outcomes import Aborted, Completed, Ending, Failed
from joey.engine.recorder import Recorder
from joey.engine.run_start import RunStart
from joey.engine.runtime import TaskRuntime
from joey.engine.subtasks import Subtasks
from joey.errors import CondenseError, FailureCode, JoeyError, StoreError, TaskStateError, UserError
from joey.ports.model import Provider
from joey.ports.storage import TaskLog

if TYPE_CHECKING:
    from joey.core.permissions.granted_rules import GrantedRule

RUN_END_EVENTS = (ev.TaskFinished, ev.TaskAborted, ev.TaskFailed)

log = logging.getLogger(__name__)


class Task:
    """A conversation with a goal. Created by the `Engine`; use it from one event loop."""

    def __init__(
        self,
        journal: TaskLog,
        records: Sequence[ev.Record],
        runtime: TaskRuntime,
        subtasks: Subtasks,
        policy: AnswerPolicy | None = None,
        grants: TaskGrants | None = None,
    ) -> None:
        self.runtime = runtime
        self.grants = grants or TaskGrants()
        self.subtasks = subtasks
        self.recorder = Recorder(journal, records)
        self.bus = EventBus(
            self.recorder.record_cache,
            self.recorder.handle,
            shared_log=journal if journal.is_shared else None,
        )
        self.asks = PendingAsks(self.publish, self.next_ts, policy)
        self.working_conditions = WorkingConditions(self.settings)
        """As the latest run began."""
        self.known_environment: KnownEnvironment | None = None
        self.has_lost_commands = any(left_command_running(record.event) for record in records)
        """Commands of an earlier process have ended with it, and the model does not know."""
        self.error: JoeyError | None = None
        """Why the latest run broke down, where the journal could not be told."""
        self.is_stopped_by_user = False
        """The user refused a call, and ended the latest run with that."""
        self.run_limits: RunLimits | None = None
        """What the latest run may use."""
        self.has_waiting_parent = False
        """A parent waits for the result of the latest run."""
        self.token_estimator = TokenEstimator()
        """How full the model's window is."""
        self.max_queued_per_request: int | None = None
        """How many waiting messages one request takes along; None: all."""
        self.condense_requests = CondenseRequests()
        self._published_warnings: set[str] = set()
        self._last_ts = max((record.event.ts for record in records), default=0)
        self._runner: asyncio.Task[None] | None = None
        self._closing_task: asyncio.Task[None] | None = None
        self._is_restart_pending = False
        """Words came in while the latest run was winding down, or the past was being changed."""
        self.messages_closed_ts: int | None = None
        """Since when the run takes no more messages if it fails: the user said no, or it builds its
        next request; None: a request is on its way, whose failure the user is asked about."""
        self._revision_lock = asyncio.Lock()

    # What anybody may look at

    @property
    def is_running(self) -> bool:
        """Whether the loop is alive: it works, or waits for an answer."""
        return self._runner is not None and not self._runner.done()

    async def find_subtask(self, task_id: str) -> Task | None:
        """Find one of its subtasks while it is open."""
        return self.subtasks.find_open(task_id)

    @property
    def id(self) -> str:
        return self.recorder.projection.task_id

    @property
    def state(self) -> TaskState:
        return self.recorder.projection.state

    @property
    def pending(self) -> ev.AskOpened | None:
        """The question that the task waits for, if any."""
        return self.recorder.projection.pending_ask

    @property
    def usage(self) -> ev.TokenUsage:
        return self.recorder.projection.usage

    @property
    def total_usage(self) -> ev.TokenUsage:
        """Its own usage and that of its subtasks: those that have returned, and those interrupted
        here."""
        return self.usage.plus(self.recorder.projection.ledger.subtask_usage).plus(
            self.subtasks.interrupted_usage
        )

    @property
    def seq(self) -> int:
        """The number of the latest durable event."""
        return self.bus.last_seq

    @property
    def opened_at_seq(self) -> int:
        """The number of the last event from before the task was opened here."""
        return self.bus.opened_at_seq

    @property
    def pending_subtasks(self) -> tuple[str, ...]:
        """The subtasks that it waits for."""
        return self.recorder.projection.pending_subtask_ids

    @property
    def result(self) -> str | None:
        """The last presented result."""
        return self.recorder.projection.result

    @property
    def ending(self) -> Ending:
        """How the latest run ended, if it has."""
        return outcomes.derive_ending(self.recorder.projection)

    @property
    def rows(self) -> Sequence[Row | dict[str, Any]]:
        """The UI history."""
        return self.recorder.ui_history.rows

    @property
    def messages(self) -> Sequence[Message]:
        """The API history."""
        return self.recorder.api_history.list_stored_messages()

    @property
    def protocol(self) -> ToolProtocol:
        return self.recorder.projection.tool_protocol

    @property
    def mode(self) -> Mode:
        slug = self.recorder.projection.mode
        modes = self.runtime.modes
        return find_mode(slug, modes) or choose_fallback_mode(self.runtime.settings.mode, modes)

    @property
    def settings(self) -> Settings:
        """Its settings, with rules that the user has added meanwhile, and the current network
        setting."""
        settings = self.grants.apply_to(self.runtime.settings, self._read_directory_rules())
        settings = self.runtime.restrict_settings(settings)
        if (network := self.runtime.network) is None:
            return settings
        return structs.replace(settings, sandbox_network=network.read())

    @property
    def has_edit_grant(self) -> bool:
        """Whether the user granted edits meanwhile, and the project does not forbid that."""
        if not self.grants.has_edit_grant:
            return False
        granted = structs.replace(self.runtime.settings, always_allow_write=True)
        return self.runtime.restrict_settings(granted).always_allow_write

    def _read_directory_rules(self) -> Sequence[GrantedRule]:
        store = self.runtime.capabilities.rule_store
        if store is None or not (rules := store.read_directory_rules()):
            return ()
        mcp = self.runtime.capabilities.mcp
        servers = () if mcp is None or self.runtime.settings.always_allow_mcp else mcp.servers
        if any(tool.always_allowed for server in servers for tool in server.tools):
            # A rule for one tool must not enable those that servers allow-list.
            return [rule for rule in rules if rule.setting != "allowedMcpTools"]
        return rules

    @property
    def provider(self) -> Provider:
        """The provider of the task's current mode."""
        return self.runtime.select_provider(self.mode)

    def subscribe(self, since: int | None = None) -> Subscription:
        """Subscribe to numbered events until the task is closed."""
        return self.bus.subscribe(since)

    async def events(self, since: int | None = None) -> AsyncIterator[ev.Event]:
        """Iterate over events until the task comes to rest, by default from its very beginning."""
        is_over = self.state in IDLE_STATES and self.state is not TaskState.CREATED
        if since is not None and is_over and not self._is_restart_pending:
            records = self.bus.list_records_after(since)
            kinds = {type(each.event) for each in records}
            if kinds.isdisjoint((ev.TaskStarted, *RUN_END_EVENTS)):
                # Events of a task at rest are not followed by the end of a run.
                for each in records:
                    yield each.event
                return
        with self.bus.subscribe(0 if since is None else since) as subscription:
            async for numbered in subscription:
                yield numbered.event
                if isinstance(numbered.event, RUN_END_EVENTS) and not any(
                    isinstance(record.event, ev.TaskStarted)
                    for record in self.bus.list_records_after(numbered.seq)
                ):
                    return

    # What anybody may do

    async def send(self, text: str, images: tuple[str, ...] = (), *, queue: bool = False) -> None:
        """Send a message: it answers the open question, or waits for the model's next turn.

        With `queue` it waits even while a question is open: the sender may not have seen it.
        Returns when the message is on disk. A task at rest continues with it.
        """
        text = replace_lone_surrogates(text)
        pending = None if queue else self.pending
        if pending is not None and self.asks.answer(
            pending.ts, Answer(Response.MESSAGE, text=text, images=images)
        ):
            await self.recorder.commit()
            return
        ts, was_stopped = self.next_ts(), self._is_stopping
        self.publish(ev.MessageQueued(ts=ts, id=f"queued_{ts}", text=text, images=images))
        await self.recorder.commit()
        if self._is_stopping and not was_stopped:
            return  # stopping it after this message means that it must not continue with it
        # The run is over, or was told to stop, but its last events are still being saved.
        is_winding_down = self.is_running and (self.state in IDLE_STATES or self._is_stopping)
        if self._closing_task is not None or is_winding_down or self._revision_lock.locked():
            self._is_restart_pending = True
        elif not self.is_running:
            self.start(RunStart.MESSAGE)

    async def answer(self, ask_ts: int, answer: Answer) -> bool:
        """Answer one question; the first answer counts. Returns when it is on disk."""
        answer = structs.replace(answer, text=replace_lone_surrogates(answer.text))
        accepted = self.asks.answer(ask_ts, answer)
        if accepted and answer.response is Response.NO:
            self.messages_closed_ts = self._last_ts
        if accepted:
            await self.recorder.commit()
        return accepted

    async def approve(self, text: str = "") -> bool:
        """Answer yes to the open question; False if there is none."""
        ask = self.pending
        return ask is not None and await self.answer(ask.ts, Answer(Response.YES, text=text))

    async def reject(self, text: str = "") -> bool:
        """Answer no to the open question; False if there is none."""
        ask = self.pending
        return ask is not None and await self.answer(ask.ts, Answer(Response.NO, text=text))

    preview_rewind = rewinding.preview_rewind
    rewind = rewinding.rewind
    preview_undo = rewinding.preview_undo
    undo_rewind = rewinding.undo_rewind
    edit = rewinding.edit_message

    @asynccontextmanager
    async def stop_for_revision(self) -> AsyncIterator[None]:
        """Stop the task and keep it stopped while its past changes; messages wait meanwhile. Raises
        UserError if another task waits for it."""
        if self.has_waiting_parent:
            raise UserError(
                f"Task {self.id} works for another task, which waits for it. Stop that one first."
            )
        try:
            async with self._revision_lock:
                await self.cancel()
                if self.state not in IDLE_STATES:
                    # The process in which it ran is gone.
                    self.publish(ev.TaskAborted(ts=self.next_ts()))
                yield
        finally:
            if not self._revision_lock.locked():
                self._restart_if_pending()

    async def wait_for_revision(self) -> None:
        """Wait until its past is not being changed."""
        async with self._revision_lock:
            pass

    async def cancel(self) -> None:
        """Stop now. Both histories stay valid and the task can be resumed."""
        runner = self._runner
        if runner is not None and not runner.done():
            if not runner.cancelling():
                runner.cancel()
            await asyncio.wait([runner])

    async def condense(self, instructions: str = "") -> ev.ContextCondensed:
        """Replace the conversation so far by a summary: at once if the task rests (it stays at
        rest), else before its next request. `cancel` stops it. Raises CondenseError if there is
        nothing to condense or it failed; then nothing has changed."""
        return await asyncio.shield(self.start_condensing(instructions))

    def start_condensing(self, instructions: str = "") -> asyncio.Future[ev.ContextCondensed]:
        """Like `condense`, for callers that need not wait: rows show the progress. Raises
        CondenseError if there is nothing to condense."""
        if self._revision_lock.locked():
            raise CondenseError("The task is being rewound.")
        return self.condense_requests.submit(self, replace_lone_surrogates(instructions))

    async def wait(self) -> Ending:
        """Wait for the ending of the current run."""
        if self._runner is not None:
            await asyncio.wait([self._runner])
        if self.error is not None:
            raise self.error
        return self.ending

    async def close(self) -> None:
        """Stop, save and unlock the task. Other processes may open it then."""
        if self._closing_task is None:
            self._closing_task = asyncio.ensure_future(self._stop_and_close())
        await asyncio.shield(self._closing_task)

    async def _stop_and_close(self) -> None:
        try:
            async with self._revision_lock:  # messages that arrive meanwhile wait
                await self.cancel()
                self.bus.close()
                await self.recorder.write_snapshots()
        finally:
            await self.runtime.close()
            await self.recorder.close()

    # What the engine does with it

    def next_ts(self) -> int:
        """Return a number of milliseconds that no other event of this task has."""
        self._last_ts = max(self.runtime.clock.now(), self._last_ts + 1)
        return self._last_ts

    def publish(self, event: ev.Event) -> None:
        self.bus.publish(event)

    def add_row(self, say: RowKind, text: str = "", ts: int | None = None) -> None:
        """Add a row for the user; `ts` names one that is open."""
        self.publish(ev.RowAdded(ts=self.next_ts() if ts is None else ts, say=say, text=text))

    def close_row(self, ts: int, say: RowKind | None = None, text: str | None = None) -> None:
        """Close a row that will not grow any more, by default in its current state."""
        if (found := self.recorder.ui_history.find_open_row(ts)) is None:
            return
        row, tool = found
        if tool is not None and say is None:
            self.publish(ev.CallDropped(ts=ts, tool=tool, text=row.text or ""))
        else:
            kind = RowKind(str(row.say)) if say is None else say
            self.add_row(kind, (row.text or "") if text is None else text, ts)

    def warn_once(self, text: str) -> None:
        if text not in self._published_warnings:
            self._published_warnings.add(text)
            self.add_row(RowKind.ERROR, text)

    async def ask(
        self,
        kind: AskKind,
        text: str = "",
        *,
        timeout_answer: TimeoutAnswer | None = None,
        reasons: tuple[Reason, ...] = (),
        **fields: Any,
    ) -> Answer:
        """Ask the user. Keyword arguments are fields of `AskOpened` (`ts` names an open row)."""
        opened = ev.AskOpened(
            ts=fields.pop("ts", None) or self.next_ts(),
            ask=kind,
            text=text,
            reason=format_reasons(reasons) or None,
            reasons=reasons,
            **fields,
        )
        saving = asyncio.ensure_future(self._save_while_waiting())
        try:
            async with run_hooks_while_asking(self, opened):
                return await self.asks.ask(opened, timeout_answer)
        finally:
            saving.cancel()

    async def _save_while_waiting(self) -> None:
        """Save while the task waits for a user; an answer by a policy comes at once."""
        await asyncio.sleep(0)
        if self.pending is not None:
            await asyncio.shield(self.save())

    async def save(self) -> None:
        try:
            await self.recorder.write_snapshots()
        except StoreError as error:
            log.warning("task %s: the history files could not be written: %s", self.id, error)

    def start(self, run_start: RunStart, run_limits: RunLimits | None = None) -> None:
        """Start the loop, with its own run limits or those of the caller that awaits it.

        A caller that awaited the run before still waits: a parent releases its subtasks by closing
        them.
        """
        if self.is_running:
            raise TaskStateError(f"task {self.id} is already running")
        if self._closing_task is not None or self._revision_lock.locked():
            raise TaskStateError(f"task {self.id} is being rewound or closed")
        self.error = None
        self.is_stopped_by_user = False
        self.messages_closed_ts = None
        if run_limits is None and self.has_waiting_parent:
            run_limits = self.run_limits
        self.has_waiting_parent = run_limits is not None
        self.run_limits = run_limits or RunLimits.from_task(self)
        self.run_limits.add_task(self.recorder.projection)
        limits = None if self.has_waiting_parent else self.run_limits.limits
        self.publish(
            ev.TaskStarted(
                ts=self.next_ts(),
                resumed=run_start.is_resumed,
                route=self.runtime.route,
                budget_id=self.run_limits.budget_id,
                limits=None if limits == Limits() else limits,
            )
        )
        self._is_restart_pending = False
        self.run_job(self._run_loop(run_start, self.run_limits))

    def run_job(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a job as the task's current activity, until it is done or cancelled."""
        self._runner = asyncio.create_task(coroutine, name=f"joey-{self.id}")
        self._runner.add_done_callback(self._handle_run_done)

    async def _run_loop(self, run_start: RunStart, run_limits: RunLimits) -> None:
        try:
            match await loop.run(self, run_start, run_limits):
                case Completed():
                    self._publish_end(ev.TaskFinished(ts=self.next_ts()))
                case Failed(code, message):
                    self._publish_end(ev.TaskFailed(ts=self.next_ts(), code=code, message=message))
                case Aborted():
                    self.is_stopped_by_user = True
                    self._publish_end(ev.TaskAborted(ts=self.next_ts()))
        except asyncio.CancelledError:
            await self.runtime.terminal.close()
            self._publish_end(ev.TaskAborted(ts=self.next_ts()))
        except StoreError as error:
            self.handle_storage_failure(error)
        except Exception as error:
            log.exception("task %s stopped because of a bug", self.id)
            self._publish_end(
                ev.TaskFailed(
                    ts=self.next_ts(), code=FailureCode.INTERNAL_ERROR, message=repr(error)
                )
            )
        if self.error is None:
            await self.save()

    def _handle_run_done(self, runner: asyncio.Task[None]) -> None:
        if runner.cancelled() and self.state not in IDLE_STATES:
            # Cancelled before the first step of the loop.
            self._publish_end(ev.TaskAborted(ts=self.next_ts()))
        if self.state is TaskState.FAILED and (closed_ts := self.messages_closed_ts) is not None:
            # They were sent when the failed run could no longer accept them.
            queued = self.recorder.projection.queued_messages.values()
            self._is_restart_pending |= any(each.ts > closed_ts for each in queued)
        if not self._revision_lock.locked():
            self._restart_if_pending()
        if not self.is_running:
            stopped = runner.cancelled() or self.state is TaskState.ABORTED
            self.condense_requests.handle_run_end(self, stopped or self.error is not None)

    def _restart_if_pending(self) -> None:
        if self._is_restart_pending and self.error is None and self._closing_task is None:
            self.start(RunStart.MESSAGE)

    def _publish_end(self, event: ev.TaskFinished | ev.TaskAborted | ev.TaskFailed) -> None:
        try:
            for ts in self.recorder.ui_history.open_row_timestamps:
                self.close_row(ts)
            self.publish(event)
        except StoreError as error:
            self.handle_storage_failure(error)

    def handle_storage_failure(self, error: StoreError) -> None:
        """Handle a failure of the journal: nothing more can be recorded."""
        self.error = error
        self.bus.close()

    @property
    def _is_stopping(self) -> bool:
        """Whether the latest run was asked to stop."""
        return self._runner is not None and self._runner.cancelling() > 0
