"""The index of tasks: `python -m bench.task_list [COUNT]`.

Small tasks are made, all alike but for their words. A page is what `joey tasks list` shows,
measured from opening the index to the last row; beside it a plain look at all folders, which is
what a list costs without an index. *a new folder*: another program has added a task, so the names
of all folders are read. *refresh*: every folder is looked at. The first search reads all
conversations.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.tables import format_verdict, print_table
from joey.ports.storage import TaskQuery
from joey.storage.task_index import SqliteTaskIndex, remove_indexed_task
from joey.storage.task_list import list_tasks

TASK_COUNT = 5_000
ROUNDS = 5
GOAL_MS = 100.0
WORKSPACE_COUNT = 50
PAST_TIME_S = 1_700_000_000
METADATA_TEMPLATE = (
    '{{"id":"{id}","title":"Repair number {number}","workspace":"/home/ann/project{space}",'
    '"mode":"code","model":"scripted","status":"completed","created":{ts},"updated":{ts}}}'
)
ROWS_TEMPLATE = (
    '[{{"ts":1,"type":"say","say":"text","text":"repair the parser of part{number}"}},\n'
    '{{"ts":2,"type":"say","say":"completion_result","text":"All tests pass again."}}]\n'
)


def main(count: int = TASK_COUNT) -> None:
    with TemporaryDirectory(prefix="joey-bench-") as directory:
        home = Path(directory)
        make_tasks(home / "tasks", count)
        measure(home, count)


def make_tasks(tasks: Path, count: int) -> None:
    tasks.mkdir()
    for number in range(count):
        write_task(tasks, number)
    # As if the last of them had been made long ago.
    os.utime(tasks, (PAST_TIME_S, PAST_TIME_S))


def write_task(tasks: Path, number: int) -> None:
    facts = {"id": f"{number:013x}", "number": number, "space": number % WORKSPACE_COUNT}
    directory = tasks / f"task_{facts['id']}"
    directory.mkdir()
    (directory / "task_metadata.json").write_text(
        METADATA_TEMPLATE.format(ts=PAST_TIME_S * 1000 + number, **facts)
    )
    (directory / "ui_messages.json").write_text(ROWS_TEMPLATE.format(number=number))


def measure(home: Path, count: int) -> None:
    workspace, tasks = f"/home/ann/project{WORKSPACE_COUNT // 2}", home / "tasks"
    rows = [["ms", "measured", "goal", ""]]

    def row(what: str, work: Callable[[], object], goal: float | None = None) -> None:
        rounds = 1 if goal is None else ROUNDS
        figure = median(time_call_ms(work) for _ in range(rounds))
        ends = ["", ""] if goal is None else [f"{goal:.0f}", format_verdict(figure, goal)]
        rows.append([what, f"{figure:,.1f}", *ends])

    row("plain scan of all folders", lambda: list_tasks(tasks))
    row("building the index", lambda: run_query(home, TaskQuery()))
    row("first page", lambda: run_query(home, TaskQuery()), GOAL_MS)
    row(
        "first page of one folder", lambda: run_query(home, TaskQuery(workspace=workspace)), GOAL_MS
    )
    row(
        "first page of completed tasks",
        lambda: run_query(home, TaskQuery(status="completed")),
        GOAL_MS,
    )
    row("refresh", lambda: run_query(home, TaskQuery(), refresh=True))
    row("first search", lambda: run_query(home, TaskQuery(text="part77")))
    row("a rare word", lambda: run_query(home, TaskQuery(text="part77")), GOAL_MS)
    row("a word of every task", lambda: run_query(home, TaskQuery(text="parser")))
    row("whole `joey tasks list`", lambda: run_joey(home, "tasks", "list", "--all"))
    row("whole `joey tasks --help`", lambda: run_joey(home, "tasks", "--help"))
    write_task(tasks, count)
    row("first page after a new folder", lambda: run_query(home, TaskQuery()))
    row("forgetting a deleted task", lambda: remove_indexed_task(home, f"task_{count // 2:013x}"))
    size = (home / "index.sqlite").stat().st_size
    print_table(f"{count:,} tasks, and an index of {size / 1e6:.1f} MB", rows)


def run_query(home: Path, query: TaskQuery, *, refresh: bool = False) -> None:
    with closing(SqliteTaskIndex(home)) as index:
        page = index.search(query, refresh=refresh)
    assert page.matches


def run_joey(home: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "joey", *arguments],
        env={**os.environ, "JOEY_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def time_call_ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
