"""Shell commands of the app: running the user's own, full output of the model's.

Of an output that is kept in a file because it was too long for its row, at most a megabyte is
read: the beginning and the end.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from joey.core.terminal_text import format_size
from joey.errors import UserError
from joey.system.subprocess import await_start_despite_cancel

READ_SIZE_BYTES = 8192
TERMINATE_GRACE_S = 1.0


async def run_in_shell(
    command: str, directory: Path, env: Mapping[str, str], on_output: Callable[[str], None]
) -> str:
    """How it ended, when not well; being cancelled ends it.

    Raises:
        UserError
    """
    shell = env.get("SHELL") or "/bin/sh"
    try:
        process = await await_start_despite_cancel(
            asyncio.create_subprocess_exec(
                *(shell, "-c", command),
                cwd=directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        )
    except (OSError, ValueError) as error:
        raise UserError(f"{shell} could not be started: {error}") from error
    try:
        await _relay_output(process, on_output)
        code = await process.wait()
    except asyncio.CancelledError:
        await _terminate_group(process)
        raise
    return f"exit {code}" if code > 0 else f"ended by {_format_signal(-code)}" if code else ""


async def _relay_output(
    process: asyncio.subprocess.Process, on_output: Callable[[str], None]
) -> None:
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := await process.stdout.read(READ_SIZE_BYTES):
        on_output(decoder.decode(data))
    on_output(decoder.decode(b"", final=True))


async def _terminate_group(process: asyncio.subprocess.Process) -> None:
    """The whole group: gently, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(TERMINATE_GRACE_S):
                await _relay_output(process, lambda _: None)  # it has not ended before that is read
                await process.wait()
                return


def _format_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


log = logging.getLogger(__name__)

MAX_OUTPUT_READ_BYTES = 1024 * 1024
"""Of more, the beginning and the end."""


def read_stored_output(task_directory: Path, row_ts: int) -> str | None:
    """None when nothing is kept: a short output stands whole in its row."""
    path = task_directory / "command-output" / f"cmd-{row_ts}.txt"
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return _read_head_and_tail(path)
    except OSError as error:
        log.warning("%s cannot be shown: %s", path, error)
        return None


def _read_head_and_tail(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MAX_OUTPUT_READ_BYTES)
        rest = path.stat().st_size - len(data)
        if rest <= 0:
            return _decode(data)
        half = MAX_OUTPUT_READ_BYTES // 2
        file.seek(-half, 2)
        left_out = format_size(len(data) + rest - 2 * half)
        last = _decode(file.read(half))
        return f"{_decode(data[:half])}\n[... {left_out} left out; all is in {path} ...]\n{last}"


def _decode(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
