"""Controller of the task on the screen: follows its events and sends messages and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Protocol

from msgspec import Struct

from joey.client.session import Session
from joey.client.task_tree import TaskTreeEvent, follow_task_tree
from joey.core.events import TRANSIENT_EVENTS, AskAnswered, AskOpened, AskWithdrawn, Event
from joey.core.task import Answer
from joey.errors import UserError
from joey.tui.host import Host

IDLE_WAIT_TIMEOUT_S = 5.0


class PendingQuestion(Struct, frozen=True):
    """A question that waits for the person."""

    teller: Session
    ask: AskOpened

    @property
    def key(self) -> tuple[str, int]:
        """Its name; two tasks may ask in the same millisecond."""
        return self.teller.id, self.ask.ts

    @property
    def is_open(self) -> bool:
        pending = self.teller.pending
        return pending is not None and pending.ts == self.ask.ts


class TaskDisplay(Protocol):
    """Who shows it."""

    def opened(self, session: Session) -> None:
        """Another task is on the screen: as far as it has come, everything else will be heard."""
        ...

    def handle_task_event(self, teller: Session, event: Event) -> None: ...

    def asked(self, asked: PendingQuestion | None) -> None:
        """The question to show now; None: there is none any more."""
        ...

    def rested(self) -> None:
        """The task came to rest, or there is none."""
        ...

    def do(self, job: Coroutine[Any, Any, None]) -> None:
        """Begin something whose end nobody waits for."""
        ...

    def troubled(self, error: Exception) -> None: ...


class TaskController:
    def __init__(self, host: Host, stage: TaskDisplay) -> None:
        self._host = host
        self._stage = stage
        self.session: Session | None = None
        self._asks: list[PendingQuestion] = []
        self._following: asyncio.Task[None] | None = None
        self._front: Session | None = None
        """Who spoke last: words that were not asked for go to them."""
        self._held: list[tuple[str, tuple[str, ...]]] = []
        """Words that were sent while a question was open that they do not answer."""
        self.replaced: int | None = None
        """The row of the first words, when the next ones take their place."""

    @property
    def is_working(self) -> bool:
        return self._following is not None

    @property
    def asked(self) -> PendingQuestion | None:
        return self._asks[0] if self._asks else None

    @property
    def listeners(self) -> tuple[Session, ...]:
        """Those to whom words may have been said: the task, and whoever of its subtasks speaks."""
        found = {each.id: each for each in (self.session, self._front) if each is not None}
        return tuple(found.values())

    @property
    def more_asked(self) -> int:
        """Questions behind the first."""
        return max(0, len(self._asks) - 1)

    @property
    def held(self) -> list[str]:
        return [text for text, _ in self._held]

    def take_held(self) -> str | None:
        """The words that were held back last, which are not sent then."""
        return self._held.pop()[0] if self._held else None

    # What the person does

    async def say(self, text: str, images: tuple[str, ...] = ()) -> None:
        """Raises UserError."""
        if self.session is None:
            self.show(await self._host.start_task(text, images), since=0)
            return
        if self.replaced is not None:
            session = self.session
            await session.edit(self.replaced, text, images)
            self.show(session)
            return
        listener = self._listener(self.session)
        since = self.session.seq
        await listener.send(text, images)
        self._follow(since)

    def hold(self, text: str, images: tuple[str, ...]) -> None:
        """Say it as soon as the open questions are settled."""
        self._held.append((text, images))

    async def answer(self, asked: PendingQuestion, answer: Answer) -> None:
        await asked.teller.answer(asked.ask.ts, answer)
        self._settle(asked.teller, asked.ask.ts)

    async def stop(self) -> None:
        if self.session is not None and self.session.is_running:
            await self.session.cancel()

    async def rest(self) -> None:
        """Returns when the task has come to rest, or takes too long for it."""
        if self._following is not None:
            await asyncio.wait({self._following}, timeout=IDLE_WAIT_TIMEOUT_S)

    def show(self, session: Session, since: int | None = None) -> None:
        """Put a task on the screen; what came after `since` is heard, not shown as past."""
        self.leave()
        self.session = session
        self._stage.opened(session)
        if session.pending is not None:
            self._asks.append(PendingQuestion(session, session.pending))
            self._show_question()
        if session.is_running:
            self._follow(session.seq if since is None else max(since, session.seq))
        else:
            self._stage.rested()

    def leave(self) -> None:
        """Look at no task any more; it is not stopped by that."""
        if self.session is None:
            return
        if self._following is not None:
            self._following.cancel()
        self._following = None
        self.session = self._front = self.replaced = None
        self._asks.clear()
        self._held.clear()
        self._stage.asked(None)
        self._stage.rested()

    def _listener(self, session: Session) -> Session:
        front = self._front
        return front if front is not None and front.is_running else session

    # What the task does

    def _follow(self, since: int) -> None:
        if self._following is None:
            self._following = asyncio.ensure_future(self._listen(since))

    async def _listen(self, since: int) -> None:
        session = self.session
        assert session is not None
        progress = _EventCursor(since)
        try:
            while True:
                async with follow_task_tree(session, progress.counted(session)) as events:
                    async for each in events:
                        self._handle_tree_event(each)
                if session.seq <= progress.seq:
                    break  # nobody has set it to work again meanwhile
        except UserError as error:
            self._stage.troubled(error)
        finally:
            if self.session is session:
                self._following = None
                self._asks.clear()
                self._front = None
                self._stage.asked(None)
                self._stage.rested()
                self._release_held()

    def _handle_tree_event(self, tree_event: TaskTreeEvent) -> None:
        self._front = tree_event.session
        match tree_event.event:
            case AskOpened() as ask:
                self._stage.handle_task_event(tree_event.session, ask)
                asked = PendingQuestion(tree_event.session, ask)
                if asked.is_open:
                    self._asks.append(asked)
                    self._show_question()
                return
            case AskAnswered(ask_ts=ts) | AskWithdrawn(ask_ts=ts):
                self._settle(tree_event.session, ts)
        self._stage.handle_task_event(tree_event.session, tree_event.event)

    def _settle(self, teller: Session, ts: int) -> None:
        self._asks = [asked for asked in self._asks if asked.key != (teller.id, ts)]
        self._show_question()

    def _show_question(self) -> None:
        self._asks = [asked for asked in self._asks if asked.is_open]
        self._stage.asked(self.asked)
        if self.asked is None:
            self._release_held()

    def _release_held(self) -> None:
        held, self._held = self._held, []
        for text, images in held:
            self._stage.do(self.say(text, images))


class _EventCursor:
    """How far a task was heard, through all its runs."""

    def __init__(self, since: int) -> None:
        self.seq = since

    async def counted(self, session: Session) -> AsyncIterator[Event]:
        async for event in session.events(self.seq):
            if type(event) not in TRANSIENT_EVENTS:
                self.seq += 1
            yield event
