"""A task is the same image from its rows and from its events; subtasks speak under their name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.client.session import Session
from joey.client.task_tree_events import follow_task_tree
from joey.core.events import (
    ArgumentsDelta,
    AskAnswered,
    AskOpened,
    CommandOutputDelta,
    Event,
    ReplyReceived,
    RetryCountdown,
    RowAdded,
    RowDelta,
    RowOpened,
    TaskAborted,
    TaskFailed,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.history.ui import Row
from joey.core.models import ToolProtocol
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response
from joey.engine.task import Task
from joey.presentation.text import sanitize
from joey.presentation.tool_calls import OUTPUT_HEAD_LINES, OUTPUT_TAIL_LINES
from joey.testing.script import Turn, call, fail, pause, say, think
from joey.tui.blocks.block_layout import DrawContext
from joey.tui.blocks.timeline import Timeline
from tests.harness.counts import shortened_examples
from tests.harness.engine.engine_harness import TIMEOUT_S, EngineHarness, finish
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)
from tests.harness.tui.conversation_harness import PALETTE, SessionStub

ASKING = Settings(always_allow_read_only=True)
REPLY_TEXT = "## Plan\n\nI **look** at it:\n\n1. read\n2. change\n\n```python\nx = 1\n```\n"


@pytest.fixture
async def engine_harness(tmp_path: Path) -> AsyncIterator[EngineHarness]:
    harness = EngineHarness(tmp_path)
    yield harness
    await harness.engine.close()


def render_timeline(story: Timeline, *, whole: bool = False, width: int = 60) -> list[str]:
    look = DrawContext(width + 1, PALETTE, whole)
    lines: list[str] = []
    for block in story.blocks:
        lines += [
            block.render_strip(y, look).text[1:].rstrip() for y in range(block.measure_height(look))
        ]
    return lines


def from_rows(rows: Sequence[Row | dict[str, Any]]) -> Timeline:
    story = Timeline()
    story.load_session(cast(Session, SessionStub(rows)))
    return story


async def watched(task: Task, answers: dict[AskKind, Sequence[Answer]]) -> Timeline:
    """What somebody sees who was there from the beginning, and answers as they go."""
    story, left = Timeline(), {kind: list(given) for kind, given in answers.items()}
    story.load_session(cast(Session, SessionStub(id=task.id)))
    async with (
        asyncio.timeout(TIMEOUT_S),
        follow_task_tree(task, task.events(0), from_start=True) as tree_events,
    ):
        async for one in tree_events:
            story.handle(one.session, one.event)
            render_timeline(story)
            if isinstance(one.event, AskOpened):
                await one.session.answer(one.event.ts, left[one.event.ask].pop(0))
    return story


YES, NO = Answer(Response.YES), Answer(Response.NO)


@pytest.mark.parametrize("whole", [False, True])
async def test_rows_and_events_are_drawn_the_same(
    engine_harness: EngineHarness, whole: bool
) -> None:
    (engine_harness.root / "a.py").write_text("old = 1\nkept = 2\n")
    todos = "[x] read it\n[-] change it\n[ ] test it"
    question = {"question": "Which one?", "follow_up": [{"text": "the first"}, {"text": "both"}]}
    task = await engine_harness.start(
        Turn(think("First I read.\nThen I change.", chunk=3), say(REPLY_TEXT, chunk=3)),
        Turn(
            say("I read."), call("read_file", {"path": "a.py"}), call("list_files", {"path": "."})
        ),
        Turn(call("update_todo_list", {"todos": todos})),
        Turn(call("write_to_file", {"path": "a.py", "content": "new = 1\nkept = 2\n"}, chunk=5)),
        Turn(call("write_to_file", {"path": "b.py", "content": "no\n"})),
        Turn(call("execute_command", {"command": "seq 1 40; exit 3"})),
        Turn(call("read_file", {"path": "missing.py"})),
        Turn(call("ask_followup_question", question)),
        Turn(call("attempt_completion", {"result": "It *works*."}, chunk=4)),
        Turn(call("attempt_completion", {"result": "It is **done**.\n\n- all of it"}, chunk=4)),
        text="repair it",
        settings=ASKING,
    )
    live = await watched(
        task,
        {
            AskKind.TOOL: [YES, Answer(Response.MESSAGE, text="not this file")],
            AskKind.COMMAND: [YES],
            AskKind.FOLLOWUP: [Answer(Response.MESSAGE, text="both")],
            AskKind.COMPLETION_RESULT: [YES],
        },
    )
    drawn = render_timeline(live, whole=whole)
    assert drawn == render_timeline(from_rows(task.rows), whole=whole)
    for line in (
        *("› repair it", "Plan", "● Read a.py", "● Update todo list 1 of 3 done · now: change it"),
        *("● Edit a.py +1 -1", "  1 - old = 1", "  1 + new = 1", "  └ ✗ rejected"),
        *("› not this file", "$ seq 1 40; exit 3", "  └ exit 3", "? joey asks", "› both"),
        *("It works.", "✓ result", "It is done.", "• all of it"),
    ):
        assert line in drawn
    assert drawn.count("✓ result") == 1
    assert ("    … 15 more lines (Ctrl+O)" in drawn) is not whole


@pytest.mark.contract("calls:in-reasoning")
async def test_text_and_calls_that_turn_out_to_be_reasoning_are_drawn_as_thinking(
    engine_harness: EngineHarness,
) -> None:
    calls = (
        "<list_files><path>.</path></list_files>\n"
        "<attempt_completion><result>Early.</result></attempt_completion>"
    )
    result = "<attempt_completion><result>Done.</result></attempt_completion>"
    gate = asyncio.Event()
    thought = say(f"I could look:\n{calls}\nNo.", chunk=4)
    reply = Turn(thought, pause(gate), say(f"\n</think>\nI stop.\n{result}"))
    task = await engine_harness.start(reply, protocol=ToolProtocol.XML)
    story = Timeline()
    story.load_session(cast(Session, SessionStub(id=task.id)))
    async with asyncio.timeout(TIMEOUT_S):
        async for event in task.events(0):
            story.handle(task, event)
            if "No." in render_timeline(story):
                gate.set()
            if isinstance(event, AskOpened):
                await task.answer(event.ts, YES)
    drawn = render_timeline(story)
    assert drawn == render_timeline(from_rows(task.rows))
    assert [line for line in drawn if "thought" in line] == [
        "∴ thought: I could look:",
        "∴ thought: <list_files><path>.</path></list_files>",
        "∴ thought: <attempt_completion><result>Early.</result></att…",
        "∴ thought: No.",
    ]
    assert not [line for line in drawn if "● List" in line]


async def test_an_interrupted_task_is_drawn_the_same_when_it_is_opened_again(
    engine_harness: EngineHarness,
) -> None:
    gate = asyncio.Event()
    task = await engine_harness.start(Turn(say("I begin to "), pause(gate), say("work")))
    story = Timeline()
    story.load_session(cast(Session, SessionStub(id=task.id)))
    async with asyncio.timeout(TIMEOUT_S):
        async for event in task.events(0):
            story.handle(task, event)
            if isinstance(event, RowDelta):
                await task.cancel()
    assert render_timeline(story) == ["› do it", "", "I begin to", "", "interrupted"]
    assert render_timeline(from_rows(task.rows)) == render_timeline(story)


async def test_subtasks_speak_under_their_name_and_the_task_goes_on(
    engine_harness: EngineHarness,
) -> None:
    parts = {
        "the whole": [Turn(say("I delegate."), delegate("part one")), finish("Whole.")],
        "part one": [Turn(say("I work."), call("list_files", {"path": "."})), finish("One.")],
    }
    engine_harness.provider = ScriptedSubtasks(parts)
    task = await engine_harness.start(text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS)
    story = await watched(task, {AskKind.COMPLETION_RESULT: [YES, YES]})
    assert render_timeline(story) == [
        *("› the whole", "", "I delegate.", "", "● Subtask 💻 Code", "  part one", ""),
        *("┄┄ subtask 1: part one", "┊", "┊ I work.", "┊", "┊ ● List .", "┊"),
        *("┊ ✓ result", "┊ One.", "┊", "┊ ● Finish subtask", ""),
        *("┄┄ the task continues", "", "✓ result", "Whole."),
    ]
    assert render_timeline(from_rows(task.rows))[4:] == [
        *("● Subtask 💻 Code", "  part one", "", "✓ result of the subtask", "One.", ""),
        *("✓ result", "Whole."),
    ]


def render_events(*events: Event) -> list[str]:
    story, session = Timeline(), cast(Session, SessionStub())
    story.load_session(session)
    for event in events:
        story.handle(session, event)
        render_timeline(story)
    return render_timeline(story)


def test_a_countdown_is_one_line_that_goes_when_it_is_over() -> None:
    waiting = [RetryCountdown(ts=5, seconds=n, message="429\nToo fast", attempt=2) for n in (9, 8)]
    assert render_events(*waiting) == ["trying again in 8 s (retry 2): Too fast"]
    assert render_events(*waiting, RetryCountdown(ts=5, seconds=0, message="")) == []


def test_how_long_the_model_thought_is_shown() -> None:
    lines = render_events(
        RowOpened(ts=1_000, say="reasoning"),
        RowDelta(ts=1_000, delta="Hm."),
        RowOpened(ts=13_500, say="text"),
        RowDelta(ts=13_500, delta="So."),
    )
    assert lines == ["∴ thought for 12 s: Hm.", "", "So."]


def command_started(row_ts: int, command: str) -> ToolStarted:
    return ToolStarted(ts=row_ts, call_id=command, tool="execute_command", text=command)


def command_finished(ts: int, row_ts: int, command: str) -> ToolFinished:
    return ToolFinished(
        ts=ts,
        call_id=command,
        tool="execute_command",
        content="",
        exit_code=0,
        row_ts=row_ts,
    )


def test_the_duration_of_a_command_leaves_out_what_it_waited_for() -> None:
    """For the rest of the reply, for the answer about another call, for the call before it."""
    approved = Answer(Response.YES)
    lines = render_events(
        command_started(1_000, "echo waiting"),
        AskOpened(ts=1_001, ask=AskKind.COMMAND, text="make", call_id="make"),
        AskAnswered(ts=20_000, ask_ts=1_001, answer=approved),
        command_finished(20_100, 1_000, "echo waiting"),
        command_finished(23_100, 1_001, "make"),
        command_started(1_002, "echo after"),
        command_finished(23_200, 1_002, "echo after"),
        ReplyReceived(ts=40_000, parts=()),
        command_started(30_000, "sleep 2"),
        command_finished(42_000, 30_000, "sleep 2"),
    )
    assert [line for line in lines if line] == [
        *("$ echo waiting", "$ make", "  └ 3.1 s"),
        *("$ echo after", "$ sleep 2", "  └ 2 s"),
    ]


def test_the_lines_of_a_long_output_are_counted_although_its_row_leaves_some_out() -> None:
    output = "".join(f"{n}\n" for n in range(5_000))
    shortened = f"{output[:2_000]}\n[...19890 bytes omitted...]\n{output[-2_000:]}"
    row = RowAdded(ts=3, say="command_output", text=shortened)
    live = render_events(
        command_started(2, "seq 5000"), CommandOutputDelta(ts=3, output=output), row, row
    )
    assert f"    … {5_000 - OUTPUT_HEAD_LINES - OUTPUT_TAIL_LINES} more lines (Ctrl+O)" in live
    assert "    … more lines (Ctrl+O)" in render_events(command_started(2, "seq 5000"), row)


def test_a_call_that_was_never_made_is_not_left_behind() -> None:
    begun = RowOpened(ts=3, say="tool", tool="write_to_file", call_id="c")
    assert render_events(UserMessage(ts=1, text="Go", is_first=True), begun, TaskAborted(ts=9)) == [
        *("› Go", "", "interrupted"),
    ]


async def test_a_failed_request_tells_why(engine_harness: EngineHarness) -> None:
    task = await engine_harness.start(
        Turn(fail(400, "bad request")), settings=ALLOW_ALL_WITH_SUBTASKS
    )
    story = await watched(task, {AskKind.API_REQ_FAILED: [NO]})
    assert any("bad request" in line for line in render_timeline(story))


KINDS = st.sampled_from(
    [
        *("text", "reasoning", "user_feedback", "tool", "command", "command_output", "error"),
        *(
            "api_req_started",
            "completion_result",
            "followup",
            "mcp_server_response",
            "use_mcp_server",
        ),
        *("browser_action_result", "condense_context", "subtask_result", "checkpoint_saved", "odd"),
        *("auto_approval_max_req_reached", "api_req_failed", "api_req_retry_delayed"),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            *(
                '{"tool":"newTask","content":5}',
                '{"todos":[1,{}]}',
                '{"question":[]}',
                "[]",
                "null",
            ),
            *(
                '{"type":"use_mcp_tool"}',
                "@@ -1 +1 @@\n-a",
                "<<<<<<< SEARCH\n=======",
                "{",
                "\x1b[",
            ),
        ]
    ),
)
ODD = st.one_of(st.none(), st.integers(), TEXTS, st.lists(TEXTS, max_size=2))
FOREIGN = st.fixed_dictionaries(
    {"ts": st.integers(1, 50), "type": st.just("say"), "say": KINDS},
    optional={
        "text": st.one_of(TEXTS, ODD),
        "tool": st.one_of(st.sampled_from(["execute_command", "update_todo_list", "x"]), ODD),
        "diff": st.one_of(TEXTS, ODD),
        "images": ODD,
        "result": ODD,
        "approvalState": st.sampled_from(["pending", "rejected", "unheard of"]),
        "contextCondense": ODD,
    },
)


@shortened_examples(25, 100)
@given(st.lists(FOREIGN, max_size=8), st.booleans(), st.integers(1, 50))
def test_rows_that_others_wrote_are_drawn_whatever_is_in_them(
    rows: list[dict[str, Any]], whole: bool, width: int
) -> None:
    for line in render_timeline(from_rows(rows), whole=whole, width=width):
        assert sanitize(line) == line


def test_a_request_that_failed_for_good_is_shown_once() -> None:
    story, teller = Timeline(), cast(Session, SessionStub(id="t"))
    story.load_session(teller)
    story.handle(teller, AskOpened(ts=1, ask=AskKind.API_REQ_FAILED, text="no such model"))
    story.handle(teller, TaskFailed(ts=2, code="provider:not_found", message="no such model"))
    assert "\n".join(render_timeline(story)).count("no such model") == 1
    story.handle(teller, TaskFailed(ts=3, code="time", message="the time is up"))
    assert "the time is up" in "\n".join(render_timeline(story))


async def test_a_plain_answer_is_shown_once_as_the_result(engine_harness: EngineHarness) -> None:
    settings = Settings(mode="ask")
    task = await engine_harness.start(Turn(say("It is the linker.", chunk=3)), settings=settings)
    story = await watched(task, {AskKind.COMPLETION_RESULT: [YES]})
    shown = render_timeline(story)
    assert shown == render_timeline(from_rows(task.rows))
    assert shown.count("It is the linker.") == 1
    assert shown.index("✓ result") < shown.index("It is the linker.")


def test_a_result_is_not_marked_as_one_before_it_is_presented() -> None:
    story, session = Timeline(), cast(Session, SessionStub(id="t"))
    story.load_session(session)
    story.handle(session, RowOpened(ts=1, say="tool", tool="attempt_completion", call_id="c"))
    story.handle(session, ArgumentsDelta(ts=1, delta='{"result": "It works.'))
    assert render_timeline(story) == ["… result", "It works."]
    story.handle(session, RowAdded(ts=1, say="completion_result", text="It works."))
    assert render_timeline(story) == ["✓ result", "It works."]


async def test_a_result_that_is_not_presented_stays_as_plain_text(
    engine_harness: EngineHarness,
) -> None:
    todos, early = (
        call("list_files", {"path": "."}),
        call("attempt_completion", {"result": "Soon."}),
    )
    task = await engine_harness.start(Turn(todos, early), finish("Late."))
    story = await watched(task, {AskKind.COMPLETION_RESULT: [YES]})
    shown = render_timeline(story)
    assert shown == render_timeline(from_rows(task.rows))
    assert shown.count("✓ result") == 1
    assert shown.index("Soon.") < shown.index("✓ result") < shown.index("Late.")
