"""Cancelling at any moment leaves nothing behind but a valid history that can be resumed."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import psutil
import pytest

from joey.app import make_options, open_engine
from joey.core.events import (
    ArgumentsDelta,
    CommandOutputDelta,
    RequestStarted,
    RetryCountdown,
    RowDelta,
    TaskAborted,
)
from joey.core.messages import CallChunk, ToolUseBlock
from joey.core.prompts.messages_to_model import INTERRUPTED_CALL_TEXT
from joey.core.settings import Settings
from joey.core.task_types import AskKind, TaskState
from joey.engine.asks import Unattended
from joey.engine.outcomes import Aborted, Completed
from joey.engine.task import Task
from joey.testing.script import Turn, call, fail, pause, say
from joey.testing.scripted_provider import ScriptedProvider
from joey.testing.server import ModelServer
from tests.harness.engine.engine_harness import (
    TIMEOUT_S,
    EngineHarness,
    check_history,
    find_rows,
    finish,
    list_durable_events,
    list_texts,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)


async def check_stopped(task: Task, provider: ScriptedProvider) -> None:
    """No stream, ask, row or asyncio task is left, and both histories are whole."""
    assert await wait_for_ending(task) == Aborted()
    assert task.state is TaskState.ABORTED
    assert task.pending is None
    assert provider.open_stream_count == 0
    assert not task.runtime.terminal.background_commands
    assert sum(isinstance(event, TaskAborted) for event in list_durable_events(task)) == 1
    check_history(task.messages)
    assert not [row for row in task.rows if getattr(row, "approval_state", None) == "pending"]
    alive = {t.get_name() for t in asyncio.all_tasks() if t is not asyncio.current_task()}
    assert not {name for name in alive if name.startswith("joey-")}


async def check_resumes(engine_harness: EngineHarness, task: Task) -> None:
    engine_harness.use_script(finish("after all"))
    await engine_harness.engine.release(task)
    again = await engine_harness.engine.resume(task.id, "go on")
    await wait_for_ask(again)
    check_history(again.messages)
    await again.approve()
    assert await wait_for_ending(again) == Completed("after all")


@pytest.mark.contract("cancel:any-moment")
async def test_before_the_first_step(engine_harness: EngineHarness) -> None:
    provider = engine_harness.use_script(finish())
    task = await engine_harness.start()
    await task.cancel()
    await check_stopped(task, provider)
    await check_resumes(engine_harness, task)


@pytest.mark.contract("cancel:any-moment")
async def test_before_the_first_chunk(engine_harness: EngineHarness) -> None:
    provider = engine_harness.use_script(Turn(pause(600), say("never")))
    task = await engine_harness.start()
    await wait_for_event(task, RequestStarted)
    await asyncio.sleep(0)
    await task.cancel()
    await check_stopped(task, provider)
    await check_resumes(engine_harness, task)


@pytest.mark.contract("cancel:any-moment", "history:api", "history:ui")
async def test_in_the_middle_of_text(engine_harness: EngineHarness) -> None:
    provider = engine_harness.use_script(Turn(say("I was say"), pause(600), say("ing")))
    task = await engine_harness.start()
    await wait_for_event(task, RowDelta)
    await task.cancel()
    await check_stopped(task, provider)
    assert "I was say" in list_texts(task.messages[-1])
    assert "user_cancelled" in (find_rows(task, "api_req_started")[-1].text or "")
    await check_resumes(engine_harness, task)


@pytest.mark.contract("cancel:any-moment")
async def test_in_the_middle_of_arguments(engine_harness: EngineHarness) -> None:
    gate = asyncio.Event()
    provider = engine_harness.use_script(
        [
            CallChunk(0, id="c1", name="write_to_file"),
            CallChunk(0, arguments='{"path": "a.txt", "content": "hal'),
            pause(gate),
        ]
    )
    task = await engine_harness.start()
    await wait_for_event(task, ArgumentsDelta)
    await task.cancel()
    await check_stopped(task, provider)
    assert not (engine_harness.root / "a.txt").exists()
    await check_resumes(engine_harness, task)


@pytest.mark.contract("cancel:any-moment", "tool:execute_command:success:group", "history:api")
async def test_in_a_command_whose_processes_go_with_it(engine_harness: EngineHarness) -> None:
    command = "echo $$; trap '' TERM; sleep 600 & wait"
    provider = engine_harness.use_script(Turn(call("execute_command", {"command": command})))
    task = await engine_harness.start()
    pid = int((await wait_for_event(task, CommandOutputDelta)).output.split()[0])
    await task.cancel()
    await check_stopped(task, provider)
    assert not _alive_in_group(pid)
    assert list_tool_results(task.messages[-1]) == [INTERRUPTED_CALL_TEXT]
    await check_resumes(engine_harness, task)


def _alive_in_group(group: int) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE and _group_of(process.pid) == group
    ]


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:  # others on this machine come and go
        return None


@pytest.mark.contract("cancel:any-moment")
async def test_in_a_countdown(engine_harness: EngineHarness) -> None:
    engine_harness.clock.sleep_gate = asyncio.Event()
    provider = engine_harness.use_script(Turn(fail(529, "overloaded")))
    task = await engine_harness.start()
    await wait_for_event(task, RetryCountdown)
    await task.cancel()
    await check_stopped(task, provider)
    assert find_rows(task, "api_req_retry_delayed")
    engine_harness.clock.sleep_gate = None
    await check_resumes(engine_harness, task)


@pytest.mark.contract("asks:once")
async def test_while_asking(engine_harness: EngineHarness) -> None:
    provider = engine_harness.use_script(Turn(call("write_to_file", {"path": "a", "content": "1"})))
    task = await engine_harness.start(settings=Settings())
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.TOOL
    await task.cancel()
    await check_stopped(task, provider)
    assert find_rows(task, "tool")[0].approval_state == "rejected"
    assert not (engine_harness.root / "a").exists()
    await check_resumes(engine_harness, task)


@pytest.mark.contract("cancel:any-moment")
async def test_twice_at_once(engine_harness: EngineHarness) -> None:
    provider = engine_harness.use_script(Turn(say("hm"), pause(600)))
    task = await engine_harness.start()
    await wait_for_event(task, RowDelta)
    await asyncio.gather(task.cancel(), task.cancel())
    await task.cancel()
    await check_stopped(task, provider)
    await check_resumes(engine_harness, task)


async def test_a_message_sent_just_before_it_is_stopped_waits_and_does_not_set_it_to_work(
    engine_harness: EngineHarness,
) -> None:
    provider = engine_harness.use_script(Turn(say("hm"), pause(600)), finish())
    task = await engine_harness.start()
    await wait_for_event(task, RowDelta)
    sending = asyncio.ensure_future(task.send("and be quick"))
    await asyncio.sleep(0)
    assert task.recorder.projection.queued_messages
    await asyncio.gather(sending, task.cancel())
    await check_stopped(task, provider)
    assert [waiting.text for waiting in task.recorder.projection.queued_messages.values()] == [
        "and be quick"
    ]


async def test_a_task_of_the_engine_is_stopped_when_the_engine_closes(
    engine_harness: EngineHarness,
) -> None:
    provider = engine_harness.use_script(Turn(say("hm"), pause(600)))
    task = await engine_harness.start(policy=Unattended())
    await wait_for_event(task, RowDelta)
    await engine_harness.engine.close()
    assert task.state is TaskState.ABORTED
    assert provider.open_stream_count == 0
    assert provider.is_closed


@pytest.mark.contract("resume:continues")
async def test_a_cancelled_task_goes_on_with_all_it_knew(engine_harness: EngineHarness) -> None:
    (engine_harness.root / "a.txt").write_text("the content")
    look = Turn(call("read_file", {"files": [{"path": "a.txt"}]}))
    engine_harness.use_script(look, Turn(say("I begin to see"), pause(600)))
    task = await engine_harness.start(text="look at it")
    await wait_for_event(task, RowDelta)
    await task.cancel()
    await engine_harness.engine.close()

    engine_harness.engine = engine_harness.new_engine()
    provider = engine_harness.use_script(finish())
    again = await engine_harness.engine.resume(task.id, "go on")
    await wait_for_ask(again)
    first, called, result, cut = provider.requests[0].messages[:4]
    assert list_texts(first)[0] == "look at it"
    assert any(isinstance(block, ToolUseBlock) for block in called.content)
    assert "the content" in list_tool_results(result)[0]
    assert "I begin to see" in list_texts(cut)


@pytest.mark.contract("store:layout")
async def test_the_output_of_a_command_outlives_cancelling_and_resuming(
    engine_harness: EngineHarness,
) -> None:
    flood = call("execute_command", {"command": "seq 1 5000; echo THE END"})
    engine_harness.use_script(Turn(flood), Turn(say("hm"), pause(600)))
    task = await engine_harness.start()
    await wait_for_event(task, RowDelta)
    await task.cancel()
    await engine_harness.engine.release(task)
    (artifact,) = (engine_harness.home / "tasks" / f"task_{task.id}" / "command-output").iterdir()

    read = call("read_command_output", {"artifact_id": artifact.name, "search": "THE END"})
    engine_harness.use_script(Turn(read), finish())
    again = await engine_harness.engine.resume(task.id, "go on")
    await wait_for_ask(again)
    assert "THE END" in list_tool_results(again.messages[-2])[0]
    assert artifact.read_text().startswith("1\n2\n")


async def test_while_it_connects_no_socket_is_lost(tmp_path: Path) -> None:
    async with ModelServer([]) as server, open_engine(home=tmp_path / "home", env={}) as engine:
        options = make_options(
            workspace=tmp_path,
            home=tmp_path / "home",
            env={},
            provider="anthropic",
            base_url=server.url,
            model="test",
        )
        for _ in range(20):
            task = await engine.start("hi", options=options)
            await wait_for_event(task, RequestStarted)
            await asyncio.sleep(0)
            await task.cancel()
        async with asyncio.timeout(TIMEOUT_S):
            await server.wait_for_connections(0)
        gc.collect()
