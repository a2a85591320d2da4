"""`joey -p --input-format stream-json`: a program starts, steers and ends tasks through a pipe.

One task at a time. Commands are executed in the order in which they arrive; each is answered with
`ack` and `done`, or with an error, and none of them waits for a task to end: the task's
own lines come in between. After a result the task accepts more messages until another one is
started.
"""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, structs

from joey.app import open_engine
from joey.app.options import apply_configuration
from joey.cli.exit_codes import ExitCode, UsageError, error_to_exit_code
from joey.cli.headless.roo_stream_json import (
    JsonLine,
    build_error_lines,
    build_init_line,
    build_result_line,
)
from joey.cli.headless.run import build_error_result, build_interrupted_result
from joey.cli.headless.stdin_protocol import (
    CAPABILITIES,
    ControlCode,
    InvalidLine,
    JsonEmitter,
    StdinAnswerPolicy,
    StdinCommand,
    StdinCommandParser,
    build_control_line,
)
from joey.cli.line_renderer import LineWriter, TaskTreeRenderer
from joey.cli.notices import print_startup_warnings
from joey.cli.output import detach_stdout, write_stdout
from joey.cli.signals import Interruption, handle_signals
from joey.cli.stdin_reader import iter_chunks
from joey.cli.task_launch import (
    apply_schema_flag,
    build_task_options,
    find_earlier_task,
    launch_task,
)
from joey.client.session import Session
from joey.client.task_tree_events import follow_task_tree
from joey.core.events import AskOpened
from joey.core.task_types import IDLE_STATES, Answer, AskKind, Response
from joey.engine.engine import Engine
from joey.engine.runtime import generate_task_id
from joey.engine.task import Task
from joey.errors import UserError


def run_stdin_session(arguments: Namespace) -> ExitCode:
    """Execute commands from standard input until one ends the session, or input ends."""
    try:
        if sys.stdin.isatty():
            raise UsageError("--input-format stream-json reads a pipe, and stdin is a terminal")
        return asyncio.run(_run_session(arguments))
    except BrokenPipeError:
        detach_stdout()
        return ExitCode.BROKEN_PIPE
    except UserError as error:
        run = build_error_result(error)
        for line in (*build_error_lines(run), build_result_line(run, "")):
            _write_line(line)
        raise


async def _run_session(arguments: Namespace) -> ExitCode:
    is_parked = arguments.signal_only_exit
    with handle_signals(only_stoppable=True) as interruption:
        async with open_engine(ephemeral=arguments.ephemeral) as engine:
            session = StdinSession(engine, arguments, _write_line)
            try:
                code = await interruption.run_stoppable(_execute_commands(session))
                return await _wait_for_signal(interruption) if is_parked else code
            except asyncio.CancelledError:
                if session.relay_error is not None:
                    raise session.relay_error from None
                if interruption.exit_code is None:
                    raise
            task_id = session.task_id or ""
            await session.stop()
            _write_line(
                build_result_line(build_interrupted_result(interruption.exit_code, task_id), "")
            )
            return interruption.exit_code


async def _wait_for_signal(interruption: Interruption) -> ExitCode:
    """Wait for a signal with `--signal-only-exit`: the work is done, and the parent program ends
    joey."""
    try:
        await interruption.run_stoppable(asyncio.Event().wait())
    except asyncio.CancelledError:
        if interruption.exit_code is None:
            raise
    return interruption.exit_code or ExitCode.DONE


async def _execute_commands(session: StdinSession) -> ExitCode:
    await session.open_earlier_task()
    reader = StdinCommandParser()
    async for piece in iter_chunks(sys.stdin.fileno()):
        for command in reader.feed(piece):
            if not await session.execute(command):
                return ExitCode.DONE
    for command in reader.close():
        if not await session.execute(command):
            return ExitCode.DONE
    return await session.finish()


def _write_line(line: JsonLine) -> None:
    write_stdout(msgspec.json.encode(line) + b"\n")


READY_TEXT = "Waiting for commands"
UNREAD_MESSAGES_REPLY = "I have sent another message meanwhile: read that first."
"""Said to a question that opens while words already wait."""
_FOLLOWUP_SETTINGS: dict[str, Any] = {"alwaysAllowFollowupQuestions": True}
"""A question that is not answered in time is answered with its first suggestion."""


class _RefusedCommandError(Exception):
    """Why a command is rejected."""

    def __init__(self, code: ControlCode, problem: str) -> None:
        super().__init__(problem)
        self.code = code


class StdinSession:
    def __init__(
        self, engine: Engine, arguments: Namespace, write_line: Callable[[JsonLine], None]
    ) -> None:
        self._engine = engine
        self._arguments = arguments
        self._write_line = write_line
        self._task: Task | None = None
        self._emitter = JsonEmitter(self._build_policy())
        self._is_resume_pending = False
        """The task is from an earlier run, and nothing was said to it yet."""
        self._asking_subtask: Session | None = None
        self._relay_job: asyncio.Task[None] | None = None
        self._cancel_job: asyncio.Task[None] | None = None
        self._reader_job: asyncio.Task[Any] | None = None
        self._output_lock = asyncio.Lock()
        """What comes of a message is told after the answer to the command."""
        self._has_received_lines = False
        self._has_accepted_command = False
        self._exit_code = ExitCode.DONE
        self.relay_error: BaseException | None = None
        """Why nothing can be told any more."""

    @property
    def task_id(self) -> str | None:
        return self._task.id if self._task is not None else None

    async def open_earlier_task(self) -> None:
        """Open the task that the flags name, if any. Raises UserError."""
        self._reader_job = asyncio.current_task()
        earlier = find_earlier_task(self._engine, self._arguments)
        if earlier is None:
            self._write_line(build_init_line("", READY_TEXT, _list_capabilities()))
            return
        options = build_task_options(self._arguments, earlier, self._emitter.policy)
        options = await apply_schema_flag(options, self._arguments)
        # For this run only: the task keeps its original options.
        options = structs.replace(
            apply_configuration(options, dict(_FOLLOWUP_SETTINGS)), configuration={}
        )
        if self._arguments.fork:
            task = await self._engine.fork(earlier.id, options=options)
        else:
            task = await self._engine.open(earlier.id, options=options)
        self._is_resume_pending = True
        self._write_line(build_init_line(task.id, READY_TEXT, _list_capabilities()))
        for line in self._emitter.queue_reporter.report_snapshot(
            tuple(task.recorder.projection.queued_messages.values())
        ):
            self._write_line(line)
        self._attach_task(print_startup_warnings(task), self._emitter, task.seq)

    async def execute(self, command: StdinCommand | InvalidLine) -> bool:
        """Execute a command; False if no more are to be read."""
        self._has_received_lines = True
        try:
            can_continue = await self._execute_command(command)
        except _RefusedCommandError as refused:
            self._write_control("error", refused.code, command, problem=str(refused))
            return True
        self._has_accepted_command = True
        return can_continue

    async def _execute_command(self, command: StdinCommand | InvalidLine) -> bool:
        match command:
            case InvalidLine(problem=problem):
                raise _RefusedCommandError(ControlCode.INVALID_COMMAND, problem)
            case StdinCommand(command="start"):
                await self._execute_start(command)
            case StdinCommand() if not self._is_addressed_to(
                command, self._task, self._asking_subtask
            ):
                problem = f"task {command.task_id} is not the active task"
                raise _RefusedCommandError(ControlCode.TASK_NOT_FOUND, problem)
            case StdinCommand(command="message"):
                await self._execute_message(command)
            case StdinCommand(command="cancel"):
                self._execute_cancel(command)
            case StdinCommand(command="ping"):
                self._write_ack(command)
                self._write_done(command, ControlCode.PONG)
            case StdinCommand(command="shutdown"):
                self._write_ack(command)
                self._write_done(command, ControlCode.SHUTDOWN_REQUESTED)
                await self.stop()
                return False
        return True

    async def finish(self) -> ExitCode:
        """Run the task to its end after input has ended, without a user. Raises UserError if stdin
        was empty."""
        if not self._has_received_lines:
            raise UsageError(
                "standard input was empty; --input-format stream-json reads commands:"
                ' {"command":"start","requestId":"1","prompt":"fix the failing test"}'
            )
        if not self._has_accepted_command:
            await self.stop()
            return ExitCode.USAGE
        policy = self._emitter.policy
        policy.is_stdin_open = False
        await self._wait_for_cancel()
        if self._task is None:
            return self._exit_code
        for asking in (self._task, self._asking_subtask):
            pending = asking.pending if asking is not None else None
            if asking is not None and pending is not None:
                answer = policy.answer(pending)
                if answer is not None:
                    await asking.answer(pending.ts, answer)
        while self._task.is_running:
            await self._task.wait()
        await self._release_task()
        return ExitCode(self._emitter.last_exit_code)

    async def stop(self) -> None:
        """Stop the task, if one is running, and send its remaining lines."""
        await self._wait_for_cancel()
        await self._release_task()

    # Commands

    async def _execute_start(self, command: StdinCommand) -> None:
        await self._wait_for_cancel()
        if self._is_busy:
            problem = "a task is running; a new one can be started when it has ended"
            raise _RefusedCommandError(ControlCode.TASK_BUSY, problem)
        await self._release_task()
        if command.task_id is UNSET:
            task_id = generate_task_id(time.time_ns() // 1_000_000)
        else:
            task_id = command.task_id.lower()
        self._write_ack(command, task_id)
        emitter = JsonEmitter(self._build_policy(), command.request_id)
        new = {"continue_": False, "resume": None, "fork": False}
        arguments = Namespace(**{**vars(self._arguments), **new})
        try:
            task = await launch_task(
                self._engine,
                arguments,
                command.prompt,
                command.images,
                emitter.policy,
                task_id,
                _FOLLOWUP_SETTINGS | (command.configuration or {}),
            )
        except UserError as error:
            self._exit_code = error_to_exit_code(error)
            code = ControlCode.TASK_ERROR
            self._write_control("error", code, command, task_id, problem=str(error))
            return
        self._is_resume_pending = False
        self._attach_task(task, emitter, 0)

    async def _execute_message(self, command: StdinCommand) -> None:
        await self._wait_for_cancel()
        task = self._task
        if task is None:
            problem = "there is no active task; start one first"
            raise _RefusedCommandError(ControlCode.NO_ACTIVE_TASK, problem)
        asked = self._find_pending_ask(task, command)
        if asked is None and command.response is not Response.MESSAGE:
            problem = "there is no open yes-or-no question"
            raise _RefusedCommandError(ControlCode.NO_PENDING_ASK, problem)
        if asked is not None and not asked[1].accepts(command.answer):
            raise _RefusedCommandError(
                ControlCode.INVALID_COMMAND, 'the question needs an answer in "prompt"'
            )
        if asked is None and not self._is_addressed_to(command, task):
            problem = f"subtask {command.task_id} has no open question"
            raise _RefusedCommandError(ControlCode.NO_PENDING_ASK, problem)
        async with self._output_lock:
            self._write_ack(command)
            self._write_done(command, await self._deliver_message(command, task, asked))

    async def _deliver_message(
        self, command: StdinCommand, task: Task, asked: tuple[Session, AskOpened] | None
    ) -> ControlCode:
        """Report where a message went, once it is on disk."""
        code = ControlCode.RESPONDED
        if asked is not None:
            asking, ask = asked
            if asking is task:
                self._emitter.register_answer(ask.ts, command.request_id)
            await asking.answer(ask.ts, command.answer)
        else:
            at_rest = task.state in IDLE_STATES
            self._emitter.queue_reporter.expect_message(command.request_id, is_reported=not at_rest)
            await task.send(command.prompt, command.images)
            if not at_rest:
                code = ControlCode.QUEUED
            elif self._is_resume_pending:
                code = ControlCode.RESUMED
        self._is_resume_pending = False
        return code

    def _execute_cancel(self, command: StdinCommand) -> None:
        if not self._is_addressed_to(command, self._task):
            problem = "a subtask cannot be cancelled alone; cancel the active task"
            raise _RefusedCommandError(ControlCode.TASK_NOT_FOUND, problem)
        self._write_ack(command)
        if self._task is None or not self._is_busy or self._cancel_job is not None:
            self._write_done(command, ControlCode.NO_ACTIVE_TASK)
            return
        self._emitter.current_request_id = command.request_id
        self._cancel_job = asyncio.create_task(self._task.cancel())
        self._write_done(command, ControlCode.CANCEL_REQUESTED)

    def _find_pending_ask(
        self, task: Task, command: StdinCommand
    ) -> tuple[Session, AskOpened] | None:
        for asking in (task, self._asking_subtask):
            if asking is None or asking.pending is None:
                continue
            if self._is_addressed_to(command, asking):
                return asking, asking.pending
        return None

    @staticmethod
    def _is_addressed_to(command: StdinCommand, *sessions: Session | None) -> bool:
        """Whether the command names one of these tasks, or none at all."""
        if command.task_id is UNSET:
            return True
        named = command.task_id.lower()
        return any(session is not None and session.id.lower() == named for session in sessions)

    @property
    def _is_busy(self) -> bool:
        task = self._task
        if task is None or not task.is_running or task.state in IDLE_STATES:
            return False
        has_queued = bool(task.recorder.projection.queued_messages)
        return has_queued or not self._has_presented_result(task)

    @staticmethod
    def _has_presented_result(task: Task) -> bool:
        return task.pending is not None and task.pending.ask is AskKind.COMPLETION_RESULT

    # Replies

    def _write_control(
        self,
        subtype: Literal["ack", "done", "error"],
        code: ControlCode,
        command: StdinCommand | InvalidLine,
        task_id: str | None = None,
        *,
        problem: str = "",
    ) -> None:
        self._write_line(
            build_control_line(
                subtype,
                code,
                command=command.command,
                request_id=command.request_id,
                task_id=task_id or self.task_id,
                problem=problem,
            )
        )

    def _write_ack(self, command: StdinCommand, task_id: str | None = None) -> None:
        self._write_control("ack", ControlCode.ACCEPTED, command, task_id)

    def _write_done(self, command: StdinCommand, code: ControlCode) -> None:
        self._write_control("done", code, command)

    # The task

    def _build_policy(self) -> StdinAnswerPolicy:
        return StdinAnswerPolicy(can_approve=self._arguments.require_approval)

    def _attach_task(self, task: Task, emitter: JsonEmitter, since: int) -> None:
        # Each message gets its own result.
        task.max_queued_per_request = 1
        self._task, self._emitter, self._asking_subtask = task, emitter, None
        self._relay_job = asyncio.create_task(self._relay_events(task, emitter, since))
        self._relay_job.add_done_callback(self._handle_relay_done)

    def _handle_relay_done(self, listening: asyncio.Task[None]) -> None:
        if not listening.cancelled() and (error := listening.exception()) is not None:
            self.relay_error = error
            if self._reader_job is not None:
                self._reader_job.cancel()

    async def _relay_events(self, task: Task, emitter: JsonEmitter, since: int) -> None:
        writer = LineWriter(sys.stderr, is_brief=True, has_status=False)
        tree_renderer = TaskTreeRenderer(task, writer)
        with task.subscribe(since) as subscription:
            async with follow_task_tree(
                task, (numbered.event async for numbered in subscription), from_start=not since
            ) as events:
                async for each in events:
                    tree_renderer.render(each.session, each.event)
                    if each.session is task:
                        async with self._output_lock:
                            for line in emitter.handle(task, each.event):
                                self._write_line(line)
                    if isinstance(each.event, AskOpened):
                        await self._handle_ask(task, each.session, each.event)
        if task.error is not None:
            problem, code = str(task.error), ControlCode.CLIENT_ERROR
            self._write_line(build_control_line("error", code, task_id=task.id, problem=problem))
            self._exit_code = error_to_exit_code(task.error)

    async def _handle_ask(self, task: Task, asking: Session, ask: AskOpened) -> None:
        """Handle a question. Queued messages came before it: they are not its answer (decision D17)
        and must not wait for one."""
        if asking.pending is None or asking.pending.ts != ask.ts:
            return
        if asking is not task:
            self._asking_subtask = asking
            for line in self._emitter.handle_subtask_ask(asking.id, ask):
                self._write_line(line)
        elif not task.recorder.projection.queued_messages:
            return
        elif ask.ask is AskKind.COMPLETION_RESULT:
            await task.answer(ask.ts, Answer(Response.YES))
        elif ask.ask is AskKind.FOLLOWUP:
            await task.answer(ask.ts, Answer(Response.MESSAGE, text=UNREAD_MESSAGES_REPLY))

    async def _wait_for_cancel(self) -> None:
        """Wait until a cancelled task has stopped."""
        if self._cancel_job is not None:
            await asyncio.wait([self._cancel_job])
            self._cancel_job = None

    async def _release_task(self) -> None:
        """Release the task: a presented result without an answer is accepted; otherwise the task is
        stopped."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._has_presented_result(task) and task.pending is not None:
            self._emitter.policy.is_stdin_open = False
            await task.answer(task.pending.ts, Answer(Response.YES))
            while task.is_running and not task.recorder.projection.queued_messages:
                await task.wait()
        await self._engine.release(task)
        if self._relay_job is not None:
            await asyncio.wait([self._relay_job])


def _list_capabilities() -> list[str]:
    return [f"stdin:{name}" for name in CAPABILITIES]
