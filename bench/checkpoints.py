"""Checkpoints of a tree of 100,000 files, beside git's own look at an equal repository.

`python -m bench.checkpoints [FILES]`. The first checkpoint is made in the background, at low
priority; every later one has to look at all files, as `git status` does. Both take turns, and the
middle of each counts. The shadow is measured in blocks on disk, the tree in bytes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from subprocess import DEVNULL
from tempfile import TemporaryDirectory

from bench.crowd import LoopLagMonitor
from bench.tables import format_verdict, print_table
from bench.trees import make_tree
from joey.workspace.checkpoints.pool import CheckpointStorePool, TaskCheckpoints

FILE_COUNT = 100_000
ROUNDS = 7
GOAL_RATIO = 2.0
"""Times as long as `git status`."""


def main(files: int = FILE_COUNT) -> None:
    with TemporaryDirectory(prefix="joey-bench-") as name:
        directory = Path(name).resolve()
        for root in (directory / "work", directory / "equal"):
            root.mkdir()
            make_tree(root, files)
        run_git(directory / "equal", "init", "-q")
        run_git(directory / "equal", "add", "-A")
        run_git(directory / "equal", "commit", "-q", "-m", "first")
        asyncio.run(measure(directory, files))


async def measure(directory: Path, files: int) -> None:
    root = directory / "work"
    checkpoints = CheckpointStorePool(directory / "home").lease(root)
    lag_monitor = LoopLagMonitor()
    started = time.perf_counter()
    first = await checkpoints.save("bench")
    seconds = time.perf_counter() - started
    lag_monitor.stop()
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    store = checkpoints._store
    disk = store._shadow_directory.measure_size()
    rows = [["seconds", "git status", "joey", "ratio", "goal", ""]]
    for count in (0, 1, 100):
        rows.append(await measure_saves(directory, checkpoints, count))
    print_table(f"Checkpoints of {files:,} files", rows)
    changed = list_first_files(root, 100)
    await checkpoints.restore(first)
    for path in changed:
        append_line(path)
    started = time.perf_counter()
    restored = await checkpoints.restore(first)
    restoring = time.perf_counter() - started
    assert len(restored) == len(changed)
    started = time.perf_counter()
    await store._garbage_collector.run()
    collecting = time.perf_counter() - started
    print(
        f"  first checkpoint: {seconds:.1f} s; restoring {len(restored)} files: {restoring:.2f} s"
    )
    print(f"  longest silence of the event loop meanwhile: {lag_monitor.max_lag_s * 1000:.0f} ms")
    print(f"  on disk: {disk / 1e6:.0f} MB for {size / 1e6:.0f} MB of files", end="")
    left = store._shadow_directory.measure_size()
    print(f", {left / 1e6:.0f} MB once collected ({collecting:.1f} s)")
    await checkpoints.close()


async def measure_saves(directory: Path, checkpoints: TaskCheckpoints, count: int) -> list[str]:
    """How long it takes after so many files have changed."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        for root in ("work", "equal"):
            for path in list_first_files(directory / root, count):
                append_line(path)
        theirs.append(time_call(lambda: run_git(directory / "equal", "status", "--short")))
        started = time.perf_counter()
        await checkpoints.save("bench")
        ours.append(time.perf_counter() - started)
    base, measured = median(theirs), median(ours)
    ratio = measured / base
    name = f"save, {count} files changed"
    cells = [name, f"{base:.3f}", f"{measured:.3f}", f"{ratio:.2f}x"]
    return [*cells, f"{GOAL_RATIO:g}x", format_verdict(ratio, GOAL_RATIO)]


def list_first_files(root: Path, count: int) -> list[Path]:
    return sorted((root / "00" / "00").iterdir())[:count]


def append_line(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"# {time.perf_counter_ns()}\n")


def time_call(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run_git(directory: Path, *arguments: str) -> None:
    name = {f"GIT_{role}_NAME": "bench" for role in ("AUTHOR", "COMMITTER")}
    mail = {f"GIT_{role}_EMAIL": "bench@localhost" for role in ("AUTHOR", "COMMITTER")}
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, **name, **mail}
    subprocess.run(
        ["git", "-c", "gc.auto=0", *arguments], cwd=directory, env=env, stdout=DEVNULL, check=True
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FILE_COUNT)
