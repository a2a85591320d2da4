"""Words said to somebody in a tree: they reach whom they are meant for, and none is lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from joey.core.events import RequestStarted, TaskFailed, TaskFinished, TaskPaused
from joey.core.settings import Limits, Settings
from joey.core.task_types import AskKind
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call, pause
from tests.harness.engine.engine_harness import (
    EngineHarness,
    done,
    finish,
    list_tool_results,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    child_of,
    delegate,
    ended,
    play,
    spawned_by,
)


def looking(count: int) -> list[Turn]:
    return [Turn(call("list_files", {"path": ".", "recursive": bool(n % 2)})) for n in range(count)]


def get_scripted_subtasks(engine_harness: EngineHarness) -> ScriptedSubtasks:
    assert isinstance(engine_harness.provider, ScriptedSubtasks)
    return engine_harness.provider


async def test_a_message_to_a_subtask_that_is_done_restarts_it_while_its_sibling_works(
    engine_harness: EngineHarness,
) -> None:
    gate = asyncio.Event()
    parts = {
        "the whole": [Turn(delegate("part one"), delegate("part two")), finish()],
        "part one": [finish("first"), finish("second")],
        "part two": [Turn(pause(gate), done("two"))],
    }
    task = await play(engine_harness, parts)
    one, two = await child_of(task, 0), await child_of(task, 1)
    assert await wait_for_ending(one) == Completed("first")
    await wait_for_event(two, RequestStarted)
    since = one.seq
    await one.send("more, please")
    await wait_for_event(one, TaskFinished, since)
    gate.set()
    await ended(task)
    first, _ = list_tool_results(task.messages[2])
    assert first == f"Subtask {one.id} completed.\n\nResult:\nsecond"
    assert task.total_usage.total_tokens_in == 5 * 10


@pytest.mark.contract("loop:limits")
async def test_a_subtask_that_a_message_restarts_draws_from_the_same_limits(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("part one"), delegate("part two")), finish()],
        "part one": [finish("first"), *looking(9)],
        "part two": [Turn(pause(600))],
    }
    engine_harness.provider = scripted = ScriptedSubtasks(parts)
    task = await engine_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, limits=Limits(max_turns=5)
    )
    one, two = await child_of(task, 0), await child_of(task, 1)
    assert await wait_for_ending(one) == Completed("first")
    await wait_for_event(two, RequestStarted)
    await one.send("more, please")
    assert (await wait_for_event(one, TaskFailed)).code == "turns"
    assert len(scripted.requests) == 5


@pytest.mark.contract("subtasks:failure")
async def test_a_message_that_answers_the_question_whether_to_resume_reaches_the_subtask(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish("whole")], "a part": [Turn(pause(600))]}
    task = await play(engine_harness, parts)
    await wait_for_event(await child_of(task), RequestStarted)
    await task.cancel()
    await engine_harness.engine.release(task)
    parts["a part"] = [finish("in German")]
    again = await engine_harness.engine.resume(
        task.id, options=TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS)
    )
    assert (await wait_for_ask(again)).ask is AskKind.RESUME_TASK
    await again.send("do it in German")
    await ended(again)
    for part in ("a part", "the whole"):
        assert (
            get_scripted_subtasks(engine_harness).join_last_request(part).count("do it in German")
            == 1
        )


async def test_messages_of_each_run_are_sent_to_the_subtask_once(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish("whole")], "a part": [Turn(pause(600))]}
    task = await play(engine_harness, parts)
    await wait_for_event(await child_of(task), RequestStarted)
    for _ in range(2):
        await task.cancel()
        await engine_harness.engine.release(task)
        task = await engine_harness.engine.resume(
            task.id, options=TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS)
        )
        await wait_for_ask(task)
        await task.send("in German")
        await wait_for_event(task, TaskPaused, task.opened_at_seq)
        [child_id] = spawned_by(task)
        child = await task.find_subtask(child_id)
        assert child is not None
        await wait_for_event(child, RequestStarted, child.opened_at_seq)
    assert get_scripted_subtasks(engine_harness).join_last_request("a part").count("in German") == 2


async def test_a_message_that_came_with_the_yes_is_sent_when_the_subtask_fails_too(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish()], "a part": [Turn(pause(600))]}
    task = await play(engine_harness, parts, settings=Settings())
    await wait_for_ask(task)
    await task.approve("but only once")
    child = await child_of(task)
    await wait_for_event(child, RequestStarted)
    await child.cancel()
    await ended(task)
    [result] = list_tool_results(task.messages[2])
    assert "but only once" in result and "was stopped by the user" in result


async def test_messages_to_a_paused_parent_wait_for_its_own_next_turn(
    engine_harness: EngineHarness,
) -> None:
    gate = asyncio.Event()
    parts = {
        "the whole": [Turn(delegate("a part")), finish()],
        "a part": [Turn(pause(gate), done("part"))],
    }
    task = await play(engine_harness, parts)
    await wait_for_event(await child_of(task), RequestStarted)
    await task.send("for you alone")
    gate.set()
    await ended(task)
    assert "for you alone" in get_scripted_subtasks(engine_harness).join_last_request("the whole")
    assert "for you alone" not in get_scripted_subtasks(engine_harness).join_last_request("a part")


@pytest.mark.contract("subtasks:crash")
async def test_messages_that_wait_for_a_subtask_keep_it_from_returning(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("a part")), finish("whole")],
        "a part": [finish("first"), finish("second")],
    }
    policy = Unattended()
    task = await play(engine_harness, parts, policy=policy)
    await wait_for_ending(task)
    await engine_harness.engine.release(task)
    [child_id] = spawned_by(task)
    cut(engine_harness, task.id, "taskPaused")
    last = cut(engine_harness, child_id, "toolAnnounced")
    said = {"event": "messageQueued", "ts": last["event"]["ts"] + 1, "id": "q", "text": "wait"}
    journal = engine_harness.home / "tasks" / f"task_{child_id}" / "journal.jsonl"
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"seq": last["seq"] + 1, "event": said}) + "\n")
    again = await engine_harness.engine.resume(
        task.id, options=TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=policy)
    )
    assert await wait_for_ending(again) == Completed("whole")
    assert "wait" in get_scripted_subtasks(engine_harness).join_last_request("a part")
    assert list_tool_results(again.messages[2])[0].endswith("second")


def cut(engine_harness: EngineHarness, task_id: str, after: str) -> dict[str, Any]:
    """Keep a journal up to the first record of a kind, which is returned."""
    journal = engine_harness.home / "tasks" / f"task_{task_id}" / "journal.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    found = [json.loads(line) for line in lines]
    end = next(n for n, record in enumerate(found) if record["event"]["event"] == after)
    journal.write_text("".join(lines[: end + 1]), encoding="utf-8")
    kept: dict[str, Any] = found[end]
    return kept
