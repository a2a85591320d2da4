"""A task goes on where it stopped, whoever stopped it."""

from __future__ import annotations

import json

import pytest

from joey.core.events import AskAnswered, AskOpened, MessageQueued
from joey.core.history.ui import UiHistory
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response, TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed, Failed
from joey.engine.task import Task
from joey.testing.script import Turn, call, fail, say, think
from tests.harness.engine.engine_harness import (
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_texts,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
)


async def reopened(engine_harness: EngineHarness, task: Task, text: str | None = None) -> Task:
    await engine_harness.engine.release(task)
    return await engine_harness.engine.resume(task.id, text)


@pytest.mark.contract("resume:continues", "completion:events")
async def test_a_completed_task_goes_on_and_its_completion_gets_its_result(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish("one"), policy=Unattended())
    await wait_for_ending(task)
    engine_harness.use_script(finish("two"))
    again = await reopened(engine_harness, task, "and now the other half")
    await wait_for_ask(again)
    assert list_tool_results(again.messages[2]) == ["The result was presented and the run ended."]
    assert "<user_message>\nand now the other half\n</user_message>" in list_texts(
        again.messages[2]
    )
    check_history(again.messages)
    await again.approve()
    assert await wait_for_ending(again) == Completed("two")


async def test_without_a_message_a_user_is_asked_whether_to_go_on(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish("one"), policy=Unattended())
    await wait_for_ending(task)
    again = await reopened(engine_harness, task)
    assert (await wait_for_ask(again)).ask is AskKind.RESUME_COMPLETED_TASK
    await again.reject()
    ending = await wait_for_ending(again)
    assert isinstance(ending, Failed)


async def test_an_unfinished_task_asks_to_resume_and_yes_goes_on(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(fail(401, "no")), policy=Unattended())
    await wait_for_ending(task)
    engine_harness.use_script(finish())
    again = await reopened(engine_harness, task)
    assert (await wait_for_ask(again)).ask is AskKind.RESUME_TASK
    await again.approve()
    assert (await wait_for_ask(again)).ask is AskKind.COMPLETION_RESULT
    assert any(text.startswith("[TASK RESUMPTION]") for text in list_texts(again.messages[0]))


@pytest.mark.contract("resume:continues", "protocol:choice")
async def test_an_xml_task_resumes_as_xml(engine_harness: EngineHarness) -> None:
    end = Turn(say("<attempt_completion><result>ok</result></attempt_completion>"))
    task = await engine_harness.start(end, policy=Unattended(), protocol=ToolProtocol.XML)
    await wait_for_ending(task)
    provider = engine_harness.use_script(end)
    again = await reopened(engine_harness, task, "more")
    await wait_for_ask(again)
    assert provider.requests[0].tool_protocol is ToolProtocol.XML
    assert provider.requests[0].tools == ()


@pytest.mark.contract("store:journal")
async def test_messages_acknowledged_just_before_a_crash_reach_the_model(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("write_to_file", {"path": "a", "content": "1"})), settings=Settings()
    )
    ask = await wait_for_ask(task)
    log = task.recorder.task_log
    # What a process leaves that dies right after acknowledging an answer and a message.
    task.publish(
        AskAnswered(ts=task.next_ts(), ask_ts=ask.ts, answer=Answer(Response.NO, text="use tabs"))
    )
    task.publish(MessageQueued(ts=task.next_ts(), id="q1", text="and hurry"))
    runner = task._runner
    assert runner is not None
    task.recorder.task_log = _DetachedLog(log)  # type: ignore[assignment]
    runner.cancel()
    await settled_quietly(task)
    log.close()
    engine_harness.engine = engine_harness.new_engine()
    engine_harness.use_script(finish())
    again = await engine_harness.engine.resume(task.id)
    await wait_for_ask(again)
    await again.approve()
    await wait_for_ask(again)
    said = list_texts(again.messages[2])
    assert "<user_message>\nuse tabs\n</user_message>" in said
    assert "<user_message>\nand hurry\n</user_message>" in said
    check_history(again.messages)


class _DetachedLog:
    """A journal after the process is gone: nothing reaches it any more."""

    def __init__(self, log: object) -> None:
        self.directory = getattr(log, "directory", None)

    def append(self, record: object) -> None:
        pass

    async def sync(self) -> None:
        pass

    async def write_snapshot(self, *args: object) -> None:
        pass


async def settled_quietly(task: Task) -> None:
    import asyncio

    assert task._runner is not None
    await asyncio.wait([task._runner])


async def test_an_ask_of_a_dead_process_is_withdrawn(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        Turn(call("execute_command", {"command": "true"})), settings=Settings()
    )
    ask = await wait_for_ask(task)
    log = task.recorder.task_log
    task.recorder.task_log = _DetachedLog(log)  # type: ignore[assignment]
    await task.cancel()
    log.close()
    engine_harness.engine = engine_harness.new_engine()
    again = await engine_harness.engine.resume(task.id)
    opened = [r.event for r in again.bus.list_records_after(0) if isinstance(r.event, AskOpened)]
    assert opened[0].ts == ask.ts
    assert (await wait_for_ask(again)).ask is AskKind.RESUME_TASK
    assert find_rows(again, "command")[0].approval_state == "rejected"


async def test_a_message_to_a_task_at_rest_sets_it_to_work(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(finish("one"), finish("two"))
    await wait_for_ask(task)
    await task.approve()
    await wait_for_ending(task)
    await task.send("again")
    await wait_for_ask(task)
    await task.approve()
    assert await wait_for_ending(task) == Completed("two")
    assert task.state is TaskState.COMPLETED


@pytest.mark.contract("store:snapshots", "store:layout")
async def test_both_history_files_are_on_disk_when_the_task_waits_for_a_user(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish("one"))
    await wait_for_ask(task)
    await task.approve()
    await wait_for_ending(task)
    directory = engine_harness.home / "tasks" / f"task_{task.id}"
    ui = json.loads((directory / "ui_messages.json").read_bytes())
    api = json.loads((directory / "api_conversation_history.json").read_bytes())
    metadata = json.loads((directory / "task_metadata.json").read_bytes())
    assert [row["ts"] for row in ui] == sorted({row["ts"] for row in ui})
    assert [message["role"] for message in api] == ["user", "assistant"]
    assert metadata["status"] == "completed"
    assert metadata["title"] == "do it"


async def test_a_mode_chosen_on_resuming_is_switched_to(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(finish("one"), policy=Unattended())
    await wait_for_ending(task)
    await engine_harness.engine.release(task)
    engine_harness.use_script(finish("two"))
    again = await engine_harness.engine.resume(
        task.id, "explain it", options=TaskOptions(workspace=engine_harness.root, mode="ask")
    )
    await wait_for_ask(again)
    assert again.mode.slug == "ask"


async def test_a_replayed_journal_gives_the_very_rows_that_people_saw(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "a.txt").write_text("x")
    task = await engine_harness.start(
        Turn(think("hm"), say("Let me look."), call("read_file", {"path": "a.txt"})),
        Turn(fail(529, "overloaded")),
        Turn(call("execute_command", {"command": "echo hi"})),
        finish(),
        policy=Unattended(),
    )
    await wait_for_ending(task)
    replayed = UiHistory()
    for record in task.bus.list_records_after(0):
        replayed.apply(record.event)
    assert list(replayed.rows) == list(task.rows)
