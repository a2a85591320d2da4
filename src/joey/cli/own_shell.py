"""A line of the person's own, in their own shell: nothing of it is the model's."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from joey.errors import UserError
from joey.system.subprocess import begun

CHUNK = 8192
GRACE = 1.0


async def run_in_shell(
    command: str, folder: Path, env: Mapping[str, str], tell: Callable[[str], None]
) -> str:
    """How it ended, when not well; being cancelled ends it.

    Raises:
        UserError
    """
    shell = env.get("SHELL") or "/bin/sh"
    try:
        process = await begun(
            asyncio.create_subprocess_exec(
                *(shell, "-c", command),
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        )
    except (OSError, ValueError) as error:
        raise UserError(f"{shell} could not be started: {error}") from error
    try:
        await _read(process, tell)
        code = await process.wait()
    except asyncio.CancelledError:
        await _end(process)
        raise
    return f"exit {code}" if code > 0 else f"ended by {_name(-code)}" if code else ""


async def _read(process: asyncio.subprocess.Process, tell: Callable[[str], None]) -> None:
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := await process.stdout.read(CHUNK):
        tell(decoder.decode(data))
    tell(decoder.decode(b"", final=True))


async def _end(process: asyncio.subprocess.Process) -> None:
    """The whole group: gently, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await _read(process, lambda _: None)  # it has not ended before that is read
                await process.wait()
                return


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
