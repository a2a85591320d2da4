"""`kill -9` at random moments: everything acknowledged is there afterwards, and the task goes on.

`JOEY_KILLS` says how many times (`make soak` uses 200); each kill is its own run of the real
program, stopped at a moment between its start and its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from asyncio.subprocess import DEVNULL
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from joey.app import make_options, open_engine
from joey.core.messages import Message, ToolResultBlock, ToolUseBlock
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Call, Turn, call, say, think
from joey.testing.server import ModelServer, by_conversation

pytestmark = pytest.mark.usefixtures("on_disk")

KILLS = int(os.environ.get("JOEY_KILLS", "24"))
AT_ONCE = 2
LONGEST = 1.4
"""Seconds that an undisturbed run takes at most."""


def script() -> list[Turn]:
    """Reasoning, text, edits and commands, slow enough to be hit in the middle of each."""
    body = "\n".join(f'line {n} with "quotes" and \\ strokes' for n in range(200))
    slow = "for i in 1 2 3 4 5; do echo $i; sleep 0.03; done"
    return [
        Turn(
            think("Let me see. " * 20, chunk=8),
            say("I look around. " * 20, chunk=8),
            call("list_files", {"path": ".", "recursive": True}),
            pace=400,
        ),
        Turn(call("write_to_file", {"path": "a.txt", "content": body}, chunk=64), pace=600),
        Turn(call("execute_command", {"command": slow})),
        Turn(
            call("read_file", {"files": [{"path": "a.txt"}]}),
            call("update_todo_list", {"todos": "[x] one\n[ ] two"}),
            call("write_to_file", {"path": "b.txt", "content": "b"}),
        ),
        Turn(say("Almost there. " * 10, chunk=8), _completion(), pace=400),
        Turn(_completion()),
    ]


def _completion() -> Call:
    return call("attempt_completion", {"result": "done"})


@pytest.mark.contract("store:journal")
@pytest.mark.timeout(60 + KILLS * 6)
@pytest.mark.smoke
async def test_a_killed_run_loses_nothing_and_can_go_on(tmp_path: Path) -> None:
    chance = random.Random(f"{os.getpid()}")
    moments = [chance.uniform(0.1, LONGEST) for _ in range(KILLS)]
    turn = asyncio.Semaphore(AT_ONCE)
    async with ModelServer(by_conversation(script())) as server, asyncio.TaskGroup() as group:
        for number, moment in enumerate(moments):
            directory = tmp_path / str(number)
            directory.mkdir()
            group.create_task(_kill_once(turn, server.url, directory, moment))


async def _kill_once(turn: asyncio.Semaphore, url: str, directory: Path, moment: float) -> None:
    async with turn:
        acknowledged = await _run_and_kill(url, directory, moment)
        try:
            await _check(url, directory, acknowledged)
        except BaseException as error:
            error.add_note(f"killed after {moment:.3f} s; {len(acknowledged)} rows acknowledged")
            raise


async def _run_and_kill(url: str, directory: Path, moment: float) -> list[dict[str, Any]]:
    """What the program had told us when it died: whole rows of its stream."""
    workspace = directory / "work"
    workspace.mkdir()
    stdout_path = directory / "stdout"
    with stdout_path.open("wb") as stdout:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "joey", "-p", "do it", "-y", "--output-format", "stream-json",
            "--provider", "anthropic", "--base-url", url, "-m", "test", "-w", str(workspace),
            env={**os.environ, "JOEY_HOME": str(directory / "home")},
            stdin=DEVNULL, stdout=stdout, stderr=DEVNULL,
        )  # fmt: skip
    try:
        async with asyncio.timeout(moment):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    out = stdout_path.read_bytes()
    return [json.loads(line) for line in out[: out.rfind(b"\n") + 1].splitlines()]


async def _check(url: str, directory: Path, acknowledged: list[dict[str, Any]]) -> None:
    home = directory / "home"
    tasks = list((home / "tasks").iterdir()) if (home / "tasks").exists() else []
    if not tasks or not _written(tasks[0] / "journal.jsonl"):
        assert not [row for row in acknowledged if row["type"] != "system"]
        return
    for name in ("ui_messages.json", "api_conversation_history.json"):
        if (tasks[0] / name).exists():
            assert isinstance(json.loads((tasks[0] / name).read_bytes()), list)
    options = make_options(
        workspace=directory / "work", home=home, env={}, provider="anthropic",
        base_url=url, model="test", yes=True, policy=Unattended(),
    )  # fmt: skip
    async with open_engine(home=home, env={}) as engine:
        task = await engine.resume(tasks[0].name.removeprefix("task_"), "go on", options=options)
        known = {numbered.event.ts for numbered in task.bus.list_records_after(0)}
        known |= {row.ts for row in task.rows if not isinstance(row, dict)}
        acknowledged_ids = {row["id"] for row in acknowledged if row.get("done") and "id" in row}
        lost = [row for row in acknowledged if row.get("id") in acknowledged_ids - known]
        assert not lost
        async with asyncio.timeout(30):
            assert isinstance(await task.wait(), Completed)
        _check_pairs(list(task.messages))
    api = json.loads((tasks[0] / "api_conversation_history.json").read_bytes())
    assert len(api) == len(task.messages)


def _written(journal: Path) -> bool:
    """Whether the kill came after the first record, and not between the folder and the file."""
    return journal.exists() and bool(journal.read_bytes())


def _check_pairs(messages: list[Message]) -> None:
    for before, after in pairwise(messages):
        assert before.role != after.role
        uses = [block.id for block in before.content if isinstance(block, ToolUseBlock)]
        results = [b.tool_use_id for b in after.content if isinstance(b, ToolResultBlock)]
        assert results == uses
