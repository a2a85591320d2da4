"""A batch in Postgres under test: the commands, with one home or several."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from joey.testing.server import ModelServer, by_conversation
from tests.harness.batch.fleet import Ended, Fleet, stop_leftovers
from tests.harness.postgres import create_batch_url


class ClusterFleet(Fleet):
    """The judge looks at the tables instead of files."""

    def __init__(self, directory: Path, server: ModelServer, url: str) -> None:
        super().__init__(directory, server)
        self.url = url

    async def batch(self, items: Path, *options: str) -> Ended:
        return await super().batch(items, "--store", self.url, *options)

    async def start_worker(self, *options: str, home: Path | None = None) -> Process:
        """A worker that finds nothing but the database."""
        env = self.env | ({} if home is None else {"JOEY_HOME": str(home)})
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "joey", "worker", "--store", self.url, "--may", "all", *options,
            env=env, cwd=self.directory, stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip

    def query(self, text: str) -> list[tuple[Any, ...]]:
        try:
            with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
                cursor = connection.execute(text.replace('"', "").encode())
                return cursor.fetchall() if cursor.description else []
        except psycopg.errors.UndefinedTable:
            return []  # not made yet

    def change(self, text: str) -> None:
        self.query(text)

    @property
    def worker_pids(self) -> list[int]:
        return [row[0] for row in self.query("select pid from joey.worker where width > 0")]

    @property
    def lines(self) -> list[dict[str, Any]]:
        import json

        rows = self.query("select line from joey.result order by batch_id, n")
        return [json.loads(row[0]) for row in rows]

    def effects(self, item: str, attempt: int = 1) -> list[str]:
        homes = (self.home, *self.directory.glob("home-*"))
        pattern = f"batch-work/*/work/batch-*-{item}-{attempt}/effects.log"
        found = [path for home in homes for path in home.glob(pattern)]
        assert len(found) <= 1
        return found[0].read_text().split() if found else []

    def read_journals(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        epochs: dict[str, int] = {}
        for task, seq, epoch in self.query(
            "select task_id, seq, epoch from joey.record order by task_id, seq"
        ):
            # What was written under an epoch that was over shows as a number that falls.
            found.setdefault(task, []).append(seq if epoch >= epochs.get(task, 0) else -seq)
            epochs[task] = epoch
        return found


@asynccontextmanager
async def open_cluster(directory: Path, turns: Sequence[Any]) -> AsyncIterator[ClusterFleet]:
    url = await asyncio.to_thread(create_batch_url)
    async with ModelServer(by_conversation(turns)) as server:
        fleet = ClusterFleet(directory, server, url)
        try:
            yield fleet
        finally:
            await stop_leftovers(fleet)
