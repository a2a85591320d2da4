"""`joey --plain` on a terminal: a conversation line by line (REPL).

At any moment the conversation does one of three things: it waits for a message at the prompt, it
prints the events of a task, or it waits for the answer to a question of the task. Ctrl-C stops a
running task (the next line resumes it) and offers its unread messages to the user again; at the
prompt, Ctrl-C twice exits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from joey.app import open_engine, open_store
from joey.cli import notices
from joey.cli.exit_codes import ExitCode, outcome_to_exit_code
from joey.cli.line_renderer import LineWriter, TaskTreeRenderer
from joey.cli.local_model_offer import offer_local_server
from joey.cli.notices import (
    McpStartupReporter,
    describe_ended_background_commands,
    format_banner,
    format_total_usage,
)
from joey.cli.prompt import gather_prompt, load_images
from joey.cli.repl.commands import (
    CONDENSE_COMMANDS,
    EXIT_COMMANDS,
    HISTORY_COMMANDS,
    TASK_COMMANDS,
    ReplCommands,
    begin_condensing,
    condense,
    explain_unavailable,
    is_stray_command,
    open_earlier_task,
    parse_repl_command,
    run_history_command,
)
from joey.cli.repl.keyboard import InputInterrupted, Keyboard, read_answer
from joey.cli.signals import handle_signals
from joey.cli.task_launch import (
    build_task_options,
    check_model_configured,
    find_earlier_task,
    launch_task,
    run_with_model,
    take_task_choice,
)
from joey.cli.task_lookup import find_task_by_prefix, resolve_workspace_argument, shorten_task_id
from joey.cli.task_views import build_rows
from joey.client.session import Session
from joey.client.task_tree_events import follow_task_tree
from joey.core import events as ev
from joey.core.history.usage_ledger import UsageLedger
from joey.core.task_types import APPROVAL_ASKS, Answer, AskKind, Response, RowKind
from joey.engine.bus import Subscription
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import UserError
from joey.presentation.questions import parse_answer
from joey.presentation.slash_commands import (
    COMMANDS_BY_NAME,
    INIT_PROMPT_PATH,
    BuiltInCommand,
    explain_bad_command,
)
from joey.presentation.text import to_one_line

UNREAD_MESSAGE_TEXT = "joey has not read this; Enter sends it, other text replaces it:"


class ExitRequested(Exception):
    """The user wants to leave."""

    def __init__(self, code: ExitCode = ExitCode.DONE) -> None:
        self.exit_code = code


def run_repl(arguments: Namespace) -> ExitCode:
    prompt = gather_prompt(arguments.prompt, arguments.prompt_file, sys.stdin)
    images = load_images(arguments.image)
    offer_local_server(arguments)
    notices.offer_project_trust(resolve_workspace_argument(arguments))
    return run_with_model(
        arguments, lambda: asyncio.run(_run_conversation(arguments, prompt, images))
    )


async def _run_conversation(arguments: Namespace, prompt: str, images: tuple[str, ...]) -> ExitCode:
    writer = LineWriter(sys.stdout)
    code = ExitCode.DONE
    with handle_signals(signal.SIGTERM, signal.SIGHUP) as interruption:
        async with open_engine(ephemeral=arguments.ephemeral) as engine:
            should_list_tasks = take_task_choice(arguments)
            check_model_configured(engine, arguments)
            conversation = Repl(engine, arguments, writer, images)
            conversation.should_list_tasks = should_list_tasks
            with Keyboard(sys.stdin.fileno(), conversation.handle_typeahead) as keyboard:
                try:
                    await conversation.run(keyboard, prompt)
                except ExitRequested as leave:
                    code = interruption.exit_code or leave.exit_code
                except (asyncio.CancelledError, OSError):
                    if interruption.exit_code is None:
                        raise
                    code = interruption.exit_code
            if code is not ExitCode.HANGUP:  # no reader is left
                await conversation.print_closing_summary()
    return code


async def _iter_events_until_idle(subscription: Subscription) -> AsyncIterator[ev.Event]:
    with subscription:
        async for numbered in subscription:
            yield numbered.event
            if isinstance(numbered.event, ev.TaskFinished | ev.TaskAborted | ev.TaskFailed):
                return


class Repl:
    def __init__(
        self, engine: Engine, arguments: Namespace, writer: LineWriter, images: tuple[str, ...]
    ) -> None:
        self._engine = engine
        self._arguments = arguments
        self._writer = writer
        self._images = images
        self.should_list_tasks = False
        """So that the user can choose one."""
        self._task: Task | None = None
        self._earlier_task_id: str | None = None
        """The task to go on with, until the first words for it."""
        self._tree_renderer: TaskTreeRenderer | None = None
        """The screen, while the task works."""
        self._commands = ReplCommands(engine, arguments, writer)
        self._unread_messages = UnreadMessages(engine)
        self._background_jobs: set[asyncio.Task[None]] = set()
        """Things that were begun by a key and go on beside the drawing."""
        self._is_stopping = False
        self._is_exiting = False
        self._prompt_keyboard: Keyboard | None = None
        """Where the next line is for the prompt, also while a command is carried out there."""

    async def run(self, keyboard: Keyboard, prompt: str) -> None:
        """Run the conversation until the user leaves. Raises ExitRequested."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._handle_interrupt, keyboard)
        try:
            self._print_greeting(prompt)
            if self.should_list_tasks:
                await self._run_command(COMMANDS_BY_NAME["resume"], "")
            await self._run_turns(keyboard, prompt)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await asyncio.gather(*self._background_jobs, return_exceptions=True)
            await self._commands.close()

    async def print_closing_summary(self) -> None:
        """Print the last lines: what ends with joey, the cost, and how to continue."""
        task_id = self._earlier_task_id if self._task is None else self._task.id
        if task_id is None:
            return
        parts = []
        if self._task is not None:
            for line in describe_ended_background_commands(self._task):
                self._writer.print_note(line)
            await self._task.cancel()
            parts.append(format_total_usage(self._task.total_usage))
        if not self._arguments.ephemeral:
            parts.append(
                f"to continue: joey -r {shorten_task_id(task_id, self._engine.list_task_ids())}"
            )
        self._writer.print_note(" · ".join(parts))

    def handle_typeahead(self, line: str | None) -> None:
        """Handle a line typed while the task, or a command of the user, is running."""
        if self._prompt_keyboard is not None and line is not None:
            self._prompt_keyboard.push_line(line)
        elif line is None or line.strip() in EXIT_COMMANDS:
            self._is_exiting = True
            self._stop_task()
        elif line.strip():
            self._start_job(self._handle_typed_line(line))

    async def _handle_typed_line(self, line: str) -> None:
        if await self._handle_command_while_busy(line.strip(), None) or self._task is None:
            return
        tree_renderer = self._tree_renderer
        listener = self._task if tree_renderer is None else tree_renderer.message_recipient
        self._unread_messages.recipient_ids.add(listener.id)
        self._writer.print_note("(joey reads this before its next step)")
        await listener.send(line)

    def _print_greeting(self, prompt: str) -> None:
        self._earlier_task_id = print_introduction(
            self._engine, self._arguments, self._writer.print_note
        )
        if prompt:
            self._writer.print_user_message(prompt)
        else:
            self._writer.print_note("What should I do? (/help for help, Ctrl-D leaves)")

    async def _run_turns(self, keyboard: Keyboard, prompt: str) -> None:
        message = prompt or await self._read_next_message(keyboard)
        while True:
            try:
                await self._run_turn(keyboard, message)
            except UserError as error:
                if self._task is None and prompt:
                    raise
                self._writer.print_error(str(error))
                self._is_stopping = False
            if self._is_exiting:
                raise ExitRequested
            if self._arguments.oneshot and self._task is not None:
                raise ExitRequested(outcome_to_exit_code(await self._task.wait()))
            message = await self._read_next_message(keyboard)

    async def _run_turn(self, keyboard: Keyboard, message: str) -> None:
        """Send a message to the task, or start one with it, and run the turn to its end."""
        if self._task is None:
            self._task = await launch_task(self._engine, self._arguments, message, self._images)
            self._images = ()
            subscription = self._task.subscribe()
        else:
            subscription = self._task.subscribe()
            await self._task.send(message)
        if self._is_stopping:  # it was cancelled before there was anything to stop
            self._stop_task()
        tree_renderer = self._tree_renderer = TaskTreeRenderer(self._task, self._writer)
        servers = McpStartupReporter(self._task.runtime.capabilities.mcp, self._writer.print_note)
        try:
            with servers.announce_wait():
                async with follow_task_tree(
                    self._task, _iter_events_until_idle(subscription)
                ) as events:
                    async for each in events:
                        if each.session is self._task:
                            servers.handle(each.event)
                        if isinstance(each.event, ev.AskOpened):
                            await self._answer_ask(
                                keyboard, tree_renderer, each.session, each.event
                            )
                        else:
                            tree_renderer.render(each.session, each.event)
        finally:
            self._tree_renderer = None
        try:
            await self._task.wait()
        finally:
            self._is_stopping = False
            if not self._is_exiting and self._unread_messages.withdraw_queued():
                self._writer.print_note(
                    f"{UNREAD_MESSAGE_TEXT}\n{self._unread_messages.joined_text}"
                )

    async def _answer_ask(
        self, keyboard: Keyboard, tree_renderer: TaskTreeRenderer, task: Session, ask: ev.AskOpened
    ) -> None:
        if task.pending is None or task.pending.ts != ask.ts:
            return  # stopped while another question was on the screen
        if self._arguments.oneshot and ask.ask is AskKind.COMPLETION_RESULT:
            await task.answer(ask.ts, Answer(Response.YES))
            return
        if ask.ask in APPROVAL_ASKS:
            keyboard.discard_typeahead()
        tree_renderer.render(task, ask)
        while task.pending is not None and task.pending.ts == ask.ts:
            try:
                line = await read_answer(keyboard, task, ask)
            except InputInterrupted:
                self._writer.end_prompt_line()
                self._stop_task()
                return
            except EOFError:
                self._writer.end_prompt_line()
                raise ExitRequested from None
            if line is None:
                return
            if line.strip() in EXIT_COMMANDS:
                raise ExitRequested
            done = await self._handle_command_while_busy(line.strip(), ask)
            answer = None if done else parse_answer(ask, line)
            if answer is not None:
                await task.answer(ask.ts, answer)
                return
            tree_renderer.get_renderer(task).print_ask(ask)

    async def _handle_command_while_busy(self, text: str, ask: ev.AskOpened | None) -> bool:
        """Run or reject a command while the task works or asks; False if the line is a message."""
        if not text.startswith("/"):
            return False
        may_be_path = ask is not None and ask.ask is AskKind.FOLLOWUP
        named = parse_repl_command(text)
        if named is not None and not self._commands.is_replaced(named[0]):
            await self._run_command_while_busy(*named, ask)
        elif guess := explain_bad_command(
            text, self._commands.command_names, may_be_path=may_be_path
        ):
            self._writer.print_note(guess)
        elif ask is not None and is_stray_command(text, ask):
            self._writer.print_note(
                f"{text} is not an answer to this; say what to do, or see /help"
            )
        else:
            return False
        return True

    async def _run_command_while_busy(
        self, command: BuiltInCommand, rest: str, ask: ev.AskOpened | None
    ) -> None:
        if (why := explain_unavailable(command, ask)) is not None:
            self._writer.print_note(why)
        elif command.name in CONDENSE_COMMANDS:
            begin_condensing(self._task, rest, self._writer)
        else:
            try:
                await self._commands.run(command, rest, self._task)
            except UserError as error:
                self._writer.print_error(str(error))

    # At the prompt

    async def _read_next_message(self, keyboard: Keyboard) -> str:
        """Read the user's next message; commands are run on the way."""
        self._prompt_keyboard, interrupted = keyboard, False
        while True:
            self._writer.print_prompt("\n")
            try:
                message = await keyboard.read_message()
            except InputInterrupted:
                self._writer.end_prompt_line()
                if interrupted:
                    raise ExitRequested(ExitCode.INTERRUPTED) from None
                interrupted = True
                self._writer.print_note("(Ctrl-C again, or Ctrl-D, to leave)")
                continue
            except EOFError:
                self._writer.end_prompt_line()
                raise ExitRequested from None
            interrupted = False
            if message.startswith("/"):
                message = await self._handle_command_line(message.strip())
            elif not message.strip():
                message = self._unread_messages.joined_text
            if message.strip():
                self._unread_messages.discard()
                self._prompt_keyboard = None
                return message

    async def _handle_command_line(self, text: str) -> str:
        """Run a command line; return the message to send to the model, if any."""
        named = parse_repl_command(text)
        if named is None or self._commands.is_replaced(named[0]):
            if (guess := explain_bad_command(text, self._commands.command_names)) is None:
                return text
            self._writer.print_note(guess)
            return ""
        try:
            return await self._run_command(*named)
        except UserError as error:
            self._writer.print_error(str(error))
            return ""

    async def _run_command(self, command: BuiltInCommand, rest: str) -> str:
        """Run a command; return the message to send to the model, if any."""
        match command.name:
            case "exit" | "quit":
                raise ExitRequested
            case "new" | "clear":
                await self._release_task()
                self._writer.print_note("A new task. What should I do?")
            case "init":
                await self._release_task()
                return INIT_PROMPT_PATH.read_text(encoding="utf-8").strip()
            case "resume" | "tasks" if rest:
                await self._resume_task(rest)
            case name if name in CONDENSE_COMMANDS:
                await condense(await self._get_or_open_task(), rest, self._writer)
                self._is_stopping = False
            case name if name in HISTORY_COMMANDS:
                task = await self._get_or_open_task()
                asked = [f"/{name}", *rest.split()]
                self._task = await run_history_command(
                    self._engine, task, asked, self._writer.print_note
                )
            case name:
                task = await self._get_or_open_task() if name in TASK_COMMANDS else self._task
                self._task = await self._commands.run(command, rest, task)
        return ""

    async def _get_or_open_task(self) -> Task | None:
        """Return the task, opening the one to continue before the first message."""
        if self._task is None and self._earlier_task_id is not None:
            self._task = await open_earlier_task(self._engine, self._arguments)
        return self._task

    async def _release_task(self) -> None:
        """Release the task; the next message begins another one."""
        if self._task is not None:
            await self._engine.release(self._task)
        self._task = self._earlier_task_id = None
        self._arguments.continue_, self._arguments.resume = False, None

    async def _resume_task(self, start: str) -> None:
        find_task_by_prefix(self._engine.history(), start)  # nothing left to do without a task
        await self._release_task()
        await self._commands.close()
        self._arguments.resume, self._arguments.fork = start, False
        self._arguments.mode = None  # it was meant for the first task
        self._print_greeting("")

    # Ctrl-C

    def _handle_interrupt(self, keyboard: Keyboard) -> None:
        if keyboard.is_waiting:
            keyboard.interrupt()
        elif self._is_stopping:
            # The journal is written immediately: nothing acknowledged is lost.
            keyboard.restore_terminal()
            os._exit(ExitCode.INTERRUPTED)
        else:
            self._stop_task()

    def _stop_task(self) -> None:
        self._is_stopping = self._is_stopping or self._prompt_keyboard is None
        if self._task is not None and self._task.is_running:
            self._is_stopping = True
            if not self._is_exiting:
                self._unread_messages.withdraw_queued()  # subtasks are closed when they stop
            self._start_job(self._task.cancel())

    def _start_job(self, job: Coroutine[Any, Any, None]) -> None:
        begun = asyncio.ensure_future(job)
        self._background_jobs.add(begun)
        begun.add_done_callback(self._handle_job_done)

    def _handle_job_done(self, job: asyncio.Task[None]) -> None:
        self._background_jobs.discard(job)
        if not job.cancelled() and (error := job.exception()) is not None:
            self._writer.print_error(str(error))


def print_introduction(
    engine: Engine, arguments: Namespace, print_note: Callable[[str], None]
) -> str | None:
    """Print the introduction, with the id of the task to continue, if any. Raises UserError."""
    earlier = find_earlier_task(engine, arguments)
    print_note(format_banner(build_task_options(arguments, earlier, None)))
    if earlier is None:
        return None
    short = shorten_task_id(earlier.id, engine.list_task_ids())
    print_note(f"continuing task {short}: {to_one_line(earlier.title, 200)}")
    records = open_store().read_records(earlier.id)
    if last_text := find_last_assistant_text(build_rows(records)):
        print_note(f"its last message: {to_one_line(last_text, 400)}")
    if not arguments.fork and (waiting := _join_queued_messages(records)):
        said = "this message was not read yet, and is sent with the next one"
        print_note(f"{said}: {to_one_line(waiting, 400)}")
    return earlier.id


def _join_queued_messages(records: Sequence[ev.Record]) -> str:
    """Join the messages that no request has sent to the model yet."""
    ledger = UsageLedger()
    for record in records:
        ledger.apply(record.event)
    return " / ".join(message.text for message in ledger.queued_messages.values())


class UnreadMessages:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.recipient_ids: set[str] = set()
        """Those with whom words may wait, as long as they are open."""
        self._texts: list[str] = []

    @property
    def joined_text(self) -> str:
        return "\n".join(self._texts)

    def withdraw_queued(self) -> bool:
        """Withdraw unread messages; False if there are none."""
        for task in map(self._engine.find_open_task, sorted(self.recipient_ids)):
            if task is None:
                continue
            for message in tuple(task.recorder.projection.queued_messages.values()):
                task.publish(ev.MessageUnqueued(ts=task.next_ts(), id=message.id))
                self._texts.append(message.text)
        return bool(self._texts)

    def discard(self) -> None:
        self._texts.clear()
        self.recipient_ids.clear()


_ASSISTANT_ROW_KINDS = (RowKind.COMPLETION_RESULT, RowKind.TEXT)


def find_last_assistant_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the assistant's last text: its result, or its latest message."""
    for row in reversed(rows[1:]):
        if row.get("say") in _ASSISTANT_ROW_KINDS and (text := str(row.get("text") or "").strip()):
            return text
    return ""
