"""Requests never outgrow the model's window: conversations are summed up, or shortened."""

from __future__ import annotations

import msgspec
import pytest

from joey.content.outlines import OutlineExtractor
from joey.core.events import MessageQueued
from joey.core.models import ModelRequest, ToolProtocol
from joey.core.settings import Settings
from joey.engine.asks import Unattended
from joey.engine.engine import TaskOptions
from joey.engine.outcomes import Completed, Failed
from joey.engine.task import Task
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call, fail, say
from joey.testing.scripted_provider import ScriptedTurn
from tests.harness.engine.engine_harness import (
    EngineHarness,
    find_rows,
    finish,
    list_texts,
    wait_for_ending,
)
from tests.harness.engine.scripted_subtasks import delegate
from tests.harness.engine.small_window_model import (
    SmallWindowModel,
    join_text,
    list_condense_events,
    list_truncation_events,
    make_read_turn,
)

READS = 30
OFF = Settings(auto_condense_context=False)


@pytest.fixture
def harness_with_files(engine_harness: EngineHarness) -> EngineHarness:
    for number in range(READS):
        lines = (f"line {line} of file {number}, and some more words" for line in range(140))
        (engine_harness.root / f"file{number}.txt").write_text("\n".join(lines))
    return engine_harness


def model(harness: EngineHarness, *, reads: int = READS, **about: object) -> SmallWindowModel:
    turns = [*(make_read_turn(number) for number in range(reads)), finish()]
    harness.provider = narrow = SmallWindowModel(turns, **about)  # type: ignore[arg-type]
    return narrow


async def work(harness: EngineHarness, text: str = "Read all files.", **about: object) -> Task:
    task = await harness.start(text=text, policy=Unattended(), **about)  # type: ignore[arg-type]
    assert await wait_for_ending(task) == Completed("all done")
    return task


def encoded(request: ModelRequest) -> list[bytes]:
    return [msgspec.json.encode(message.content) for message in request.messages]


@pytest.mark.contract("context:window", "context:summary")
@pytest.mark.parametrize("bytes_per_token", [4.0, 2.7])
@pytest.mark.parametrize("protocol", ToolProtocol)
async def test_a_long_task_is_summed_up_before_the_window_is_full(
    harness_with_files: EngineHarness, bytes_per_token: float, protocol: ToolProtocol
) -> None:
    narrow = model(harness_with_files, bytes_per_token=bytes_per_token)
    if protocol is ToolProtocol.XML:
        narrow.remaining_turns = [
            *(
                Turn(say(f"<read_file><path>file{number}.txt</path></read_file>"))
                for number in range(READS)
            ),
            Turn(say("<attempt_completion><result>all done</result></attempt_completion>")),
        ]
    task = await work(harness_with_files, protocol=protocol)
    assert not narrow.refused_tokens
    assert len(list_condense_events(task)) >= 2
    assert not list_truncation_events(task)
    again = join_text(narrow.summary_requests[1].messages[0])
    assert "Summary number 1." in again, "a summary covers the one before"
    assert [row.context_condense for row in find_rows(task, "condense_context")]


@pytest.mark.contract("context:summary")
async def test_what_must_not_be_lost_stands_beside_the_summary(
    harness_with_files: EngineHarness,
) -> None:
    narrow = model(harness_with_files, reads=14)
    todos = "[x] begin\n[-] read on"
    narrow.remaining_turns.insert(0, Turn(call("update_todo_list", {"todos": todos})))
    task = await work(harness_with_files, text="Read all files, and mind the umlaut: ü.")
    (event, *_) = list_condense_events(task)
    summary = "\n".join(block.text for block in event.content)
    assert "Summary number 1." in summary
    assert "Read all files, and mind the umlaut: ü." in summary
    assert "[-] read on" in summary
    assert "begin" not in summary
    assert "Mode: code" in summary
    assert "- file9.txt" in summary
    after = next(
        r for r in narrow.regular_requests if join_text(r.messages[0]).startswith("# Summary")
    )
    assert len(after.messages) == 1
    assert "# Current Mode" in list_texts(after.messages[0])[-1], "everything is reported again"
    assert event.tokens_after < event.tokens_before
    assert event.usage is not None
    assert task.usage.total_tokens_in >= event.usage.input


@pytest.mark.contract("context:stable-prefix")
async def test_between_reductions_each_request_begins_with_the_one_before(
    harness_with_files: EngineHarness,
) -> None:
    narrow = model(harness_with_files)
    await work(harness_with_files)
    for before, after in zip(narrow.regular_requests, narrow.regular_requests[1:], strict=False):
        assert before.system_prompt == after.system_prompt
        assert before.tools == after.tools
        if len(after.messages) > len(before.messages):
            assert encoded(after)[: len(before.messages)] == encoded(before)
    shrunk = [
        len(after.messages)
        for before, after in zip(narrow.regular_requests, narrow.regular_requests[1:], strict=False)
        if len(after.messages) <= len(before.messages)
    ]
    assert shrunk
    assert set(shrunk) == {1}


@pytest.mark.contract("context:summary")
@pytest.mark.parametrize(
    ("settings", "early", "warned"),
    [
        (Settings(auto_condense_context_percent=50), True, False),
        (Settings(profile_thresholds={"default": 50}), True, False),
        (Settings(auto_condense_context_percent=50, profile_thresholds={"default": 100}), 0, 0),
        (Settings(profile_thresholds={"default": -1}), False, False),
        (Settings(profile_thresholds={"default": 3}), False, True),
    ],
)
async def test_the_threshold_is_the_profiles_own_or_the_general_one(
    harness_with_files: EngineHarness, settings: Settings, early: bool, warned: bool
) -> None:
    narrow = model(harness_with_files, reads=9)
    task = await work(harness_with_files, settings=settings)
    assert bool(list_condense_events(task)) == early
    assert (
        any("profileThresholds" in (row.text or "") for row in find_rows(task, "error")) == warned
    )
    assert max(narrow.request_tokens) < (18_000 if early else 25_000)


@pytest.mark.contract("context:window")
@pytest.mark.parametrize("protocol", ToolProtocol)
@pytest.mark.parametrize("how", ["off", "fails", "says nothing"])
async def test_without_a_summary_the_oldest_turns_go(
    harness_with_files: EngineHarness, how: str, protocol: ToolProtocol
) -> None:
    failing = [Turn(fail(400, "no")) if how == "fails" else Turn()] * 100
    narrow = model(harness_with_files, summaries=failing)
    if protocol is ToolProtocol.XML:
        narrow.remaining_turns = [Turn(say(_as_xml(turn))) for turn in narrow.remaining_turns]
    settings = OFF if how == "off" else Settings(max_retries=0)
    task = await work(harness_with_files, settings=settings, protocol=protocol)
    assert not narrow.refused_tokens
    assert not list_condense_events(task)
    events = list_truncation_events(task)
    assert len(events) >= 2
    assert all(event.tokens_after < event.tokens_before for event in events)
    assert bool(find_rows(task, "condense_context_error")) == (how != "off")
    assert len(find_rows(task, "sliding_window_truncation")) == len(events)
    last = narrow.regular_requests[-1].messages
    assert "Read all files." in join_text(last[0])
    assert "earlier messages of this conversation are hidden" in join_text(last[0])


def _as_xml(turn: object) -> str:
    assert isinstance(turn, Turn)
    made = turn.calls[0]
    assert isinstance(made.input, dict)
    inner = "".join(f"<{key}>{value}</{key}>" for key, value in made.input.items())
    return f"<{made.name}>{inner}</{made.name}>"


@pytest.mark.contract("context:window")
async def test_truncation_after_a_summary_counts_what_the_model_sees(
    harness_with_files: EngineHarness,
) -> None:
    good = Turn(say("Summary number 1."))
    narrow = model(harness_with_files, summaries=[good, *([Turn(fail(400, "no"))] * 100)])
    task = await work(harness_with_files)
    assert not narrow.refused_tokens
    assert len(list_condense_events(task)) == 1
    events = list_truncation_events(task)
    assert events
    assert all(event.hidden_message_count > 0 for event in events)
    assert "Summary number 1." in join_text(narrow.regular_requests[-1].messages[0])


@pytest.mark.contract("context:window")
@pytest.mark.parametrize("summary", [Turn(say("In short.")), Turn(fail(400, "no"))])
async def test_a_service_with_a_smaller_window_is_believed(
    harness_with_files: EngineHarness, summary: Turn
) -> None:
    narrow = model(
        harness_with_files,
        window=16_000,
        advertised_window=200_000,
        states_usage=False,
        summaries=[summary] * 100,
    )
    task = await work(harness_with_files, settings=Settings(max_retries=0))
    assert 1 <= len(narrow.refused_tokens) <= 3
    assert len(set(narrow.refused_tokens)) == len(narrow.refused_tokens), (
        "never the same request again"
    )
    assert list_condense_events(task) or list_truncation_events(task)
    assert len(narrow.regular_requests) - len(narrow.refused_tokens) == READS + 1


@pytest.mark.contract("context:window")
async def test_a_message_that_was_refused_is_sent_again_after_the_summary(
    harness_with_files: EngineHarness,
) -> None:
    narrow = model(
        harness_with_files, reads=6, window=16_000, advertised_window=200_000, states_usage=False
    )
    task = await work(harness_with_files)
    narrow.remaining_turns = [finish()]
    narrow.window = 11_000
    await task.send("And now: the question of the day.")
    await wait_for_ending(task)
    assert narrow.refused_tokens
    sent = join_text(narrow.regular_requests[-1].messages[0])
    assert sent.count("the question of the day") == 1
    assert sent.index("# Summary") < sent.index("the question of the day")
    assert sent.endswith("</environment_details>")


@pytest.mark.contract("context:window")
@pytest.mark.parametrize("settings", [OFF, Settings()])
async def test_a_giant_result_is_cut_to_fit(
    harness_with_files: EngineHarness, settings: Settings
) -> None:
    names = [f"giant{number}.txt" for number in range(8)]
    for name in names:
        (harness_with_files.root / name).write_text("a line of the giant file\n" * 100_000)
    giant = Turn(*(call("read_file", {"path": name}) for name in names))
    narrow = model(harness_with_files, window=20_000)
    narrow.remaining_turns = [giant, make_read_turn(1), finish()]
    task = await work(harness_with_files, settings=settings)
    assert not narrow.refused_tokens
    cuts = [event.max_text_chars for event in list_truncation_events(task)]
    assert cuts[0] is not None if settings is OFF else list_condense_events(task)


@pytest.mark.contract("context:window")
async def test_a_message_larger_than_the_window_ends_the_run_and_is_not_in_the_way(
    harness_with_files: EngineHarness,
) -> None:
    narrow = model(harness_with_files, reads=1)
    task = await work(harness_with_files)
    await task.send("much to say " * 20_000)
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "context"
    assert "32,000" in ending.message
    assert len(narrow.requests) == 2
    narrow.remaining_turns = [finish()]
    await task.send("Well, in short: hello.")
    assert await wait_for_ending(task) == Completed("all done")
    assert "in short: hello" in join_text(narrow.regular_requests[-1].messages[-1])


@pytest.mark.contract("context:window")
async def test_short_messages_that_wait_with_it_are_sent_later(
    harness_with_files: EngineHarness,
) -> None:
    narrow = model(harness_with_files, reads=1)
    task = await work(harness_with_files)
    task.publish(MessageQueued(ts=task.next_ts(), id="q", text="paint it red"))
    await task.send("much to say " * 20_000)
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed) and ending.code == "context"
    assert [waiting.text for waiting in task.recorder.projection.queued_messages.values()] == [
        "paint it red"
    ]
    narrow.remaining_turns = [finish()]
    await task.send("hello")
    assert await wait_for_ending(task) == Completed("all done")
    sent = join_text(narrow.regular_requests[-1].messages[-1])
    assert "paint it red" in sent and "hello" in sent


@pytest.mark.contract("context:window")
async def test_a_task_that_begins_with_too_much_says_so(harness_with_files: EngineHarness) -> None:
    narrow = model(harness_with_files)
    task = await harness_with_files.start(text="much to say " * 20_000, policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "context"
    assert not narrow.requests


@pytest.mark.contract("context:window")
async def test_a_mentioned_file_is_cut_where_the_message_is_not(
    harness_with_files: EngineHarness,
) -> None:
    (harness_with_files.root / "giant.txt").write_text("a line of the giant file\n" * 100_000)
    narrow = model(harness_with_files, window=24_000)
    narrow.remaining_turns = [finish()]
    message = "Look at this. " * 200
    await work(harness_with_files, text=f"{message} @/giant.txt")
    (request,) = narrow.regular_requests
    assert not narrow.refused_tokens
    assert message in join_text(request.messages[0])
    assert "left out to fit" in join_text(request.messages[0])


@pytest.mark.contract("context:summary")
async def test_a_subtask_has_a_window_of_its_own(harness_with_files: EngineHarness) -> None:
    narrow = model(harness_with_files, reads=0)
    narrow.remaining_turns = [
        Turn(delegate("Read all files.")),
        *(make_read_turn(number) for number in range(18)),
        finish("the files are read"),
        finish(),
    ]
    settings = Settings(always_allow_subtasks=True)
    children: list[Task] = []
    harness_with_files.engine.on_subtask_opened = children.append
    task = await work(harness_with_files, text="Hand it on.", settings=settings)
    assert not list_condense_events(task)
    (child,) = children
    assert list_condense_events(child)
    assert "Hand it on." not in "".join(
        block.text for block in list_condense_events(child)[0].content
    )


async def test_a_summary_names_what_the_files_define(harness_with_files: EngineHarness) -> None:
    harness_with_files.capabilities = Capabilities(outlines=OutlineExtractor())
    (harness_with_files.root / "app.py").write_text(
        "def answer() -> int:\n    x = 1\n    y = 2\n    return 42\n"
    )
    narrow = model(harness_with_files, reads=18)
    narrow.remaining_turns.insert(3, Turn(call("read_file", {"path": "app.py"})))
    task = await work(harness_with_files)
    summary = "\n".join(block.text for block in list_condense_events(task)[0].content)
    assert "- app.py" in summary
    assert "def answer() -> int:" in summary


async def test_another_engine_goes_on_from_the_summary(harness_with_files: EngineHarness) -> None:
    narrow = model(harness_with_files, reads=18)
    task = await work(harness_with_files)
    assert list_condense_events(task)
    shown = msgspec.to_builtins(task.recorder.api_history.build_current_messages())
    await harness_with_files.engine.close()
    harness_with_files.engine = harness_with_files.new_engine()
    narrow.remaining_turns = [finish("again")]
    again = await harness_with_files.engine.resume(
        task.id,
        "Go on.",
        options=TaskOptions(workspace=harness_with_files.root, policy=Unattended()),
    )
    assert await wait_for_ending(again) == Completed("again")
    assert msgspec.to_builtins(narrow.regular_requests[-1].messages[0]) == shown[0]
    assert len(narrow.regular_requests[-1].messages) == len(shown) + 1


async def test_a_model_that_begins_anew_after_each_summary_is_stopped(
    harness_with_files: EngineHarness,
) -> None:
    class Forgetful(SmallWindowModel):
        def _take_next_turn(self, request: ModelRequest) -> ScriptedTurn:
            replies = sum(message.role == "assistant" for message in request.messages)
            self.remaining_turns = [make_read_turn(replies)]
            return super()._take_next_turn(request)

    harness_with_files.provider = narrow = Forgetful([])
    task = await harness_with_files.start(policy=Unattended())
    ending = await wait_for_ending(task)
    assert isinstance(ending, Failed)
    assert ending.code == "mistakes"
    assert ending.message == "Stopped: the model kept repeating itself."
    assert 3 <= len(list_condense_events(task)) <= 5
    assert len(narrow.regular_requests) > len(list_condense_events(task))
