"""Parent, child, parent: work that is handed on, and results that come back."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import Sequence

import pytest

from joey.core.events import (
    RequestStarted,
    RowAdded,
    SubtaskSpawned,
    TaskCreated,
    TaskFinished,
    TaskPaused,
    TaskUnpaused,
    ToolFinished,
    ToolStarted,
)
from joey.core.models import ToolProtocol
from joey.core.modes import SlashCommand
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response, TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Aborted, Completed
from joey.engine.task import Task
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call, fail, pause, say
from tests.harness.engine.engine_harness import (
    TIMEOUT_S,
    EngineHarness,
    check_history,
    done,
    find_rows,
    finish,
    list_durable_events,
    list_event_names,
    list_texts,
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
from tests.harness.engine.static_customizations import StaticCustomizations


@pytest.mark.contract("subtasks:result", "subtasks:events")
async def test_the_result_of_a_subtask_is_the_result_of_the_call(
    engine_harness: EngineHarness,
) -> None:
    task = await play(
        engine_harness,
        {
            "the whole": [Turn(say("I delegate."), delegate("a part", "ask")), finish("whole")],
            "a part": [finish("the part is done")],
        },
    )
    child = await child_of(task)
    await ended(task)
    assert list_tool_results(task.messages[2]) == [
        f"Subtask {child.id} completed.\n\nResult:\nthe part is done"
    ]
    assert [row.text for row in find_rows(task, "subtask_result")] == ["the part is done"]
    interesting = (SubtaskSpawned, TaskPaused, TaskUnpaused, RowAdded, ToolFinished)
    assert [type(event) for event in list_durable_events(task) if isinstance(event, interesting)][
        :5
    ] == [
        SubtaskSpawned,
        TaskPaused,
        RowAdded,
        ToolFinished,
        TaskUnpaused,
    ]
    assert child.state is TaskState.COMPLETED
    assert child.mode.slug == "ask"
    created = list_durable_events(child)[0]
    assert isinstance(created, TaskCreated)
    assert (created.parent_id, created.root_id, created.depth) == (task.id, task.id, 1)
    assert created.workspace == str(engine_harness.root)
    assert engine_harness.engine.find_open_task(child.id) is None


@pytest.mark.contract("subtasks:result")
async def test_the_row_of_the_call_says_who_shall_do_what(engine_harness: EngineHarness) -> None:
    parts = {
        "the whole": [Turn(delegate("mail x\\\\@y", todos="[ ] one\n[x] two")), finish()],
        "mail": [finish("ok")],
    }
    task = await play(engine_harness, parts, settings=Settings())
    ask = await wait_for_ask(task)
    row = json.loads(ask.text)
    assert {key: row[key] for key in ("tool", "mode", "content")} == {
        "tool": "newTask",
        "mode": "💻 Code",
        "content": "mail x\\@y",
    }
    assert [(todo["content"], todo["status"]) for todo in row["todos"]] == [
        ("one", "pending"),
        ("two", "completed"),
    ]
    await task.approve()
    child = await child_of(task)
    assert [todo.content for todo in child.recorder.projection.todos] == ["one", "two"]
    assert child.recorder.projection.title == "mail x\\@y"


@pytest.mark.contract("subtasks:result")
async def test_a_subtask_asks_before_it_hands_over_its_result(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("a part")), finish()],
        "a part": [finish("half"), finish("all of it")],
    }
    task = await play(engine_harness, parts, settings=Settings())
    await wait_for_ask(task)
    await task.approve()
    child = await child_of(task)
    ask = await wait_for_ask(child)
    assert (ask.ask, json.loads(ask.text)) == (AskKind.TOOL, {"tool": "finishTask"})
    since = child.seq
    await child.reject("that is only half of it")
    await wait_for_event(child, RequestStarted, since)
    await wait_for_ask(child)
    assert "that is only half of it" in list_tool_results(child.messages[2])[0]
    await child.approve()
    await ended(task)
    assert "all of it" in list_tool_results(task.messages[2])[0]
    assert len(find_rows(task, "subtask_result")) == 1


async def test_the_rules_let_a_subtask_finish_without_a_question(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish()], "a part": [finish("ok")]}
    task = await play(engine_harness, parts)
    child = await child_of(task)
    await ended(task)
    [announced] = [event for event in list_durable_events(child) if isinstance(event, ToolStarted)]
    assert json.loads(announced.text) == {"tool": "finishTask"}
    assert announced.rule == "alwaysAllowSubtasks"
    assert list_event_names(child)[-1] == "TaskFinished"


async def test_a_rejected_delegation_makes_no_subtask(engine_harness: EngineHarness) -> None:
    parts = {"the whole": [Turn(delegate("a part"), delegate("b part")), finish()]}
    task = await play(engine_harness, parts, settings=Settings())
    await wait_for_ask(task)
    await task.reject("do it yourself")
    await ended(task)
    first, second = list_tool_results(task.messages[2])
    assert "do it yourself" in first
    assert "Skipped" in second
    assert spawned_by(task) == []


@pytest.mark.contract("loop:rejection-stops")
async def test_a_rejection_in_a_subtask_stops_the_whole_tree_until_a_message(
    engine_harness: EngineHarness,
) -> None:
    write, gate = call("write_to_file", {"path": "a.txt", "content": "1"}), asyncio.Event()
    parts = {
        "the whole": [Turn(delegate("part one"), delegate("part two")), finish("whole")],
        "part one": [Turn(write), finish("one")],
        "part two": [Turn(pause(gate), done("two"))],
    }
    settings = Settings(auto_approval_enabled=True, always_allow_subtasks=True)
    task = await play(engine_harness, parts, settings=settings)
    first, second = await child_of(task, 0), await child_of(task, 1)
    await wait_for_event(second, RequestStarted)
    ask = await wait_for_ask(first)
    await first.answer(ask.ts, Answer(Response.NO, stop=True))
    assert await wait_for_ending(task) == Aborted()
    assert [first.state, second.state] == [TaskState.ABORTED] * 2
    assert not (first.is_running or second.is_running)
    gate.set()
    await task.send("leave a.txt alone")
    await ended(task)
    one, two = list_tool_results(task.messages[2])
    assert "one" in one and "two" in two
    resumed = engine_harness.engine.store.read_records(first.id)
    assert "leave a.txt alone" in str([record.event for record in resumed])
    assert not (engine_harness.root / "a.txt").exists()


@pytest.mark.contract("subtasks:result")
async def test_neighbours_work_at_the_same_time_and_each_call_gets_its_own_result(
    engine_harness: EngineHarness,
) -> None:
    gates = {name: asyncio.Event() for name in ("one", "two")}
    parts = {
        "the whole": [Turn(delegate("part one"), delegate("part two")), finish()],
        "part one": [Turn(pause(gates["one"]), done("result one"))],
        "part two": [Turn(pause(gates["two"]), done("result two"))],
    }
    task = await play(engine_harness, parts)
    first, second = await child_of(task, 0), await child_of(task, 1)
    await wait_for_event(first, RequestStarted)
    await wait_for_event(second, RequestStarted)
    assert task.state is TaskState.DELEGATED
    gates["two"].set()
    await wait_for_event(second, TaskFinished)
    assert first.is_running
    gates["one"].set()
    await ended(task)
    one, two = list_tool_results(task.messages[2])
    assert first.id in one and "result one" in one
    assert second.id in two and "result two" in two
    assert (
        list_event_names(task).count("TaskPaused")
        == list_event_names(task).count("TaskUnpaused")
        == 1
    )


async def test_neighbours_are_all_approved_before_the_first_begins(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("part one"), delegate("part two")), finish()],
        "part one": [finish("1")],
        "part two": [finish("2")],
    }
    settings = Settings()
    task = await play(engine_harness, parts, settings=settings)
    await wait_for_ask(task)
    await task.approve()
    ask = await wait_for_ask(task)
    assert "part two" in ask.text
    assert spawned_by(task) == []
    await task.reject()
    child = await child_of(task)
    await wait_for_ask(child)
    await child.approve()
    await ended(task)
    assert len(spawned_by(task)) == 1


@pytest.mark.contract("subtasks:result")
async def test_a_call_after_a_subtask_sees_what_the_subtask_did(
    engine_harness: EngineHarness,
) -> None:
    write = call("write_to_file", {"path": "a.txt", "content": "parent\n"})
    read = call("read_file", {"path": "a.txt"})
    parts = {
        "the whole": [Turn(delegate("part one"), read, write, delegate("part two")), finish()],
        "part one": [
            Turn(call("write_to_file", {"path": "a.txt", "content": "child\n"})),
            finish("1"),
        ],
        "part two": [Turn(call("read_file", {"path": "a.txt"})), finish("2")],
    }
    task = await play(engine_harness, parts)
    await ended(task)
    _, seen, _, last = list_tool_results(task.messages[2])
    assert "child" in seen
    assert last.endswith("2")
    [row] = [row for row in find_rows(task, "tool") if row.tool == "write_to_file"]
    assert "-child" in (row.diff or "")
    scripted = engine_harness.provider
    assert isinstance(scripted, ScriptedSubtasks)
    assert "parent" in scripted.join_last_request("part two")


@pytest.mark.contract("tool:new_task:failure:subtask-failed", "subtasks:failure")
async def test_a_subtask_that_fails_gives_an_error_and_the_parent_goes_on(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("a part")), finish("without it")],
        "a part": [Turn(fail(401, "no such key"))],
    }
    task = await play(engine_harness, parts, policy=Unattended())
    assert await wait_for_ending(task) == Completed("without it")
    [result] = [event for event in list_durable_events(task) if isinstance(event, ToolFinished)][:1]
    assert result.is_error
    assert "ended without a result" in result.content
    assert "no such key" in result.content
    assert find_rows(task, "subtask_result") == []


@pytest.mark.contract("tool:new_task:failure:subtask-stopped", "subtasks:failure")
async def test_a_subtask_that_is_stopped_alone_gives_an_error_and_the_parent_goes_on(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("part one"), delegate("part two")), finish("without it")],
        "part one": [Turn(pause(600))],
        "part two": [finish("two")],
    }
    task = await play(engine_harness, parts)
    child = await child_of(task)
    await wait_for_event(child, RequestStarted)
    await child.cancel()
    await ended(task)
    one, two = list_tool_results(task.messages[2])
    assert "was stopped by the user" in one
    assert "two" in two
    assert child.state is TaskState.ABORTED


@pytest.mark.contract("subtasks:failure")
async def test_cancel_stops_the_whole_tree_and_resuming_goes_on_with_the_subtask(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("part one"), delegate("part two")), finish("whole")],
        "part one": [Turn(pause(600))],
        "part two": [finish("two")],
    }
    task = await play(engine_harness, parts)
    first, second = await child_of(task, 0), await child_of(task, 1)
    await wait_for_event(first, RequestStarted)
    await wait_for_event(second, TaskFinished)
    async with asyncio.timeout(TIMEOUT_S):
        await task.cancel()
    assert await wait_for_ending(task) == Aborted()
    assert (first.state, second.state) == (TaskState.ABORTED, TaskState.COMPLETED)
    assert list_event_names(task)[-3:] == ["TaskPaused", "TaskUnpaused", "TaskAborted"]
    check_history(task.messages)
    check_history(first.messages)
    assert engine_harness.engine.find_open_task(first.id) is None
    parts["part one"] = [finish("one")]
    await engine_harness.engine.release(task)
    again = await engine_harness.engine.resume(
        task.id, options=TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS)
    )
    assert (await wait_for_ask(again)).ask is AskKind.RESUME_TASK
    await again.approve()
    await ended(again)
    one, two = list_tool_results(again.messages[2])
    assert "one" in one and "two" in two
    assert spawned_by(again) == [first.id, second.id]
    assert len([e for e in list_durable_events(again) if isinstance(e, ToolFinished)]) == 2
    assert "TASK RESUMPTION" not in str(again.messages[2].content)


async def test_closing_the_engine_leaves_a_tree_that_can_be_resumed(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("a part")), finish("whole")],
        "a part": [Turn(pause(600)), finish("part")],
    }
    task = await play(engine_harness, parts)
    child = await child_of(task)
    await wait_for_event(child, RequestStarted)
    await engine_harness.engine.close()
    assert (task.state, child.state) == (TaskState.ABORTED, TaskState.ABORTED)
    engine_harness.provider = ScriptedSubtasks({**parts, "a part": [finish("part")]})
    engine_harness.engine = engine_harness.new_engine()
    again = await engine_harness.engine.resume(
        task.id, "go on", options=TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    )
    assert await wait_for_ending(again) == Completed("whole")
    assert "part" in list_tool_results(again.messages[2])[0]


@pytest.mark.contract("subtasks:failure")
async def test_messages_after_a_stop_reach_the_subtask_and_the_parent(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("a part")), finish("whole")],
        "a part": [Turn(pause(600))],
    }
    task = await play(engine_harness, parts)
    child = await child_of(task)
    await wait_for_event(child, RequestStarted)
    await task.cancel()
    parts["a part"] = [finish("in German")]
    await task.send("do it in German")
    await ended(task)
    scripted = engine_harness.provider
    assert isinstance(scripted, ScriptedSubtasks)
    assert "do it in German" in scripted.join_last_request("a part")
    assert "do it in German" in scripted.join_last_request("the whole")


@pytest.mark.contract("subtasks:result")
async def test_subtasks_have_subtasks(engine_harness: EngineHarness) -> None:
    parts = {
        "part A": [Turn(delegate("part B")), finish("A")],
        "part B": [Turn(delegate("part C")), finish("B")],
        "part C": [Turn(call("write_to_file", {"path": "c.txt", "content": "c"})), finish("C")],
    }
    task = await play(engine_harness, parts, text="part A", policy=Unattended())
    assert await wait_for_ending(task) == Completed("A")
    assert (engine_harness.root / "c.txt").read_text() == "c"
    known = {entry.id: entry for entry in engine_harness.engine.history()}
    [b] = spawned_by(task)
    [c] = known[b].child_ids
    assert (known[b].parent_id, known[c].parent_id) == (task.id, b)
    assert {entry.status for entry in known.values()} == {TaskState.COMPLETED}


async def test_a_tree_that_is_cut_off_goes_on_at_its_lowest_leaf(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "part A": [Turn(delegate("part B")), finish("A")],
        "part B": [Turn(delegate("part C")), finish("B")],
        "part C": [Turn(pause(600))],
    }
    task = await play(engine_harness, parts, text="part A")
    b = await child_of(task)
    c = await child_of(b)
    await wait_for_event(c, RequestStarted)
    await task.cancel()
    assert [each.state for each in (task, b, c)] == [TaskState.ABORTED] * 3
    engine_harness.provider = scripted = ScriptedSubtasks({**parts, "part C": [finish("C")]})
    await engine_harness.engine.release(task)
    again = await engine_harness.engine.resume(
        task.id, options=TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended())
    )
    assert await wait_for_ending(again) == Completed("A")
    assert [part for part, _ in scripted.requests] == ["part C", "part B", "part A"]


@pytest.mark.contract("subtasks:result")
async def test_a_tree_has_a_greatest_depth(engine_harness: EngineHarness) -> None:
    parts: dict[str, Sequence[Turn]] = {
        f"level {n}.": [Turn(delegate(f"level {n + 1}.")), finish(f"result {n}")] for n in range(9)
    }
    task = await play(engine_harness, parts, text="level 0.", policy=Unattended())
    assert await wait_for_ending(task) == Completed("result 0")
    assert len(engine_harness.engine.history()) == 9
    scripted = engine_harness.provider
    assert isinstance(scripted, ScriptedSubtasks)
    assert "nested 8 deep" in scripted.join_last_request("level 8.")


@pytest.mark.contract("subtasks:crash")
async def test_a_subtask_that_goes_on_later_does_not_return_twice(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(delegate("a part")), finish("whole")],
        "a part": [finish("one"), finish("two")],
    }
    task = await play(engine_harness, parts)
    await ended(task)
    [child_id] = spawned_by(task)
    before = task.seq
    child = await engine_harness.engine.resume(
        child_id, "more", options=TaskOptions(settings=ALLOW_ALL_WITH_SUBTASKS)
    )
    assert (await wait_for_ask(child)).ask is AskKind.COMPLETION_RESULT
    await child.approve()
    assert await wait_for_ending(child) == Completed("two")
    assert task.seq == before


async def test_the_task_says_what_its_subtasks_have_used(engine_harness: EngineHarness) -> None:
    parts = {
        "part A": [Turn(delegate("part B")), finish("A")],
        "part B": [Turn(delegate("part C")), finish("B")],
        "part C": [finish("C")],
    }
    task = await play(engine_harness, parts, text="part A", policy=Unattended())
    await wait_for_ending(task)
    assert task.usage.total_tokens_in == 20
    assert task.total_usage.total_tokens_in == 50


async def test_a_task_that_waits_for_its_subtask_is_listed_as_delegated(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish()], "a part": [Turn(pause(600))]}
    task = await play(engine_harness, parts)
    child = await child_of(task)
    await wait_for_event(child, RequestStarted)
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            known = {entry.id: entry for entry in engine_harness.engine.history()}
            if known[task.id].status == TaskState.DELEGATED:
                break
            await asyncio.sleep(0)
    assert known[task.id].child_ids == (child.id,)


async def test_a_message_that_came_with_the_yes_is_sent_with_the_result(
    engine_harness: EngineHarness,
) -> None:
    parts = {"the whole": [Turn(delegate("a part")), finish()], "a part": [finish("ok")]}
    task = await play(engine_harness, parts, settings=Settings())
    await wait_for_ask(task)
    await task.approve("but only once")
    child = await child_of(task)
    await wait_for_ask(child)
    await child.approve()
    await ended(task)
    [result] = list_tool_results(task.messages[2])
    assert "but only once" in result and "completed." in result


async def test_subtasks_speak_the_protocol_of_their_parent(engine_harness: EngineHarness) -> None:
    def xml(tool: str, **arguments: str) -> Turn:
        inner = "".join(f"<{key}>{value}</{key}>" for key, value in arguments.items())
        return Turn(say(f"<{tool}>{inner}</{tool}>"))

    engine_harness.provider = ScriptedSubtasks(
        {
            "the whole": [
                xml("new_task", mode="code", message="a part"),
                xml("attempt_completion", result="whole"),
            ],
            "a part": [xml("attempt_completion", result="part")],
        }
    )
    task = await engine_harness.start(
        text="the whole",
        settings=ALLOW_ALL_WITH_SUBTASKS,
        policy=Unattended(),
        protocol=ToolProtocol.XML,
    )
    assert await wait_for_ending(task) == Completed("whole")
    assert "completed.\n\nResult:\npart" in list_texts(task.messages[2])[1]
    assert {entry.tool_protocol for entry in engine_harness.engine.history()} == {"xml"}


@pytest.mark.contract("subtasks:failure")
async def test_subtasks_that_fail_together_are_one_mistake(engine_harness: EngineHarness) -> None:
    hands = [delegate(f"part {n}") for n in range(4)]
    parts: dict[str, Sequence[Turn]] = {"the whole": [Turn(*hands), finish("without them")]}
    parts |= {f"part {n}": [Turn(fail(401, "no such key"))] for n in range(4)}
    task = await play(engine_harness, parts, policy=Unattended())
    assert await wait_for_ending(task) == Completed("without them")
    assert len(list_tool_results(task.messages[2])) == 4


@pytest.mark.contract("subtasks:result")
async def test_of_many_subtasks_fifty_work_at_once_and_nothing_of_them_is_kept(
    engine_harness: EngineHarness,
) -> None:
    hands = [delegate(f"part {n}.") for n in range(60)]
    parts: dict[str, Sequence[Turn]] = {"the whole": [Turn(*hands), finish("whole")]}
    parts |= {f"part {n}.": [finish(f"result {n}")] for n in range(60)}
    children: list[weakref.ref[Task]] = []
    open_tasks: list[int] = []

    def note(child: Task) -> None:
        children.append(weakref.ref(child))
        open_tasks.append(len(engine_harness.engine.tasks))

    engine_harness.engine.on_subtask_opened = note
    task = await play(engine_harness, parts, policy=Unattended())
    assert await wait_for_ending(task) == Completed("whole")
    got = [result.rpartition("\n")[2] for result in list_tool_results(task.messages[2])]
    assert got == [f"result {n}" for n in range(60)]
    assert max(open_tasks) == 51
    assert engine_harness.engine.tasks == [task]
    gc.collect()
    assert len(children) == 60
    assert [child() for child in children if child() is not None] == []


async def test_what_looks_like_a_mention_in_the_text_of_a_model_is_left_as_it_is(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "notes.txt").write_text("the notes")
    review = SlashCommand("review", "Read every line.", mode="ask", source="project")
    engine_harness.capabilities = Capabilities(
        customizations=StaticCustomizations(slash_commands=(review,))
    )
    message = "a part: /review @/notes.txt"
    parts = {"the whole": [Turn(delegate(message)), finish()], "a part": [finish("ok")]}
    task = await play(engine_harness, parts)
    child = await child_of(task)
    await ended(task)
    scripted = engine_harness.provider
    assert isinstance(scripted, ScriptedSubtasks)
    sent = scripted.join_last_request("a part")
    assert message in sent
    assert "the notes" not in sent
    assert "Read every line." not in sent
    assert child.mode.slug == "code"
