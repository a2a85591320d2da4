"""`joey --plain` on a terminal: a conversation line by line (REPL).

At any moment the conversation does one of three things: it waits for a message at the prompt, it
prints the events of a task, or it waits for the answer to a question of the task. Ctrl-C stops a
running task (the next line resumes it), and messages that it has not read come back to the user,
to be sent or not; at the prompt, Ctrl-C twice exits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from rich.console import Console

from joey.app import open_engine, open_store
from joey.cli import notices
from joey.cli.exit_codes import ExitCode
from joey.cli.first_run import offer_found_server
from joey.cli.launch import (
    check_model,
    earlier_task,
    find_task,
    launch,
    options_for,
    short_id,
    workspace_of,
)
from joey.cli.notices import McpStartupReporter, ended_with_joey, introduction, total_cost
from joey.cli.prompt import gather_prompt, load_images
from joey.cli.repl.commands import (
    CONDENSE_COMMANDS,
    EXIT_COMMANDS,
    REWIND_COMMANDS,
    TASK_COMMANDS,
    ReplCommands,
    begin_condensing,
    condense,
    is_no_answer,
    open_earlier,
    revise,
    small_command,
    too_early,
)
from joey.cli.repl.keyboard import InputInterrupted, Keyboard, read_answer
from joey.cli.repl.renderer import TaskRenderer, TaskTreeRenderer
from joey.cli.signals import interruptible
from joey.cli.task_views import rows_of
from joey.client.session import Session
from joey.client.task_tree import family
from joey.core.events import (
    AskOpened,
    Event,
    MessageUnqueued,
    Record,
    TaskAborted,
    TaskFailed,
    TaskFinished,
)
from joey.core.history.ledger import UsageLedger
from joey.core.task import APPROVAL_ASKS, AskKind
from joey.engine.bus import Subscription
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import UserError
from joey.presentation.questions import answer_of
from joey.presentation.slash_commands import INIT_PROMPT_PATH, BuiltInCommand, guess_at
from joey.presentation.text import one_line

UNREAD_MESSAGE_TEXT = "joey has not read this; Enter sends it, other words take its place:"


class ExitRequested(Exception):
    """The person wants to go."""

    def __init__(self, code: ExitCode = ExitCode.DONE) -> None:
        self.code = code


def run_conversation(arguments: Namespace) -> ExitCode:
    prompt = gather_prompt(arguments.prompt, arguments.prompt_file, sys.stdin)
    images = load_images(arguments.image)
    offer_found_server(arguments)
    notices.offer(workspace_of(arguments))
    return asyncio.run(_run(arguments, prompt, images))


async def _run(arguments: Namespace, prompt: str, images: tuple[str, ...]) -> ExitCode:
    renderer = TaskRenderer(Console())
    code = ExitCode.DONE
    with interruptible(signal.SIGTERM, signal.SIGHUP) as interruption:
        async with open_engine(ephemeral=arguments.ephemeral) as engine:
            check_model(engine, arguments)
            conversation = Repl(engine, arguments, renderer, images)
            with Keyboard(sys.stdin.fileno(), conversation.handle_typeahead) as keyboard:
                try:
                    await conversation.run(keyboard, prompt)
                except ExitRequested as leave:
                    code = interruption.code or leave.code
                except (asyncio.CancelledError, OSError):
                    if interruption.code is None:
                        raise
                    code = interruption.code
            if code is not ExitCode.HANGUP:  # nobody would read it
                await conversation.say_goodbye()
    return code


async def _to_rest(subscription: Subscription) -> AsyncIterator[Event]:
    with subscription:
        async for numbered in subscription:
            yield numbered.event
            if isinstance(numbered.event, TaskFinished | TaskAborted | TaskFailed):
                return


class Repl:
    def __init__(
        self, engine: Engine, arguments: Namespace, renderer: TaskRenderer, images: tuple[str, ...]
    ) -> None:
        self._engine = engine
        self._arguments = arguments
        self._renderer = renderer
        self._images = images
        self._task: Task | None = None
        self._earlier: str | None = None
        """The task to go on with, until the first words for it."""
        self._tree_renderer: TaskTreeRenderer | None = None
        """The screen, while the task works."""
        self._commands = ReplCommands(engine, arguments, renderer)
        self._unread = UnreadMessages(engine)
        self._jobs: set[asyncio.Task[None]] = set()
        """Things that were begun by a key and go on beside the drawing."""
        self._stopping = False
        self._leaving = False
        self._at_prompt: Keyboard | None = None
        """Where the next line is for the prompt, also while a command is carried out there."""

    async def run(self, keyboard: Keyboard, prompt: str) -> None:
        """Talk until the person leaves.

        Raises:
            Leave
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt, keyboard)
        try:
            self._greet(prompt)
            await self._talk(keyboard, prompt)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await asyncio.gather(*self._jobs, return_exceptions=True)
            await self._commands.close()

    async def say_goodbye(self) -> None:
        """The last lines: what ends with joey, what it cost, and how to go on."""
        task_id = self._earlier if self._task is None else self._task.id
        if task_id is None:
            return
        parts = []
        if self._task is not None:
            for line in ended_with_joey(self._task):
                self._renderer.note(line)
            await self._task.cancel()
            parts.append(total_cost(self._task.total_usage))
        if not self._arguments.ephemeral:
            parts.append(f"to go on: joey -r {short_id(task_id, self._engine.ids())}")
        self._renderer.note(" · ".join(parts))

    def handle_typeahead(self, line: str | None) -> None:
        """A line that was typed while the task, or a command of the person's, works."""
        if self._at_prompt is not None and line is not None:
            self._at_prompt.put_back(line)
        elif line is None or line.strip() in EXIT_COMMANDS:
            self._leaving = True
            self._stop()
        elif line.strip():
            self._begin(self._handle_typed_line(line))

    async def _handle_typed_line(self, line: str) -> None:
        if await self._is_done_at_once(line.strip(), None) or self._task is None:
            return
        listener = self._task if self._tree_renderer is None else self._tree_renderer.listener
        self._unread.may_wait_for(listener)
        self._renderer.note("(joey reads this before its next step)")
        await listener.send(line)

    def _greet(self, prompt: str) -> None:
        self._earlier = greet(self._engine, self._arguments, self._renderer.note)
        if prompt:
            self._renderer.echo(prompt)
        else:
            self._renderer.note("what shall be done? (/help for help, Ctrl-D leaves)")

    async def _talk(self, keyboard: Keyboard, prompt: str) -> None:
        message = prompt or await self._read_next_message(keyboard)
        while True:
            try:
                await self._work_on(keyboard, message)
            except UserError as error:
                if self._task is None and prompt:
                    raise
                self._renderer.error(str(error))
                self._stopping = False
            if self._leaving:
                raise ExitRequested
            message = await self._read_next_message(keyboard)

    async def _work_on(self, keyboard: Keyboard, message: str) -> None:
        """Say these words to the task, or begin one with them, and see it through."""
        if self._task is None:
            self._task = await launch(self._engine, self._arguments, message, self._images)
            self._images = ()
            subscription = self._task.subscribe()
        else:
            subscription = self._task.subscribe()
            await self._task.send(message)
        if self._stopping:  # it was told to before there was anything to stop
            self._stop()
        tree_renderer = self._tree_renderer = TaskTreeRenderer(self._task, self._renderer)
        servers = McpStartupReporter(
            self._task.runtime.capabilities.mcp, tree_renderer.renderer(self._task).note
        )
        try:
            with servers.waiting():
                async with family(self._task, _to_rest(subscription)) as events:
                    async for each in events:
                        if each.teller is self._task:
                            servers.handle(each.event)
                        if isinstance(each.event, AskOpened):
                            await self._answer(keyboard, tree_renderer, each.teller, each.event)
                        else:
                            tree_renderer.show(each.teller, each.event)
        finally:
            self._tree_renderer = None
        try:
            await self._task.wait()
        finally:
            self._stopping = False
            if not self._leaving and self._unread.take_back():
                self._renderer.note(f"{UNREAD_MESSAGE_TEXT}\n{self._unread.text}")

    async def _answer(
        self, keyboard: Keyboard, tree_renderer: TaskTreeRenderer, task: Session, ask: AskOpened
    ) -> None:
        if task.pending is None or task.pending.ts != ask.ts:
            return  # it was stopped while another question was on the screen
        if ask.ask in APPROVAL_ASKS:
            keyboard.discard()
        tree_renderer.show(task, ask)
        while task.pending is not None and task.pending.ts == ask.ts:
            try:
                line = await read_answer(keyboard, task, ask)
            except InputInterrupted:
                self._renderer.leave_prompt()
                self._stop()
                return
            except EOFError:
                self._renderer.leave_prompt()
                raise ExitRequested from None
            if line is None:
                return
            if line.strip() in EXIT_COMMANDS:
                raise ExitRequested
            done = await self._is_done_at_once(line.strip(), ask)
            answer = None if done else answer_of(ask, line)
            if answer is not None:
                await task.answer(ask.ts, answer)
                return
            tree_renderer.renderer(task).ask(ask)

    async def _is_done_at_once(self, text: str, ask: AskOpened | None) -> bool:
        """Carry out or refuse a small command while the task works or asks; False for words."""
        if not text.startswith("/"):
            return False
        may_be_path = ask is not None and ask.ask is AskKind.FOLLOWUP
        if (named := small_command(text)) is not None:
            await self._do_at_once(*named, ask)
        elif guess := guess_at(text, self._commands.names, may_be_path=may_be_path):
            self._renderer.note(guess)
        elif ask is not None and is_no_answer(text, ask):
            self._renderer.note(f"{text} is no answer to this; say what to do, or see /help")
        else:
            return False
        return True

    async def _do_at_once(self, command: BuiltInCommand, rest: str, ask: AskOpened | None) -> None:
        if (why := too_early(command, ask)) is not None:
            self._renderer.note(why)
        elif command.name in CONDENSE_COMMANDS:
            begin_condensing(self._task, rest, self._renderer)
        else:
            try:
                await self._commands.run(command, rest, self._task)
            except UserError as error:
                self._renderer.error(str(error))

    # At the prompt

    async def _read_next_message(self, keyboard: Keyboard) -> str:
        """What the person says next; small commands are carried out on the way."""
        self._at_prompt, interrupted = keyboard, False
        while True:
            self._renderer.prompt("\n")
            try:
                message = await keyboard.read_message()
            except InputInterrupted:
                self._renderer.leave_prompt()
                if interrupted:
                    raise ExitRequested(ExitCode.INTERRUPTED) from None
                interrupted = True
                self._renderer.note("(Ctrl-C again, or Ctrl-D, to leave)")
                continue
            except EOFError:
                self._renderer.leave_prompt()
                raise ExitRequested from None
            interrupted = False
            if message.startswith("/"):
                message = await self._command(message.strip())
            elif not message.strip():
                message = self._unread.text
            if message.strip():
                self._unread.forget()
                self._at_prompt = None
                return message

    async def _command(self, text: str) -> str:
        """Carry out a small command; what is to be said to the model is handed back."""
        named = small_command(text)
        if named is None:
            if (guess := guess_at(text, self._commands.names)) is None:
                return text
            self._renderer.note(guess)
            return ""
        try:
            return await self._carry_out(*named)
        except UserError as error:
            self._renderer.error(str(error))
            return ""

    async def _carry_out(self, command: BuiltInCommand, rest: str) -> str:
        """What is to be said to the model, if anything."""
        match command.name:
            case "exit" | "quit":
                raise ExitRequested
            case "new":
                await self._let_go()
                self._renderer.note("a new task; what shall be done?")
            case "init":
                await self._let_go()
                return INIT_PROMPT_PATH.read_text(encoding="utf-8").strip()
            case "resume" | "tasks" if rest:
                await self._resume(rest)
            case name if name in CONDENSE_COMMANDS:
                await condense(await self._task_at_hand(), rest, self._renderer)
                self._stopping = False
            case name if name in REWIND_COMMANDS:
                task = await self._task_at_hand()
                asked = [f"/{name}", *rest.split()]
                self._task = await revise(self._engine, task, asked, self._renderer.note)
            case name:
                task = await self._task_at_hand() if name in TASK_COMMANDS else self._task
                self._task = await self._commands.run(command, rest, task)
        return ""

    async def _task_at_hand(self) -> Task | None:
        """Also the one that is to go on, before the first words for it."""
        if self._task is None and self._earlier is not None:
            self._task = await open_earlier(self._engine, self._arguments)
        return self._task

    async def _let_go(self) -> None:
        """The next words begin another task."""
        if self._task is not None:
            await self._engine.release(self._task)
        self._task = self._earlier = None
        self._arguments.continue_, self._arguments.resume = False, None

    async def _resume(self, start: str) -> None:
        find_task(self._engine.history(), start)  # nothing is left for one that is not there
        await self._let_go()
        await self._commands.close()
        self._arguments.resume, self._arguments.fork = start, False
        self._arguments.mode = None  # it was meant for the first task
        self._greet("")

    # Ctrl-C

    def _interrupt(self, keyboard: Keyboard) -> None:
        if keyboard.is_waiting:
            keyboard.interrupt()
        elif self._stopping:
            # The journal is written as things happen: nothing that was acknowledged is lost.
            keyboard.restore()
            os._exit(ExitCode.INTERRUPTED)
        else:
            self._stop()

    def _stop(self) -> None:
        self._stopping = self._stopping or self._at_prompt is None
        if self._task is not None and self._task.running:
            self._stopping = True
            if not self._leaving:
                self._unread.take_back()  # subtasks are closed when they stop
            self._begin(self._task.cancel())

    def _begin(self, job: Coroutine[Any, Any, None]) -> None:
        begun = asyncio.ensure_future(job)
        self._jobs.add(begun)
        begun.add_done_callback(self._end)

    def _end(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            self._renderer.error(str(error))


def greet(engine: Engine, arguments: Namespace, print_note: Callable[[str], None]) -> str | None:
    """The id of the task that is to go on, if one is.

    Raises:
        UserError
    """
    earlier = earlier_task(engine, arguments)
    print_note(introduction(options_for(arguments, earlier, None)))
    if earlier is None:
        return None
    short = short_id(earlier.id, engine.ids())
    print_note(f"going on with task {short}: {one_line(earlier.title, 200)}")
    records = open_store().read(earlier.id)
    if last_text := find_last_assistant_text(rows_of(records)):
        print_note(f"it said last: {one_line(last_text, 400)}")
    if not arguments.fork and (waiting := _waiting(records)):
        said = "these words of yours were not read yet, and go along with the next"
        print_note(f"{said}: {one_line(waiting, 400)}")
    return earlier.id


def _waiting(records: Sequence[Record]) -> str:
    """What was said to the task while it worked, and no request has carried to the model."""
    ledger = UsageLedger()
    for record in records:
        ledger.apply(record.event)
    return " / ".join(message.text for message in ledger.queue.values())


class UnreadMessages:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listeners: set[str] = set()
        """Those with whom words may wait, as long as they are open."""
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self._texts)

    def may_wait_for(self, listener: Session) -> None:
        self._listeners.add(listener.id)

    def take_back(self) -> bool:
        """Whether there are any that nobody has read."""
        for task in map(self._engine.find, sorted(self._listeners)):
            if task is not None:
                self._texts += _unqueue(task)
        return bool(self._texts)

    def forget(self) -> None:
        self._texts.clear()
        self._listeners.clear()


def _unqueue(task: Task) -> list[str]:
    waiting = tuple(task.recorder.facts.queue.values())
    for message in waiting:
        task.publish(MessageUnqueued(ts=task.now(), id=message.id))
    return [message.text for message in waiting]


_ASSISTANT_ROW_KINDS = ("completion_result", "text")


def find_last_assistant_text(rows: Sequence[dict[str, Any]]) -> str:
    """What the assistant said last: its result, or its latest words."""
    for row in reversed(rows[1:]):
        if row.get("say") in _ASSISTANT_ROW_KINDS and (text := str(row.get("text") or "").strip()):
            return text
    return ""
