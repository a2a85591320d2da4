"""Controller of the task on the screen: follows its events and sends messages and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from joey.client.session import Session
from joey.client.task_tree_events import TaskTreeEvent, follow_task_tree
from joey.core.events import TRANSIENT_EVENTS, AskAnswered, AskOpened, AskWithdrawn, Event
from joey.core.task_types import Answer
from joey.errors import UserError
from joey.tui.app_services import Host

IDLE_WAIT_TIMEOUT_S = 5.0


class PendingQuestion(Struct, frozen=True):
    """A question that waits for the user."""

    session: Session
    ask: AskOpened

    @property
    def key(self) -> tuple[str, int]:
        """Its name; two tasks may ask in the same millisecond."""
        return self.session.id, self.ask.ts

    @property
    def is_open(self) -> bool:
        pending = self.session.pending
        return pending is not None and pending.ts == self.ask.ts


class TaskDisplay(Protocol):
    """Who shows it."""

    def show_task(self, session: Session) -> None:
        """Another task is on the screen: as far as it has come, everything else will be heard."""

    def handle_task_event(self, session: Session, event: Event) -> None: ...

    def show_question(self, question: PendingQuestion | None) -> None:
        """The question to show now; None: there is none any more."""

    def handle_idle(self) -> None:
        """The task came to rest, or there is none."""

    def start_job(self, job: Coroutine[Any, Any, None]) -> None:
        """Begin something whose end nobody waits for."""

    def report_error(self, error: Exception) -> None: ...


class TaskController:
    def __init__(self, host: Host, display: TaskDisplay) -> None:
        self._host = host
        self._display = display
        self.session: Session | None = None
        self._questions: list[PendingQuestion] = []
        self._event_task: asyncio.Task[None] | None = None
        self._last_event_session: Session | None = None
        """Who spoke last: words that were not asked for go to them."""
        self._deferred_messages: list[tuple[str, tuple[str, ...]]] = []
        """Words that were sent while a question was open that they do not answer."""
        self.replaced_row_ts: int | None = None
        """The row of the first words, when the next ones take their place."""

    @property
    def is_working(self) -> bool:
        return self._event_task is not None

    @property
    def question(self) -> PendingQuestion | None:
        return self._questions[0] if self._questions else None

    @property
    def message_targets(self) -> tuple[Session, ...]:
        """Those to whom words may have been said: the task, and whoever of its subtasks speaks."""
        found = {
            each.id: each for each in (self.session, self._last_event_session) if each is not None
        }
        return tuple(found.values())

    @property
    def additional_question_count(self) -> int:
        """Questions behind the first."""
        return max(0, len(self._questions) - 1)

    @property
    def deferred_texts(self) -> list[str]:
        return [text for text, _ in self._deferred_messages]

    def pop_deferred(self) -> str | None:
        """The words that were held back last, which are not sent then."""
        return self._deferred_messages.pop()[0] if self._deferred_messages else None

    # What the user does

    async def send_message(self, text: str, images: tuple[str, ...] = ()) -> None:
        """Raises UserError."""
        if self.session is None:
            self.show_session(await self._host.start_task(text, images), since=0)
            return
        if self.replaced_row_ts is not None:
            session = self.session
            await session.edit(self.replaced_row_ts, text, images)
            self.show_session(session)
            return
        listener = self._choose_message_target(self.session)
        since = self.session.seq
        await listener.send(text, images)
        self._start_following(since)

    def defer_message(self, text: str, images: tuple[str, ...]) -> None:
        """Say it as soon as the open questions are settled."""
        self._deferred_messages.append((text, images))

    async def answer(self, question: PendingQuestion, answer: Answer) -> None:
        await question.session.answer(question.ask.ts, answer)
        self._remove_question(question.session, question.ask.ts)

    async def stop(self) -> None:
        if self.session is not None and self.session.is_running:
            await self.session.cancel()

    async def wait_until_idle(self) -> None:
        """Returns when the task has come to rest, or takes too long for it."""
        if self._event_task is not None:
            await asyncio.wait({self._event_task}, timeout=IDLE_WAIT_TIMEOUT_S)

    def show_session(self, session: Session, since: int | None = None) -> None:
        """Put a task on the screen; what came after `since` is heard, not shown as past."""
        self.detach()
        self.session = session
        self._display.show_task(session)
        if session.pending is not None:
            self._questions.append(PendingQuestion(session, session.pending))
            self._show_next_question()
        if session.is_running:
            self._start_following(session.seq if since is None else max(since, session.seq))
        else:
            self._display.handle_idle()

    def detach(self) -> None:
        """Look at no task any more; it is not stopped by that."""
        if self.session is None:
            return
        if self._event_task is not None:
            self._event_task.cancel()
        self._event_task = None
        self.session = self._last_event_session = self.replaced_row_ts = None
        self._questions.clear()
        self._deferred_messages.clear()
        self._display.show_question(None)
        self._display.handle_idle()

    def _choose_message_target(self, session: Session) -> Session:
        active = self._last_event_session
        return active if active is not None and active.is_running else session

    # What the task does

    def _start_following(self, since: int) -> None:
        if self._event_task is None:
            self._event_task = asyncio.ensure_future(self._follow_events(since))

    async def _follow_events(self, since: int) -> None:
        session = self.session
        assert session is not None
        progress = _EventCursor(since)
        try:
            while True:
                async with follow_task_tree(session, progress.iter_events(session)) as events:
                    async for each in events:
                        self._handle_task_event(each)
                if session.seq <= progress.seq:
                    break  # nobody has set it to work again meanwhile
        except UserError as error:
            self._display.report_error(error)
        finally:
            if self.session is session:
                self._event_task = None
                self._questions.clear()
                self._last_event_session = None
                self._display.show_question(None)
                self._display.handle_idle()
                self._send_deferred()

    def _handle_task_event(self, tree_event: TaskTreeEvent) -> None:
        self._last_event_session = tree_event.session
        match tree_event.event:
            case AskOpened() as ask:
                self._display.handle_task_event(tree_event.session, ask)
                question = PendingQuestion(tree_event.session, ask)
                if question.is_open:
                    self._questions.append(question)
                    self._show_next_question()
                return
            case AskAnswered(ask_ts=ts) | AskWithdrawn(ask_ts=ts):
                self._remove_question(tree_event.session, ts)
        self._display.handle_task_event(tree_event.session, tree_event.event)

    def _remove_question(self, session: Session, ts: int) -> None:
        self._questions = [
            question for question in self._questions if question.key != (session.id, ts)
        ]
        self._show_next_question()

    def _show_next_question(self) -> None:
        self._questions = [question for question in self._questions if question.is_open]
        self._display.show_question(self.question)
        if self.question is None:
            self._send_deferred()

    def _send_deferred(self) -> None:
        deferred, self._deferred_messages = self._deferred_messages, []
        for text, images in deferred:
            self._display.start_job(self.send_message(text, images))


class _EventCursor:
    """How far a task was heard, through all its runs."""

    def __init__(self, since: int) -> None:
        self.seq = since

    async def iter_events(self, session: Session) -> AsyncIterator[Event]:
        async for event in session.events(self.seq):
            if type(event) not in TRANSIENT_EVENTS:
                self.seq += 1
            yield event
