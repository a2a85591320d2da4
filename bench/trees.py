"""Large trees: what the tools take there, beside ripgrep on its own, in the same run.

`python -m bench.trees [FILES]`, 20,000 unless told. The goal is for 200,000, as in `make soak`: in
a small tree most of the time goes into starting anything at all.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from typing import Any

from bench.tables import format_verdict, print_table
from joey.core.models import ModelInfo, ToolProtocol
from joey.core.modes import BUILT_IN_MODES
from joey.core.settings import Settings
from joey.execution.terminal import LocalTerminal
from joey.ports.tool_context import ToolContext
from joey.tools.list_files import ListFiles
from joey.tools.search_files import SearchFiles
from joey.workspace.files import LocalFiles
from joey.workspace.ripgrep import find_ripgrep
from joey.workspace.search import LocalSearch

FILE_COUNT = 20_000
LARGE_FILE_COUNT = 200_000
FILES_PER_DIRECTORY = 200
ROUNDS = 7
MAX_RATIO = 1.2
FUNCTIONS_PER_FILE = 10


def main(files: int = FILE_COUNT) -> None:
    goal = MAX_RATIO if files >= LARGE_FILE_COUNT else None
    rows = [["seconds", "ripgrep", "joey", "ratio", "goal", ""]]
    with TemporaryDirectory(prefix="joey-bench-") as name:
        root = Path(name)
        make_tree(root, files)
        ctx = build_context(root)
        rows.append(measure_row("list_files", ["--files"], lambda: run_list_files(ctx), root, goal))
        for what, regex in (
            ("nothing found", "no_such_name"),
            ("one file", f"function_{files - 1}_0"),
            ("1,000 hits", rf"function_\d*{'7' if files < LARGE_FILE_COUNT else '77'}\d\d_0\("),
            ("every line", "function"),
        ):
            search = prepare_search(ctx, regex)
            rows.append(measure_row(f"search_files, {what}", [regex], search, root, goal))
        before = read_peak_memory_mb()
        for _ in range(3):
            run_list_files(ctx)
            prepare_search(ctx, "function")()
        grown = read_peak_memory_mb() - before
    print_table(f"A tree of {files:,} files", rows)
    print(
        f"  memory: {read_peak_memory_mb():.0f} MB at most, {grown:.1f} MB of it in the last rounds"
    )


def make_tree(root: Path, files: int) -> None:
    for number in range(files):
        directory = (
            root
            / f"{number // FILES_PER_DIRECTORY // 50:02}"
            / f"{number // FILES_PER_DIRECTORY % 50:02}"
        )
        if number % FILES_PER_DIRECTORY == 0:
            directory.mkdir(parents=True)
        text = "".join(
            f"def function_{number}_{at}(x):\n    return x + {at}\n\n\n"
            for at in range(FUNCTIONS_PER_FILE)
        )
        (directory / f"module_{number}.py").write_text(text, encoding="utf-8")


def build_context(root: Path) -> ToolContext:
    files = LocalFiles(root)
    return ToolContext(
        files=files,
        search=LocalSearch(files),
        terminal=LocalTerminal(),
        settings=Settings(),
        protocol=ToolProtocol.NATIVE,
        model=ModelInfo(id="none"),
        modes=BUILT_IN_MODES,
        mode=BUILT_IN_MODES[0],
        todos=(),
        artifacts_directory=root / "none",
        call_id="",
        row_ts=0,
        on_output=lambda text: None,
    )


def run_list_files(ctx: ToolContext) -> None:
    run_tool(ListFiles(), {"path": ".", "recursive": True}, ctx)


def prepare_search(ctx: ToolContext, regex: str) -> Callable[[], None]:
    return lambda: run_tool(SearchFiles(), {"path": ".", "regex": regex}, ctx)


def run_tool(tool: ListFiles | SearchFiles, arguments: dict[str, Any], ctx: ToolContext) -> None:
    async def call() -> None:
        if isinstance(tool, ListFiles):
            listing = await tool.prepare(tool.parse(arguments), ctx)
            await tool.run_prepared(listing, ctx, None)
        else:
            search = await tool.prepare(tool.parse(arguments), ctx)
            await tool.run_prepared(search, ctx, None)

    asyncio.run(call())


def measure_row(
    name: str, arguments: list[str], ours: Callable[[], None], root: Path, goal: float | None
) -> list[str]:
    """Both take turns, and the best of each counts: what else the machine does is not meant."""
    plain, joey = [], []
    for _ in range(ROUNDS):
        plain.append(time_call(lambda: run_ripgrep(arguments, root)))
        joey.append(time_call(ours))
    base, measured = min(plain), min(joey)
    ratio = measured / base
    cells = [name, f"{base:.3f}", f"{measured:.3f}", f"{ratio:.2f}x"]
    return [*cells, "", ""] if goal is None else [*cells, f"{goal}x", format_verdict(ratio, goal)]


def run_ripgrep(arguments: list[str], root: Path) -> None:
    subprocess.run(
        [find_ripgrep(), "--no-config", *arguments, str(root)], stdout=DEVNULL, check=False
    )


def time_call(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def read_peak_memory_mb() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FILE_COUNT)
