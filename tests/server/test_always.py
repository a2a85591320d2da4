"""A rule that is added with an answer, by a client and by a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from joey.testing.script import Turn, call
from tests.harness.server.server_fixture import CommandFailedError, done, open_server

YES = "yesButtonClicked"


def command(line: str) -> Turn:
    return Turn(call("execute_command", {"command": line, "cwd": None}))


def written(home: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((home / "settings.json").read_text())
    return found


@pytest.mark.contract("permissions:always")
async def test_a_client_is_sent_the_rule_and_adds_it(tmp_path: Path) -> None:
    turns = (command("touch a.txt"), command("touch a.txt"), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        (here.home / "settings.json").write_text('{"sandbox": "off", "other": 1}')
        task_id = (await peer.ask("startNewTask", text="touch it"))["taskId"]
        ask_ts = await peer.asked("command")
        event = await peer.event("taskInteractive")
        assert event["payload"]["alwaysRule"] == "touch a.txt"
        row = next(row for row in peer.rows() if row["ts"] == ask_ts)
        assert row["alwaysRule"] == "touch a.txt"
        arguments = {"askTs": ask_ts, "response": YES, "always": True, "scope": "everywhere"}
        assert await peer.ask("respond", task_id, **arguments) == {"accepted": True}
        await peer.asked("completion_result")
        assert written(here.home) == {
            "sandbox": "off",
            "other": 1,
            "alwaysAllowExecute": True,
            "allowedCommands": ["touch a.txt"],
        }
        assert peer.names().count("taskInteractive") == 1


@pytest.mark.contract("permissions:always")
async def test_a_client_cannot_add_a_rule_that_was_not_offered(tmp_path: Path) -> None:
    write = Turn(call("write_to_file", {"path": ".roo/a.txt", "content": "one\n"}))
    async with open_server(tmp_path, write, done()) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="write it"))["taskId"]
        ask_ts = await peer.asked("tool")
        assert "alwaysRule" not in (await peer.event("taskInteractive"))["payload"]
        for response in (YES, "noButtonClicked"):
            arguments = {"askTs": ask_ts, "response": response, "always": True, "rule": "*"}
            with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*no rule"):
                await peer.ask("respond", task_id, **arguments)
        assert not (here.workspace / ".roo/a.txt").exists()
        await peer.ask("respond", task_id, askTs=ask_ts, response=YES)
        await peer.asked("completion_result")


@pytest.mark.contract("permissions:always")
async def test_a_client_accepts_the_edits_of_a_task(tmp_path: Path) -> None:
    def write(path: str) -> Turn:
        return Turn(call("write_to_file", {"path": path, "content": "one\n"}))

    async with (
        open_server(tmp_path, write("a.txt"), write("b.txt"), done()) as here,
        here.peer() as peer,
    ):
        task_id = (await peer.ask("startNewTask", text="write it"))["taskId"]
        ask_ts = await peer.asked("tool")
        event = await peer.event("taskInteractive")
        assert event["payload"]["alwaysRule"] == "edits in this workspace, for this task"
        await peer.ask("respond", task_id, askTs=ask_ts, response=YES, always=True)
        await peer.asked("completion_result")
        assert (here.workspace / "b.txt").exists()
        assert "alwaysAllowWrite" not in written(here.home)
