"""Condensing a conversation because a user wants it."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from msgspec import structs

from joey.core.context.condense import DEFAULT_CONDENSE_INSTRUCTION
from joey.core.events import RequestStarted, RowAdded, RowOpened, TaskFinished
from joey.core.messages import ToolResultBlock, ToolUseBlock, get_blocks
from joey.core.models import LongContextRates, Prices
from joey.core.settings import Settings
from joey.core.task_types import TaskState
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Aborted, Completed
from joey.engine.runtime import SUMMARY_PROFILE_KEY, ModeProviders
from joey.engine.task import Task
from joey.errors import CondenseError, ConfigError, UserError
from joey.ports.model import Provider
from joey.testing.script import Turn, call, fail, pause, say
from joey.testing.scripted_provider import ScriptedProvider, ScriptedTurn
from tests.harness.engine.engine_harness import (
    TIMEOUT_S,
    EngineHarness,
    block_disk_writes,
    find_rows,
    finish,
    list_event_names,
    list_texts,
    wait_for_ask,
    wait_for_ending,
    wait_for_event,
)
from tests.harness.engine.small_window_model import (
    SmallWindowModel,
    join_text,
    list_condense_events,
    make_read_turn,
)


class Awaited(asyncio.Event):
    """Says when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.awaited.set()
        return await super().wait()


@pytest.fixture
def harness_with_files(engine_harness: EngineHarness) -> EngineHarness:
    for number in range(4):
        (engine_harness.root / f"file{number}.txt").write_text("some words of a file\n" * 200)
    return engine_harness


def model(
    harness: EngineHarness, *turns: ScriptedTurn, summaries: list[ScriptedTurn]
) -> SmallWindowModel:
    harness.provider = narrow = SmallWindowModel(turns, summaries=summaries)
    return narrow


async def worked(harness: EngineHarness, *summaries: ScriptedTurn, **about: object) -> Task:
    """A task that has read two files and rests."""
    model(harness, make_read_turn(0), make_read_turn(1), finish(), summaries=list(summaries))
    task = await harness.start(policy=Unattended(), **about)  # type: ignore[arg-type]
    assert await wait_for_ending(task) == Completed("all done")
    return task


def dump_state(task: Task) -> object:
    api = task.recorder.api_history
    return msgspec.to_builtins(
        [api.build_current_messages(), api.list_stored_messages(), list(task.rows)]
    )


@pytest.mark.contract("context:summary")
async def test_a_completed_task_is_condensed_and_stays_completed(
    harness_with_files: EngineHarness,
) -> None:
    task = await worked(harness_with_files, Turn(say("Two files were read.")))
    since = task.seq
    event = await task.condense("Keep the names.")
    assert event.summary == "Two files were read."
    assert task.state is TaskState.COMPLETED
    assert (await wait_for_ending(task)) == Completed("all done")
    assert [record.event for record in task.bus.list_records_after(since)] == [event]
    assert len(task.recorder.api_history.request_messages) == 1
    narrow = harness_with_files.provider
    assert isinstance(narrow, SmallWindowModel)
    asked_for = join_text(narrow.summary_requests[0].messages[0])
    assert "Keep the names." in asked_for
    assert "some words of a file" in asked_for
    assert DEFAULT_CONDENSE_INSTRUCTION in asked_for
    assert not narrow.summary_requests[0].tools
    narrow.remaining_turns = [finish("more")]
    await task.send("Go on.")
    assert await wait_for_ending(task) == Completed("more")
    assert "Two files were read." in join_text(narrow.regular_requests[-1].messages[0])
    assert "Go on." in join_text(narrow.regular_requests[-1].messages[0])


@pytest.mark.contract("context:summary", "loop:repetition")
async def test_a_summary_that_repeats_itself_is_cut(harness_with_files: EngineHarness) -> None:
    endless = Turn(say("Two files were read: " + "Nothing is left.\n" * 2_000, chunk=40))
    task = await worked(harness_with_files, endless)
    assert (await task.condense()).summary == "Two files were read: Nothing is left."


async def test_there_must_be_something_to_condense(harness_with_files: EngineHarness) -> None:
    task = await worked(harness_with_files, Turn(say("Short.")))
    await task.condense()
    before = dump_state(task)
    with pytest.raises(CondenseError, match="nothing to condense"):
        await task.condense()
    assert dump_state(task) == before


@pytest.mark.contract("context:summary")
async def test_there_must_be_something_also_while_the_last_summary_is_being_saved(
    harness_with_files: EngineHarness,
) -> None:
    task = await worked(harness_with_files, Turn(say("Short.")))
    with block_disk_writes(task):
        await task.condense()
        with pytest.raises(CondenseError, match="nothing to condense"):
            task.start_condensing()


@pytest.mark.contract("context:summary")
async def test_a_condense_request_that_can_no_longer_be_met_is_answered_in_the_conversation(
    harness_with_files: EngineHarness,
) -> None:
    gate = asyncio.Event()
    model(harness_with_files, Turn(pause(gate), fail(401, "who are you?")), summaries=[])
    task = await harness_with_files.start(policy=Unattended())
    await wait_for_event(task, RequestStarted)
    request = task.start_condensing()
    gate.set()
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(CondenseError, match="nothing to condense"):
            await request
    [row] = find_rows(task, "condense_context_error")
    assert "nothing to condense" in (row.text or "")


@pytest.mark.contract("context:summary")
async def test_a_summary_that_is_no_shorter_counts_as_failed(
    harness_with_files: EngineHarness,
) -> None:
    task = await worked(harness_with_files, Turn(say(" ".join(map(str, range(20_000))))))
    shown = msgspec.to_builtins(task.recorder.api_history.build_current_messages())
    with pytest.raises(CondenseError, match="longer than the conversation"):
        await task.condense()
    assert msgspec.to_builtins(task.recorder.api_history.build_current_messages()) == shown
    assert find_rows(task, "condense_context_error")
    assert task.usage.total_tokens_in > sum(_narrow(harness_with_files).request_tokens[:3])


@pytest.mark.contract("context:summary")
async def test_a_service_that_fails_leaves_everything_as_it_was(
    harness_with_files: EngineHarness,
) -> None:
    task = await worked(harness_with_files, Turn(fail(401, "who are you?")))
    shown = msgspec.to_builtins(task.recorder.api_history.build_current_messages())
    with pytest.raises(UserError, match="who are you"):
        await task.condense()
    assert msgspec.to_builtins(task.recorder.api_history.build_current_messages()) == shown
    assert task.state is TaskState.COMPLETED


async def test_each_request_for_a_summary_is_priced_by_its_own_length(
    harness_with_files: EngineHarness,
) -> None:
    task = await worked(harness_with_files, Turn(say("")), Turn(say("At last.")))
    narrow = _narrow(harness_with_files)
    prices = Prices(input=1, long_context=(LongContextRates(above=5_000, input=100),))
    narrow.model = structs.replace(narrow.model, prices=prices)
    event = await task.condense()
    assert event.usage is not None
    assert max(narrow.request_tokens[-2:]) < 5_000 < event.usage.input
    assert event.cost == pytest.approx(event.usage.input / 1_000_000)


@pytest.mark.contract("context:summary")
async def test_transient_errors_are_waited_out(harness_with_files: EngineHarness) -> None:
    task = await worked(harness_with_files, Turn(fail(529, "overloaded")), Turn(say("At last.")))
    event = await task.condense()
    assert event.summary == "At last."
    assert find_rows(task, "api_req_retry_delayed")


@pytest.mark.contract("context:interrupted")
async def test_cancelling_a_summary_changes_nothing(harness_with_files: EngineHarness) -> None:
    never = asyncio.Event()
    task = await worked(harness_with_files, [Turn(say("half a")).steps[0], pause(never)])
    shown = msgspec.to_builtins(task.recorder.api_history.build_current_messages())
    condensing = asyncio.ensure_future(task.condense())
    opened = await wait_for_event(task, RowOpened, task.seq)
    assert opened.say == "condense_context"
    assert task.is_running
    await task.cancel()
    with pytest.raises(CondenseError, match="stopped"):
        await condensing
    assert msgspec.to_builtins(task.recorder.api_history.build_current_messages()) == shown
    assert task.state is TaskState.COMPLETED
    assert not task.recorder.ui_history.open_row_timestamps
    assert not list_condense_events(task)


@pytest.mark.contract("context:interrupted")
async def test_cancelling_a_run_that_is_being_condensed_changes_nothing(
    harness_with_files: EngineHarness,
) -> None:
    never = asyncio.Event()
    narrow = model(
        harness_with_files, *map(make_read_turn, range(4)), finish(), summaries=[[pause(never)]]
    )
    settings = Settings(auto_condense_context_percent=30)
    task = await harness_with_files.start(policy=Unattended(), settings=settings)
    with task.subscribe(0) as subscription:
        async for item in subscription:
            if isinstance(item.event, RowOpened) and item.event.say == "condense_context":
                break
    shown = msgspec.to_builtins(task.recorder.api_history.build_current_messages())
    await task.cancel()
    assert await wait_for_ending(task) == Aborted()
    assert msgspec.to_builtins(task.recorder.api_history.build_current_messages()) == shown
    assert not list_condense_events(task)
    assert narrow.open_stream_count == 0


@pytest.mark.contract("context:interrupted")
async def test_a_death_while_a_summary_is_written_loses_nothing(
    harness_with_files: EngineHarness, tmp_path: Path
) -> None:
    never = Awaited()
    task = await worked(
        harness_with_files, [Turn(say("half a")).steps[0], pause(never)], Turn(say("Whole."))
    )
    shown = msgspec.to_builtins(task.recorder.api_history.build_current_messages())
    task.start_condensing()
    async with asyncio.timeout(TIMEOUT_S):
        await never.awaited.wait()
    left = tmp_path / "left"
    shutil.copytree(harness_with_files.home, left)
    await harness_with_files.engine.close()
    for lock in left.rglob("*lock*"):
        lock.unlink()
    harness_with_files.home = left
    harness_with_files.engine = harness_with_files.new_engine()
    narrow = _narrow(harness_with_files)
    narrow.remaining_turns = [finish("again")]
    options = TaskOptions(workspace=harness_with_files.root, policy=Unattended())
    again = await harness_with_files.engine.resume(task.id, "Go on.", options=options)
    assert await wait_for_ending(again) == Completed("again")
    sent = msgspec.to_builtins(list(narrow.regular_requests[-1].messages))
    assert sent[: len(shown)] == shown
    assert (await again.condense()).summary == "Whole."


@pytest.mark.contract("context:summary")
async def test_a_task_at_work_is_condensed_before_its_next_request(
    harness_with_files: EngineHarness,
) -> None:
    gate = asyncio.Event()
    narrow = model(
        harness_with_files,
        make_read_turn(0),
        Turn(pause(gate), *make_read_turn(1).steps),
        finish(),
        summaries=[Turn(say("So far."))],
    )
    task = await harness_with_files.start(policy=Unattended())
    while list_event_names(task).count("RequestStarted") < 2:
        await wait_for_event(task, object, task.seq)
    condensing = asyncio.ensure_future(task.condense())
    await asyncio.sleep(0)
    with pytest.raises(CondenseError, match="already"):
        task.start_condensing()
    gate.set()
    assert (await condensing).summary == "So far."
    assert await wait_for_ending(task) == Completed("all done")
    assert "So far." in join_text(narrow.regular_requests[-1].messages[0])
    assert "file1.txt" in join_text(narrow.summary_requests[0].messages[0])


@pytest.mark.contract("context:summary")
async def test_a_condense_request_that_comes_with_the_last_reply_is_met_at_rest(
    harness_with_files: EngineHarness,
) -> None:
    narrow = model(
        harness_with_files,
        make_read_turn(0),
        make_read_turn(1),
        finish(),
        summaries=[Turn(say("So far."))],
    )
    task = await harness_with_files.start()
    ask = await wait_for_ask(task)
    condensing = asyncio.ensure_future(task.condense())
    await asyncio.sleep(0)
    assert not narrow.summary_requests
    assert task.pending == ask
    await task.approve()
    assert (await condensing).summary == "So far."
    assert await wait_for_ending(task) == Completed("all done")


async def test_messages_that_come_while_a_summary_is_written_are_sent_after_it(
    harness_with_files: EngineHarness,
) -> None:
    gate = asyncio.Event()
    task = await worked(harness_with_files, Turn(pause(gate), say("So far.")))
    narrow = _narrow(harness_with_files)
    narrow.remaining_turns = [finish("heard")]
    condensing = asyncio.ensure_future(task.condense())
    await wait_for_event(task, RowOpened, task.seq)
    await task.send("One more thing.")
    since = task.seq
    gate.set()
    await condensing
    await wait_for_event(task, TaskFinished, since)
    assert await wait_for_ending(task) == Completed("heard")
    sent = join_text(narrow.regular_requests[-1].messages[0])
    assert sent.index("So far.") < sent.index("One more thing.")


@pytest.mark.contract("context:summary")
async def test_going_back_before_a_summary_shows_what_it_hid(
    harness_with_files: EngineHarness,
) -> None:
    task = await worked(harness_with_files, Turn(say("So far.")))
    before = dump_state(task)
    last = max(int(row["ts"]) for row in msgspec.to_builtins(list(task.rows)))
    event = await task.condense()
    narrow = _narrow(harness_with_files)
    narrow.remaining_turns = [finish("later")]
    await task.send("And then?")
    await wait_for_ending(task)
    await task.rewind(last)
    assert dump_state(task) == before
    await task.undo_rewind()
    assert task.recorder.api_history.first_message is not None
    assert event.condense_id == task.recorder.api_history.first_message.condense_parent


async def test_the_users_own_prompt_replaces_ours(harness_with_files: EngineHarness) -> None:
    settings = Settings(custom_condensing_prompt="Write a haiku.", always_allow_read_only=True)
    task = await worked(
        harness_with_files, Turn(say("Leaves fall on the code.")), settings=settings
    )
    await task.condense()
    sent = join_text(_narrow(harness_with_files).summary_requests[0].messages[0])
    assert "Write a haiku." in sent
    assert DEFAULT_CONDENSE_INSTRUCTION not in sent


async def test_another_model_may_write_the_summaries() -> None:
    made: list[str] = []

    def make(profile: str) -> Provider:
        made.append(profile)
        if profile == "gone":
            raise ConfigError("There is no profile 'gone'.")
        return ScriptedProvider([])

    assert ModeProviders({}, make).find(SUMMARY_PROFILE_KEY) is None
    others = ModeProviders({SUMMARY_PROFILE_KEY: "small"}, make)
    assert others.find(SUMMARY_PROFILE_KEY) is others.find(SUMMARY_PROFILE_KEY)
    lost = ModeProviders({SUMMARY_PROFILE_KEY: "gone"}, make)
    assert lost.find(SUMMARY_PROFILE_KEY) is None
    problem = lost.take_error(SUMMARY_PROFILE_KEY)
    assert problem == "There is no profile 'gone'."
    assert lost.take_error(SUMMARY_PROFILE_KEY) is None
    assert made == ["small", "gone"]


async def test_a_profile_for_summaries_that_cannot_be_used_is_reported(
    harness_with_files: EngineHarness,
) -> None:
    def make(profile: str) -> Provider:
        raise ConfigError(f"There is no profile {profile!r}.")

    task = await worked(harness_with_files, Turn(say("Two files were read.")))
    others = ModeProviders({SUMMARY_PROFILE_KEY: "gone"}, make)
    task.runtime = structs.replace(task.runtime, mode_providers=others)
    since = task.seq
    assert (await task.condense()).summary == "Two files were read."
    events = [record.event for record in task.bus.list_records_after(since)]
    assert [event.text for event in events if isinstance(event, RowAdded)] == [
        "condensingProfile: the model of the task writes the summary. There is no profile 'gone'."
    ]


@pytest.mark.contract("context:summary")
async def test_a_task_of_roo_can_be_condensed(harness_with_files: EngineHarness) -> None:
    directory = harness_with_files.home / "tasks" / "0196e6b5-4fb2-7391-b6a7-2b7a4b4f7c10"
    directory.mkdir(parents=True)
    read_file = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a.txt"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "words\n" * 1000}
    api = [
        {"role": "user", "ts": 1, "content": [{"type": "text", "text": "<task>\nread\n</task>"}]},
        {"role": "assistant", "ts": 2, "content": [read_file]},
        {"role": "user", "ts": 3, "content": [result]},
        {"role": "assistant", "ts": 4, "content": [{"type": "text", "text": "I have read it."}]},
    ]
    ui = [
        {"ts": 1, "type": "say", "say": "text", "text": "read"},
        {"ts": 3, "type": "say", "say": "user_feedback", "text": "be quick"},
        {"ts": 4, "type": "say", "say": "text", "text": "I have read it.", "partial": False},
    ]
    (directory / "api_conversation_history.json").write_text(json.dumps(api))
    (directory / "ui_messages.json").write_text(json.dumps(ui))
    model(harness_with_files, summaries=[Turn(say("It was read."))])
    options = TaskOptions(workspace=harness_with_files.root, policy=Unattended())
    task = await harness_with_files.engine.open(directory.name, options=options)
    event = await task.condense()
    summary = "\n".join(block.text for block in event.content)
    assert "It was read." in summary
    assert "be quick" in summary
    (shown,) = task.recorder.api_history.request_messages
    assert shown.is_summary


def _narrow(harness: EngineHarness) -> SmallWindowModel:
    assert isinstance(harness.provider, SmallWindowModel)
    return harness.provider


async def test_a_summary_covers_the_results_of_the_turn_before(
    harness_with_files: EngineHarness,
) -> None:
    narrow = model(harness_with_files, *map(make_read_turn, range(3)), finish(), summaries=[])
    settings = Settings(auto_condense_context_percent=20)
    task = await harness_with_files.start(policy=Unattended(), settings=settings)
    await wait_for_ending(task)
    request = narrow.summary_requests[0]
    blocks = [block for message in request.messages for block in get_blocks(message)]
    calls = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
    results = [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)]
    assert calls == results != []


@pytest.mark.contract("context:stable-prefix")
async def test_the_request_for_a_summary_continues_the_cached_conversation(
    harness_with_files: EngineHarness,
) -> None:
    narrow = model(harness_with_files, *map(make_read_turn, range(3)), finish(), summaries=[])
    settings = Settings(auto_condense_context_percent=20)
    await wait_for_ending(await harness_with_files.start(policy=Unattended(), settings=settings))
    request = narrow.summary_requests[0]
    before = narrow.requests[narrow.requests.index(request) - 1]
    assert request.system_prompt == before.system_prompt
    assert request.tools == before.tools
    assert list(request.messages[: len(before.messages)]) == list(before.messages)
    assert DEFAULT_CONDENSE_INSTRUCTION in list_texts(request.messages[-1])[-1]


@pytest.mark.parametrize(
    "unusable",
    [
        Turn(fail(400, "no user message after a tool result")),
        Turn(call("read_file", {"path": "file0.txt"})),
        Turn(say("I read on.\n\n<read_file>\n<path>a</path>\n</read_file>")),
        Turn(),
    ],
)
async def test_a_transcript_is_summarised_where_the_conversation_cannot_be_continued(
    harness_with_files: EngineHarness, unusable: Turn
) -> None:
    good = Turn(say("Summary of a transcript."))
    narrow = model(
        harness_with_files, *map(make_read_turn, range(3)), finish(), summaries=[unusable, good]
    )
    settings = Settings(auto_condense_context_percent=20)
    task = await harness_with_files.start(policy=Unattended(), settings=settings)
    assert await wait_for_ending(task) == Completed("all done")
    first, second = narrow.summary_requests[:2]
    assert len(first.messages) > 1
    assert join_text(second.messages[0]).startswith("<conversation>")
    assert list_condense_events(task)[0].summary == "Summary of a transcript."


@pytest.mark.contract("context:summary")
async def test_a_service_that_counts_less_than_we_do_is_not_shown_growth(
    harness_with_files: EngineHarness,
) -> None:
    harness_with_files.provider = SmallWindowModel(
        [make_read_turn(0), finish()],
        bytes_per_token=8.0,
        summaries=[Turn(say("A file was read. " * 30))],
    )
    task = await harness_with_files.start(policy=Unattended())
    assert await wait_for_ending(task) == Completed("all done")
    event = await task.condense()
    assert event.tokens_after < event.tokens_before
