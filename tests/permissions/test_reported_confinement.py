"""How far a command is confined, and which rule decided, is told wherever it is approved."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from joey.app.sandbox import detect_sandbox
from joey.cli.headless.roo_stream_json import StreamJsonEncoder
from joey.client.event_decoder import EventDecoder
from joey.core.events import AskOpened, ToolStarted
from joey.core.permissions.policy import Access, Allow, Ask, Claim, SandboxStatus, decide
from joey.core.permissions.reasons import format_reasons
from joey.core.settings import Settings
from joey.execution.bash_grammar import BashGrammar
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import (
    EngineHarness,
    find_rows,
    finish,
    list_durable_events,
    wait_for_ask,
)
from tests.harness.server.server_fixture import done, open_server

YES = "yesButtonClicked"
Announcement = ToolStarted | AskOpened


def command(line: str) -> Turn:
    return Turn(call("execute_command", {"command": line, "cwd": None}))


@pytest.mark.contract("permissions:report")
@pytest.mark.parametrize("setting", ["auto", "off"])
async def test_a_client_is_sent_the_level_with_each_question(tmp_path: Path, setting: str) -> None:
    """With the question and in the row, be it answered by a user or by a rule."""
    works = (await asyncio.to_thread(detect_sandbox)).level.value
    level = "off" if setting == "off" else works
    turns = (command("touch a.txt"), command("ls"), done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        rules = {"sandbox": setting, "alwaysAllowExecute": True, "allowedCommands": ["ls"]}
        (here.home / "settings.json").write_text(json.dumps(rules))
        task_id = (await peer.ask("startNewTask", text="touch it"))["taskId"]
        ask_ts = await peer.asked("command")
        payload = (await peer.event("taskInteractive"))["payload"]
        assert payload["sandbox"] == level
        assert payload["reason"] == "running `touch a.txt`: no rule allows `touch a.txt`"
        await peer.ask("respond", task_id, askTs=ask_ts, response=YES)
        if level == "none":
            await peer.ask("respond", task_id, askTs=await peer.asked("command"), response=YES)
        await peer.asked("completion_result")
        by_text = {row.get("text"): row for row in peer.rows()}
        assert by_text["touch a.txt"]["sandbox"] == level
        assert by_text["touch a.txt"]["reason"] == payload["reason"]
        (listed,) = (row for row in peer.rows() if '"ls"' in row.get("text", ""))
        assert listed["sandbox"] == level
        assert level == "none" or listed["rule"] == "ls"


@pytest.mark.contract("permissions:report")
async def test_the_level_is_in_the_journal_and_reaches_other_front_ends(
    engine_harness: EngineHarness,
) -> None:
    settings = Settings(always_allow_execute=True, allowed_commands=("ls",))
    engine_harness.capabilities = Capabilities(shell_grammar=BashGrammar())
    task = await engine_harness.start(
        command("ls"), command("touch a"), finish(), settings=settings
    )
    question = await wait_for_ask(task)
    assert (question.sandbox, question.reason) == (
        "off",
        "running `touch a`: no rule allows `touch a`",
    )
    (announced,) = [event for event in list_durable_events(task) if isinstance(event, ToolStarted)]
    assert (announced.sandbox, announced.rule) == ("off", "ls")
    events = [
        event
        for row in (*find_rows(task, "tool"), *find_rows(task, "command"))
        for event in EventDecoder().feed_row(msgspec.to_builtins(row))
    ]
    assert [
        (type(event), event.sandbox) for event in events if isinstance(event, Announcement)
    ] == [
        (ToolStarted, "off"),
        (AskOpened, "off"),
    ]
    stream = StreamJsonEncoder()
    lines = [line for event in events for line in stream.encode(event)]
    uses = [line for line in lines if line["type"] == "tool_use"]
    assert [line["sandbox"] for line in uses] == ["off", "off"]
    assert (uses[0]["rule"], uses[1]["reason"]) == ("ls", question.reason)
    await task.cancel()


@pytest.mark.parametrize("rule", ["*", "ls"])
def test_where_no_sandbox_works_each_command_is_asked(rule: str) -> None:
    settings = Settings(always_allow_execute=True, allowed_commands=(rule,))

    def decided(level: SandboxStatus) -> Allow | Ask | object:
        claims = (Claim(Access.EXECUTE, command="ls", sandbox=level),)
        return decide(claims, settings, lambda _: (("", ("ls",)),))

    unconfined = decided("none")
    assert isinstance(unconfined, Ask)
    assert "no sandbox works here" in format_reasons(unconfined.reasons)
    assert all(isinstance(decided(level), Allow) for level in ("full", "landlock", "off"))
