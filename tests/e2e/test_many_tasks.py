"""A hundred tasks in one process: all complete, and nothing of one shows up in another."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from joey.app import make_options, open_engine
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer, Request
from tests.harness.counts import daily

TASKS = 100
TURNS = daily(8, 20)


def _turn(request: Request) -> Turn:
    """Each conversation is answered by its own number, so that a mix-up would be seen."""
    messages = request.body["messages"]
    name = messages[0]["content"][0]["text"]
    number = sum(message["role"] == "assistant" for message in messages)
    if number == TURNS - 1:
        return Turn(call("attempt_completion", {"result": f"{name} is done"}))
    todo = call("update_todo_list", {"todos": f"[ ] {name} {number}"}, id="the_same_id")
    return Turn(say(f"{name} says {number}", chunk=3), todo)


@pytest.mark.shortened
@pytest.mark.contract("tasks:isolated")
@pytest.mark.timeout(180)
async def test_a_hundred_tasks_complete_side_by_side_without_mixing_a_row(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    home = tmp_path / "home"
    async with ModelServer(_turn) as server, open_engine(home=home, env={}) as engine:
        options = make_options(
            workspace=tmp_path / "work",
            home=home,
            env={},
            provider="anthropic",
            base_url=server.url,
            model="test",
            policy=Unattended(),
        )
        tasks = await asyncio.gather(
            *(engine.start(f"task-{n:03}", options=options) for n in range(TASKS))
        )
        endings = await asyncio.gather(*(task.wait() for task in tasks))
    assert endings == [Completed(f"task-{n:03} is done") for n in range(TASKS)]
    assert len(server.requests) == TASKS * TURNS
    for n, task in enumerate(tasks):
        directory = home / "tasks" / f"task_{task.id}"
        for name in ("ui_messages.json", "api_conversation_history.json"):
            text = (directory / name).read_text(encoding="utf-8")
            rows = json.loads(text)
            named = {f"task-{other:03}" for other in range(TASKS) if f"task-{other:03}" in text}
            assert named == {f"task-{n:03}"}
        assert len(rows) == 2 * TURNS
