"""`kill -9` between every two steps of a rewind with files, of an undo, and within them."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from joey.app import open_engine
from joey.app.options import make_inspect_options
from joey.core.events import FilesRestored, TaskRewound
from joey.core.history.ui import Row
from joey.engine.task import Task
from joey.testing.script import Call, Turn, call
from joey.testing.server import ModelServer
from tests.harness.fork_server import JOEY, start_module

CRASH = "tests.harness.e2e.crash_during_rewind"
LIMIT = 60.0
STEPS = ("kept", "torn", "told", "half", "back", "noted")
NOTHING_DONE = ("kept", "torn")
ONE = {"a": "one\n", "b": "one\n"}
TWO = {"a": "two\n", "b": "two\n", "c": "two\n"}

pytestmark = [pytest.mark.contract("rewind:crash"), pytest.mark.usefixtures("on_disk")]


def write(content: str, *names: str) -> Turn:
    calls: list[Call] = []
    for name in names:
        calls.append(call("write_to_file", {"path": name, "content": content}))
    return Turn(*calls)


def done() -> Turn:
    return Turn(call("attempt_completion", {"result": "ok"}))


class CrashHarness:
    def __init__(self, root: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        self.work.mkdir()

    async def run(self, module: str, *arguments: str) -> int:
        process = await start_module(
            module,
            *arguments,
            env={**os.environ, "JOEY_HOME": str(self.home)},
            cwd=self.work,
            stderr=PIPE,
        )
        async with asyncio.timeout(LIMIT):
            await process.communicate()
        assert process.returncode is not None
        return process.returncode

    async def run_task(self) -> str:
        """A task that wrote two files, and after more words other texts and a third."""
        turns = [write("one\n", "a", "b"), done(), write("two\n", "a", "b", "c"), done()]
        async with ModelServer(turns) as server:
            flags = ("-p", "-y", "--provider", "anthropic", "--base-url", server.url, "-m", "test")
            assert await self.run(JOEY, *flags, "write one") == 0
            assert await self.run(JOEY, *flags, "-c", "write two") == 0
        assert self.files == TWO
        [directory] = (self.home / "tasks").iterdir()
        return directory.name.removeprefix("task_")

    async def crash_at(self, step: str, task_id: str, *flags: str) -> None:
        assert await self.run(CRASH, step, "tasks", "rewind", task_id, "-y", *flags) == -9

    @property
    def files(self) -> dict[str, str]:
        names = sorted(self.work.iterdir())
        return {path.name: path.read_text(encoding="utf-8") for path in names}

    async def undo(self, task_id: str) -> None:
        assert await self.run(JOEY, "tasks", "rewind", task_id, "--undo", "-y") == 0


def check(task: Task, texts: str) -> None:
    said = [row.text for row in task.rows if isinstance(row, Row) and row.say == "user_feedback"]
    assert said == (["write two"] if texts == "two" else [])
    assert task.recorder.projection.pending_restore is None
    rewound = [r.event for r in task.bus.list_records_after(0) if isinstance(r.event, TaskRewound)]
    restored = [
        r.event for r in task.bus.list_records_after(0) if isinstance(r.event, FilesRestored)
    ]
    assert [event.files_checkpoint for event in rewound] == [event.checkpoint for event in restored]


async def reopen(harness: CrashHarness, task_id: str, texts: str) -> None:
    async with open_engine(home=harness.home) as engine:
        task = await engine.open(
            task_id, options=make_inspect_options(str(harness.work), harness.home)
        )
        check(task, texts)


@pytest.mark.parametrize("step", STEPS)
async def test_a_rewind_is_done_whole_or_not_at_all(tmp_path: Path, step: str) -> None:
    harness = CrashHarness(tmp_path)
    task_id = await harness.run_task()
    await harness.crash_at(step, task_id, "--with-files")
    if step in NOTHING_DONE:
        await reopen(harness, task_id, "two")
        assert harness.files == TWO
        return
    await reopen(harness, task_id, "one")
    assert harness.files == ONE
    await reopen(harness, task_id, "one")
    await harness.undo(task_id)
    assert harness.files == TWO
    await reopen(harness, task_id, "two")


@pytest.mark.parametrize("step", ["told", "half", "back"])
async def test_so_is_the_undoing_of_one(tmp_path: Path, step: str) -> None:
    harness = CrashHarness(tmp_path)
    task_id = await harness.run_task()
    assert await harness.run(JOEY, "tasks", "rewind", task_id, "-y", "--with-files") == 0
    assert harness.files == ONE
    await harness.crash_at(step, task_id, "--undo")
    await reopen(harness, task_id, "two")
    assert harness.files == TWO
