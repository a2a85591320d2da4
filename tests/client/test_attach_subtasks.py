"""Subtasks of a server's task, seen and answered with `joey attach`."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.core.events import TaskPaused
from joey.testing.script import Turn, call
from tests.harness.client.attach import attached, serving
from tests.harness.client.serving import done, write
from tests.harness.scripted_conversations import by_first_message

ALLOWED = "say what to do instead › "
SUBTASKS = {"autoApprovalEnabled": True, "alwaysAllowSubtasks": True}


def hand(*messages: str) -> Turn:
    return Turn(*(call("new_task", {"mode": "code", "message": text}) for text in messages))


@pytest.mark.contract("subtasks:events")
async def test_a_user_who_comes_later_answers_subtasks_one_after_the_other(
    tmp_path: Path,
) -> None:
    parts = {
        "the whole": [hand("part one", "part two"), Turn(done("Whole."))],
        "part one": [Turn(write("one.txt", "1\n")), Turn(done("One."))],
        "part two": [Turn(write("two.txt", "2\n")), Turn(done("Two."))],
    }
    async with serving(tmp_path, *[by_first_message(parts)] * 6) as harness:
        session = await harness.engine.start("the whole", configuration=SUBTASKS)
        async for event in session.events():
            if isinstance(event, TaskPaused):
                break
        async with attached(harness, session.id) as screen:
            first = await screen.until(ALLOWED)
            screen.press("y\n")
            second = await screen.until(ALLOWED)
            assert "one.txt" in first + second
            assert "two.txt" in first + second
            assert "┄┄ subtask" in first
            screen.press("y\n")
            end = await screen.until("say what to change › ")
            assert "Whole." in end
            screen.press("/exit\n")
            assert await screen.ended() == 0
    assert (harness.joey.workspace / "one.txt").read_text() == "1\n"
    assert (harness.joey.workspace / "two.txt").read_text() == "2\n"
