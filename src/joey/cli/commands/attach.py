"""`joey attach`: a task of a server, in this terminal.

The task belongs to the server and continues without this process. A typed line answers the
question on the screen, and no other: if another client was faster, the server says so.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from argparse import Namespace
from collections.abc import Coroutine, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.repl.keyboard import Keyboard
from joey.cli.repl.renderer import TaskRenderer, TaskTreeRenderer
from joey.cli.signals import interruptible
from joey.client.event_decoder import EventDecoder, RowData
from joey.client.remote import RemoteEngine, RemoteSession, TaskInfo
from joey.client.session import Session
from joey.client.task_tree import family
from joey.core.events import (
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    Event,
    RequestStarted,
    TaskAborted,
    TaskFailed,
    TaskFinished,
    UserMessage,
)
from joey.core.task import APPROVAL_ASKS, Answer, AskKind, Response
from joey.errors import UserError
from joey.presentation.questions import answer_of, question_of
from joey.presentation.text import one_line
from joey.presentation.tool_calls import card

UNANSWERED_TIMEOUT_S = 3.0
"""Seconds that others have to answer a question when nobody can do it from here."""
MAX_PAST_ROWS = 40
HELP_TEXT = """\
What you write answers the question above, or is read by joey before its next step.
  /cancel  stop the task (it can be resumed)     /exit  leave the view (or Ctrl-C, Ctrl-D)"""
END_EVENTS = (TaskFinished, TaskAborted, TaskFailed)
_RESULT_ASKS = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)
_RESPONSE_LABELS = {Response.YES: "yes", Response.NO: "no", Response.MESSAGE: "with words"}


def run_attach(arguments: Namespace) -> ExitCode:
    """Raises UsageError."""
    if "#" in (arguments.url or ""):
        raise UsageError(
            "a token does not belong on a command line, where others can read it: leave out what"
            " follows the # in --url, and set JOEY_TOKEN if the server is not of this machine"
        )
    return asyncio.run(_attach(arguments))


async def _attach(arguments: Namespace) -> ExitCode:
    renderer = TaskRenderer(Console(), echo=True)
    engine = await RemoteEngine.connect(arguments.url, notice=renderer.note)
    async with engine:
        tasks = await engine.tasks(limit=1000)
        if arguments.list:
            _list([task for task in tasks if task.live])
            return ExitCode.DONE
        session = await engine.attach(_choose(tasks, arguments.id).id)
        view = AttachedTaskView(session, renderer)
        with interruptible(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as interruption:
            try:
                code = await _look(view)
            except asyncio.CancelledError:
                if interruption.code is None:
                    raise
                code = interruption.code
        if code is ExitCode.INTERRUPTED:
            renderer.note(f"\nleft; the task is still there: {_again(arguments.url, session.id)}")
            code = ExitCode.DONE
    return code


def _again(url: str | None, task_id: str) -> str:
    """How to come back to a task."""
    return f"joey attach {task_id}" + (f" --url {shlex.quote(url)}" if url else "")


async def _look(view: AttachedTaskView) -> ExitCode:
    if not sys.stdin.isatty():
        return await view.show()
    with Keyboard(sys.stdin.fileno(), view.handle_line) as keyboard:
        return await view.show(keyboard)


def _list(tasks: Sequence[TaskInfo]) -> None:
    for task in tasks:
        asks = f" ({task.ask.ask})" if task.ask else ""
        where = one_line(task.workspace, 60)
        print(f"{task.id}  {task.status}{asks}  {where}  {one_line(task.title, 60)}")
    if not tasks:
        print("no task is open on this server", file=sys.stderr)


def _choose(tasks: Sequence[TaskInfo], start: str | None) -> TaskInfo:
    if start is None:
        live = [task for task in tasks if task.live]
        if not live:
            raise UsageError("no task is open on this server; name one of its tasks by its id")
        return live[0]
    start = start.removeprefix("task_")
    found = [task for task in tasks if start and task.id.startswith(start)]
    match found:
        case [task]:
            return task
        case []:
            raise UsageError(f"the server has no task {start!r}; see joey attach --list")
        case several:
            ids = ", ".join(task.id for task in several[:5])
            raise UsageError(f"{len(several)} tasks begin with {start!r}: {ids}")


class AttachedTaskView:
    """Draws one task and passes on what is typed."""

    def __init__(self, session: RemoteSession, renderer: TaskRenderer) -> None:
        self._session = session
        self._renderer = renderer
        self._tree_renderer = TaskTreeRenderer(session, renderer)
        self._keyboard: Keyboard | None = None
        self._asked: dict[tuple[str, int], tuple[Session, AskOpened]] = {}
        """Open questions by task and `ts`; the first is on the screen."""
        self._answered: set[tuple[str, int]] = set()
        """Questions that were answered from here."""
        self._said: list[str] = []
        """Words that were typed here: they stand on the screen already."""
        self._jobs: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()
        self._patience: asyncio.TimerHandle | None = None
        self._gave_up = False
        """Nobody answered, and nobody can from here."""

    async def show(self, keyboard: Keyboard | None = None) -> ExitCode:
        """Draw until the person leaves; without a keyboard, until the task comes to rest or waits
        for somebody."""
        self._keyboard = keyboard
        self._show_past()
        drawing = asyncio.ensure_future(self._draw())
        leaving = asyncio.ensure_future(self._left.wait())
        try:
            await asyncio.wait([drawing, leaving], return_when=asyncio.FIRST_COMPLETED)
            if drawing.done():
                return drawing.result()
            return ExitCode.NEEDS_USER if self._gave_up else ExitCode.INTERRUPTED
        finally:
            for job in (drawing, leaving, *self._jobs):
                job.cancel()
            await asyncio.gather(drawing, leaving, *self._jobs, return_exceptions=True)

    async def _draw(self) -> ExitCode:
        session = self._session
        if not session.running:
            if self._keyboard is None:
                return ExitCode.DONE
            self._rest()
        elif (ask := session.pending) and any(row["ts"] == ask.ts for row in session.first_rows):
            self._ask(session, ask)
        async with family(session, session.watch(session.first)) as events:
            async for each in events:
                self._show(each.teller, each.event)
                if each.teller is session and isinstance(each.event, END_EVENTS):
                    if self._keyboard is None:
                        finished = isinstance(each.event, TaskFinished)
                        return ExitCode.DONE if finished else ExitCode.FAILED
                    self._rest()
        self._renderer.note("the task was deleted")
        return ExitCode.DONE

    def _rest(self) -> None:
        self._renderer.prompt("The task rests. Say what to do next; Ctrl-C leaves")

    # What is drawn

    def _show_past(self) -> None:
        info, rows = self._session.info, self._session.first_rows
        if info is not None:
            self._renderer.note(f"task {info.id} · {info.status} · {info.model} · {info.workspace}")
        if len(rows) > MAX_PAST_ROWS:
            self._renderer.note(f"({len(rows) - MAX_PAST_ROWS} earlier rows are not shown)")
        reader = EventDecoder()
        for row in rows[-MAX_PAST_ROWS:]:
            for event in reader.feed_row(row):
                self._show_old(event, row)

    def _show_old(self, event: Event, row: RowData) -> None:
        match event:
            case RequestStarted():
                return
            case AskOpened() if event == self._session.pending:
                return
            case AskOpened(ask=kind) if kind in APPROVAL_ASKS:
                shown = card(event.tool or "", event.text, event.path, event.diff, asked=False)
                self._renderer.print(shown)
                self._renderer.note(f"  {row.get('approvalState', '')}")
            case AskOpened(ask=AskKind.FOLLOWUP):
                self._renderer.print(Text(question_of(event)))
            case AskOpened():
                return
            case _:
                self._renderer.show(event)

    def _show(self, teller: Session, event: Event) -> None:
        match event:
            case AskOpened():
                self._ask(teller, event)
            case AskAnswered(ask_ts=ts) | AskWithdrawn(ask_ts=ts):
                key = (teller.id, ts)
                if isinstance(event, AskAnswered) and key not in self._answered:
                    how = _RESPONSE_LABELS[event.answer.response]
                    note = f"\nanswered elsewhere ({event.by}): {how}"
                    self._tree_renderer.renderer(teller).note(note)
                self._close(key)
            case UserMessage(text=text) if text in self._said:
                self._said.remove(text)
            case _:
                self._tree_renderer.show(teller, event)

    def _ask(self, session: Session, ask: AskOpened) -> None:
        """Questions are put one after the other, whoever asks."""
        key = (session.id, ask.ts)
        if key in self._asked or key in self._answered:
            return
        self._asked[key] = (session, ask)
        if len(self._asked) == 1:
            self._put(session, ask)

    def _put(self, session: Session, ask: AskOpened) -> None:
        if self._keyboard is not None and ask.ask in APPROVAL_ASKS:
            self._keyboard.discard()
        self._tree_renderer.renderer(session).ask(ask)
        if self._keyboard is None:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(UNANSWERED_TIMEOUT_S, self._give_up, session, ask)

    def _give_up(self, session: Session, ask: AskOpened) -> None:
        self._gave_up = True
        self._tree_renderer.renderer(session).leave_prompt()
        waits = "its result to be accepted" if ask.ask in _RESULT_ASKS else "an answer"
        print(
            f"joey: the task waits for {waits}, which cannot be given without a terminal;"
            f" at one: joey attach {self._session.id}",
            file=sys.stderr,
        )
        self._left.set()

    def _close(self, key: tuple[str, int]) -> None:
        on_screen = next(iter(self._asked), None) == key
        self._asked.pop(key, None)
        if on_screen and self._patience is not None:
            self._patience.cancel()
        if on_screen and self._asked:
            self._put(*next(iter(self._asked.values())))

    # What is typed

    def handle_line(self, line: str | None) -> None:
        match line.strip() if line is not None else None:
            case None | "/exit" | "/quit":
                self._left.set()
            case "/help":
                self._renderer.note(HELP_TEXT)
            case "/cancel":
                self._begin(self._session.cancel())
            case text if self._asked:
                self._answer(*next(iter(self._asked.values())), text)
            case "":
                return
            case text:
                self._say(text)

    def _answer(self, session: Session, ask: AskOpened, text: str) -> None:
        answer = answer_of(ask, text)
        if answer is None:
            self._tree_renderer.renderer(session).ask(ask)
            return
        key = (session.id, ask.ts)
        self._answered.add(key)
        self._begin(self._give(session, ask, answer))
        self._close(key)

    async def _give(self, session: Session, ask: AskOpened, answer: Answer) -> None:
        if answer.text:
            self._said.append(answer.text)
        if not await session.answer(ask.ts, answer):
            self._renderer.note("this question is not open any more")

    def _say(self, text: str) -> None:
        self._said.append(text)
        self._begin(self._tree_renderer.listener.send(text))
        if self._session.running:
            self._renderer.note("(joey reads this before its next step)")

    def _begin(self, job: Coroutine[Any, Any, None]) -> None:
        begun = asyncio.ensure_future(job)
        self._jobs.add(begun)
        begun.add_done_callback(self._end)

    def _end(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        error = None if job.cancelled() else job.exception()
        if isinstance(error, UserError):
            self._renderer.error(str(error))
        elif error is not None:
            raise error
