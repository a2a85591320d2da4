"""Clients of the server that wait for a completion get one, and none that came too early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Call, Turn, call, say
from tests.harness.server.server_fixture import Frame, done, open_server

ANSWER = Turn(say("It is the linker.", chunk=4))
ALLOW: dict[str, Any] = {
    "autoApprovalEnabled": True,
    "alwaysAllowExecute": True,
    "allowedCommands": ["*"],
}


def of_kind(rows: list[Frame], kind: str) -> list[Frame]:
    return [row for row in rows if kind in (row.get("say"), row.get("ask"))]


@pytest.mark.contract("loop:plain-reply")
async def test_a_plain_answer_is_a_completion_whose_answer_is_the_next_message(
    tmp_path: Path,
) -> None:
    turns = (ANSWER, ANSWER, done("Installed."))
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="why does it fail?"))["taskId"]
        await peer.asked("completion_result")
        assert "taskCompleted" in peer.names()
        first, result, ask = of_kind(peer.rows(task_id), "text")[1:] + of_kind(
            peer.rows(task_id), "completion_result"
        )
        assert first["text"] == result["text"] == "It is the linker."
        assert (result["type"], result["partial"]) == ("say", False)
        assert ask["type"] == "ask"
        seen_count = len(peer.events)
        await peer.ask("sendMessage", task_id, message="then install it")
        await peer.asked("completion_result", since=seen_count)
        await peer.ask("pressPrimaryButton", task_id)
        await peer.event("taskFinished")
        assert peer.names().count("taskCompleted") == 2
        assert "then install it" in str(here.model.requests[2].body["messages"][-1])


@pytest.mark.contract("completion:checks")
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (call("execute_command", {"command": "exit 2"}), "results of the other calls"),
        (call("read_file", {"path": "no.txt"}), "in a reply in which a call failed"),
    ],
)
async def test_a_completion_next_to_unseen_results_is_no_event_and_its_row_ends(
    tmp_path: Path, other: Call, reason: str
) -> None:
    early = Turn(other, call("attempt_completion", {"result": "All tests pass."}, chunk=4))
    async with (
        open_server(tmp_path, early, done("They fail."), confirmCompletion="off", **ALLOW) as here,
        here.peer() as peer,
    ):
        task_id = (await peer.ask("startNewTask", text="test it"))["taskId"]
        await peer.asked("completion_result")
        assert peer.names().count("taskCompleted") == 1
        rows = peer.rows(task_id)
        assert not [row for row in rows if row.get("partial")]
        claim, *presented = of_kind(rows, "completion_result")
        assert [row["text"] for row in presented] == ["They fail.", ""]
        assert (claim["type"], claim["text"]) == ("say", "All tests pass.")
        assert claim["tool"] == "attempt_completion"
        assert reason in claim["result"]
