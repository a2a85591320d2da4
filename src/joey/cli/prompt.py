"""The prompt of a run: text from the arguments, a file or a pipe, with images."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from joey.cli.exit_codes import UsageError
from joey.client.images import MAX_IMAGES, ImageError, load_image_data_uri

MAX_PROMPT_BYTES = 8 * 1024 * 1024
"""No model's window holds more; a file in the workspace can be read piece by piece."""
FIRST_BYTE_TIMEOUT_S = 3.0
"""For a silent pipe when there is a prompt already."""


def gather_prompt(arguments: Sequence[str], file: str | None, stdin: TextIO) -> str:
    """Build the prompt from the arguments or `file`, and piped input; "" without any. Raises
    UsageError."""
    if arguments and file is not None:
        raise UsageError("give the prompt as an argument or with --prompt-file, not both")
    wants_stdin = list(arguments) == ["-"] or file == "-"
    if wants_stdin and stdin.isatty():
        raise UsageError("'-' reads the prompt from a pipe, but standard input is a terminal")
    given = "" if wants_stdin else _read_prompt_argument_or_file(arguments, file)
    piped = _read_piped_text(stdin, patient=not given.strip())
    prompt = f"{given}\n\n{piped}" if given and piped else given or piped
    if len(prompt) > MAX_PROMPT_BYTES // 4 and len(prompt.encode()) > MAX_PROMPT_BYTES:
        raise _build_too_long_error()
    return prompt


def _read_prompt_argument_or_file(arguments: Sequence[str], file: str | None) -> str:
    if file is None:
        return _decode(os.fsencode(" ".join(arguments)))
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_PROMPT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the prompt file {file} cannot be read: {error.strerror}") from error
    if len(data) > MAX_PROMPT_BYTES:
        raise _build_too_long_error()
    return _decode(data)


def find_piped_fd(stdin: TextIO) -> int | None:
    """Return the descriptor of standard input if it is a pipe or file; None for a terminal,
    /dev/null or nothing."""
    try:
        fd = stdin.fileno()
        mode = os.fstat(fd).st_mode
    except (OSError, ValueError):
        return None
    return None if os.isatty(fd) or stat.S_ISCHR(mode) else fd


def wait_for_first_byte(fd: int) -> bool:
    """Wait a few seconds for input or its end: programs often start others with a pipe that they
    neither fill nor close."""
    return bool(select.select([fd], [], [], FIRST_BYTE_TIMEOUT_S)[0])


def _read_piped_text(stdin: TextIO, *, patient: bool) -> str:
    """Read all piped text. If the pipe only adds to the prompt, its first byte must arrive within
    seconds."""
    fd = find_piped_fd(stdin)
    if fd is None:
        return ""
    if not patient and not wait_for_first_byte(fd):
        print(
            f"joey: nothing came through standard input for {FIRST_BYTE_TIMEOUT_S:g} seconds, so "
            "the prompt is used alone (to wait for a pipe: joey -p -; to skip it: </dev/null)",
            file=sys.stderr,
        )
        return ""
    data = bytearray()
    while chunk := os.read(fd, 1024 * 1024):
        data += chunk
        if len(data) > MAX_PROMPT_BYTES:
            raise _build_too_long_error()
    if 0 in data:
        raise UsageError(
            "standard input is not text (it has NUL bytes). Put it into a file of the workspace and"
            " name the file in the prompt; for images, use --image"
        )
    return _decode(bytes(data))


def _decode(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def _build_too_long_error() -> UsageError:
    return UsageError(
        f"the prompt is longer than {MAX_PROMPT_BYTES // 1024 // 1024} MB, more than any model"
        " accepts. Put the text into a file of the workspace and name the file in the prompt"
    )


def load_images(paths: Sequence[str]) -> tuple[str, ...]:
    """Load image files as data URIs. Raises UsageError if an image has an unsupported format, is
    too large or unreadable, or there are too many."""
    if len(paths) > MAX_IMAGES:
        raise UsageError(f"{len(paths)} images are too many; at most {MAX_IMAGES} can be sent")
    try:
        return tuple(map(load_image_data_uri, paths))
    except ImageError as error:
        raise UsageError(str(error)) from error
