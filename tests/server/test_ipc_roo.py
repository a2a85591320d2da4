"""What programs that steered the extension rely on, beyond single commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from joey.errors import ConfigError
from joey.server.hub import ServerHub
from joey.testing.script import Turn, call, pause, say
from tests.harness.client.serving import done
from tests.harness.server.ipc_peer import connected, new_task, serving

MISTAKE = Turn(call("no_such_tool", {}))


@pytest.mark.contract("ipc:commands")
async def test_a_task_of_a_program_never_stops_over_mistakes(tmp_path: Path) -> None:
    turns = (*[MISTAKE] * 8, Turn(done("at last")))
    async with serving(tmp_path, *turns) as (_, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("go"))
        await peer.event("taskCompleted")
        rows = [payload[0]["message"] for name, payload in peer.events if name == "message"]
        assert not [row for row in rows if row.get("ask") == "mistake_limit_reached"]


@pytest.mark.contract("ipc:commands")
async def test_a_program_may_set_a_limit_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path, *[MISTAKE] * 8) as (_, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("go", consecutiveMistakeLimit=2))
        await peer.asked("mistake_limit_reached")


@pytest.mark.contract("ipc:commands")
async def test_whichever_task_is_the_current_one_is_reported(tmp_path: Path) -> None:
    waiting = Turn(say("Wait."), pause(asyncio.Event()))
    async with serving(tmp_path, waiting, waiting) as (_, path), connected(path) as peer:
        peer.send("StartNewTask", new_task("one"))
        [one] = await peer.event("taskFocused")
        assert ("taskCreated", [one]) in peer.events
        peer.send("StartNewTask", new_task("two"))
        assert await peer.event("taskUnfocused") == [one]
        [two] = await peer.event("taskFocused")
        assert two != one
        peer.send("CloseTask")
        assert await peer.event("taskUnfocused") == [two]
        assert await peer.event("taskFocused") == [one]
        peer.send("CloseTask")
        assert await peer.event("taskUnfocused") == [one]
        peer.send("ResumeTask", two)
        assert await peer.event("taskFocused") == [two]


@pytest.mark.contract("ipc:commands")
@pytest.mark.parametrize(
    ("command", "answer", "empty"),
    [
        ("GetModes", "modesResponse", []),
        ("GetCommands", "commandsResponse", []),
        ("GetModels", "modelsResponse", {}),
    ],
)
async def test_a_question_that_cannot_be_answered_gets_an_empty_answer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    command: str,
    answer: str,
    empty: object,
) -> None:
    async def fails(hub: ServerHub, name: str, *_: object) -> None:
        raise ConfigError("profiles.json is not readable")

    monkeypatch.setattr(ServerHub, "dispatch", fails)
    async with serving(tmp_path) as (_, path), connected(path) as peer:
        peer.send(command)
        assert await peer.event(answer) == [empty]
    assert "profiles.json is not readable" in caplog.text
