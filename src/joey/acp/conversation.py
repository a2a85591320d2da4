"""The conversation of a session: its task, and the turns in which a user talks to it.

A turn begins with a prompt and ends when the task comes to rest or asks a question that the next
prompt answers. All updates of the task go out in order, before the response of the turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from acp.exceptions import RequestError

from acp import schema
from joey.acp.editor import Editor, SessionUpdate
from joey.acp.errors import resolve_stop_reason
from joey.acp.permissions import (
    TURN_ENDING_ASKS,
    build_permission_options,
    build_permission_tool_call,
    parse_permission_response,
    parse_prompt_answer,
)
from joey.acp.updates import UpdateEncoder, build_agent_chunk
from joey.client.engine_reexports import Engine, Task, TaskOptions
from joey.client.session import Session
from joey.client.task_tree_events import follow_task_tree
from joey.core import events as ev
from joey.core.history.branch import find_live_branch
from joey.core.task_types import APPROVAL_ASKS, Answer, AskKind, Response
from joey.errors import CondenseError
from joey.presentation.text import sanitize, to_one_line

REFUSAL_STOP_REASONS = frozenset({"refusal", "content_filter"})

log = logging.getLogger(__name__)


class PromptTurn:
    def __init__(self) -> None:
        self.stop_reason_future: asyncio.Future[schema.StopReason] = (
            asyncio.get_running_loop().create_future()
        )
        self.cancel_event = asyncio.Event()
        self.is_refused = False

    def end(self, outcome: schema.StopReason | Exception) -> None:
        if self.stop_reason_future.done():
            return
        if self.cancel_event.is_set():
            self.stop_reason_future.set_result("cancelled")
        elif self.is_refused:
            self.stop_reason_future.set_result("refusal")
        elif isinstance(outcome, Exception):
            self.stop_reason_future.set_exception(outcome)
        else:
            self.stop_reason_future.set_result(outcome)


class Conversation:
    """A task and the client that talks to it."""

    def __init__(
        self,
        id: str,
        engine: Engine,
        editor: Editor,
        on_mode_switched: Callable[[str], Awaitable[None]],
    ) -> None:
        """`on_mode_switched` is called with every mode that the task switches to."""
        self.id = id
        self.task: Task | None = None
        self._engine = engine
        self._editor = editor
        self._turn: PromptTurn | None = None
        self._encoders_by_task: dict[str, UpdateEncoder] = {}
        self._event_forwarding_job: asyncio.Task[None] | None = None
        self._ask_jobs: dict[tuple[str, int], asyncio.Task[None]] = {}
        """Questions that the editor has been asked, by task and `ts`."""
        self._turn_ending_ask: tuple[Session, ev.AskOpened] | None = None
        """The question that the latest turn has ended with."""
        self._on_mode_switched = on_mode_switched
        self._send_lock = asyncio.Lock()
        """A task is started once, and not let go of while it is."""

    @property
    def is_busy(self) -> bool:
        return self._turn is not None

    # What the editor does ----------------------------------------------------------------------

    async def prompt(
        self, text: str, images: tuple[str, ...], options: TaskOptions | None
    ) -> schema.StopReason:
        """Send a message and wait for the end of the turn; `options` apply to a new task. A message
        during a turn joins it: it answers an open approval (as a no, with a reason), or is read
        before the next step. Raises RequestError, UserError."""
        turn = self._turn = self._turn or PromptTurn()
        try:
            async with self._send_lock:
                await self._deliver_prompt(text, images, options)
        except BaseException:
            if self._turn is turn and not (self.task is not None and self.task.is_running):
                self._end_turn("cancelled")
            raise
        if turn.cancel_event.is_set() and self.task is not None:
            await self.task.cancel()
        return await asyncio.shield(turn.stop_reason_future)

    async def condense(self, task: Task, instructions: str) -> schema.StopReason:
        """Run a turn that replaces the conversation with a summary. Raises UserError."""
        turn = self._turn
        if turn is not None:
            task.start_condensing(instructions)  # before its next request
            return await asyncio.shield(turn.stop_reason_future)
        turn = self._turn = PromptTurn()
        try:
            await task.condense(instructions)
        except CondenseError:
            if not turn.cancel_event.is_set():
                raise
        finally:
            self._end_turn("end_turn")
        return turn.stop_reason_future.result()

    async def send_warnings(self, lines: Sequence[str]) -> None:
        """Send warnings that are not part of the conversation; they are sent only once."""
        text = "\n\n".join(f"*{sanitize(line)}*" for line in lines)
        if text:
            await self._send_updates([build_agent_chunk(f"{text}\n\n", is_thought=True)])

    async def cancel(self) -> None:
        """Cancel the current turn, if there is one."""
        if self._turn is None:
            return
        self._turn.cancel_event.set()
        if self.task is not None:
            await self.task.cancel()

    def attach_task(self, task: Task) -> None:
        """Attach a task and send its updates from now on."""
        self.task = task
        self._start_event_forwarding_job(task, task.seq)

    async def replay_history(self) -> None:
        """Send the whole history."""
        assert self.task is not None
        encoder = self._build_encoder(self.task)
        for record in list(find_live_branch(self.task.bus.list_records_after(0))):
            await self._send_updates(encoder.encode(record.event, live=False))
        if not self.is_busy:
            await self._send_updates(encoder.fail_open_calls())

    async def release_task(self) -> None:
        """Stop the task and release it for other processes; a running turn ends as cancelled."""
        if self._turn is not None:
            self._turn.cancel_event.set()
        async with self._send_lock:
            task, self.task = self.task, None
        if task is not None:
            await self._engine.release(task)
        if self._event_forwarding_job is not None:
            await asyncio.wait([self._event_forwarding_job])
        self._end_turn("cancelled")

    async def send_session_info(self) -> None:
        """Send the title and other session details that are not part of the conversation."""
        if self.task is None:
            return
        projection = self.task.recorder.projection
        title = to_one_line(projection.prompt.text if projection.prompt is not None else "", 80)
        now = datetime.fromtimestamp(projection.updated / 1000, UTC).isoformat()
        await self._send_updates(
            [
                schema.SessionInfoUpdate(
                    session_update="session_info_update", title=title or None, updated_at=now
                ),
                _build_usage_update(self.task),
            ]
        )

    # What is said to the task -----------------------------------------------------------------

    async def _deliver_prompt(
        self, text: str, images: tuple[str, ...], options: TaskOptions | None
    ) -> None:
        task = self.task
        if task is None:
            task = self.task = await self._engine.start(
                text, images=images, options=options, task_id=self.id
            )
            await self.send_session_info()
            self._start_event_forwarding_job(task, 0)
            return
        if self._event_forwarding_job is None or self._event_forwarding_job.done():
            self._start_event_forwarding_job(task, task.seq)
        pending, self._turn_ending_ask = self._turn_ending_ask, None
        if pending is not None:
            session, ask = pending
            if await session.answer(ask.ts, parse_prompt_answer(ask, text, images)):
                return
        await task.send(text, images)

    # What the task says -----------------------------------------------------------------------

    def _start_event_forwarding_job(self, task: Task, since: int) -> None:
        self._encoders_by_task = {task.id: self._build_encoder(task)}
        self._event_forwarding_job = asyncio.create_task(
            self._forward_events(task, since), name=f"acp-{self.id}"
        )

    async def _forward_events(self, task: Task, since: int) -> None:
        try:
            with task.subscribe(since) as subscription:
                events = (numbered.event async for numbered in subscription)
                async with follow_task_tree(task, events, from_start=not since) as tree_events:
                    async for tree_event in tree_events:
                        await self._forward_event(task, tree_event.session, tree_event.event)
            self._end_turn(task.error or "cancelled")
        except ConnectionError:
            await task.cancel()  # no client is there to see what it does
        except Exception as error:
            log.exception("session %s can send no more updates", self.id)
            self._end_turn(error)
        finally:
            self._cancel_ask_jobs(list(self._ask_jobs))

    async def _forward_event(self, task: Task, session: Session, event: ev.Event) -> None:
        if session.id not in self._encoders_by_task:
            self._encoders_by_task[session.id] = self._build_encoder(task, session.id)
        encoder = self._encoders_by_task[session.id]
        await self._send_updates(encoder.encode(event))
        match event:
            case ev.AskOpened():
                self._handle_ask(session, event, encoder)
            case ev.AskAnswered(ask_ts=ts) | ev.AskWithdrawn(ask_ts=ts):
                self._cancel_ask_jobs([(session.id, ts)])
            case ev.UsageChanged() if session is task:
                await self._send_updates([_build_usage_update(task)])
            case ev.ModeSwitched(mode=mode) if session is task:
                await self._on_mode_switched(mode)
            case ev.ReplyReceived(stop_reason=reason) if (
                session is task and reason in REFUSAL_STOP_REASONS
            ):
                # Reminding the model of its tools would not help.
                if self._turn is not None:
                    self._turn.is_refused = True
                self._start_ask_job((task.id, task.next_ts()), task.cancel())
        if session is task and isinstance(event, ev.TaskFinished | ev.TaskAborted | ev.TaskFailed):
            self._turn_ending_ask = None
            if isinstance(event, ev.TaskFinished) and task.recorder.projection.queued_messages:
                return  # a message arrived meanwhile, and the task continues with it
            if self._turn is not None:
                await self.send_session_info()
            self._end_turn(resolve_stop_reason(event))

    def _build_encoder(self, task: Task, subtask_id: str = "") -> UpdateEncoder:
        return UpdateEncoder(
            task.runtime.workspace,
            subtask_id=subtask_id,
            uses_terminals=self._editor.has_display_terminals,
        )

    def _end_turn(self, outcome: schema.StopReason | Exception) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end(outcome)

    async def _send_updates(self, updates: Iterable[SessionUpdate]) -> None:
        for update in updates:
            await self._editor.send_update(self.id, update)

    # What it asks -----------------------------------------------------------------------------

    def _handle_ask(self, session: Session, ask: ev.AskOpened, encoder: UpdateEncoder) -> None:
        if session.pending is None or session.pending.ts != ask.ts:
            return  # already answered
        if ask.ask in APPROVAL_ASKS:
            self._start_ask_job(
                (session.id, ask.ts), self._request_permission(session, ask, encoder)
            )
        elif ask.ask in TURN_ENDING_ASKS:
            self._turn_ending_ask = (session, ask)
            self._end_turn(TURN_ENDING_ASKS[AskKind(ask.ask)])

    def _start_ask_job(self, key: tuple[str, int], job: Coroutine[Any, Any, None]) -> None:
        self._ask_jobs[key] = asyncio.create_task(job)
        self._ask_jobs[key].add_done_callback(lambda _: self._ask_jobs.pop(key, None))

    def _cancel_ask_jobs(self, keys: Iterable[tuple[str, int]]) -> None:
        """Cancel questions whose answers are no longer needed."""
        for key in keys:
            if (job := self._ask_jobs.get(key)) is not None:
                job.cancel()

    async def _request_permission(
        self, session: Session, ask: ev.AskOpened, encoder: UpdateEncoder
    ) -> None:
        call_id, view = encoder.build_ask_view(ask)
        try:
            response = await self._editor.request_permission(
                self.id,
                build_permission_tool_call(ask, call_id, view),
                build_permission_options(ask),
            )
        except RequestError as error:
            log.warning("the editor did not ask the user: %s", error)
            answer: Answer | None = Answer(Response.NO)
        except ConnectionError:
            answer = None
        else:
            answer = parse_permission_response(ask, response)
        if answer is not None:
            await session.answer(ask.ts, answer)
        elif self._turn is not None:
            await self.cancel()
        elif self.task is not None:
            await self.task.cancel()


def _build_usage_update(task: Task) -> SessionUpdate:
    usage = task.total_usage
    cost = schema.Cost(amount=usage.total_cost, currency="USD") if usage.total_cost else None
    window = task.provider.model.context_window
    return schema.UsageUpdate(
        session_update="usage_update", used=usage.context_tokens, size=window, cost=cost
    )
