"""Another process at work on a task in Postgres:
``python -m tests.harness.storage.postgres_process <what> <url> <home>``.

What it has done is told on stdout, one line at a time, as soon as it is committed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from joey.errors import StoreError
from joey.storage.postgres.store import PostgresStore
from tests.harness.storage.records import TASK, created, said


def write_line(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def append_for_ever(store: PostgresStore) -> None:
    log = store.create(TASK)
    log.append(created())
    seq = 1
    while True:
        await log.sync()
        write_line(str(seq))
        for _ in range(3):
            seq += 1
            log.append(said(seq, "x" * (seq % 7 * 1000)))


async def append_on_request(store: PostgresStore) -> None:
    """A record for each line of stdin; what was refused is told, too."""
    log, records = store.open(TASK)
    seq = records[-1].seq
    write_line(f"holding {seq}")
    for _ in sys.stdin:
        seq += 1
        try:
            log.append(said(seq))
            await log.sync()
        except StoreError as error:
            write_line(f"{type(error).__name__} {error}")
            return
        write_line(str(seq))


if __name__ == "__main__":
    opened = PostgresStore(sys.argv[2], Path(sys.argv[3]))
    asyncio.run({"append": append_for_ever, "hold": append_on_request}[sys.argv[1]](opened))
