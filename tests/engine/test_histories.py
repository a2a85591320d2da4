"""Both histories are what the journal says, at every moment and for ever after."""

from __future__ import annotations

import itertools

import pytest
from msgspec import to_builtins

from joey.core.history.api import COMPLETION_TOOL_NAME, ApiHistory
from joey.core.history.ui import Row
from joey.core.messages import Message, ToolUseBlock
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.engine.recorder import Recorder
from joey.engine.task import Task
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Turn, call, disconnect, say, think
from tests.harness.engine.engine_harness import (
    ALLOW_ALL,
    EngineHarness,
    check_history,
    done,
    finish,
    list_durable_events,
    list_tool_results,
    wait_for_ending,
)


async def worked(engine_harness: EngineHarness, settings: Settings = ALLOW_ALL) -> Task:
    """A finished task in which a good deal went right and wrong."""
    (engine_harness.root / "a.txt").write_text("AAA")
    task = await engine_harness.start(
        Turn(
            think("hm"),
            say("I look around."),
            call("read_file", {"files": [{"path": "a.txt"}]}),
            call("read_file", {"files": [{"path": "missing.txt"}]}),
            done("too early"),
        ),
        Turn(say("I was about to"), disconnect()),
        Turn(
            call("write_to_file", {"path": "b.txt", "content": "B\n"}),
            call("execute_command", {"command": "echo out"}),
        ),
        Turn(say("Nothing to call.")),
        Turn(call("update_todo_list", '{"todos": "[x] broke')),
        finish(),
        settings=settings,
        policy=Unattended(),
    )
    assert isinstance(await wait_for_ending(task), Completed)
    return task


def check_nothing_open(messages: list[Message]) -> None:
    """Only a completion may be the last word, waiting for its result."""
    if messages and messages[-1].role == "assistant":
        uses = [b.name for b in messages[-1].content if isinstance(b, ToolUseBlock)]
        assert uses in ([], [COMPLETION_TOOL_NAME])


@pytest.mark.contract("history:valid")
@pytest.mark.parametrize("settings", [ALLOW_ALL, Settings()], ids=["allowed", "refused"])
async def test_cut_anywhere_the_journal_gives_a_valid_api_history(
    engine_harness: EngineHarness, settings: Settings
) -> None:
    events = list_durable_events(await worked(engine_harness, settings))
    history = ApiHistory()
    for event in events:
        history.apply(event)  # type: ignore[arg-type]
        messages = history.list_stored_messages()
        check_history(messages)
        check_nothing_open(messages)
    assert len(history.list_stored_messages()) == 10


@pytest.mark.contract("history:valid")
async def test_replaying_the_journal_gives_both_histories_as_they_were(
    engine_harness: EngineHarness,
) -> None:
    task = await worked(engine_harness)
    rows, messages = to_builtins(task.rows), to_builtins(task.messages)
    await engine_harness.engine.release(task)
    log, records = JsonFileStore(engine_harness.home).open(task.id)
    log.close()
    replayed = Recorder(log, records)
    assert to_builtins(replayed.ui_history.rows) == rows
    assert to_builtins(replayed.api_history.list_stored_messages()) == messages


@pytest.mark.contract("history:valid")
@pytest.mark.parametrize("step", [0, -1], ids=["stands still", "goes backwards"])
async def test_rows_have_a_ts_of_their_own_although_the_clock(
    engine_harness: EngineHarness, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    times = itertools.count(1_700_000_000_000, step)
    monkeypatch.setattr(engine_harness.clock, "now", lambda: next(times))
    task = await worked(engine_harness)
    rows = [row.ts for row in task.rows if isinstance(row, Row)]
    assert len(set(rows)) == len(rows)
    said = [message.ts for message in task.messages]
    assert said == sorted({ts for ts in said if isinstance(ts, int)})
    assert {message.ts for message in task.messages if message.role == "user"} <= set(rows)


@pytest.mark.contract("store:journal")
async def test_a_call_finds_its_own_reply_in_the_journal(engine_harness: EngineHarness) -> None:
    """The command is the call: what it sees on disk was there before it ran."""
    reply = '"event":"replyReceived".*the_looking_call'
    command = f"grep -c '{reply}' {engine_harness.home}/tasks/*/journal.jsonl"
    look = call("execute_command", {"command": command}, id="the_looking_call")
    task = await engine_harness.start(Turn(say("I look."), look), finish(), policy=Unattended())
    await wait_for_ending(task)
    assert "Output:\n1\n" in list_tool_results(task.messages[2])[0]
