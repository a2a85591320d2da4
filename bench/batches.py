"""What a batch on one machine costs: `python -m bench batches`.

Tasks of three commands, four at a time, driven by a batch and by bare tasks in turn; and a list of
10,000 items: queueing it, `joey batch status`, and a worker that finds nothing to do.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from bench.fleet import AT_ONCE, TASKS, build_turns, run_tasks
from bench.runs import build_environment
from bench.tables import format_verdict, print_table
from joey.batch.items import Item
from joey.batch.lists import queue_list
from joey.batch.results import ItemStatus
from joey.batch.store import open_batch_store
from joey.batch.tables import BatchOptions
from joey.storage.task_store import JsonFileStore
from joey.testing.server import ModelServer, by_conversation

ROUNDS, ITEMS, STATUS_RUNS, IDLE_S = 3, 10_000, 5, 20.0
GOAL_RATIO, GOAL_QUEUE_MS, GOAL_STATUS_S, GOAL_IDLE_PERCENT = 1.5, 10.0, 1.0, 3.0


def main() -> None:
    with TemporaryDirectory(prefix="joey-bench-") as directory:
        root = Path(directory)
        bare, batch = _compare_tasks(root)
        out = root / "list"
        figures = [
            ("a batch's task / a bare one", batch / bare, GOAL_RATIO),
            (f"queueing one of {ITEMS:,} items, ms", _measure_queueing(out), GOAL_QUEUE_MS),
            (f"status of {ITEMS:,} items, s", _measure_status(out), GOAL_STATUS_S),
            ("an idle worker, % of a core", _measure_idle_worker(out), GOAL_IDLE_PERCENT),
        ]
    rows = [
        [name, f"{figure:.2f}", f"{goal:g}", format_verdict(figure, goal)]
        for name, figure, goal in figures
    ]
    print_table("Batches on one machine", [["", "measured", "goal", ""], *rows])
    print(f"  a bare task took {1000 * bare:.0f} ms, one of a batch {1000 * batch:.0f} ms")


def _compare_tasks(root: Path) -> tuple[float, float]:
    """Return the seconds per task of bare tasks and of a batch, the medians of rounds in turn."""
    bare, batch = [], []
    store = JsonFileStore(root / "files")
    for number in range(ROUNDS):
        bare.append(asyncio.run(run_tasks(store, root, number)))
        batch.append(asyncio.run(_run_batch(root, number)))
    return statistics.median(bare), statistics.median(batch)


async def _run_batch(root: Path, number: int) -> float:
    """Return the seconds per item, from the start of the first to the end of the last."""
    out, items = root / f"out-{number}", root / "items.jsonl"
    rows = ({"id": f"item-{n}", "prompt": f"task {number} {n}"} for n in range(TASKS))
    items.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    async with ModelServer(by_conversation(build_turns())) as server:
        model = ("--provider", "anthropic", "--model", "test-model", "--base-url", server.url)
        options = ("-o", str(out), "-y", "--no-sandbox", "--width", str(AT_ONCE), *model)
        await asyncio.to_thread(_run_joey, root, "batch", "run", str(items), *options)
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines] == ["done"] * TASKS, lines
    took = max(line["ended"] for line in lines) - min(line["started"] for line in lines)
    return float(took) / TASKS


def _measure_queueing(out: Path) -> float:
    """Return the milliseconds per item of a long list."""
    items = [Item(id=f"item-{n}", prompt=f"please do item {n}") for n in range(ITEMS)]
    store = open_batch_store(out, create=True)
    began = time.perf_counter()
    queue_list(store, items, items, BatchOptions())
    took = time.perf_counter() - began
    store.close()
    return 1000 * took / ITEMS


def _measure_status(out: Path) -> float:
    """Return the seconds of `joey batch status`, the median of some runs."""
    found = []
    for _ in range(STATUS_RUNS):
        began = time.perf_counter()
        _run_joey(out.parent, "batch", "status", str(out))
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def _measure_idle_worker(out: Path) -> float:
    """Return the percentage of a core that a worker takes when no item of a long list waits."""
    store = open_batch_store(out)
    store.tables.change(f"update joey.item set status = '{ItemStatus.CANCELLED}'")
    store.tables.change("delete from workflow_status")
    store.close()
    with _start_joey(out.parent, "worker", "--store", str(out)) as worker:
        assert worker.stderr is not None
        while "ready" not in (line := worker.stderr.readline()):
            assert line, "the worker ended"
        time.sleep(IDLE_S / 4)  # what it does once
        process = psutil.Process(worker.pid)
        before, began = sum(process.cpu_times()[:2]), time.perf_counter()
        time.sleep(IDLE_S)
        cpu_s = sum(process.cpu_times()[:2]) - before
        return 100.0 * float(cpu_s) / (time.perf_counter() - began)


def _run_joey(root: Path, *arguments: str) -> None:
    subprocess.run(
        _build_command(arguments), env=_build_environment(root), cwd=root, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


@contextmanager
def _start_joey(root: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        _build_command(arguments), env=_build_environment(root), cwd=root, text=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _build_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "joey", *arguments]


def _build_environment(root: Path) -> dict[str, str]:
    return build_environment() | {"JOEY_HOME": str(root / "home")}
