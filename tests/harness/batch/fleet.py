"""A batch under test: the real commands, a scripted model on loopback, and a judge.

The judge decides from outside: requests that reached the model, files that commands wrote, tables
and result lines; never from the exit code of joey or from what it prints.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

from joey.testing.script import Turn, call, pause, usage
from joey.testing.server import ModelServer, by_conversation

PRICE_PER_REPLY = 0.0021
"""Of 1,000 tokens in and 10 out, for the model that is used without a name."""
WAIT_S = 100
SQLITE_CLOCK = "((julianday('now') - 2440587.5) * 86400.0)"
FINAL = ("done", "failed", "limit", "error")


def steps(count: int, pause_s: float = 0.0) -> list[Turn]:
    """A task of so many commands, each of which appends a line, and a result."""
    turns = [
        Turn(
            pause(pause_s),
            call("execute_command", {"command": f"echo step{n} >> effects.log"}),
            usage(input=1000, output=10),
        )
        for n in range(1, count + 1)
    ]
    result = call("attempt_completion", {"result": "finished"})
    # A task that was cut off between its last reply and its end asks once more.
    again = Turn(result, usage(input=0, output=0))
    return [*turns, Turn(result, usage(input=1000, output=10)), again]


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str


class Fleet:
    """The commands of one batch."""

    def __init__(self, directory: Path, server: ModelServer) -> None:
        self.out = directory / "out"
        self.directory = directory
        self.home = Path(os.environ["JOEY_HOME"])
        self.server = server
        self.env = os.environ | {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": server.url}

    def write_items(self, rows: Sequence[dict[str, Any]], name: str = "items.jsonl") -> Path:
        path = self.directory / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def write_plain_items(self, count: int) -> Path:
        return self.write_items(
            [{"id": f"item-{n}", "prompt": f"please do item-{n}."} for n in range(count)]
        )

    async def start(self, *arguments: str) -> Process:
        return await self.start_program(sys.executable, "-m", "joey", *arguments, env=self.env)

    async def start_program(self, *command: str, env: Mapping[str, str]) -> Process:
        return await asyncio.create_subprocess_exec(
            *command, env=env, cwd=self.directory, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )

    async def run(self, *arguments: str) -> Ended:
        process = await self.start(*arguments)
        try:
            async with asyncio.timeout(WAIT_S):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            raise
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    async def batch(self, items: Path, *options: str) -> Ended:
        return await self.run("batch", "run", str(items), "-o", str(self.out), "-y", *options)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        if not (self.out / "batch.sqlite").exists():
            return []
        with closing(sqlite3.connect(self.out / "batch.sqlite", timeout=30)) as connection:
            return connection.execute(text).fetchall()

    def change(self, text: str) -> None:
        database = sqlite3.connect(self.out / "batch.sqlite", timeout=30)
        with closing(database) as connection, connection:
            connection.execute(text)

    @property
    def started_tasks(self) -> list[str]:
        """Journals whose task has only its first request left to prepare."""
        journals = (self.out / "home" / "tasks").glob("*/journal.jsonl")
        return [str(path) for path in journals if "taskStarted" in path.read_text()]

    @property
    def worker_pids(self) -> list[int]:
        try:
            return [row[0] for row in self.query('select pid from "joey.worker"')]
        except sqlite3.OperationalError:  # not made yet
            return []

    @property
    def lines(self) -> list[dict[str, Any]]:
        file = self.out / "results.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    @property
    def statuses(self) -> dict[str, str]:
        return dict(self.query('select id, status from "joey.item"'))

    def effects(self, item: str, attempt: int = 1) -> list[str]:
        found = list(self.out.glob(f"work/batch-*-{item}-{attempt}/effects.log"))
        return found[0].read_text().split() if found else []

    def read_journals(self) -> dict[str, list[int]]:
        """The numbers of the records of each task."""
        return {
            journal.parent.name: [
                json.loads(line)["seq"] for line in journal.read_text().splitlines()
            ]
            for journal in (self.out / "home" / "tasks").glob("*/journal.jsonl")
        }

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():  # noqa: ASYNC110 (another process fulfils it)
                await asyncio.sleep(0.02)


@asynccontextmanager
async def open_fleet(directory: Path, turns: Sequence[Any]) -> AsyncIterator[Fleet]:
    async with ModelServer(by_conversation(turns)) as server:
        fleet = Fleet(directory, server)
        try:
            yield fleet
        finally:
            await stop_leftovers(fleet)


def signal_one(pids: Sequence[int], chance: random.Random, number: signal.Signals) -> int | None:
    """Send a signal to one of these workers; None if it had died, and its row was still there."""
    pid = chance.choice(pids)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return None
    return pid


async def stop_leftovers(fleet: Fleet) -> None:
    for pid in fleet.worker_pids:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


def judge(fleet: Fleet, count: int, commands: int, interrupted: int) -> list[str]:
    """What is wrong with a batch of `steps(commands)` that should be done, apart from at most
    `interrupted` items that were in the middle of something when their process was killed."""
    problems: list[str] = []
    ids = {f"item-{n}" for n in range(count)}
    final = Counter(
        (line["item"], line["attempt"]) for line in fleet.lines if line["status"] in FINAL
    )
    latest = {line["item"]: line for line in fleet.lines}
    problems += [f"{item} has no result" for item in sorted(ids - latest.keys())]
    problems += [f"{key} has {n} results" for key, n in final.items() if n > 1]
    statuses = fleet.statuses
    problems += [f"{item} is {status}" for item, status in statuses.items() if status != "done"]
    problems += [f"{item} has no row" for item in sorted(ids - statuses.keys())]
    problems += [
        f"{item}: line {line['status']}, row {statuses.get(item)}"
        for item, line in latest.items()
        if line["status"] != statuses.get(item)
    ]
    missing = 0
    for item in sorted(ids):
        effects = fleet.effects(item)
        expected = [f"step{n}" for n in range(1, commands + 1)]
        if len(effects) != len(set(effects)) or effects != sorted(effects):
            problems.append(f"{item} did {effects}")
        missing += len(set(expected) - set(effects))
    if missing > interrupted:
        problems.append(f"{missing} commands were left out, {interrupted} were interrupted")
    requests, least = len(fleet.server.requests), count * (commands + 1)
    if not least <= requests <= least + interrupted:
        problems.append(f"{requests} requests, {least} needed, {interrupted} interrupted")
    for name, numbers in fleet.read_journals().items():
        # A second writer would repeat numbers, or leave some out.
        if numbers != list(range(1, len(numbers) + 1)):
            problems.append(f"{name} has the records {numbers}")
    cost = sum(line["cost"] for line in latest.values())
    if abs(cost - count * (commands + 1) * PRICE_PER_REPLY) > 1e-6:
        problems.append(f"the lines cost {cost}")
    return problems


def judge_budget(fleet: Fleet, budget: float, at_once: int) -> list[str]:
    """What the model was asked must not cost more than the budget and what was in flight."""
    spent = len(fleet.server.requests) * PRICE_PER_REPLY
    most = budget + at_once * PRICE_PER_REPLY
    return [f"{spent} was spent of {budget}"] if spent > most else []
