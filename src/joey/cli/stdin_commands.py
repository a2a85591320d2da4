"""Commands on standard input, one JSON object per line, in the words of Roo's command line.

    {"command": "start", "requestId": "1", "prompt": "fix the failing test"}

A line that is no command costs itself alone: it is answered with an error, and the next one is
read.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from joey.cli.prompt import MAX_PROMPT
from joey.client.images import MAX_IMAGE, MAX_IMAGES, PictureError, picture
from joey.core.task import Response
from joey.core.wire.frames import TaskId

Name = Literal["start", "message", "cancel", "ping", "shutdown"]
NAMES: tuple[Name, ...] = get_args(Name)
MAX_LINE = 32 * 1024 * 1024
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,")


class Command(Struct, frozen=True, rename="camel"):
    command: Name
    request_id: str
    prompt: str = ""
    images: tuple[str, ...] = ()
    """Data URIs."""
    task_id: TaskId | UnsetType = UNSET
    """Of a `start`: the new task's. Otherwise the task that the command is about; the active one,
    where it is absent."""
    configuration: dict[str, Any] | None = None
    response: Response = Response.MESSAGE
    """What a message means to a question: words, or also a yes or a no."""


class BadLine(Struct, frozen=True):
    """A line that is no command."""

    problem: str
    request_id: str | None = None
    """As far as it could be understood."""
    command: str | None = None


class CommandReader:
    """Bytes in, commands out. Holds no more than one line."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._number = 0
        self._skips = False
        """The line that is being read is too long already."""

    def feed(self, data: bytes) -> Iterator[Command | BadLine]:
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._take(piece)
            yield from self._end()
        self._take(rest)

    def close(self) -> Iterator[Command | BadLine]:
        """The last line need not have an end."""
        yield from self._end()

    def _take(self, piece: bytes) -> None:
        if self._skips or len(self._rest) + len(piece) > self._longest:
            self._skips = True
            self._rest.clear()
        else:
            self._rest += piece

    def _end(self) -> Iterator[Command | BadLine]:
        self._number += 1
        line, skips = bytes(self._rest).removeprefix(b"\xef\xbb\xbf").strip(), self._skips
        self._rest.clear()
        self._skips = False
        if skips:
            yield self._bad(f"it is longer than {self._longest} bytes")
        elif line:
            yield self._understand(line)

    def _understand(self, line: bytes) -> Command | BadLine:
        try:
            said = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return self._bad(f"it is not JSON ({error})")
        except RecursionError:
            return self._bad("it is nested too deeply")
        if not isinstance(said, dict):
            return self._bad("it is not a JSON object")
        try:
            command = msgspec.convert(said, Command)
        except msgspec.ValidationError as error:
            return self._bad(_fault(said) or str(error), said)
        command = msgspec.structs.replace(command, request_id=command.request_id.strip())
        if problem := _fault(said) or _unusable(command):
            return self._bad(problem, said)
        return command

    def _bad(self, problem: str, said: dict[str, Any] | None = None) -> BadLine:
        def text(name: str) -> str | None:
            value = (said or {}).get(name)
            return value.strip()[:200] if isinstance(value, str) else None

        problem = f"line {self._number} of stdin is no command: {problem}"
        return BadLine(problem, text("requestId") or None, text("command") or None)


def _fault(said: dict[str, Any]) -> str | None:
    """What is missing of every command."""
    name, request_id = said.get("command"), said.get("requestId")
    if name not in NAMES:
        return f'"command" must be one of {", ".join(NAMES)}'
    if not isinstance(request_id, str) or not request_id.strip():
        return '"requestId" must be text'
    return None


def _unusable(command: Command) -> str | None:
    """Why a command of the right shape cannot be carried out."""
    needs_words = command.command == "start" or command.response is Response.MESSAGE
    if command.command not in ("start", "message"):
        return None
    if needs_words and not command.prompt.strip():
        return f'"{command.command}" needs a "prompt"'
    if len(command.prompt.encode("utf-8", "replace")) > MAX_PROMPT:
        return f'"prompt" is longer than {MAX_PROMPT // 1024 // 1024} MB'
    if len(command.images) > MAX_IMAGES:
        return f'"images" may hold {MAX_IMAGES}'
    for image in command.images:
        if not _IMAGE.match(image) or len(image) > MAX_IMAGE * 4 // 3 + 100:
            return (
                '"images" are data URIs (data:image/png;base64,… or jpeg, gif, webp) of at most'
                f" {MAX_IMAGE // 1024 // 1024} MB"
            )
        if not _is_picture(image):
            return f'"images": {image[:30]}… is not a picture of the kind that it names'
    task_id = command.task_id if command.command == "start" else UNSET
    if task_id is not UNSET and not _UUID.fullmatch(task_id.lower()):
        return '"taskId" must be a UUID'
    return None


def _is_picture(uri: str) -> bool:
    """A service would refuse any other, and with it every later turn of the task."""
    kind, _, data = uri.partition(",")
    try:
        return picture(base64.b64decode(data, validate=True), "").startswith(f"{kind},")
    except (ValueError, PictureError):
        return False
