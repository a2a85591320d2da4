"""The three forms in which a run without a screen answers on standard output."""

from __future__ import annotations

import os
import sys
from typing import Protocol

import msgspec

from joey.cli.sanitise import sanitise
from joey.cli.stream_json import Line, RunResult, StreamJson, init_line, result_line
from joey.core.events import Event
from joey.errors import UserError


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
        self._write([result_line(run, self._stream.last_text)])

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
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        leave_stdout()
        raise UserError(f"standard output cannot be written: {error.strerror}") from error


def leave_stdout() -> None:
    """Whatever is still buffered goes nowhere, without complaint at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
