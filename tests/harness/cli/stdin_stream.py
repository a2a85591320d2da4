"""Roo's stdin stream, as a program that drives `joey -p`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from joey.testing.script import Turn, call, pause, say
from tests.harness.cli.steering import Steered


def completing(result: str) -> Turn:
    return Turn(call("attempt_completion", {"result": result}))


def running(command: str = "echo $$; sleep 600") -> Turn:
    return Turn(say("I run."), call("execute_command", {"command": command}))


def waiting(gate: asyncio.Event, *then: Any) -> Turn:
    return Turn(say("I begin"), pause(gate), *then)


async def number_of_command(steered: Steered) -> int:
    """The process that the command of the task runs in."""
    line = await steered.until(lambda line: line["type"] == "tool_result")
    return int(line["tool_result"]["output"])


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def is_user(text: str) -> Any:
    return lambda line: line["type"] == "user" and line["content"] == text


def codes(steered: Steered, request_id: str) -> list[tuple[str, str]]:
    return [
        (line["subtype"], line["code"])
        for line in steered.lines_of_type("control")
        if line.get("requestId") == request_id
    ]
