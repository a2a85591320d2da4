"""What hooks are told, and what they can and cannot do."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from joey.core.events import AskAnswered
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call, say
from tests.harness.engine.engine_harness import (
    TIMEOUT_S,
    finish,
    list_durable_events,
    list_texts,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)
from tests.harness.execution.hook_harness import HookHarness, failures, hook, outcomes, said

WRITE = Turn(call("write_to_file", {"path": "a.txt", "content": "one\n"}))
READ = Turn(call("read_file", {"path": "a.txt"}))


@pytest.mark.contract("hooks:decide")
async def test_a_hook_sees_the_call_and_stops_it_with_its_reason(harness: HookHarness) -> None:
    look = "cat > seen.json; echo 'no writes today' >&2; exit 2"
    harness.set_user_hooks(hook("beforeTool", look, tools=["write_to_file"]))
    task = await harness.start(WRITE, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert not (harness.root / "a.txt").exists()
    hook_input = json.loads((harness.root / "seen.json").read_text())
    assert hook_input["event"] == "beforeTool"
    assert (hook_input["taskId"], hook_input["workspace"]) == (task.id, str(harness.root))
    assert (hook_input["mode"], hook_input["decision"]) == ("code", "allowed")
    assert hook_input["rule"] == "alwaysAllowWrite"
    refused = failures(task)[0]
    assert refused.rule is not None and refused.rule.startswith("hook `cat > seen.json")
    assert "no writes today" in outcomes(task)[0]


async def test_a_hook_that_is_content_changes_nothing_and_may_speak_to_the_user(
    harness: HookHarness,
) -> None:
    harness.set_user_hooks(
        hook("beforeTool", """echo '{"message": "a write"}'""", tools=["write_to_file"]),
        hook("beforeTool", "touch wrong", tools=["execute_command"]),
    )
    task = await harness.start(WRITE, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert (harness.root / "a.txt").read_text() == "one\n"
    assert said(task, "hook_message") == ["a write"]
    assert not (harness.root / "wrong").exists()


@pytest.mark.contract("permissions:approved-bytes")
async def test_a_hook_cannot_change_what_was_approved(harness: HookHarness) -> None:
    answer = {"input": {"path": "b.txt", "content": "two"}, "decision": "allow", "message": "x"}
    harness.set_user_hooks(hook("beforeTool", f"echo '{json.dumps(answer)}'"))
    task = await harness.start(WRITE, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert (harness.root / "a.txt").read_text() == "one\n"
    assert not (harness.root / "b.txt").exists()


async def test_a_hook_after_a_call_adds_its_message_to_the_result(harness: HookHarness) -> None:
    (harness.root / "a.txt").write_text("hello\n")
    harness.set_user_hooks(hook("afterTool", "cat > seen.json; echo 'mind the style' >&2; exit 2"))
    task = await harness.start(READ, finish(), policy=Unattended())
    await wait_for_ending(task)
    hook_input = json.loads((harness.root / "seen.json").read_text())
    assert hook_input["isError"] is False and "hello" in hook_input["result"]
    first = outcomes(task)[0]
    assert "hello" in first and first.endswith("mind the style")


async def test_a_hook_after_a_failed_call_knows_it_and_adds_its_message(
    harness: HookHarness,
) -> None:
    look = "cat > seen.json; echo 'read it again' >&2; exit 2"
    harness.set_user_hooks(
        hook("beforeTool", "echo other > a.txt", tools=["write_to_file"]),
        hook("afterTool", look, tools=["write_to_file"]),
    )
    task = await harness.start(WRITE, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert (harness.root / "a.txt").read_text() == "other\n", "what was approved is not there"
    assert json.loads((harness.root / "seen.json").read_text())["isError"] is True
    assert outcomes(task)[0].endswith("read it again")


@pytest.mark.contract("loop:mistakes")
async def test_a_message_about_a_path_that_does_not_exist_makes_it_no_mistake(
    harness: HookHarness,
) -> None:
    harness.set_user_hooks(hook("afterTool", "echo 'look elsewhere' >&2; exit 2"))
    look = Turn(call("list_files", {"path": str(harness.root.parent / "nowhere")}))
    settings = Settings(consecutive_mistake_limit=1, always_allow_read_only_outside_workspace=True)
    task = await harness.start(look, finish(), settings=settings)
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert outcomes(task)[0].endswith("look elsewhere")


async def test_a_long_result_is_shortened_for_the_hook(harness: HookHarness) -> None:
    (harness.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(20_000)))
    harness.set_user_hooks(hook("afterTool", "wc -c > size"))
    task = await harness.start(READ, finish(), policy=Unattended())
    await wait_for_ending(task)
    assert int((harness.root / "size").read_text()) < 40_000


@pytest.mark.contract("hooks:decide")
async def test_a_result_is_presented_once_the_hook_accepts_it(harness: HookHarness) -> None:
    harness.set_user_hooks(
        hook("onCompletion", "test -e a.txt || { echo 'a.txt is missing' >&2; exit 2; }")
    )
    task = await harness.start(finish("first"), WRITE, finish("second"), policy=Unattended())
    assert await wait_for_ending(task) == Completed("second")
    assert "a.txt is missing" in outcomes(task)[0]
    assert said(task, "completion_result") == ["second"]


@pytest.mark.contract("hooks:decide", "loop:plain-reply")
async def test_a_plain_answer_is_presented_once_the_hook_accepts_it(harness: HookHarness) -> None:
    harness.set_user_hooks(
        hook("onCompletion", "test -e a.txt || { echo 'a.txt is missing' >&2; exit 2; }")
    )
    answer = Turn(say("It is done."))
    task = await harness.start(answer, answer, WRITE, answer, answer, policy=Unattended())
    assert await wait_for_ending(task) == Completed("It is done.", answered=True)
    assert "a.txt is missing" in list_texts(task.messages[4])[0]
    assert said(task, "completion_result") == ["It is done."]


@pytest.mark.contract("hooks:decide")
async def test_a_hook_cannot_say_yes_to_a_question(harness: HookHarness) -> None:
    yes = '{"message": "yes", "response": "yesButtonClicked", "decision": "allow"}'
    harness.set_user_hooks(hook("onAsk", f"cat > seen.json; echo '{yes}'"))
    task = await harness.start(WRITE, finish(), settings=Settings())
    ask = await wait_for_ask(task)
    async with asyncio.timeout(TIMEOUT_S):
        with task.subscribe(0) as subscription:
            async for item in subscription:
                if getattr(item.event, "say", "") == "hook_message":
                    break
    assert task.pending is not None and task.pending.ts == ask.ts
    assert not (harness.root / "a.txt").exists()
    hook_input = json.loads((harness.root / "seen.json").read_text())
    assert (hook_input["ask"], hook_input["tool"]) == ("tool", "write_to_file")
    assert "alwaysAllowWrite is off" in hook_input["reason"]
    await task.approve()
    done = await wait_for_ask(task)
    assert done.ask is AskKind.COMPLETION_RESULT
    await task.approve()
    await wait_for_ending(task)
    answers = [
        event.answer for event in list_durable_events(task) if isinstance(event, AskAnswered)
    ]
    assert {answer.by for answer in answers} == {"person"}


async def test_a_hook_may_say_no_in_place_of_the_user(harness: HookHarness) -> None:
    harness.set_user_hooks(
        hook("onAsk", "echo 'not while I am away' >&2; exit 2", tools=["write_to_file"])
    )
    task = await harness.start(WRITE, finish(), settings=Settings())
    answered = await wait_for_event(task, AskAnswered)
    assert not answered.answer.approves and answered.answered_by.startswith("hook `echo")
    await wait_for_ask(task)
    assert not (harness.root / "a.txt").exists()
    assert "not while I am away" in outcomes(task)[0]
    assert failures(task)[0].rule == answered.answered_by
    await task.approve()
    await wait_for_ending(task)


async def test_a_slow_hook_at_a_question_does_not_keep_the_user_waiting(
    harness: HookHarness,
) -> None:
    harness.set_user_hooks(hook("onAsk", "touch began; sleep 100", tools=["write_to_file"]))
    task = await harness.start(WRITE, finish(), settings=Settings())
    ask = await wait_for_ask(task)
    assert await task.answer(ask.ts, Answer(Response.YES))
    done = await wait_for_ask(task)
    assert done.ask is AskKind.COMPLETION_RESULT
    assert (harness.root / "a.txt").exists()


@pytest.mark.contract("hooks:decide")
async def test_hooks_do_not_run_for_what_the_rules_refuse(harness: HookHarness) -> None:
    harness.set_user_hooks(hook("beforeTool", "touch ran", tools=["execute_command"]))
    settings = Settings(always_allow_execute=True, allowed_commands=("*",), denied_commands=("rm",))
    task = await harness.start(
        Turn(call("execute_command", {"command": "rm -rf x"})),
        finish(),
        settings=settings,
        policy=Unattended(),
    )
    await wait_for_ending(task)
    assert not (harness.root / "ran").exists()
    assert failures(task)[0].rule == "rm"


def test_a_slip_in_a_hook_is_an_error_and_not_a_weaker_hook() -> None:
    with pytest.raises(msgspec.ValidationError, match="onFailur"):
        msgspec.convert({"hooks": [hook("beforeTool", "x", onFailur="block")]}, Settings)
