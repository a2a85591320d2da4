"""`joey -p --input-format stream-json`: a program starts, steers and ends tasks through a pipe.

One task at a time. Commands are executed in the order in which they arrive; each is answered with
`ack` and `done`, or with an error, and none of them waits for a task to end: the task's own lines
come in between. After a result the task accepts more messages until another one is started.
"""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from msgspec import UNSET, structs

from joey.app import open_engine
from joey.app.options import apply_configuration
from joey.cli.exit_codes import ExitCode, UsageError, exit_code_of_error
from joey.cli.headless.progress import ProgressPrinter, TaskTreeProgress
from joey.cli.headless.run import interrupted
from joey.cli.headless.stdin_protocol import (
    CAPABILITIES,
    ControlLineContext,
    InvalidLine,
    JsonEmitter,
    StdinAnswerPolicy,
    StdinCommand,
    StdinCommandParser,
    accepted,
    done,
    refused,
)
from joey.cli.headless.stream_json import JsonLine, RunResult, error_lines, init_line, result_line
from joey.cli.launch import earlier_task, launch, options_for
from joey.cli.notices import introduce
from joey.cli.output import leave_stdout, write_out
from joey.cli.signals import interruptible
from joey.cli.stdin_reader import pieces
from joey.client.session import Session
from joey.client.task_tree import family
from joey.core.events import AskOpened, Event
from joey.core.task import IDLE_STATES, Answer, AskKind, Response
from joey.engine.bus import Subscription
from joey.engine.engine import Engine
from joey.engine.runtime import new_task_id
from joey.engine.task import Task
from joey.errors import UserError


def run_stream(arguments: Namespace) -> ExitCode:
    """Obey the commands that come through standard input until one of them ends it, or there are
    no more."""
    try:
        if sys.stdin.isatty():
            raise UsageError("--input-format stream-json reads a pipe, and stdin is a terminal")
        return asyncio.run(_run(arguments))
    except BrokenPipeError:
        leave_stdout()
        return ExitCode.BROKEN_PIPE
    except UserError as error:
        code = exit_code_of_error(error)
        run = RunResult(exit_code=code, code=code.name.lower(), reason=str(error))
        for line in (*error_lines(run), result_line(run, "")):
            _write_line(line)
        raise


async def _run(arguments: Namespace) -> ExitCode:
    with interruptible(parts=True) as interruption:
        async with open_engine(ephemeral=arguments.ephemeral) as engine:
            session = StdinSession(engine, arguments, _write_line)
            try:
                return await interruption.stoppable(_obey(session))
            except asyncio.CancelledError:
                if session.broken is not None:
                    raise session.broken from None
                if interruption.code is None:
                    raise
            task_id = session.task_id or ""
            await session.stop()
            _write_line(result_line(interrupted(interruption.code, task_id), ""))
            return interruption.code


async def _obey(session: StdinSession) -> ExitCode:
    await session.begin()
    reader = StdinCommandParser()
    async for piece in pieces(sys.stdin.fileno()):
        for command in reader.feed(piece):
            if not await session.obey(command):
                return ExitCode.DONE
    for command in reader.close():
        if not await session.obey(command):
            return ExitCode.DONE
    return await session.finish()


def _write_line(line: JsonLine) -> None:
    write_out(msgspec.json.encode(line) + b"\n")


READY_TEXT = "Waiting for commands"
UNREAD_MESSAGES_REPLY = "I have written something else meanwhile: read that first."
"""Said to a question that opens while words already wait."""
_FOLLOWUP_SETTINGS: dict[str, Any] = {"alwaysAllowFollowupQuestions": True}
"""A question that is not answered in time is answered with its first suggestion."""


class StdinSession:
    def __init__(
        self, engine: Engine, arguments: Namespace, write_line: Callable[[JsonLine], None]
    ) -> None:
        self._engine = engine
        self._arguments = arguments
        self._write_line = write_line
        self._task: Task | None = None
        self._emitter = JsonEmitter(self._policy())
        self._untouched = False
        """The task is from an earlier run, and nothing was said to it yet."""
        self._asking_child: Session | None = None
        self._listening: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[Any] | None = None
        self._speaking = asyncio.Lock()
        """What comes of a message is told after the answer to the command."""
        self._has_commands = False
        self._code = ExitCode.DONE
        self.broken: BaseException | None = None
        """Why nothing can be told any more."""

    @property
    def task_id(self) -> str | None:
        return self._task.id if self._task is not None else None

    async def begin(self) -> None:
        """Open the task that the flags name, if they do.

        Raises:
            UserError
        """
        self._reading = asyncio.current_task()
        earlier = earlier_task(self._engine, self._arguments)
        if earlier is None:
            self._write_line(init_line("", READY_TEXT, _capabilities()))
            return
        options = options_for(self._arguments, earlier, self._emitter.policy)
        # For this run alone: the task keeps what it was given when it was started.
        options = structs.replace(
            apply_configuration(options, dict(_FOLLOWUP_SETTINGS)), configuration={}
        )
        if self._arguments.fork:
            task = await self._engine.fork(earlier.id, options=options)
        else:
            task = await self._engine.open(earlier.id, options=options)
        self._untouched = True
        self._write_line(init_line(task.id, READY_TEXT, _capabilities()))
        for line in self._emitter.queue.adopt(tuple(task.recorder.facts.queue.values())):
            self._write_line(line)
        self._adopt(introduce(task), self._emitter, task.seq)

    async def obey(self, command: StdinCommand | InvalidLine) -> bool:
        """Carry it out; False when no more are to be read."""
        self._has_commands = True
        match command:
            case InvalidLine(problem, request_id, name):
                self._refuse("invalid_command", problem, name, request_id)
            case StdinCommand(command="start"):
                await self._start(command)
            case StdinCommand() if not self._is_about(command, self._task, self._asking_child):
                problem = f"task {command.task_id} is not the active task"
                self._refuse("task_not_found", problem, command.command, command.request_id)
            case StdinCommand(command="message"):
                await self._message(command)
            case StdinCommand(command="cancel"):
                self._cancel(command)
            case StdinCommand(command="ping"):
                self._ack(command)
                self._done(command, "pong")
            case StdinCommand(command="shutdown"):
                self._ack(command)
                self._done(command, "shutdown_requested")
                await self.stop()
                return False
        return True

    async def finish(self) -> ExitCode:
        """No more commands will come: see the task through, as nobody is there to ask.

        Raises:
            UserError: there never was a command.
        """
        if not self._has_commands:
            raise UsageError(
                "nothing came through standard input; --input-format stream-json reads commands:"
                ' {"command":"start","requestId":"1","prompt":"fix the failing test"}'
            )
        policy = self._emitter.policy
        policy.is_open = False
        await self._settled()
        if self._task is None:
            return self._code
        for asking in (self._task, self._asking_child):
            pending = asking.pending if asking is not None else None
            if asking is not None and pending is not None:
                answer = policy.answer(pending)
                if answer is not None:
                    await asking.answer(pending.ts, answer)
        while self._task.running:
            await self._task.wait()
        await self._let_go()
        return ExitCode(self._emitter.exit_code)

    async def stop(self) -> None:
        """End the task, if one is at work, and tell all that it said."""
        await self._settled()
        await self._let_go()

    # Commands

    async def _start(self, command: StdinCommand) -> None:
        await self._settled()
        if self._is_busy:
            problem = "a task is at work; a new one can be started when it has ended"
            self._refuse("task_busy", problem, "start", command.request_id)
            return
        await self._let_go()
        if command.task_id is UNSET:
            task_id = new_task_id(time.time_ns() // 1_000_000)
        else:
            task_id = command.task_id.lower()
        self._ack(command, task_id)
        emitter = JsonEmitter(self._policy(), command.request_id)
        new = {"continue_": False, "resume": None, "fork": False}
        arguments = Namespace(**{**vars(self._arguments), **new})
        try:
            task = await launch(
                self._engine,
                arguments,
                command.prompt,
                command.images,
                emitter.policy,
                task_id,
                _FOLLOWUP_SETTINGS | (command.configuration or {}),
            )
        except UserError as error:
            self._code = exit_code_of_error(error)
            about = ControlLineContext("start", command.request_id, task_id)
            self._write_line(refused(about, "task_error", str(error)))
            return
        self._untouched = False
        self._adopt(task, emitter, 0)

    async def _message(self, command: StdinCommand) -> None:
        await self._settled()
        task = self._task
        if task is None:
            problem = "there is no active task; start one first"
            self._refuse("no_active_task", problem, "message", command.request_id)
            return
        asked = self._asked(task, command)
        if asked is None and command.response is not Response.MESSAGE:
            problem = "nothing is asked that could be answered with yes or no"
            self._refuse("no_pending_ask", problem, "message", command.request_id)
            return
        if asked is None and not self._is_about(command, task):
            problem = f"subtask {command.task_id} asks nothing"
            self._refuse("no_pending_ask", problem, "message", command.request_id)
            return
        async with self._speaking:
            self._ack(command)
            self._done(command, await self._pass_on(command, task, asked))

    async def _pass_on(
        self, command: StdinCommand, task: Task, asked: tuple[Session, AskOpened] | None
    ) -> str:
        """Where the words went, once they are safe on disk."""
        code = "responded"
        if asked is not None:
            asking, ask = asked
            if asking is task:
                self._emitter.answers(ask.ts, command.request_id)
            answer = Answer(command.response, text=command.prompt, images=command.images)
            await asking.answer(ask.ts, answer)
        else:
            at_rest = task.state in IDLE_STATES
            self._emitter.queue.expect(command.request_id, is_reported=not at_rest)
            await task.send(command.prompt, command.images)
            code = ("resumed" if self._untouched else "responded") if at_rest else "queued"
        self._untouched = False
        return code

    def _cancel(self, command: StdinCommand) -> None:
        if not self._is_about(command, self._task):
            problem = "a subtask is not cancelled alone; cancel the active task"
            self._refuse("task_not_found", problem, "cancel", command.request_id)
            return
        self._ack(command)
        if self._task is None or not self._is_busy or self._stopping is not None:
            self._done(command, "no_active_task")
            return
        self._emitter.owner = command.request_id
        self._stopping = asyncio.create_task(self._task.cancel())
        self._done(command, "cancel_requested")

    def _asked(self, task: Task, command: StdinCommand) -> tuple[Session, AskOpened] | None:
        for asking in (task, self._asking_child):
            if asking is None or asking.pending is None:
                continue
            if self._is_about(command, asking):
                return asking, asking.pending
        return None

    @staticmethod
    def _is_about(command: StdinCommand, *sessions: Session | None) -> bool:
        """Whether the command names one of these, or no task at all."""
        if command.task_id is UNSET:
            return True
        named = command.task_id.lower()
        return any(session is not None and session.id.lower() == named for session in sessions)

    @property
    def _is_busy(self) -> bool:
        task = self._task
        if task is None or not task.running or task.state in IDLE_STATES:
            return False
        return bool(task.recorder.facts.queue) or not self._is_presented(task)

    @staticmethod
    def _is_presented(task: Task) -> bool:
        return task.pending is not None and task.pending.ask is AskKind.COMPLETION_RESULT

    # Replies

    def _ack(self, command: StdinCommand, task_id: str | None = None) -> None:
        self._write_line(
            accepted(
                ControlLineContext(command.command, command.request_id, task_id or self.task_id)
            )
        )

    def _done(self, command: StdinCommand, code: str) -> None:
        self._write_line(
            done(ControlLineContext(command.command, command.request_id, self.task_id), code)
        )

    def _refuse(self, code: str, problem: str, name: str | None, request_id: str | None) -> None:
        self._write_line(refused(ControlLineContext(name, request_id, self.task_id), code, problem))

    # The task

    def _policy(self) -> StdinAnswerPolicy:
        return StdinAnswerPolicy(approves=self._arguments.require_approval)

    def _adopt(self, task: Task, emitter: JsonEmitter, since: int) -> None:
        # Each message is to have a result of its own.
        task.max_queued_per_request = 1
        self._task, self._emitter, self._asking_child = task, emitter, None
        self._listening = asyncio.create_task(self._listen(task, emitter, since))
        self._listening.add_done_callback(self._handle_relay_done)

    def _handle_relay_done(self, listening: asyncio.Task[None]) -> None:
        if not listening.cancelled() and (error := listening.exception()) is not None:
            self.broken = error
            if self._reading is not None:
                self._reading.cancel()

    async def _listen(self, task: Task, emitter: JsonEmitter, since: int) -> None:
        tree_progress = TaskTreeProgress(task.id, ProgressPrinter())
        with task.subscribe(since) as subscription:
            async with family(task, _events(subscription), whole=not since) as events:
                async for each in events:
                    tree_progress.handle(each.teller.id, each.event)
                    if each.teller is task:
                        async with self._speaking:
                            for line in emitter.handle(task, each.event):
                                self._write_line(line)
                    if isinstance(each.event, AskOpened):
                        await self._consider(task, each.teller, each.event)
        if task.error is not None:
            self._write_line(
                refused(ControlLineContext(task_id=task.id), "client_error", str(task.error))
            )
            self._code = exit_code_of_error(task.error)

    async def _consider(self, task: Task, asking: Session, ask: AskOpened) -> None:
        """Words that wait have come before the question: they are not its answer (D17), and
        must not wait for one either."""
        if asking.pending is None or asking.pending.ts != ask.ts:
            return
        if asking is not task:
            self._asking_child = asking
            for line in self._emitter.handle_subtask_ask(asking.id, ask):
                self._write_line(line)
        elif not task.recorder.facts.queue:
            return
        elif ask.ask is AskKind.COMPLETION_RESULT:
            await task.answer(ask.ts, Answer(Response.YES))
        elif ask.ask is AskKind.FOLLOWUP:
            await task.answer(ask.ts, Answer(Response.MESSAGE, text=UNREAD_MESSAGES_REPLY))

    async def _settled(self) -> None:
        """A task that was told to stop has stopped."""
        if self._stopping is not None:
            await asyncio.wait([self._stopping])
            self._stopping = None

    async def _let_go(self) -> None:
        """A result that was presented and not answered is accepted; all else is stopped."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._is_presented(task) and task.pending is not None:
            self._emitter.policy.is_open = False
            await task.answer(task.pending.ts, Answer(Response.YES))
            while task.running and not task.recorder.facts.queue:
                await task.wait()
        await self._engine.release(task)
        if self._listening is not None:
            await asyncio.wait([self._listening])


async def _events(subscription: Subscription) -> AsyncIterator[Event]:
    async for numbered in subscription:
        yield numbered.event


def _capabilities() -> list[str]:
    return [f"stdin:{name}" for name in CAPABILITIES]
