"""Frames of a task, heard over connections that break: each once, in order, and read back."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.client.event_decoder import EventDecoder, TaskMirror
from joey.core.events import (
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    CommandOutputDelta,
    Event,
    MessageQueued,
    MessageUnqueued,
    Record,
    ReplyReceived,
    RequestEnded,
    RowAdded,
    RowDelta,
    RowOpened,
    TaskAborted,
    TaskCompleted,
    TaskCreated,
    TaskFinished,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.history.branch import find_live_branch
from joey.core.history.ui import UiHistory, add_row_summary
from joey.core.messages import TextPart
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.core.wire.event_encoder import FrameEncoder, ReplayNormalizer
from joey.core.wire.frames import EventFrame, encode_frame
from joey.presentation.questions import build_ask_view
from joey.testing.script import Turn, call, say, think
from tests.harness.core.journals import JournalBuilder, build_journals
from tests.harness.counts import shortened_examples
from tests.harness.engine.engine_harness import EngineHarness, done

ASKING = Settings(always_allow_execute=True, allowed_commands=("*",), confirm_completion="off")


async def _play(root: Path) -> tuple[Sequence[Record], Sequence[Any]]:
    """A task with a bit of everything: its records and its rows."""
    harness = EngineHarness(root)
    task = await harness.start(
        Turn(
            think("Let me see."),
            say("First a note."),
            call("write_to_file", {"path": "note", "content": "hi\n"}),
            call("execute_command", {"command": "echo out; exit 3"}),
            call("read_file", {"path": "missing"}),
        ),
        Turn(call("update_todo_list", {"todos": "[x] one\n[ ] two"})),
        Turn(call("ask_followup_question", {"question": "Sure?", "follow_up": []})),
        Turn(done("half")),
        Turn(say("More."), done("whole")),
        settings=ASKING,
    )
    async for event in task.events():
        match event:
            case AskOpened(ask=AskKind.FOLLOWUP):
                await task.send("quite")
            case AskOpened(ask=AskKind.COMPLETION_RESULT) if task.result == "half":
                await task.send("not yet")
            case AskOpened():
                await task.approve()
    records, rows = (
        list(task.bus.list_records_after(0)),
        [msgspec.json.decode(msgspec.json.encode(row)) for row in task.rows],
    )
    await harness.engine.close()
    return records, rows


@pytest.fixture(scope="module")
def played() -> tuple[Sequence[Record], Sequence[Any]]:
    with TemporaryDirectory() as root:
        return asyncio.run(_play(Path(root)))


class FrameLog:
    """The server's side: all frames of a task, as they travel, from any number on."""

    def __init__(self, records: Sequence[Record]) -> None:
        encoder = FrameEncoder("t", build_ask_view)
        self.frames: list[EventFrame] = []
        self.seqs: list[int] = []
        for record in records:
            fresh = encoder.encode(record.seq, record.event)
            self.frames += fresh
            self.seqs += [record.seq] * len(fresh)

    def after(self, seq: int) -> list[EventFrame]:
        replay = ReplayNormalizer()
        sent_frames = self.frames[bisect.bisect_right(self.seqs, seq) :]
        return [travelled(replay.normalize(frame)) for frame in sent_frames]


def travelled(frame: EventFrame) -> EventFrame:
    return msgspec.json.decode(encode_frame(frame), type=EventFrame)


def bare(frames: Sequence[EventFrame]) -> list[Any]:
    """Names and content, whatever a row is said to be: created or updated."""
    return [
        (f.event_name, f.payload["message"] if f.event_name == "message" else f.payload)
        for f in map(travelled, frames)
    ]


@pytest.mark.contract("python:reconnect")
@shortened_examples(40, 150)
@given(st.lists(st.integers(0, 12), max_size=20))
def test_under_any_cuts_every_frame_is_delivered_once_and_in_order(
    played: tuple[Sequence[Record], Sequence[Any]], cuts: list[int]
) -> None:
    records, rows = played
    server = FrameLog(records)
    client = TaskMirror([], 0)
    delivered: list[EventFrame] = []
    for length in [*cuts, len(server.frames)]:
        for frame in server.after(client.seq)[:length]:
            if (taken := client.apply_frame(frame)) is not None:
                delivered.append(taken)
    assert bare(delivered) == bare(server.frames)
    assert list(client.rows) == rows
    assert client.seq == records[-1].seq


def test_what_is_sent_again_from_an_earlier_number_is_passed_over(
    played: tuple[Sequence[Record], Sequence[Any]],
) -> None:
    server = FrameLog(played[0])
    client = TaskMirror([], 0)
    for frame in server.after(0):
        client.apply_frame(frame)
    assert [client.apply_frame(frame) for frame in server.after(0)] == [None] * len(server.frames)


def test_a_row_is_created_once_and_updated_from_then_on(
    played: tuple[Sequence[Record], Sequence[Any]],
) -> None:
    server = FrameLog(played[0])
    client = TaskMirror([], 0)
    met: set[int] = set()
    for length in (5, 9, len(server.frames)):
        for frame in server.after(client.seq)[:length]:
            taken = client.apply_frame(frame)
            if taken is not None and taken.event_name == "message":
                ts = taken.payload["message"]["ts"]
                assert taken.payload["action"] == ("updated" if ts in met else "created")
                met.add(ts)


def test_the_open_question_is_known_at_every_moment(
    played: tuple[Sequence[Record], Sequence[Any]],
) -> None:
    client = TaskMirror([], 0)
    encoder = FrameEncoder("t", build_ask_view)
    for record in played[0]:
        for frame in encoder.encode(record.seq, record.event):
            client.apply_frame(travelled(frame))
        expected = encoder.projection.pending_ask
        assert (client.pending and client.pending.ts) == (expected and expected.ts)
        if client.pending is not None and expected is not None:
            assert client.pending.text == expected.text


def events_of(frames: Sequence[EventFrame]) -> list[Event]:
    reader = EventDecoder()
    return [event for frame in frames for event in reader.feed(travelled(frame))]


def essence(event: Event) -> object:
    match event:
        case AskOpened():
            return (event.ts, event.ask, event.text, event.tool, event.path, event.diff)
        case ToolStarted():
            return (event.ts, event.tool, event.text, event.path, event.diff)
        case ToolFinished():
            return (event.row_ts, event.content)
        case RequestEnded():
            return (event.request_ts, event.usage and event.usage.input, event.cost or 0.0)
        case UserMessage() | RowAdded():
            return (event.ts, event.text)
        case TaskCompleted():
            return (event.result, event.usage, event.tool_usage)
        case TodosChanged():
            return event.todos
        case _:
            return ()


def test_events_are_read_back_from_frames(
    played: tuple[Sequence[Record], Sequence[Any]],
) -> None:
    """What the wire carries is what the engine said, but for what only the engine needs."""
    alike = (
        AskOpened,
        RequestEnded,
        RowAdded,
        TaskCompleted,
        TaskCreated,
        TaskFinished,
        TodosChanged,
        ToolStarted,
        ToolFinished,
        UserMessage,
    )
    read = events_of(FrameLog(played[0]).frames)

    for kind in alike:
        original = [essence(r.event) for r in played[0] if isinstance(r.event, kind)]
        if kind is ToolFinished:
            original = [pair for pair in original if pair[0] is not None]  # type: ignore[index]
        assert [essence(event) for event in read if isinstance(event, kind)] == original
    answers = [
        (r.event.ask_ts, r.event.answer.response)
        for r in played[0]
        if isinstance(r.event, AskAnswered)
    ]
    assert [(e.ask_ts, e.answer.response) for e in read if isinstance(e, AskAnswered)] == answers
    assert [
        placed.part.text
        for event in read
        if isinstance(event, ReplyReceived)
        for placed in event.parts
        if isinstance(placed.part, TextPart)
    ] == ["First a note.", "More."]


def row(**fields: Any) -> EventFrame:
    message = {"ts": 5, "type": "say", **fields}
    payload = {"action": "updated", "message": message}
    return EventFrame(event_name="message", task_id="t", payload=payload, seq=1)


def test_a_growing_row_is_read_as_what_was_added() -> None:
    frames = [
        row(say="text", text="Hel", partial=True),
        row(say="text", text="Hello", partial=True),
        row(say="text", text="Hello!", partial=False),
        row(say="text", text="Hello!", partial=False),
    ]
    read = events_of(frames)
    assert [type(event) for event in read] == [
        RowOpened,
        RowDelta,
        RowDelta,
        RowDelta,
        ReplyReceived,
    ]
    assert [event.delta for event in read if isinstance(event, RowDelta)] == ["Hel", "lo", "!"]


def test_growing_output_is_read_as_what_was_added() -> None:
    frames = [
        row(say="command_output", text="a\n", partial=True),
        row(say="command_output", text="a\nb\n", partial=True),
        row(say="command_output", text="a\nb\nc\n", partial=False),
    ]
    read = events_of(frames)
    assert [e.output for e in read if isinstance(e, CommandOutputDelta)] == ["a\n", "b\n", "c\n"]
    assert [e.text for e in read if isinstance(e, RowAdded)] == ["a\nb\nc\n"]


def test_a_queue_is_read_as_what_came_and_went() -> None:
    def queue(*ids: str) -> EventFrame:
        items = [{"id": id, "text": id, "timestamp": 1} for id in ids]
        return EventFrame(
            event_name="queuedMessagesUpdated", task_id="t", payload={"queue": items}, seq=1
        )

    read = events_of([queue("a"), queue("a", "b"), queue("b"), queue()])
    assert [(type(e), e.id) for e in read if isinstance(e, MessageQueued | MessageUnqueued)] == [
        (MessageQueued, "a"),
        (MessageQueued, "b"),
        (MessageUnqueued, "a"),
        (MessageUnqueued, "b"),
    ]


def test_a_question_without_an_answer_is_withdrawn_when_the_task_goes_on() -> None:
    question = row(type="ask", ask="followup", text="?")
    active = EventFrame(event_name="taskActive", task_id="t", payload={}, seq=2)
    aborted = EventFrame(
        event_name="taskAborted", task_id="t", payload={"reason": "user_cancelled"}, seq=3
    )
    client = TaskMirror([], 0)
    read = events_of([question, active, aborted])
    assert [type(event) for event in read] == [AskOpened, AskWithdrawn, TaskAborted]
    client.apply_frame(question)
    assert client.pending is not None
    client.apply_frame(active)
    assert client.pending is None


@shortened_examples(20, 60)
@given(build_journals())
@pytest.mark.contract("rewind:any-row")
def test_a_client_has_the_rows_that_are_in_sight_however_often_it_was_rewound(
    story: JournalBuilder,
) -> None:
    encoder, following = FrameEncoder("t", build_ask_view), TaskMirror((), 0)
    for number, record in enumerate(story.records):
        for frame in encoder.encode(record.seq, record.event):
            following.apply_frame(msgspec.json.decode(encode_frame(frame), type=EventFrame))
        path = find_live_branch(story.records[: number + 1])
        ui = UiHistory()
        for each in path:
            ui.apply(each.event)
        assert list(following.rows) == msgspec.to_builtins(list(map(add_row_summary, ui.rows)))
