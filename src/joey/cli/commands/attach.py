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

from joey.cli.exit_codes import ExitCode, UsageError
from joey.cli.line_renderer import LineWriter, TaskTreeRenderer
from joey.cli.repl.keyboard import Keyboard
from joey.cli.signals import handle_signals
from joey.client.event_decoder import EventDecoder, RowData
from joey.client.remote import RemoteEngine, RemoteSession, TaskInfo
from joey.client.session import Session
from joey.client.task_tree_events import follow_task_tree
from joey.core import events as ev
from joey.core.task_types import APPROVAL_ASKS, Answer, AskKind, Response
from joey.errors import UserError
from joey.presentation.questions import build_ask_view, format_question, parse_answer
from joey.presentation.text import to_one_line
from joey.presentation.tool_calls import render_call_card

UNANSWERED_TIMEOUT_S = 3.0
"""For others to answer a question when nobody can do it from here."""
MAX_PAST_ROWS = 40
HELP_TEXT = """\
What you write answers the question above, or is read by joey before its next step.
  /cancel  stop the task (it can be resumed)     /exit  leave the view (or Ctrl-C, Ctrl-D)"""
END_EVENTS = (ev.TaskFinished, ev.TaskAborted, ev.TaskFailed)
_RESULT_ASKS = (AskKind.COMPLETION_RESULT, AskKind.RESUME_COMPLETED_TASK)
_RESPONSE_LABELS = {Response.YES: "yes", Response.NO: "no", Response.MESSAGE: "with words"}


def run_attach(arguments: Namespace) -> ExitCode:
    """Raises UsageError."""
    if "#" in (arguments.url or ""):
        raise UsageError(
            "a token does not belong on a command line, where others can read it: leave out what"
            " follows the # in --url, and set JOEY_TOKEN if the server is not of this machine"
        )
    return asyncio.run(_attach_to_task(arguments))


async def _attach_to_task(arguments: Namespace) -> ExitCode:
    writer = LineWriter(sys.stdout)
    engine = await RemoteEngine.connect(arguments.url, on_connection_change=writer.print_note)
    async with engine:
        tasks = await engine.tasks(limit=1000)
        if arguments.list:
            _print_tasks([task for task in tasks if task.live])
            return ExitCode.DONE
        session = await engine.attach(_select_task(tasks, arguments.id).id)
        view = AttachedTaskView(session, writer)
        with handle_signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as interruption:
            try:
                if sys.stdin.isatty():
                    with Keyboard(sys.stdin.fileno(), view.handle_line) as keyboard:
                        code = await view.run(keyboard)
                else:
                    code = await view.run()
            except asyncio.CancelledError:
                if interruption.exit_code is None:
                    raise
                code = interruption.exit_code
        if code is ExitCode.INTERRUPTED:
            url = f" --url {shlex.quote(arguments.url)}" if arguments.url else ""
            writer.print_note(f"\nleft; the task is still there: joey attach {session.id}{url}")
            code = ExitCode.DONE
    return code


def _print_tasks(tasks: Sequence[TaskInfo]) -> None:
    for task in tasks:
        asks = f" ({task.ask.ask})" if task.ask else ""
        where = to_one_line(task.workspace, 60)
        print(f"{task.id}  {task.status}{asks}  {where}  {to_one_line(task.title, 60)}")
    if not tasks:
        print("no task is open on this server", file=sys.stderr)


def _select_task(tasks: Sequence[TaskInfo], prefix: str | None) -> TaskInfo:
    if prefix is None:
        live = [task for task in tasks if task.live]
        if not live:
            raise UsageError("no task is open on this server; name one of its tasks by its id")
        return live[0]
    prefix = prefix.removeprefix("task_")
    found = [task for task in tasks if prefix and task.id.startswith(prefix)]
    match found:
        case [task]:
            return task
        case []:
            raise UsageError(f"the server has no task {prefix!r}; see joey attach --list")
        case several:
            ids = ", ".join(task.id for task in several[:5])
            raise UsageError(f"{len(several)} tasks begin with {prefix!r}: {ids}")


class AttachedTaskView:
    """Draws one task and sends what the user types."""

    def __init__(self, session: RemoteSession, writer: LineWriter) -> None:
        self._session = session
        self._writer = writer
        self._tree_renderer = TaskTreeRenderer(session, writer, echo=True)
        self._keyboard: Keyboard | None = None
        self._open_asks: dict[tuple[str, int], tuple[Session, ev.AskOpened]] = {}
        """Open questions by task and `ts`; the first is on the screen."""
        self._answered_asks: set[tuple[str, int]] = set()
        """Questions that were answered from here."""
        self._typed_texts: list[str] = []
        """Words that were typed here: they stand on the screen already."""
        self._background_jobs: set[asyncio.Task[None]] = set()
        self._exit_event = asyncio.Event()
        self._answer_timer: asyncio.TimerHandle | None = None
        self._has_timed_out = False
        """Nobody answered, and nobody can from here."""

    async def run(self, keyboard: Keyboard | None = None) -> ExitCode:
        """Draw until the user leaves; without a keyboard, until the task comes to rest or waits for
        an answer."""
        self._keyboard = keyboard
        self._render_past_rows()
        drawing = asyncio.ensure_future(self._render_events())
        leaving = asyncio.ensure_future(self._exit_event.wait())
        try:
            await asyncio.wait([drawing, leaving], return_when=asyncio.FIRST_COMPLETED)
            if drawing.done():
                return drawing.result()
            return ExitCode.NEEDS_USER if self._has_timed_out else ExitCode.INTERRUPTED
        finally:
            for job in (drawing, leaving, *self._background_jobs):
                job.cancel()
            await asyncio.gather(drawing, leaving, *self._background_jobs, return_exceptions=True)

    async def _render_events(self) -> ExitCode:
        session = self._session
        if not session.is_running and session.seq == session.opened_at_seq:
            if self._keyboard is None:
                return ExitCode.DONE
            self._print_idle_prompt()
        elif (ask := session.pending) and any(row["ts"] == ask.ts for row in session.initial_rows):
            self._queue_ask(session, ask)
        async with follow_task_tree(session, session.watch(session.opened_at_seq)) as events:
            async for each in events:
                self._render_event(each.session, each.event)
                if each.session is session and isinstance(each.event, END_EVENTS):
                    if self._keyboard is None:
                        finished = isinstance(each.event, ev.TaskFinished)
                        return ExitCode.DONE if finished else ExitCode.FAILED
                    self._print_idle_prompt()
        self._writer.print_note("the task was deleted")
        return ExitCode.DONE

    def _print_idle_prompt(self) -> None:
        self._writer.print_prompt("The task is idle. What should I do next? Ctrl-C leaves")

    # What is drawn

    def _render_past_rows(self) -> None:
        info, rows = self._session.task_info, self._session.initial_rows
        if info is not None:
            self._writer.print_note(
                f"task {info.id} · {info.status} · {info.model} · {info.workspace}"
            )
        if len(rows) > MAX_PAST_ROWS:
            self._writer.print_note(f"({len(rows) - MAX_PAST_ROWS} earlier rows are not shown)")
        reader = EventDecoder()
        for row in rows[-MAX_PAST_ROWS:]:
            for event in reader.feed_row(row):
                self._render_past_event(event, row)

    def _render_past_event(self, event: ev.Event, row: RowData) -> None:
        match event:
            case ev.RequestStarted():
                return
            case ev.AskOpened() if event == self._session.pending:
                return
            case ev.AskOpened(ask=kind) if kind in APPROVAL_ASKS:
                self._writer.print(*render_call_card(event, is_ask=False))
                self._writer.print_note(f"  {row.get('approvalState', '')}")
            case ev.AskOpened(ask=AskKind.FOLLOWUP):
                self._writer.print((format_question(build_ask_view(event)), ""))
            case ev.AskOpened():
                return
            case _:
                self._tree_renderer.get_renderer(self._session).render(event)

    def _render_event(self, session: Session, event: ev.Event) -> None:
        match event:
            case ev.AskOpened():
                self._queue_ask(session, event)
            case ev.AskAnswered(ask_ts=ts) | ev.AskWithdrawn(ask_ts=ts):
                key = (session.id, ts)
                if isinstance(event, ev.AskAnswered) and key not in self._answered_asks:
                    how = _RESPONSE_LABELS[event.answer.response]
                    note = f"\nanswered elsewhere ({event.answered_by}): {how}"
                    self._tree_renderer.get_renderer(session).print(note, "dim")
                self._remove_ask(key)
            case ev.UserMessage(text=text) if text in self._typed_texts:
                self._typed_texts.remove(text)
            case _:
                self._tree_renderer.render(session, event)

    def _queue_ask(self, session: Session, ask: ev.AskOpened) -> None:
        """Queue a question; questions are shown one after another, whichever task asks."""
        key = (session.id, ask.ts)
        if key in self._open_asks or key in self._answered_asks:
            return
        self._open_asks[key] = (session, ask)
        if len(self._open_asks) == 1:
            self._print_ask(session, ask)

    def _print_ask(self, session: Session, ask: ev.AskOpened) -> None:
        if self._keyboard is not None and ask.ask in APPROVAL_ASKS:
            self._keyboard.discard_typeahead()
        self._tree_renderer.get_renderer(session).print_ask(ask)
        if self._keyboard is None:
            loop = asyncio.get_running_loop()
            self._answer_timer = loop.call_later(
                UNANSWERED_TIMEOUT_S, self._handle_answer_timeout, session, ask
            )

    def _handle_answer_timeout(self, session: Session, ask: ev.AskOpened) -> None:
        self._has_timed_out = True
        self._writer.end_prompt_line()
        waits = "its result to be accepted" if ask.ask in _RESULT_ASKS else "an answer"
        print(
            f"joey: the task waits for {waits}, which needs a terminal;"
            f" there, run: joey attach {self._session.id}",
            file=sys.stderr,
        )
        self._exit_event.set()

    def _remove_ask(self, key: tuple[str, int]) -> None:
        on_screen = next(iter(self._open_asks), None) == key
        self._open_asks.pop(key, None)
        if on_screen and self._answer_timer is not None:
            self._answer_timer.cancel()
        if on_screen and self._open_asks:
            self._print_ask(*next(iter(self._open_asks.values())))

    # What is typed

    def handle_line(self, line: str | None) -> None:
        match line.strip() if line is not None else None:
            case None | "/exit" | "/quit":
                self._exit_event.set()
            case "/help":
                self._writer.print_note(HELP_TEXT)
            case "/cancel":
                self._start_job(self._session.cancel())
            case text if self._open_asks:
                self._submit_answer(*next(iter(self._open_asks.values())), text)
            case "":
                return
            case text:
                self._typed_texts.append(text)
                self._start_job(self._tree_renderer.message_recipient.send(text))
                if self._session.is_running:
                    self._writer.print_note("(joey reads this before its next step)")

    def _submit_answer(self, session: Session, ask: ev.AskOpened, text: str) -> None:
        answer = parse_answer(ask, text)
        if answer is None:
            self._tree_renderer.get_renderer(session).print_ask(ask)
            return
        key = (session.id, ask.ts)
        self._answered_asks.add(key)
        self._start_job(self._send_answer(session, ask, answer))
        self._remove_ask(key)

    async def _send_answer(self, session: Session, ask: ev.AskOpened, answer: Answer) -> None:
        if answer.text:
            self._typed_texts.append(answer.text)
        if not await session.answer(ask.ts, answer):
            self._writer.print_note("this question is no longer open")

    def _start_job(self, job: Coroutine[Any, Any, None]) -> None:
        begun = asyncio.ensure_future(job)
        self._background_jobs.add(begun)
        begun.add_done_callback(self._handle_job_done)

    def _handle_job_done(self, job: asyncio.Task[None]) -> None:
        self._background_jobs.discard(job)
        error = None if job.cancelled() else job.exception()
        if isinstance(error, UserError):
            self._writer.print_error(str(error))
        elif error is not None:
            raise error
