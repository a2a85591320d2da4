"""The three forms in which a run without a screen answers on standard output."""

from __future__ import annotations

import errno
import os
import select
import sys
from contextlib import suppress
from typing import Protocol, TextIO

import msgspec

from joey.cli.signals import was_stopped
from joey.cli.stream_json import (
    Line,
    RunResult,
    StreamJson,
    error_lines,
    init_line,
    result_line,
)
from joey.core.events import Event
from joey.errors import UserError
from joey.presentation.text import sanitise

LOOK_AGAIN = 0.1
GOODBYE = 1.0
"""Seconds for a reader to take the last words, once we shall stop."""


class Output(Protocol):
    def begin(self, task_id: str) -> None: ...

    def hear(self, event: Event) -> None: ...

    def end(self, run: RunResult) -> None:
        """Say the last word."""
        ...


class TextOutput:
    """The result alone; nothing when there is none."""

    def begin(self, task_id: str) -> None:
        pass

    def hear(self, event: Event) -> None:
        pass

    def end(self, run: RunResult) -> None:
        if run.result is None:
            return
        text = sanitise(run.result) if sys.stdout.isatty() else run.result
        write_out((text if text.endswith("\n") else f"{text}\n").encode("utf-8", "replace"))


class JsonOutput:
    """One object at the end, with every message that was completed."""

    def __init__(self) -> None:
        self._stream = StreamJson()
        self._events: list[Line] = []

    def begin(self, task_id: str) -> None:
        pass

    def hear(self, event: Event) -> None:
        self._events += (line for line in self._stream.feed(event) if line.get("done"))

    def end(self, run: RunResult) -> None:
        result = result_line(run, self._stream.last_text)
        whole = {**result, "usage": run.usage, "events": self._events}
        write_out(msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")


class StreamJsonOutput:
    """One object per line, as things happen."""

    def __init__(self) -> None:
        self._stream = StreamJson()
        self._encode = msgspec.json.Encoder().encode
        self._begun = False

    def begin(self, task_id: str) -> None:
        self._begun = True
        self._write([init_line(task_id)])

    def hear(self, event: Event) -> None:
        if lines := self._stream.feed(event):
            self._write(lines)

    def end(self, run: RunResult) -> None:
        if not self._begun:
            self.begin(run.task_id)
        self._write([*error_lines(run), result_line(run, self._stream.last_text)])

    def _write(self, lines: list[Line]) -> None:
        write_out(b"".join(self._encode(line) + b"\n" for line in lines))


OUTPUTS: dict[str, type[TextOutput | JsonOutput | StreamJsonOutput]] = {
    "text": TextOutput,
    "json": JsonOutput,
    "stream-json": StreamJsonOutput,
}


def write_out(data: bytes) -> None:
    """Raises BrokenPipeError when nobody reads any more, UserError when it cannot be written."""
    try:
        sys.stdout.flush()
        _write(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        leave_stdout()
        if error.errno == errno.EIO:
            return  # the terminal is gone; where that matters, a signal says so
        raise UserError(f"standard output cannot be written: {error.strerror}") from error


def _write(data: bytes) -> None:
    """A reader that is slow holds us up; one that has stalled does not, once we shall stop."""
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):
        sys.stdout.buffer.write(data)
        return
    rest = memoryview(data)
    while rest:
        if not _may_write(fd):
            leave_stdout()
            return
        # What a pipe takes for sure when it takes anything.
        rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]


def _may_write(fd: int) -> bool:
    patience = 0.0
    while not select.select([], [fd], [], LOOK_AGAIN)[1]:
        if was_stopped():
            patience += LOOK_AGAIN
            if patience > GOODBYE:
                return False
    return True


def leave_stdout() -> None:
    """Whatever is still buffered goes nowhere, without complaint at the end of the process."""
    leave(sys.stdout)


def leave(stream: TextIO) -> None:
    with suppress(ValueError):  # a closed stream has nothing left to say
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
