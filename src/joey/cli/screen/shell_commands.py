"""Shell commands of the app: running the user's own, full output of the model's.

Output that was too long for its row is kept in a file; at most a megabyte of it is read, from the
beginning and the end. A separate module because it starts programs and reads files, and only on a
user's key press.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from joey.core.terminal_text import format_size
from joey.errors import UserError
from joey.system.subprocess import STDOUT, Process, format_signal

TERMINATE_GRACE_S = 1.0


async def run_in_shell(
    command: str, directory: Path, env: Mapping[str, str], on_output: Callable[[str], None]
) -> str:
    """Run a user's command and return how it failed, if it did; cancelling ends it. Raises
    UserError."""
    shell = env.get("SHELL") or "/bin/sh"
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        process = Process((shell, "-c", command), cwd=directory, merge_stderr=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{shell} could not be started: {error}") from error
    try:
        process.relay(STDOUT, lambda data: on_output(decoder.decode(data)))
        code = await process.wait() or 0
        await process.wait_for_output()
        process.close()  # programs it left in the background continue
    finally:
        await process.end(grace_s=TERMINATE_GRACE_S)
    on_output(decoder.decode(b"", final=True))
    return f"exit {code}" if code > 0 else f"ended by {format_signal(-code)}" if code else ""


log = logging.getLogger(__name__)

MAX_OUTPUT_READ_BYTES = 1024 * 1024
"""Of more, the beginning and the end."""


def read_stored_output(task_directory: Path, row_ts: int) -> str | None:
    """Read the full output; None if none is stored because the row has all of it."""
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
