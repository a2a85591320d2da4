"""`--output-dir`: files about a run for other programs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from joey.cli.exit_codes import UsageError
from joey.cli.headless.roo_stream_json import (
    RunResult,
    StreamJsonEncoder,
    build_error_lines,
    build_init_line,
    build_result_line,
)
from joey.cli.headless.run import RunOutput
from joey.core.events import Event
from joey.engine.checkpoints import build_run_patch
from joey.engine.engine import Engine
from joey.engine.task import Task
from joey.errors import CheckpointError

EVENTS_FILE, RESULT_FILE, USAGE_FILE = "events.jsonl", "result.json", "usage.json"
PATCH_FILE, JOURNAL_FILE = "patch.diff", "journal.jsonl"


class RunDirectory:
    """Writes events as they happen, and the other files at the end of the run."""

    def __init__(self, directory: str, output: RunOutput) -> None:
        """`output` is what goes to stdout. Raises UsageError if the directory is not writable."""
        self._output = output
        self._directory = Path(directory)
        self._encoder = StreamJsonEncoder()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for name in (RESULT_FILE, USAGE_FILE, PATCH_FILE, JOURNAL_FILE):
                (self._directory / name).unlink(missing_ok=True)  # those of an earlier run
            self._events = self._open(EVENTS_FILE)
        except OSError as error:
            raise UsageError(
                f"--output-dir {directory} cannot be used: {error.strerror}"
            ) from error

    def begin(self, task_id: str) -> None:
        self._output.begin(task_id)
        self._write_lines([build_init_line(task_id)])

    def handle(self, event: Event) -> None:
        self._output.handle(event)
        self._write_lines(self._encoder.encode(event))

    async def save_task(self, engine: Engine, task: Task, since: int) -> str:
        """Save the journal, and the file changes after this record. Return why there is no patch,
        if there is none."""
        records = await asyncio.to_thread(engine.store.read_records, task.id)
        self._write(JOURNAL_FILE, b"".join(msgspec.json.encode(each) + b"\n" for each in records))
        try:
            patch = await build_run_patch(task, records, since)
        except CheckpointError as error:
            return str(error).rstrip(".")
        if patch is None:
            return "there are no checkpoints here (enableCheckpoints)"
        self._write(PATCH_FILE, patch)
        return ""

    def finish(self, run: RunResult) -> None:
        result = build_result_line(run, self._encoder.last_text)
        self._write_lines([*build_error_lines(run), result])
        self._events.close()
        self._write(RESULT_FILE, msgspec.json.encode(result) + b"\n")
        self._write(USAGE_FILE, msgspec.json.encode(run.usage) + b"\n")
        self._output.finish(run)

    def _write_lines(self, lines: list[dict[str, object]]) -> None:
        self._events.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def _write(self, name: str, data: bytes) -> None:
        with self._open(name) as file:
            file.write(data)

    def _open(self, name: str) -> BinaryIO:
        """Open a file readable only by the user: a conversation may hold secrets."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.fdopen(os.open(self._directory / name, flags, 0o600), "wb", buffering=0)
