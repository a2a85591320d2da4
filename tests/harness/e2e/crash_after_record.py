"""The real program, with an appointed end: it is killed right after its n-th journal record.

    python -m tests.harness.e2e.crash_after_record N [torn|git] ARGUMENTS…

With `torn` it dies in the middle of that record. With `git` it dies before the n-th step of a
worktree, be it a run of git or a change of a file. Nothing of the product knows of this.
"""

from __future__ import annotations

import os
import signal
import sys
from types import ModuleType
from typing import Any

from joey.cli.main import main as run_joey
from joey.core.events import Record
from joey.storage import journal
from joey.system.files import write_fully
from joey.workspace.git import trees
from joey.workspace.git.process import Git


def install_crash(last: int, torn: bool) -> None:
    left = last
    append = journal.Journal.append

    def write_half(descriptor: int, data: bytes) -> None:
        if left == 0 and torn:
            os.write(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write_fully(descriptor, data)

    def count(self: journal.Journal, record: Record) -> None:
        nonlocal left
        left -= 1
        append(self, record)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    journal.write_fully = write_half  # type: ignore[attr-defined]
    journal.Journal.append = count  # type: ignore[method-assign]


def install_worktree_crash(last: int) -> None:
    left = last

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(module: ModuleType, name: str) -> None:
        real = getattr(module, name)

        def count(*arguments: Any, **named: Any) -> Any:
            step()
            return real(*arguments, **named)

        setattr(module, name, count)

    run = Git.run

    def run_counted(self: Git, *arguments: str, **named: Any) -> Any:
        step()
        return run(self, *arguments, **named)

    Git.run = run_counted  # type: ignore[method-assign]
    counted(trees, "lstat_at")  # looked at right before it is replaced or removed
    counted(trees, "_remove_empty_parents")


def main() -> int:
    number, *arguments = sys.argv[1:]
    way = arguments[0] if arguments[0] in ("torn", "git") else ""
    if way == "git":
        install_worktree_crash(int(number))
    else:
        install_crash(int(number), way == "torn")
    return run_joey(arguments[bool(way) :])


if __name__ == "__main__":
    sys.exit(main())
