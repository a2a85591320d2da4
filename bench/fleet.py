"""What a store in Postgres costs: `python -m bench fleet`.

Tasks of three commands, four at a time, and single commits, interleaved with the same on files. A
private Postgres is started for it, as for the tests; without one the row says so.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.harness.postgres import create_store_url, find_programs

from bench.runs import build_environment
from bench.tables import format_verdict, print_table
from joey import Unattended, make_options, open_engine
from joey.core.events import Record, RowAdded
from joey.ports.storage import Store
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer, by_conversation

TASKS, AT_ONCE, ROUNDS, COMMITS = 20, 4, 3, 200
GOAL_TASKS, GOAL_COMMIT = 2.0, 5.0


def main() -> None:
    if find_programs() is None:
        print("fleet: Postgres is not installed, or this is not root")
        return
    from joey.storage.postgres.store import PostgresStore

    with TemporaryDirectory(prefix="joey-bench-") as directory:
        root = Path(directory)
        shared = PostgresStore(create_store_url(), root / "shared")
        stores: dict[str, Store] = {"files": JsonFileStore(root / "files"), "Postgres": shared}
        tasks = _compare(stores, lambda store, n: asyncio.run(run_tasks(store, root, n)))
        commits = _compare(stores, lambda store, n: asyncio.run(_commit(store, n)))
        shared.close()
    rows = [["", "files, ms", "Postgres, ms", "ratio", "goal", ""]]
    for name, found, goal in (
        ("a task of four requests", tasks, GOAL_TASKS),
        ("a commit of one record", commits, GOAL_COMMIT),
    ):
        files, postgres = (1000 * statistics.median(found[store]) for store in stores)
        ratio = postgres / files
        figures = [f"{files:.2f}", f"{postgres:.2f}", f"{ratio:.2f}", f"{goal:g}"]
        rows.append([name, *figures, format_verdict(ratio, goal)])
    print_table("Tasks in Postgres, beside files", rows)


def _compare(
    stores: dict[str, Store], measure: Callable[[Store, int], float]
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in stores}
    for number in range(ROUNDS):
        for name, store in stores.items():
            found[name].append(measure(store, number))
    return found


def build_turns() -> list[Turn]:
    turns = [Turn(call("execute_command", {"command": f"echo {n}"})) for n in range(3)]
    return [*turns, Turn(call("attempt_completion", {"result": "done"}))]


async def run_tasks(store: Store, root: Path, number: int) -> float:
    """Seconds per task."""
    work = root / f"work-{number}-{time.monotonic_ns()}"
    work.mkdir()
    slots = asyncio.Semaphore(AT_ONCE)
    async with ModelServer(by_conversation(build_turns())) as server:
        options = make_options(
            workspace=work,
            home=root / "home",
            env=build_environment(),
            provider="anthropic",
            model="test-model",
            base_url=server.url,
            yes=True,
            no_sandbox=True,
            policy=Unattended(),
        )

        async def run(index: int) -> None:
            async with (
                slots,
                open_engine(home=root / "home", env=build_environment(), store=store) as engine,
            ):
                task = await engine.start(f"task {number} {index}", options=options)
                await task.wait()

        began = time.perf_counter()
        await asyncio.gather(*(run(index) for index in range(TASKS)))
        return (time.perf_counter() - began) / TASKS


async def _commit(store: Store, number: int) -> float:
    """Seconds until a record is safe, the median."""
    log = store.create(f"commits-{number}")
    seconds: list[float] = []
    for seq in range(1, COMMITS + 1):
        began = time.perf_counter()
        log.append(Record(seq, RowAdded(ts=seq, say="text", text="x" * 900)))
        await log.sync()
        seconds.append(time.perf_counter() - began)
    log.close()
    return statistics.median(seconds)
