"""Every word and image of a user reaches the model and the screen."""

from __future__ import annotations

import asyncio

from joey.core.events import (
    CommandOutputDelta,
    MessageQueued,
    MessageUnqueued,
    RowDelta,
    TaskFinished,
)
from joey.core.messages import ImageBlock
from joey.core.models import ModelInfo
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response, TaskState
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call, fail, pause, say
from joey.testing.scripted_provider import ScriptedProvider
from tests.harness.engine.engine_harness import (
    EngineHarness,
    block_disk_writes,
    done,
    expect_event,
    find_rows,
    finish,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)

IMAGE = "data:image/png;base64,iVBORw0KGgo="


def dump_last_request(provider: object) -> str:
    assert isinstance(provider, ScriptedProvider)
    return str([message.content for message in provider.requests[-1].messages])


def count_images(provider: object) -> int:
    assert isinstance(provider, ScriptedProvider)
    return sum(
        isinstance(block, ImageBlock)
        for message in provider.requests[-1].messages
        for block in message.content
    )


async def test_a_message_that_comes_with_a_yes_to_the_request_limit_reaches_the_model(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("update_todo_list", {"todos": "[ ] a"})),
        finish(),
        settings=Settings(allowed_max_requests=1),
    )
    assert (await wait_for_ask(task)).ask is AskKind.LIMIT_REACHED
    await task.approve("but hurry up")
    await wait_for_ask(task)
    assert "but hurry up" in dump_last_request(engine_harness.provider)


async def test_a_message_that_comes_with_a_yes_to_try_again_reaches_the_model(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(fail(401, "no")), Turn(call("update_todo_list", {"todos": "[ ] a"})), finish()
    )
    assert (await wait_for_ask(task)).ask is AskKind.API_REQ_FAILED
    await task.approve("the key is right now, use tabs")
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert "use tabs" in dump_last_request(engine_harness.provider)


async def test_a_message_sent_to_a_failed_request_is_shown_to_the_user(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(fail(401, "no")))
    await wait_for_ask(task)
    await task.send("use the other key")
    await wait_for_ending(task)
    assert "use the other key" in [row.text for row in find_rows(task, "user_feedback")]


async def test_an_image_that_comes_with_a_yes_reaches_the_model(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("execute_command", {"command": "true"})), finish(), settings=Settings()
    )
    ask = await wait_for_ask(task)
    await task.answer(ask.ts, Answer(Response.YES, text="like this", images=(IMAGE,)))
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert count_images(engine_harness.provider) == 1


async def test_an_image_alone_that_answers_a_question_is_shown_to_the_user(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("ask_followup_question", {"question": "which?", "follow_up": []})), finish()
    )
    await wait_for_ask(task)
    await task.send("", (IMAGE,))
    await wait_for_ask(task)
    assert [row.images for row in find_rows(task, "user_feedback")] == [(IMAGE,)]


async def test_an_image_that_answers_the_repetition_limit_reaches_the_model(
    engine_harness: EngineHarness,
) -> None:
    same = call("update_todo_list", {"todos": "[ ] a"})
    task = await engine_harness.start(Turn(same), Turn(same), Turn(same), Turn(same), finish())
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.MISTAKE_LIMIT_REACHED
    await task.answer(ask.ts, Answer(Response.MESSAGE, text="look", images=(IMAGE,)))
    await wait_for_ask(task)
    assert count_images(engine_harness.provider) == 1


async def test_a_message_sent_while_a_finished_task_is_being_saved_restarts_it(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(finish("one"), finish("two"))
    await wait_for_ask(task)
    with block_disk_writes(task):
        await task.approve()
        await wait_for_event(task, TaskFinished)
        await task.send("and now the other half")
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert "the other half" in dump_last_request(engine_harness.provider)


async def test_a_message_that_comes_with_a_yes_survives_a_cancel_when_another_call_ended_meanwhile(
    engine_harness: EngineHarness,
) -> None:
    (engine_harness.root / "a.txt").write_text("A")
    task = await engine_harness.start(
        Turn(
            call("read_file", {"files": [{"path": "a.txt"}]}),
            call("execute_command", {"command": "echo go; sleep 600"}),
        ),
        finish(),
        settings=Settings(),
    )
    await wait_for_ask(task)
    async with expect_event(task, CommandOutputDelta):
        await task.approve("and then use tabs")
    await task.cancel()
    await task.send("go on")
    await wait_for_ask(task)
    assert "use tabs" in dump_last_request(engine_harness.provider)


async def test_messages_queued_before_a_result_is_accepted_by_a_policy_reach_the_model(
    engine_harness: EngineHarness,
) -> None:
    gate = asyncio.Event()
    provider = engine_harness.use_script(
        Turn(say("nearly"), pause(gate), done("one")), finish("two")
    )
    task = await engine_harness.start(policy=Unattended())
    await wait_for_event(task, RowDelta)
    await task.send("one more thing")
    gate.set()
    assert await wait_for_ending(task) == Completed("two")
    assert "one more thing" in dump_last_request(provider)


async def test_a_message_sent_while_a_task_is_being_cancelled_restarts_it(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(say("hm"), pause(600)), finish())
    await wait_for_event(task, RowDelta)
    await asyncio.gather(task.cancel(), task.send("go on"))
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT


async def test_a_message_that_comes_with_a_yes_reaches_the_model_when_the_call_fails(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(
        Turn(call("write_to_file", {"path": "a.txt", "content": "1"})),
        finish(),
        settings=Settings(),
    )
    await wait_for_ask(task)
    (engine_harness.root / "a.txt").mkdir()
    await task.approve("and be quick")
    await wait_for_ask(task)
    assert find_rows(task, "error") != []
    assert "and be quick" in dump_last_request(engine_harness.provider)


async def test_a_message_sent_after_the_user_gave_up_starts_the_next_run(
    engine_harness: EngineHarness,
) -> None:
    provider = engine_harness.use_script(Turn(fail(401, "no")), finish("heard"))
    task = await engine_harness.start()
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.API_REQ_FAILED
    given_up = asyncio.ensure_future(task.answer(ask.ts, Answer(Response.NO)))
    await asyncio.sleep(0)  # the answer is given, and the run has not ended yet
    assert task.pending is None and task.is_running
    await task.send("once more")
    assert await given_up
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert "once more" in dump_last_request(provider)
    assert not task.recorder.projection.queued_messages


async def test_a_message_sent_before_the_user_gave_up_waits(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(fail(401, "no")), finish("heard"))
    ask = await wait_for_ask(task)
    await task.send("wait for me", queue=True)
    assert await task.answer(ask.ts, Answer(Response.NO))
    await wait_for_ending(task)
    assert task.state is TaskState.FAILED
    assert [each.text for each in task.recorder.projection.queued_messages.values()] == [
        "wait for me"
    ]


class RestartedServer(ScriptedProvider):
    """A server whose window is too small for the first run. That run is held up where it has
    collected the messages for its first request."""

    def __init__(self) -> None:
        super().__init__([finish("heard")], ModelInfo(id="scripted", context_window=1000))
        self.is_held_up, self.may_continue = asyncio.Event(), asyncio.Event()
        self._prepare_count = 0

    async def prepare(self) -> None:
        self._prepare_count += 1
        if self._prepare_count == 2:
            self.is_held_up.set()
            await self.may_continue.wait()
        elif self._prepare_count > 2:
            self.model = ModelInfo(id="scripted", context_window=200_000)


async def test_a_message_sent_while_the_first_request_fails_starts_the_next_run(
    engine_harness: EngineHarness,
) -> None:
    engine_harness.provider = provider = RestartedServer()
    task = await engine_harness.start()
    await provider.is_held_up.wait()
    await task.send("once more")
    provider.may_continue.set()
    assert (await wait_for_ask(task)).ask is AskKind.COMPLETION_RESULT
    assert "once more" in dump_last_request(provider)
    assert not task.recorder.projection.queued_messages


async def test_what_happens_to_a_task_at_rest_does_not_look_like_a_run(
    engine_harness: EngineHarness,
) -> None:
    task = await engine_harness.start(Turn(fail(401, "no")))
    ask = await wait_for_ask(task)
    assert await task.answer(ask.ts, Answer(Response.NO))
    await wait_for_ending(task)
    seq = task.seq
    task.publish(MessageQueued(ts=task.next_ts(), id="q", text="hi"))
    task.publish(MessageUnqueued(ts=task.next_ts(), id="q"))
    async with asyncio.timeout(10):
        seen = [event async for event in task.events(seq)]
    assert [type(event) for event in seen] == [MessageQueued, MessageUnqueued]
