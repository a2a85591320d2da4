"""Modes and commands that a workspace brings, over the WebSocket API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.server.server_fixture import CommandFailedError, done, open_server


def write_mode(directory: Path, slug: str, **more: Any) -> None:
    directory.mkdir(exist_ok=True)
    mode = {"slug": slug, "name": slug.title(), "roleDefinition": f"You are a {slug}. Yes."}
    document = {"customModes": [mode | {"groups": ["read"]} | more]}
    (directory / ".roomodes").write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.contract("modes:fields")
async def test_modes_of_the_servers_workspace_are_named(tmp_path: Path) -> None:
    write_mode(tmp_path / "work", "poet", description="Rhymes")
    async with open_server(tmp_path) as here, here.peer() as peer:
        modes = (await peer.ask("getModes"))["modes"]
        assert modes[-1] == {"slug": "poet", "name": "Poet", "description": "Rhymes"}
        write_mode(tmp_path / "work", "bard")
        modes = (await peer.ask("getModes"))["modes"]
        assert modes[-1] == {"slug": "bard", "name": "Bard", "description": "You are a bard."}
        await peer.ask("setConfiguration", values={"mode": "bard"})
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*mode"):
            await peer.ask("setConfiguration", values={"mode": "poet"})


async def test_slash_commands_of_the_servers_workspace_are_named(tmp_path: Path) -> None:
    directory = tmp_path / "work" / ".roo" / "commands"
    directory.mkdir(parents=True)
    text = "---\ndescription: Ship it\nargument-hint: <server>\n---\nDo it."
    (directory / "deploy.md").write_text(text, encoding="utf-8")
    async with open_server(tmp_path) as here, here.peer() as peer:
        commands = (await peer.ask("getCommands"))["commands"]
    sources = {each["name"]: each["source"] for each in commands}
    assert sources["init"] == "built-in"
    assert commands[0] == {
        "name": "deploy",
        "source": "project",
        "description": "Ship it",
        "argumentHint": "<server>",
    }


@pytest.mark.contract("modes:fields")
async def test_a_task_knows_the_modes_of_its_own_workspace(tmp_path: Path) -> None:
    write_mode(tmp_path / "other", "poet")
    other = str(tmp_path / "other")
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*no mode 'poet'"):
            await peer.ask("startNewTask", text="rhyme", mode="poet")
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*workspace"):
            await peer.ask("startNewTask", text="x", mode="poet", workspace=f"{other}/nowhere")
        task = await peer.ask("startNewTask", text="rhyme", mode="poet", workspace=other)
        await peer.asked("completion_result")
        assert here.model.requests[0].body["system"][0]["text"].startswith("You are a poet.")
        await peer.ask("switchMode", task["taskId"], mode="ask")
        await peer.ask("switchMode", task["taskId"], mode="poet")
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*no mode 'bard'"):
            await peer.ask("switchMode", task["taskId"], mode="bard")
