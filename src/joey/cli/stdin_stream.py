"""`joey -p --input-format stream-json`: a program starts, steers and ends tasks through a pipe."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace

import msgspec

from joey.app import open_engine
from joey.cli.exit_codes import ExitCode, UsageError, exit_code_of_error
from joey.cli.outputs import leave_stdout, write_out
from joey.cli.run_results import interrupted
from joey.cli.signals import interruptible
from joey.cli.stdin_commands import CommandReader
from joey.cli.stdin_session import StdinSession
from joey.cli.stdin_source import pieces
from joey.cli.stream_json import Line, RunResult, error_lines, result_line
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
            _tell(line)
        raise


async def _run(arguments: Namespace) -> ExitCode:
    with interruptible(parts=True) as interruption:
        async with open_engine(ephemeral=arguments.ephemeral) as engine:
            session = StdinSession(engine, arguments, _tell)
            try:
                return await interruption.stoppable(_obey(session))
            except asyncio.CancelledError:
                if session.broken is not None:
                    raise session.broken from None
                if interruption.code is None:
                    raise
            task_id = session.task_id or ""
            await session.stop()
            _tell(result_line(interrupted(interruption.code, task_id), ""))
            return interruption.code


async def _obey(session: StdinSession) -> ExitCode:
    await session.begin()
    reader = CommandReader()
    async for piece in pieces(sys.stdin.fileno()):
        for command in reader.feed(piece):
            if not await session.obey(command):
                return ExitCode.DONE
    for command in reader.close():
        if not await session.obey(command):
            return ExitCode.DONE
    return await session.finish()


def _tell(line: Line) -> None:
    write_out(msgspec.json.encode(line) + b"\n")
