"""From a request to an accepted result."""

from __future__ import annotations

import asyncio

import pytest

from joey.core.events import RowDelta, TaskCompleted, TaskFinished, ToolFailed
from joey.core.messages import ToolUseBlock
from joey.core.models import ToolProtocol
from joey.core.settings import Limits, Settings
from joey.core.task_types import Answer, AskKind, Response
from joey.engine.asks import Unattended
from joey.engine.outcomes import Aborted, Completed, Failed
from joey.testing.script import Turn, call, pause, say, usage
from tests.harness.engine.engine_harness import (
    ALLOW_ALL,
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


@pytest.mark.contract("completion:events", "loop:conversation", "history:api")
async def test_an_accepted_result_ends_the_task_after_one_request(
    engine_harness: EngineHarness,
) -> None:
    provider = engine_harness.use_script(finish("42"))
    task = await engine_harness.start(policy=Unattended())
    assert await wait_for_ending(task) == Completed("42")
    assert len(provider.requests) == 1
    assert isinstance(list_durable_events(task)[-1], TaskFinished)
    assert task.messages[-1].role == "assistant"


@pytest.mark.contract("completion:events")
async def test_feedback_on_a_result_becomes_its_result_and_the_loop_goes_on(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish("one"), finish("two"))
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.COMPLETION_RESULT
    await task.send("Can you also add a /goodbye endpoint?")
    await wait_for_ask(task)
    await task.approve()
    assert await wait_for_ending(task) == Completed("two")
    assert sum(isinstance(event, TaskCompleted) for event in list_durable_events(task)) == 2
    assert list_tool_results(task.messages[2]) == [
        "The user has provided feedback on the results. Consider their input to continue the"
        " task:\n<feedback>\nCan you also add a /goodbye endpoint?\n</feedback>"
    ]


@pytest.mark.contract("tool:attempt_completion:failure:after-a-failure", "completion:checks")
async def test_a_result_is_refused_when_a_tool_of_the_same_reply_failed(
    engine_harness: EngineHarness,
) -> None:
    failing = call("read_file", {"files": [{"path": "missing.txt"}]})
    task = await engine_harness.start(
        Turn(failing, done("too early")), finish(), policy=Unattended()
    )
    assert await wait_for_ending(task) == Completed("all done")
    presented = [e for e in list_durable_events(task) if isinstance(e, TaskCompleted)]
    assert [event.result for event in presented] == ["all done"]
    check_history(task.messages)


@pytest.mark.contract("completion:checks")
async def test_open_todos_refuse_a_result_when_the_setting_says_so(
    engine_harness: EngineHarness,
) -> None:
    settings = Settings(prevent_completion_with_open_todos=True)
    task = await engine_harness.start(
        Turn(call("update_todo_list", {"todos": "[ ] one"})),
        finish("too early"),
        Turn(call("update_todo_list", {"todos": "[x] one"})),
        finish(),
        settings=settings,
        policy=Unattended(),
    )
    assert await wait_for_ending(task) == Completed("all done")
    assert task.result == "all done"
    assert "todo" in list_tool_results(task.messages[4])[0]


@pytest.mark.contract("loop:plain-reply")
@pytest.mark.parametrize("protocol", list(ToolProtocol))
async def test_a_reply_without_a_tool_is_answered_with_the_reminder_of_its_protocol(
    engine_harness: EngineHarness, protocol: ToolProtocol
) -> None:
    last = (
        finish()
        if protocol is ToolProtocol.NATIVE
        else Turn(say("<attempt_completion>\n<result>all done</result>\n</attempt_completion>"))
    )
    task = await engine_harness.start(
        Turn(say("I think so.")), last, policy=Unattended(), protocol=protocol
    )
    assert await wait_for_ending(task) == Completed("all done")
    reminder = list_texts(task.messages[2])[0]
    assert reminder.startswith("[ERROR] You did not use a tool in your previous response!")
    assert ("XML-style tags" in reminder) is (protocol is ToolProtocol.XML)
    assert find_rows(task, "error") == []


@pytest.mark.contract("loop:mistakes")
async def test_mistakes_in_a_row_stop_for_a_user_whose_advice_reaches_the_model(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        *(Turn(call("no_such_tool", {"n": n})) for n in range(3)), finish()
    )
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.MISTAKE_LIMIT_REACHED
    await task.send("use read_file")
    await wait_for_ask(task)
    await task.approve()
    await wait_for_ending(task)
    assert "use read_file" in list_texts(task.messages[6])[0]
    assert sum(isinstance(event, ToolFailed) for event in list_durable_events(task)) == 3


@pytest.mark.contract("asks:unattended")
async def test_mistakes_without_a_user_end_the_run_as_failed(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        *(Turn(call("no_such_tool", {"n": n})) for n in range(10)), policy=Unattended()
    )
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "mistakes"
    check_history(task.messages)


@pytest.mark.contract("loop:repetition")
async def test_the_fourth_identical_call_is_not_run(engine_harness: EngineHarness) -> None:
    (engine_harness.root / "a.txt").write_text("x")
    same = [Turn(call("read_file", {"files": [{"path": "a.txt"}]})) for _ in range(4)]
    task = await engine_harness.start(*same, finish())
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.MISTAKE_LIMIT_REACHED
    await task.approve()
    await wait_for_ask(task)
    await task.approve()
    await wait_for_ending(task)
    assert "same arguments" in list_tool_results(task.messages[8])[0]


@pytest.mark.contract("loop:limits")
async def test_the_turn_limit_ends_the_run_with_its_code(engine_harness: EngineHarness) -> None:
    todo = [Turn(call("update_todo_list", {"todos": f"[ ] {n}"})) for n in range(5)]
    task = await engine_harness.start(*todo, limits=Limits(max_turns=2), policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "turns"


@pytest.mark.contract("loop:limits")
async def test_the_time_limit_cuts_a_silent_stream(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        Turn(say("hm"), pause(600)), limits=Limits(max_seconds=0.05), policy=Unattended()
    )
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "time"
    check_history(task.messages)


@pytest.mark.contract("loop:limits")
async def test_the_request_limit_asks_and_yes_goes_on(engine_harness: EngineHarness) -> None:
    settings = Settings(allowed_max_requests=1)
    task = await engine_harness.start(
        Turn(call("update_todo_list", {"todos": "[ ] a"})), finish(), settings=settings
    )
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.LIMIT_REACHED
    assert ask.text == '{"count":1,"type":"requests"}'
    await task.approve()
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT


@pytest.mark.contract("loop:calls")
async def test_several_calls_run_in_order_and_reads_side_by_side_keep_theirs(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "a.txt").write_text("AAA")
    (engine_harness.root / "b.txt").write_text("BBB")
    task = await engine_harness.start(
        Turn(
            call("read_file", {"files": [{"path": "a.txt"}]}),
            call("read_file", {"files": [{"path": "b.txt"}]}),
            call("write_to_file", {"path": "a.txt", "content": "new\n"}),
            call("read_file", {"files": [{"path": "a.txt"}]}),
        ),
        finish(),
        policy=Unattended(),
    )
    await wait_for_ending(task)
    first, second, _, fourth = list_tool_results(task.messages[2])
    assert "AAA" in first
    assert "BBB" in second
    assert "new" in fourth
    check_history(task.messages)


@pytest.mark.contract("loop:rejection")
async def test_a_rejection_skips_the_rest_and_its_message_reaches_the_model(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(
            call("write_to_file", {"path": "one.txt", "content": "1"}),
            call("write_to_file", {"path": "two.txt", "content": "2"}),
        ),
        finish(),
        settings=Settings(),
    )
    await wait_for_ask(task)
    await task.reject("use tabs")
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    await task.approve()
    await wait_for_ending(task)
    denied, skipped = list_tool_results(task.messages[2])
    assert denied.endswith("They said:\n<feedback>\nuse tabs\n</feedback>")
    assert "rejected" in skipped
    assert list(engine_harness.root.iterdir()) == []
    assert [row.text for row in find_rows(task, "user_feedback")] == ["use tabs"]


@pytest.mark.contract("loop:rejection-stops")
async def test_a_rejection_that_stops_waits_for_the_users_message(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(
            call("write_to_file", {"path": "one.txt", "content": "1"}),
            call("write_to_file", {"path": "two.txt", "content": "2"}),
        ),
        finish(),
        settings=Settings(),
    )
    ask = await wait_for_ask(task)
    await task.answer(ask.ts, Answer(Response.NO, stop=True))
    assert await wait_for_ending(task) == Aborted()
    assert list_event_names(task).count("RequestStarted") == 1
    await task.send("use tabs")
    await wait_for_ask(task)
    await task.approve()
    await wait_for_ending(task)
    denied, skipped = list_tool_results(task.messages[2])
    assert denied == "The user did not allow this call; it was not carried out."
    assert "rejected" in skipped
    assert "use tabs" in str(list_texts(task.messages[2]))
    check_history(task.messages)


@pytest.mark.parametrize("is_queued", [True, False])
async def test_a_rejection_with_a_message_or_after_one_continues_with_it(
    engine_harness: EngineHarness, is_queued: bool
) -> None:
    task = await engine_harness.start(
        Turn(call("write_to_file", {"path": "one.txt", "content": "1"})),
        finish(),
        settings=Settings(),
    )
    ask = await wait_for_ask(task)
    text = "" if is_queued else "use tabs"
    if is_queued:
        await task.send("use tabs", queue=True)
    await task.answer(ask.ts, Answer(Response.NO, text=text, stop=True))
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert "use tabs" in str(task.messages[2])


@pytest.mark.contract("loop:rejection")
async def test_a_message_with_a_yes_goes_in_front_of_the_result(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("write_to_file", {"path": "one.txt", "content": "1"})),
        finish(),
        settings=Settings(),
    )
    await wait_for_ask(task)
    await task.approve("but hurry")
    await wait_for_ask(task)
    (text,) = list_tool_results(task.messages[2])
    assert text == (
        "The user allowed this call and added:\n<feedback>\nbut hurry\n</feedback>\n\n"
        "Created one.txt: line 1."
    )
    assert (engine_harness.root / "one.txt").read_text() == "1"


@pytest.mark.contract("asks:queue")
async def test_a_message_queued_before_an_ask_is_no_approval_and_reaches_the_model_later(
    engine_harness: EngineHarness,
) -> None:
    gate = asyncio.Event()
    task = await engine_harness.start(
        Turn(say("wait"), pause(gate), call("write_to_file", {"path": "a", "content": "1"})),
        finish(),
        settings=Settings(),
    )
    await wait_for_event(task, RowDelta)
    await task.send("hurry up")
    gate.set()
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.TOOL
    assert not (engine_harness.root / "a").exists()
    await task.approve()
    await wait_for_ask(task)
    assert "<user_message>\nhurry up\n</user_message>" in list_texts(task.messages[2])
    assert not task.recorder.projection.queued_messages


@pytest.mark.contract("calls:incomplete")
async def test_a_call_with_broken_arguments_is_not_run_and_the_model_learns_why(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("write_to_file", '{"path": "a.txt", "content": "half')),
        finish(),
        policy=Unattended(),
    )
    await wait_for_ending(task)
    assert not (engine_harness.root / "a.txt").exists()
    assert list_tool_results(task.messages[2])[0].startswith("[ERROR] ")
    check_history(task.messages)


@pytest.mark.contract("calls:ids")
async def test_ids_that_a_provider_repeats_are_made_unique(engine_harness: EngineHarness) -> None:
    def todo(text: str) -> Turn:
        return Turn(call("update_todo_list", {"todos": text}, id="call_0"))

    task = await engine_harness.start(todo("[ ] a"), todo("[ ] b"), finish(), policy=Unattended())
    await wait_for_ending(task)
    used = [b.id for m in task.messages for b in m.content if isinstance(b, ToolUseBlock)]
    assert len(set(used)) == 3
    check_history(task.messages)


@pytest.mark.contract("loop:calls", "tool:switch_mode:success")
async def test_a_tool_outside_the_modes_groups_is_refused_with_the_reason(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("switch_mode", {"mode_slug": "ask", "reason": "to look"})),
        Turn(call("write_to_file", {"path": "a.txt", "content": "1"})),
        finish(),
        policy=Unattended(),
    )
    await wait_for_ending(task)
    assert task.mode.slug == "ask"
    assert "not allowed in ask mode" in list_tool_results(task.messages[4])[0]


@pytest.mark.contract("asks:unattended", "permissions:unattended")
async def test_without_a_user_the_model_decides_itself_and_writes_are_refused(
    engine_harness: EngineHarness,
) -> None:
    policy = Unattended()
    question = {"question": "which?", "follow_up": [{"text": "the red one", "mode": None}]}
    task = await engine_harness.start(
        Turn(call("ask_followup_question", question)),
        Turn(call("write_to_file", {"path": "a.txt", "content": "1"})),
        finish(),
        settings=Settings(),
        policy=policy,
    )
    await wait_for_ending(task)
    assert list_tool_results(task.messages[2]) == [
        "Nobody is there; decide yourself. Your first suggestion was: the red one"
    ]
    assert find_rows(task, "user_feedback") == []
    assert [row.is_answered for row in find_rows(task, "followup")] == [True]
    assert [ask.tool for ask in policy.refused_asks] == ["write_to_file"]
    assert not (engine_harness.root / "a.txt").exists()


@pytest.mark.contract("loop:conversation")
async def test_usage_and_cost_add_up_over_requests(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        Turn(
            call("update_todo_list", {"todos": "[ ] a"}),
            usage(input=100, output=20, cache_writes=30),
        ),
        Turn(done(), usage(input=10, output=5, cache_reads=130)),
        policy=Unattended(),
    )
    await wait_for_ending(task)
    assert task.usage.total_tokens_in == 270
    assert task.usage.total_tokens_out == 25
    assert task.usage.total_cache_reads == 130
    assert task.usage.context_tokens == 145


@pytest.mark.contract("asks:once")
async def test_the_answer_that_comes_first_counts(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        Turn(call("execute_command", {"command": "touch ran"})), finish(), settings=Settings()
    )
    ask = await wait_for_ask(task)
    assert await task.answer(ask.ts, Answer(Response.NO))
    assert not await task.answer(ask.ts, Answer(Response.YES))
    await wait_for_ask(task)
    assert not (engine_harness.root / "ran").exists()


@pytest.mark.contract("history:api", "prompt:environment")
async def test_surroundings_come_last_with_every_message_and_files_only_with_the_first(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "seen.txt").write_text("x")
    task = await engine_harness.start(
        Turn(call("switch_mode", {"mode_slug": "ask"})),
        finish(),
        settings=ALLOW_ALL,
        policy=Unattended(),
    )
    await wait_for_ending(task)
    first, second = list_texts(task.messages[0])[-1], list_texts(task.messages[2])[-1]
    assert first.startswith("<environment_details>")
    assert "seen.txt" in first
    assert second.startswith("<environment_details>")
    assert "seen.txt" not in second
