"""Another process at work on the index:
`python -m tests.harness.storage.index_process <what> <home>`.

What it has done is told on stdout, one line at a time, as soon as it is done.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from joey.ports.storage import TaskMetadata, TaskQuery
from joey.storage.task_index import SqliteTaskIndex
from joey.storage.task_store import JsonFileStore
from tests.harness.storage.records import created


def write_line(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def build(home: Path) -> None:
    """Fill an index, and wait wherever it says how far it is."""

    def wait(done: int, total: int) -> None:
        write_line(f"{done} of {total}")
        sys.stdin.readline()

    SqliteTaskIndex(home, wait).search(TaskQuery(text="word"))
    write_line("built")


async def write(home: Path, name: str) -> None:
    """Tasks come to rest, one after the other, each more than once."""
    store = JsonFileStore(home)
    for number in range(20):
        task_id = f"{name}-{number}"
        log = store.create(task_id)
        log.append(created())
        for turn in range(3):
            row = {"ts": 1, "type": "say", "say": "text", "text": f"{name} word{turn}"}
            metadata = TaskMetadata(id=task_id, title=f"{name} {turn}", updated=number * 10 + turn)
            await log.write_snapshot([msgspec.json.encode(row)], [], metadata)
        log.close()
        write_line(task_id)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build", home]:
            build(Path(home))
        case ["write", home, name]:
            asyncio.run(write(Path(home), name))
