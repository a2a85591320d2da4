"""The code index of a repository of 5,000 files: how long it takes to fill, and to answer.

The repository is made up, but always the same: Python and TypeScript, some 110 lines a file. A
query is timed as a task makes it, with the look for changed files before the answer; also right
after an edit, which the answer must contain. Beside it, plain `rg` for the query's words, whose
matches would still have to be read and weighed. CPU counts ripgrep's as well.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from bench.crowd import LoopLagMonitor
from bench.repository import QUERIES, make_repository
from bench.tables import format_verdict, print_table
from joey.content.code_index import WorkspaceIndexPool
from joey.content.code_index_chunks import extract_query_terms
from joey.content.code_index_store import compute_cosines, find_most_similar, pack_vector
from joey.errors import ToolError
from joey.ports.content import CodeIndex
from joey.workspace.files import LocalFiles
from joey.workspace.listing import list_indexable_files
from joey.workspace.ripgrep import find_ripgrep

FILE_COUNT = 5_000
ROUNDS = 5
GOAL_MS = 100.0
CHUNK_COUNT, VECTOR_DIMENSION = 20_000, 1_536


def main() -> None:
    with TemporaryDirectory(prefix="joey-bench-") as directory:
        root = Path(directory) / "repository"
        size = make_repository(root, FILE_COUNT)
        asyncio.run(measure_index(root, Path(directory) / "home", size))
    measure_vectors()


async def measure_index(root: Path, home: Path, size: int) -> None:
    files = LocalFiles(root)
    index = WorkspaceIndexPool(home).open(files, lambda stop: list_indexable_files(files, stop))
    lag_monitor = LoopLagMonitor()
    started, cpu = time.perf_counter(), time.process_time()
    await wait_until_filled(index)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    lag_monitor.stop()
    rows = [
        ["", "measured"],
        ["files", f"{FILE_COUNT:,} ({size / 1e6:.0f} MB)"],
        ["seconds to fill it", f"{seconds:.1f} ({cpu:.1f} of CPU)"],
        ["files a second", f"{FILE_COUNT / seconds:,.0f}"],
        ["longest silence of the event loop, ms", f"{lag_monitor.max_lag_s * 1000:.0f}"],
    ]
    print_table("Filling the code index in the background", rows)

    async def ask(query: str) -> None:
        await index.search(query, None, 12)

    async def edit_and_ask(query: str) -> None:
        name = f"fresh{time.perf_counter_ns()}"
        (root / "src" / "edited.py").write_text(f"def {name}() -> None: ...\n", encoding="utf-8")
        answer = await index.search(f"{query} {name}", None, 12)
        assert answer.hits[0].path == "src/edited.py", answer.hits[0]

    async def grep(query: str) -> None:
        await asyncio.to_thread(run_ripgrep, root, query)

    heads = ["ms", "CPU", "p50", "p95", "goal", ""]
    results = [await measure_queries("codebase_search", ask, GOAL_MS)]
    results.append(await measure_queries("the same after an edit", edit_and_ask, GOAL_MS))
    results.append(await measure_queries("rg of the words", grep, None))
    print_table(f"{len(QUERIES)} queries, {ROUNDS} times each", [heads, *results])
    await index.close()


async def wait_until_filled(index: CodeIndex) -> None:
    while True:
        try:
            await index.search("anything", None, 1)
        except ToolError:
            if index.state.error:
                raise
        else:
            return


async def measure_queries(
    name: str, work: Callable[[str], Awaitable[None]], goal: float | None
) -> list[str]:
    times = []
    cpu = sum(os.times()[:4])
    for _ in range(ROUNDS):
        for query in QUERIES:
            started = time.perf_counter()
            await work(query)
            times.append((time.perf_counter() - started) * 1000)
    cpu = (sum(os.times()[:4]) - cpu) / len(times) * 1000
    late = quantiles(times, n=20)[-1]
    cells = [name, f"{cpu:.0f}", f"{median(times):.0f}", f"{late:.0f}"]
    return [*cells, "", ""] if goal is None else [*cells, f"{goal:.0f}", format_verdict(late, goal)]


def run_ripgrep(root: Path, query: str) -> None:
    patterns = [f"--regexp={word}" for word in extract_query_terms(query)]
    subprocess.run(
        [
            find_ripgrep(),
            "--no-config",
            "--ignore-case",
            "--line-number",
            *patterns,
            "--",
            str(root),
        ],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def measure_vectors() -> None:
    """What comparing meanings adds; the model's own time comes on top of it."""
    chance = Random(7)
    packed = [
        pack_vector([chance.gauss(0, 1) for _ in range(VECTOR_DIMENSION)])
        for _ in range(CHUNK_COUNT // 10)
    ]
    vectors_by_number = [(number, packed[number % len(packed)]) for number in range(CHUNK_COUNT)]
    signs, query_vector = packed[0]
    started = time.perf_counter()
    chosen = find_most_similar(signs, ((number, bits) for number, (bits, _) in vectors_by_number))
    compute_cosines(query_vector, ((number, vectors_by_number[number][1][1]) for number in chosen))
    milliseconds = (time.perf_counter() - started) * 1000
    rows = [["ms", "measured", "goal", ""]]
    name = f"{CHUNK_COUNT:,} vectors of {VECTOR_DIMENSION:,} numbers"
    rows.append(
        [name, f"{milliseconds:.0f}", f"{GOAL_MS:.0f}", format_verdict(milliseconds, GOAL_MS)]
    )
    print_table("Comparing meanings", rows)


if __name__ == "__main__":
    main()
