"""What the person wants: words from the command line, a file or a pipe, and pictures."""

from __future__ import annotations

import base64
import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from joey.cli.exit_codes import UsageError

MAX_PROMPT = 8 * 1024 * 1024
"""Bytes. No model's window holds more; a file in the workspace can be read piece by piece."""
MAX_IMAGE = 5 * 1024 * 1024
MAX_IMAGES = 20
FIRST_BYTE = 3.0
"""Seconds that a pipe may stay silent when there is a prompt already."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def gather_prompt(words: Sequence[str], file: str | None, stdin: TextIO) -> str:
    """The prompt of the arguments or of `file`, followed by what was piped in; "" if there is none.

    Raises:
        UsageError
    """
    if words and file is not None:
        raise UsageError("give the prompt as an argument or with --prompt-file, not both")
    wants_stdin = list(words) == ["-"] or file == "-"
    if wants_stdin and stdin.isatty():
        raise UsageError("'-' reads the prompt from a pipe, but standard input is a terminal")
    given = "" if wants_stdin else _given(words, file)
    piped = _piped(stdin, patient=not given.strip())
    prompt = f"{given}\n\n{piped}" if given and piped else given or piped
    if len(prompt) > MAX_PROMPT // 4 and len(prompt.encode()) > MAX_PROMPT:
        raise _too_long()
    return prompt


def _given(words: Sequence[str], file: str | None) -> str:
    if file is None:
        return _decode(os.fsencode(" ".join(words)))
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MAX_PROMPT + 1)
    except OSError as error:
        raise UsageError(f"the prompt file {file} cannot be read: {error.strerror}") from error
    if len(data) > MAX_PROMPT:
        raise _too_long()
    return _decode(data)


def _piped(stdin: TextIO, *, patient: bool) -> str:
    """All that comes through a pipe.

    Programs often start others with a pipe that they neither fill nor close. So a pipe that is
    only an addition to the prompt has a few seconds to say its first word.
    """
    try:
        fd = stdin.fileno()
        mode = os.fstat(fd).st_mode
    except (OSError, ValueError):
        return ""
    if os.isatty(fd) or stat.S_ISCHR(mode):
        return ""
    if not patient and not stat.S_ISREG(mode) and not select.select([fd], [], [], FIRST_BYTE)[0]:
        print(
            f"joey: nothing came through standard input for {FIRST_BYTE:g} seconds, so the prompt"
            " is used alone (to wait for a pipe: joey -p -; to skip it: </dev/null)",
            file=sys.stderr,
        )
        return ""
    data = bytearray()
    while chunk := os.read(fd, 1024 * 1024):
        data += chunk
        if len(data) > MAX_PROMPT:
            raise _too_long()
    if 0 in data:
        raise UsageError(
            "what comes through standard input is not text (it has NUL bytes). Put it into a file"
            " of the workspace and name the file in the prompt; pictures go with --image"
        )
    return _decode(bytes(data))


def _decode(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def _too_long() -> UsageError:
    return UsageError(
        f"the prompt is longer than {MAX_PROMPT // 1024 // 1024} MB, which no model can take in."
        " Put the text into a file of the workspace and name the file in the prompt"
    )


def load_images(paths: Sequence[str]) -> tuple[str, ...]:
    """Image files as data URIs.

    Raises:
        UsageError: not a picture that models can see, too large, too many, or not readable.
    """
    if len(paths) > MAX_IMAGES:
        raise UsageError(f"{len(paths)} images are too many; at most {MAX_IMAGES} can be sent")
    return tuple(_data_uri(path) for path in paths)


def _data_uri(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_IMAGE + 1)
    except OSError as error:
        raise UsageError(f"the image {path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_IMAGE:
        raise UsageError(
            f"the image {path} is larger than {MAX_IMAGE // 1024 // 1024} MB; make it smaller"
        )
    media_type = _media_type(data)
    if media_type is None:
        raise UsageError(f"{path} is not a PNG, JPEG, GIF or WebP image")
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _media_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if data.startswith(start)), None)
