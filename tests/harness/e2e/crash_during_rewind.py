"""The real program, killed at one of the steps of a rewind with files.

    python -m tests.harness.e2e.crash_during_rewind STEP ARGUMENTS…

Steps: `kept` (the files are in a checkpoint), `torn` (within the record of the rewind), `told`
(after it), `half` (one file is back, others are not), `back` (all are, and nobody knows), `noted`
(the journal knows, the history files do not). Nothing of the product knows of this.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from joey.cli.main import main as run_joey
from joey.core.events import FilesRestored, Record, TaskRewound
from joey.storage import journal
from joey.workspace.checkpoints.pool import TaskCheckpoints
from joey.workspace.checkpoints.restore import FileRestorer


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash_after_call(owner: Any, name: str) -> None:
    """Die when a method of this name has done its work."""
    work: Callable[..., Any] = getattr(owner, name)

    def last(*given: Any) -> None:
        work(*given)
        kill_self()

    setattr(owner, name, last)


def crash_after_await(name: str) -> None:
    """The same for a method of the checkpoints."""
    work: Callable[..., Any] = getattr(TaskCheckpoints, name)

    async def last(*given: Any) -> None:
        await work(*given)
        kill_self()

    setattr(TaskCheckpoints, name, last)


def crash_after_record(kind: type, torn: bool = False) -> None:
    append = journal.Journal.append

    def last(self: journal.Journal, record: Record) -> None:
        if isinstance(record.event, kind) and torn:
            os.write(self._descriptor, journal.encode_record(record)[:-20])
            kill_self()
        append(self, record)
        if isinstance(record.event, kind):
            kill_self()

    journal.Journal.append = last  # type: ignore[method-assign]


def install_crash(step: str) -> None:
    match step:
        case "kept":
            crash_after_await("save")
        case "torn":
            crash_after_record(TaskRewound, torn=True)
        case "told":
            crash_after_record(TaskRewound)
        case "half":
            crash_after_call(FileRestorer, "write_file")
        case "back":
            crash_after_await("restore")
        case "noted":
            crash_after_record(FilesRestored)


def main() -> int:
    step, *arguments = sys.argv[1:]
    install_crash(step)
    return run_joey(arguments)
