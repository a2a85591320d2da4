"""Controller of the task on the screen: follows its events and sends messages and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.client.session import Session
from joey.client.task_tree_events import TaskTreeEvent, follow_task_tree
from joey.core.events import TRANSIENT_EVENTS, AskAnswered, AskOpened, AskWithdrawn, Event
from joey.core.task_types import Answer
from joey.errors import UserError

if TYPE_CHECKING:
    from joey.tui.app import JoeyApp

IDLE_WAIT_TIMEOUT_S = 5.0


class PendingQuestion(Struct, frozen=True):
    session: Session
    ask: AskOpened

    @property
    def key(self) -> tuple[str, int]:
        """The key of a question; two tasks may ask in the same millisecond."""
        return self.session.id, self.ask.ts

    @property
    def is_open(self) -> bool:
        pending = self.session.pending
        return pending is not None and pending.ts == self.ask.ts


class TaskController:
    def __init__(self, app: JoeyApp) -> None:
        self._app = app
        self.session: Session | None = None
        self._questions: list[PendingQuestion] = []
        self._event_task: asyncio.Task[None] | None = None
        self._last_event_session: Session | None = None
        """Messages that answer no question go to it."""
        self.deferred_messages: list[tuple[str, tuple[str, ...]]] = []
        """Texts and images to send once the open questions are settled."""
        self.replaced_row_ts: int | None = None
        """The row of the first message, when the next one replaces it."""

    @property
    def is_working(self) -> bool:
        return self._event_task is not None

    @property
    def question(self) -> PendingQuestion | None:
        return self._questions[0] if self._questions else None

    @property
    def message_targets(self) -> tuple[Session, ...]:
        """The tasks that may have received messages: the task itself, and its active subtasks."""
        found = {
            each.id: each for each in (self.session, self._last_event_session) if each is not None
        }
        return tuple(found.values())

    @property
    def additional_question_count(self) -> int:
        """The number of questions after the first."""
        return max(0, len(self._questions) - 1)

    # User actions

    async def send_message(self, text: str, images: tuple[str, ...] = ()) -> None:
        """Send a message. Raises UserError."""
        if self.session is None:
            self.show_session(await self._app.host.start_task(text, images), since=0)
            return
        if self.replaced_row_ts is not None:
            session = self.session
            await session.edit(self.replaced_row_ts, text, images)
            self.show_session(session)
            return
        active = self._last_event_session
        since = self.session.seq
        target = active if active is not None and active.is_running else self.session
        await target.send(text, images)
        self._start_following(since)

    async def answer(self, question: PendingQuestion, answer: Answer) -> None:
        await question.session.answer(question.ask.ts, answer)
        self._remove_question(question.session, question.ask.ts)

    async def stop(self) -> None:
        if self.session is not None and self.session.is_running:
            await self.session.cancel()

    async def wait_until_idle(self) -> None:
        """Wait until the task is at rest, with a timeout."""
        if self._event_task is not None:
            await asyncio.wait({self._event_task}, timeout=IDLE_WAIT_TIMEOUT_S)

    def show_session(self, session: Session, since: int | None = None) -> None:
        """Show a task; events after `since` are handled as new."""
        self.detach()
        self.session = session
        self._app.show_task(session)
        if session.pending is not None:
            self._questions.append(PendingQuestion(session, session.pending))
            self._show_next_question()
        if session.is_running:
            self._start_following(session.seq if since is None else max(since, session.seq))
        else:
            self._app.handle_idle()

    def detach(self) -> None:
        """Detach from the task, which is not stopped."""
        if self.session is None:
            return
        if self._event_task is not None:
            self._event_task.cancel()
        self._event_task = None
        self.session = self._last_event_session = self.replaced_row_ts = None
        self._questions.clear()
        self.deferred_messages.clear()
        self._app.show_question(None)
        self._app.handle_idle()

    # Task events

    def _start_following(self, since: int) -> None:
        if self._event_task is None:
            self._event_task = asyncio.ensure_future(self._follow_events(since))

    async def _follow_events(self, since: int) -> None:
        assert self.session is not None
        session, seq = self.session, since

        async def iter_events() -> AsyncIterator[Event]:
            nonlocal seq
            async for event in session.events(seq):
                seq += type(event) not in TRANSIENT_EVENTS
                yield event

        try:
            while True:
                async with follow_task_tree(session, iter_events()) as events:
                    async for each in events:
                        self._handle_task_event(each)
                if session.seq <= seq:
                    break  # it was not started again meanwhile
        except UserError as error:
            self._app.report_error(error)
        finally:
            if self.session is session:
                self._event_task = None
                self._questions.clear()
                self._last_event_session = None
                self._app.show_question(None)
                self._app.handle_idle()
                self._send_deferred()

    def _handle_task_event(self, tree_event: TaskTreeEvent) -> None:
        self._last_event_session = tree_event.session
        match tree_event.event:
            case AskOpened() as ask:
                self._app.handle_task_event(tree_event.session, ask)
                question = PendingQuestion(tree_event.session, ask)
                if question.is_open:
                    self._questions.append(question)
                    self._show_next_question()
                return
            case AskAnswered(ask_ts=ts) | AskWithdrawn(ask_ts=ts):
                self._remove_question(tree_event.session, ts)
        self._app.handle_task_event(tree_event.session, tree_event.event)

    def _remove_question(self, session: Session, ts: int) -> None:
        self._questions = [
            question for question in self._questions if question.key != (session.id, ts)
        ]
        self._show_next_question()

    def _show_next_question(self) -> None:
        self._questions = [question for question in self._questions if question.is_open]
        self._app.show_question(self.question)
        if self.question is None:
            self._send_deferred()

    def _send_deferred(self) -> None:
        deferred, self.deferred_messages = self.deferred_messages, []
        for text, images in deferred:
            self._app.start_job(self.send_message(text, images))
