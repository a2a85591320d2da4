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
from joey.ports import Capabilities
from joey.testing.script import Turn, call, fail, say
from joey.testing.scripted import ScriptedTurn
from tests.engine.engine_harness import EngineHarness, finish, rows, settled, texts
from tests.engine.scripted_subtasks import hand
from tests.engine.small_window_model import SmallWindowModel, condensed, read, text_of, truncated

READS = 30
OFF = Settings(auto_condense_context=False)


@pytest.fixture
def shop(workshop: EngineHarness) -> EngineHarness:
    for number in range(READS):
        lines = (f"line {line} of file {number}, and some more words" for line in range(100))
        (workshop.root / f"file{number}.txt").write_text("\n".join(lines))
    return workshop


def model(shop: EngineHarness, *, reads: int = READS, **about: object) -> SmallWindowModel:
    turns = [*(read(number) for number in range(reads)), finish()]
    shop.provider = narrow = SmallWindowModel(turns, **about)  # type: ignore[arg-type]
    return narrow


async def work(shop: EngineHarness, text: str = "Read all files.", **about: object) -> Task:
    task = await shop.start(text=text, policy=Unattended(), **about)  # type: ignore[arg-type]
    assert await settled(task) == Completed("all done")
    return task


def encoded(request: ModelRequest) -> list[bytes]:
    return [msgspec.json.encode(message.content) for message in request.messages]


@pytest.mark.requirement("context:never-above-window", "context:nested")
@pytest.mark.parametrize("bytes_per_token", [4.0, 2.7])
@pytest.mark.parametrize("protocol", ToolProtocol)
async def test_a_long_task_is_summed_up_before_the_window_is_full(
    shop: EngineHarness, bytes_per_token: float, protocol: ToolProtocol
) -> None:
    narrow = model(shop, bytes_per_token=bytes_per_token)
    if protocol is ToolProtocol.XML:
        narrow.left = [
            *(
                Turn(say(f"<read_file><path>file{number}.txt</path></read_file>"))
                for number in range(READS)
            ),
            Turn(say("<attempt_completion><result>all done</result></attempt_completion>")),
        ]
    task = await work(shop, protocol=protocol)
    assert not narrow.refused
    assert len(condensed(task)) >= 2
    assert not truncated(task)
    again = text_of(narrow.summary_requests[1].messages[0])
    assert "Summary number 1." in again, "a summary covers the one before"
    assert [row.context_condense for row in rows(task, "condense_context")]


@pytest.mark.requirement("context:kept")
async def test_what_must_not_be_lost_stands_beside_the_summary(shop: EngineHarness) -> None:
    narrow = model(shop, reads=14)
    todos = "[x] begin\n[-] read on"
    narrow.left.insert(0, Turn(call("update_todo_list", {"todos": todos})))
    task = await work(shop, text="Read all files, and mind the umlaut: ü.")
    (event, *_) = condensed(task)
    summary = "\n".join(block.text for block in event.content)
    assert "Summary number 1." in summary
    assert "Read all files, and mind the umlaut: ü." in summary
    assert "[-] read on" in summary
    assert "begin" not in summary
    assert "Mode: code" in summary
    assert "- file9.txt" in summary
    after = next(r for r in narrow.asked if text_of(r.messages[0]).startswith("# Summary"))
    assert len(after.messages) == 1
    assert texts(after.messages[0])[-1].startswith("<environment_details>")
    assert event.tokens_after < event.tokens_before
    assert event.usage is not None
    assert task.usage.total_tokens_in >= event.usage.input


@pytest.mark.requirement("context:stable-prefix")
async def test_between_reductions_each_request_begins_with_the_one_before(
    shop: EngineHarness,
) -> None:
    narrow = model(shop)
    await work(shop)
    for before, after in zip(narrow.asked, narrow.asked[1:], strict=False):
        assert before.system == after.system
        assert before.tools == after.tools
        if len(after.messages) > len(before.messages):
            assert encoded(after)[: len(before.messages)] == encoded(before)
    shrunk = [
        len(after.messages)
        for before, after in zip(narrow.asked, narrow.asked[1:], strict=False)
        if len(after.messages) <= len(before.messages)
    ]
    assert shrunk
    assert set(shrunk) == {1}


@pytest.mark.requirement("context:threshold")
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
    shop: EngineHarness, settings: Settings, early: bool, warned: bool
) -> None:
    narrow = model(shop, reads=9)
    task = await work(shop, settings=settings)
    assert bool(condensed(task)) == early
    assert any("profileThresholds" in (row.text or "") for row in rows(task, "error")) == warned
    assert max(narrow.sizes) < (18_000 if early else 25_000)


@pytest.mark.requirement("context:truncation")
@pytest.mark.parametrize("protocol", ToolProtocol)
@pytest.mark.parametrize("how", ["off", "fails", "says nothing"])
async def test_without_a_summary_the_oldest_turns_go(
    shop: EngineHarness, how: str, protocol: ToolProtocol
) -> None:
    failing = [Turn(fail(400, "no")) if how == "fails" else Turn()] * 100
    narrow = model(shop, summaries=failing)
    if protocol is ToolProtocol.XML:
        narrow.left = [Turn(say(_as_xml(turn))) for turn in narrow.left]
    settings = OFF if how == "off" else Settings(max_retries=0)
    task = await work(shop, settings=settings, protocol=protocol)
    assert not narrow.refused
    assert not condensed(task)
    events = truncated(task)
    assert len(events) >= 2
    assert all(event.tokens_after < event.tokens_before for event in events)
    assert bool(rows(task, "condense_context_error")) == (how != "off")
    assert len(rows(task, "sliding_window_truncation")) == len(events)
    last = narrow.asked[-1].messages
    assert "Read all files." in text_of(last[0])
    assert "earlier messages of this conversation are hidden" in text_of(last[0])


def _as_xml(turn: object) -> str:
    assert isinstance(turn, Turn)
    made = turn.calls[0]
    assert isinstance(made.input, dict)
    inner = "".join(f"<{key}>{value}</{key}>" for key, value in made.input.items())
    return f"<{made.name}>{inner}</{made.name}>"


@pytest.mark.requirement("context:truncation")
async def test_truncation_after_a_summary_counts_what_the_model_sees(shop: EngineHarness) -> None:
    good = Turn(say("Summary number 1."))
    narrow = model(shop, summaries=[good, *([Turn(fail(400, "no"))] * 100)])
    task = await work(shop)
    assert not narrow.refused
    assert len(condensed(task)) == 1
    events = truncated(task)
    assert events
    assert all(event.hidden_message_count > 0 for event in events)
    assert "Summary number 1." in text_of(narrow.asked[-1].messages[0])


@pytest.mark.requirement("context:overflow")
@pytest.mark.parametrize("summary", [Turn(say("In short.")), Turn(fail(400, "no"))])
async def test_a_service_with_a_smaller_window_is_believed(
    shop: EngineHarness, summary: Turn
) -> None:
    narrow = model(
        shop,
        window=16_000,
        stated=200_000,
        states_usage=False,
        summaries=[summary] * 100,
    )
    task = await work(shop, settings=Settings(max_retries=0))
    assert 1 <= len(narrow.refused) <= 3
    assert len(set(narrow.refused)) == len(narrow.refused), "never the same request again"
    assert condensed(task) or truncated(task)
    assert len(narrow.asked) - len(narrow.refused) == READS + 1


@pytest.mark.requirement("context:overflow")
async def test_a_message_that_was_refused_is_sent_again_after_the_summary(
    shop: EngineHarness,
) -> None:
    narrow = model(shop, reads=6, window=16_000, stated=200_000, states_usage=False)
    task = await work(shop)
    narrow.left = [finish()]
    narrow.window = 11_000
    await task.send("And now: the question of the day.")
    await settled(task)
    assert narrow.refused
    sent = text_of(narrow.asked[-1].messages[0])
    assert sent.count("the question of the day") == 1
    assert sent.index("# Summary") < sent.index("the question of the day")
    assert sent.endswith("</environment_details>")


@pytest.mark.requirement("context:giant-result")
@pytest.mark.parametrize("settings", [OFF, Settings()])
async def test_a_giant_result_is_cut_to_fit(shop: EngineHarness, settings: Settings) -> None:
    names = [f"giant{number}.txt" for number in range(8)]
    for name in names:
        (shop.root / name).write_text("a line of the giant file\n" * 100_000)
    giant = Turn(*(call("read_file", {"path": name}) for name in names))
    narrow = model(shop, window=20_000)
    narrow.left = [giant, read(1), finish()]
    task = await work(shop, settings=settings)
    assert not narrow.refused
    cuts = [event.max_text_chars for event in truncated(task)]
    assert cuts[0] is not None if settings is OFF else condensed(task)


@pytest.mark.requirement("context:too-much")
async def test_a_message_larger_than_the_window_ends_the_run_and_is_not_in_the_way(
    shop: EngineHarness,
) -> None:
    narrow = model(shop, reads=1)
    task = await work(shop)
    await task.send("much to say " * 20_000)
    ending = await settled(task)
    assert isinstance(ending, Failed)
    assert ending.code == "context"
    assert "32000" in ending.message
    assert len(narrow.requests) == 2
    narrow.left = [finish()]
    await task.send("Well, in short: hello.")
    assert await settled(task) == Completed("all done")
    assert "in short: hello" in text_of(narrow.asked[-1].messages[-1])


@pytest.mark.requirement("context:too-much")
async def test_short_messages_that_wait_with_it_are_sent_later(shop: EngineHarness) -> None:
    narrow = model(shop, reads=1)
    task = await work(shop)
    task.publish(MessageQueued(ts=task.next_ts(), id="q", text="paint it red"))
    await task.send("much to say " * 20_000)
    ending = await settled(task)
    assert isinstance(ending, Failed) and ending.code == "context"
    assert [waiting.text for waiting in task.recorder.projection.queue.values()] == ["paint it red"]
    narrow.left = [finish()]
    await task.send("hello")
    assert await settled(task) == Completed("all done")
    sent = text_of(narrow.asked[-1].messages[-1])
    assert "paint it red" in sent and "hello" in sent


@pytest.mark.requirement("context:too-much")
async def test_a_task_that_begins_with_too_much_says_so(shop: EngineHarness) -> None:
    narrow = model(shop)
    task = await shop.start(text="much to say " * 20_000, policy=Unattended())
    ending = await settled(task)
    assert isinstance(ending, Failed)
    assert ending.code == "context"
    assert not narrow.requests


@pytest.mark.requirement("context:never-above-window")
async def test_a_mentioned_file_is_cut_where_the_message_is_not(shop: EngineHarness) -> None:
    (shop.root / "giant.txt").write_text("a line of the giant file\n" * 100_000)
    narrow = model(shop, window=16_000)
    narrow.left = [finish()]
    message = "Look at this. " * 200
    await work(shop, text=f"{message} @/giant.txt")
    (request,) = narrow.asked
    assert not narrow.refused
    assert message in text_of(request.messages[0])
    assert "left out to fit" in text_of(request.messages[0])


@pytest.mark.requirement("context:subtasks")
async def test_a_subtask_has_a_window_of_its_own(shop: EngineHarness) -> None:
    narrow = model(shop, reads=0)
    narrow.left = [
        Turn(hand("Read all files.")),
        *(read(number) for number in range(18)),
        finish("the files are read"),
        finish(),
    ]
    settings = Settings(always_allow_subtasks=True)
    children: list[Task] = []
    shop.engine.on_subtask = children.append
    task = await work(shop, text="Hand it on.", settings=settings)
    assert not condensed(task)
    (child,) = children
    assert condensed(child)
    assert "Hand it on." not in "".join(block.text for block in condensed(child)[0].content)


async def test_a_summary_names_what_the_files_define(shop: EngineHarness) -> None:
    shop.capabilities = Capabilities(outlines=OutlineExtractor())
    (shop.root / "app.py").write_text("def answer() -> int:\n    x = 1\n    y = 2\n    return 42\n")
    narrow = model(shop, reads=18)
    narrow.left.insert(3, Turn(call("read_file", {"path": "app.py"})))
    task = await work(shop)
    summary = "\n".join(block.text for block in condensed(task)[0].content)
    assert "- app.py" in summary
    assert "def answer() -> int:" in summary


async def test_another_engine_goes_on_from_the_summary(shop: EngineHarness) -> None:
    narrow = model(shop, reads=18)
    task = await work(shop)
    assert condensed(task)
    shown = msgspec.to_builtins(task.recorder.api_history.render_current())
    await shop.engine.close()
    shop.engine = shop.new_engine()
    narrow.left = [finish("again")]
    again = await shop.engine.resume(
        task.id, "Go on.", options=TaskOptions(workspace=shop.root, policy=Unattended())
    )
    assert await settled(again) == Completed("again")
    assert msgspec.to_builtins(narrow.asked[-1].messages[0]) == shown[0]
    assert len(narrow.asked[-1].messages) == len(shown) + 1


async def test_a_model_that_begins_anew_after_each_summary_is_stopped(shop: EngineHarness) -> None:
    class Forgetful(SmallWindowModel):
        def _take_next_turn(self, request: ModelRequest) -> ScriptedTurn:
            replies = sum(message.role == "assistant" for message in request.messages)
            self.left = [read(replies)]
            return super()._take_next_turn(request)

    shop.provider = narrow = Forgetful([])
    task = await shop.start(policy=Unattended())
    ending = await settled(task)
    assert isinstance(ending, Failed)
    assert ending.code == "mistakes"
    assert "after each summary" in ending.message
    assert 3 <= len(condensed(task)) <= 5
    assert len(narrow.asked) > len(condensed(task))
