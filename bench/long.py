"""`python -m bench.long [turns]`: a task of thousands of turns in a small window.

The model refuses requests above its window, by its own way of counting. What is measured: the
time of a turn and the memory of joey's process, early and at the end; how often the conversation
was summed up; and the longest request.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct
from tests.harness.testing.window_limited_model import (
    RequestTally,
    WindowLimitedModelScript,
    make_file_reading_turns,
)

from bench.runs import build_environment
from bench.tables import format_verdict, print_table
from joey import Unattended, open_engine
from joey.core.events import RequestStarted
from joey.core.settings import Profile, Settings
from joey.core.task_types import TaskState
from joey.engine.engine import TaskOptions
from joey.testing.server import ModelServer

TURN_COUNT = 5_000
WINDOW_TOKENS = 32_000
FILE_COUNT = 40
MAX_GROWTH_RATIO = 1.5
EARLY_TURNS = 500
BYTES_PER_TOKEN = (4.0, 2.7)
"""Bytes in a token: as in prose, and as in dense code."""


class LongTaskFigures(Struct):
    tally: RequestTally
    is_completed: bool
    early_turn_ms: float
    """Milliseconds of CPU, summaries included."""
    late_turn_ms: float
    early_memory_mb: float
    late_memory_mb: float
    duration_s: float


def main(turns: int = TURN_COUNT) -> None:
    heads = [
        "a task in a window of 32,000",
        *(f"{each} bytes a token" for each in BYTES_PER_TOKEN),
        "",
    ]
    # Half as many turns where tokens are short: it is summed up twice as often.
    outcomes = [
        measure_in_subprocess(turns, BYTES_PER_TOKEN[0]),
        measure_in_subprocess(turns // 2, BYTES_PER_TOKEN[1]),
    ]
    rows = [heads, *_format_rows(outcomes)]
    print_table("A long task", rows)


def _format_rows(outcomes: Sequence[LongTaskFigures]) -> list[list[str]]:
    def row(name: str, values: Sequence[str], said: str = "") -> list[str]:
        return [name, *values, said]

    slower = max(each.late_turn_ms / each.early_turn_ms for each in outcomes)
    larger = max(each.late_memory_mb / each.early_memory_mb for each in outcomes)
    refused = sum(each.tally.refused_request_count for each in outcomes)
    done = all(each.is_completed for each in outcomes)
    lost = sum(each.tally.summary_count - 1 - each.tally.resummarization_count for each in outcomes)
    return [
        row("turns", [f"{each.tally.turn_count:,}" for each in outcomes], "ok" if done else "miss"),
        row("summaries", [f"{each.tally.summary_count:,}" for each in outcomes]),
        row("not of the one before", [f"{lost}", ""], format_verdict(lost, 0)),
        row("longest request", [f"{each.tally.max_request_tokens:,}" for each in outcomes]),
        row(
            "too long",
            [f"{each.tally.refused_request_count}" for each in outcomes],
            format_verdict(refused, 0),
        ),
        row("CPU ms a turn, early", [f"{each.early_turn_ms:.2f}" for each in outcomes]),
        row(
            "at the end",
            [f"{each.late_turn_ms:.2f}" for each in outcomes],
            format_verdict(slower, MAX_GROWTH_RATIO),
        ),
        row("memory MB, early", [f"{each.early_memory_mb:.1f}" for each in outcomes]),
        row(
            "at the end",
            [f"{each.late_memory_mb:.1f}" for each in outcomes],
            format_verdict(larger, MAX_GROWTH_RATIO),
        ),
        row("seconds", [f"{each.duration_s:.0f}" for each in outcomes]),
    ]


def measure_in_subprocess(turns: int, bytes_per_token: float) -> LongTaskFigures:
    """In a process of its own: others leave memory behind."""
    command = [sys.executable, "-m", "bench.long", "run", str(turns), str(bytes_per_token)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=build_environment(), check=True)
    return msgspec.json.decode(done.stdout, type=LongTaskFigures)


async def run_task(turns: int, bytes_per_token: float) -> LongTaskFigures:
    model = WindowLimitedModelScript(
        make_file_reading_turns(FILE_COUNT, turns), WINDOW_TOKENS, bytes_per_token
    )
    server = ModelServer(model)
    server.on_request = lambda _: server.requests.clear()
    stamps: list[float] = []
    memory: list[float] = []
    started = time.perf_counter()
    with TemporaryDirectory(prefix="joey-bench-") as name:
        workspace, home = Path(name, "workspace"), Path(name, "home")
        write_files(workspace)
        async with server, open_engine(home=home, env=build_environment()) as engine:
            options = TaskOptions(
                workspace=workspace,
                profile=Profile(
                    base_url=server.url, model="strict", api_key="k", context_window=WINDOW_TOKENS
                ),
                settings=Settings(always_allow_read_only=True, enable_checkpoints=False),
                policy=Unattended(),
            )
            task = await engine.start("Read every file, again and again.", options=options)
            async for event in task.events():
                if isinstance(event, RequestStarted):
                    stamps.append(time.process_time())
                    memory.append(read_resident_mb())
            completed = task.state is TaskState.COMPLETED
    costs = [1000 * (after - before) for before, after in pairwise(stamps)]
    part = max(1, turns // 10)
    early = min(EARLY_TURNS, part)
    return LongTaskFigures(
        tally=model.tally,
        is_completed=completed,
        early_turn_ms=fmean(costs[early // 5 : early // 5 + part]),
        late_turn_ms=fmean(costs[-part:]),
        early_memory_mb=memory[early],
        late_memory_mb=max(memory[-part:]),
        duration_s=time.perf_counter() - started,
    )


def write_files(directory: Path) -> None:
    directory.mkdir()
    for number in range(FILE_COUNT):
        lines = [f"line {line} of file {number}\n" for line in range(50 + 10 * (number % 10))]
        (directory / f"file{number}.txt").write_text("".join(lines), encoding="utf-8")


def read_resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * 4096 / 2**20


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", turns, bytes_per_token]:
            outcome = asyncio.run(run_task(int(turns), float(bytes_per_token)))
            sys.stdout.buffer.write(msgspec.json.encode(outcome))
        case [turns]:
            main(int(turns))
        case _:
            main()
