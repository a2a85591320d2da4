"""Another process at work on a task:
`python -m tests.harness.storage.task_process <what> <home>`.

What it has done is told on stdout, one line at a time, as soon as it is done.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

import msgspec

from joey.errors import StoreError
from joey.ports.storage import TaskMetadata
from joey.storage.task_store import JsonFileLog, JsonFileStore
from tests.harness.storage.records import TASK, created, said


def write_line(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def rows(count: int) -> list[bytes]:
    return [msgspec.json.encode({"ts": n, "type": "say", "say": "text"}) for n in range(count)]


def append_for_ever(home: Path) -> None:
    log = JsonFileStore(home).create(TASK)
    log.append(created())
    seq = 1
    while True:
        write_line(str(seq))
        seq += 1
        log.append(said(seq, "x" * (seq % 7 * 1000)))


async def snapshot_for_ever(home: Path) -> None:
    log = JsonFileStore(home).create(TASK)
    log.append(created())
    count = 1
    while True:
        count += 1
        log.append(said(count))
        await log.sync()
        await log.write_snapshot(
            rows(count), rows(count), TaskMetadata(id=TASK, snapshot_seq=count)
        )
        write_line(str(count))


def hold(home: Path) -> None:
    log, records = JsonFileStore(home).open(TASK)
    write_line(f"holding {len(records)}")
    sys.stdin.readline()
    log.close()
    write_line("closed")
    sys.stdin.readline()


def limit_file_size(limit: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))


def fill_the_disk(home: Path) -> None:
    """Append until nothing fits, then go on once there is room again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = JsonFileStore(home).create(TASK)
    log.append(created())
    limit_file_size(5_000)
    seq = 2
    try:
        while True:
            log.append(said(seq, "x" * 700))
            seq += 1
    except StoreError as error:
        write_line(f"{seq} {error}")
    log.append(said(seq, "fits"))
    limit_file_size(resource.RLIM_INFINITY)
    log.append(said(seq + 1, "y" * 20_000))
    asyncio.run(log.sync())
    log.close()


async def fill_the_disk_with_a_snapshot(home: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log: JsonFileLog = JsonFileStore(home).create(TASK)
    log.append(created())
    await log.write_snapshot(rows(2), rows(1), TaskMetadata(id=TASK, snapshot_seq=1))
    limit_file_size(2_000)
    try:
        await log.write_snapshot(rows(2), rows(1_000), TaskMetadata(id=TASK, snapshot_seq=2))
    except StoreError as error:
        write_line(str(error))


if __name__ == "__main__":
    match sys.argv[1]:
        case "append":
            append_for_ever(Path(sys.argv[2]))
        case "snapshot":
            asyncio.run(snapshot_for_ever(Path(sys.argv[2])))
        case "hold":
            hold(Path(sys.argv[2]))
        case "fill":
            fill_the_disk(Path(sys.argv[2]))
        case "fill-snapshot":
            asyncio.run(fill_the_disk_with_a_snapshot(Path(sys.argv[2])))
