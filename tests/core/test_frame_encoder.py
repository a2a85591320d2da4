"""Events of a task as frames: what is told, under which number."""

from __future__ import annotations

from typing import Any

import msgspec

from joey.core.events import (
    AskAnswered,
    AskOpened,
    Durable,
    Record,
    ReplyReceived,
    RowDelta,
    RowOpened,
    RowPart,
    TaskCreated,
    TaskImported,
    TaskStarted,
    UserMessage,
)
from joey.core.messages import ReasoningPart, TextPart
from joey.core.models import ToolProtocol
from joey.core.task_types import Answer, AskKind, Response
from joey.core.wire.event_encoder import ReplayNormalizer, encode_records
from joey.core.wire.frames import EventFrame, encode_frame
from joey.presentation.questions import build_ask_view

CREATED = TaskCreated(
    ts=1, task_id="t", workspace="/w", mode="code", tool_protocol=ToolProtocol.NATIVE, model="m"
)
BEGINNING: list[Durable] = [
    CREATED,
    UserMessage(ts=2, text=" mend it ", is_first=True),
    TaskStarted(ts=3),
    ReplyReceived(
        ts=4,
        parts=(RowPart(5, ReasoningPart("hm")), RowPart(6, TextPart("Let me see."))),
    ),
    AskOpened(ts=7, ask=AskKind.TOOL, tool="write_to_file", path="a"),
    AskAnswered(ts=8, ask_ts=7, answer=Answer(Response.YES)),
]


def encode_events(events: list[Durable]) -> list[EventFrame]:
    _, frames = encode_records(
        "t", [Record(n, event) for n, event in enumerate(events, 1)], build_ask_view
    )
    return frames


def test_a_task_is_announced_with_its_title_before_its_first_row() -> None:
    frames = encode_events(BEGINNING[:3])
    assert [frame.event_name for frame in frames] == [
        "taskCreated",
        "message",
        "taskStarted",
        "taskActive",
    ]
    assert frames[0].payload.title == "mend it"


def test_only_the_last_frame_of_a_record_carries_its_number() -> None:
    numbers = [(frame.event_name, frame.seq) for frame in encode_events(BEGINNING)]
    assert numbers == [
        ("taskCreated", 1),
        ("message", 2),
        ("taskStarted", 2),
        ("taskActive", 3),
        ("message", 3),
        ("message", 4),
        ("message", 4),
        ("taskInteractive", 5),
        ("message", 5),
        ("taskAskResponded", 5),
        ("taskActive", 6),
    ]


def test_a_row_that_grows_is_shown_whole_under_the_number_before() -> None:
    encoder, _ = encode_records(
        "t", [Record(n, event) for n, event in enumerate(BEGINNING[:3], 1)], build_ask_view
    )
    [opened] = encoder.apply_transient(RowOpened(ts=9, say="text"))
    encoder.apply_transient(RowDelta(ts=9, delta="Hel"))
    [grown] = encoder.apply_transient(RowDelta(ts=9, delta="lo"))
    frame = encoder.encode_row(grown)
    assert opened.action == "created"
    assert frame is not None
    assert (frame.seq, frame.payload.action) == (3, "updated")
    assert (frame.payload.message.text, frame.payload.message.partial) == ("Hello", True)


def test_sent_again_a_row_is_created_where_it_is_first_met() -> None:
    frames = encode_events(BEGINNING)
    replay = ReplayNormalizer()
    again = [replay.normalize(frame) for frame in frames[-3:]]
    assert frames[-3].payload.action == "updated"
    assert again[0].payload.action == "created"
    assert again[1:] == frames[-2:]


def test_rows_of_an_imported_task_are_sent_as_they_were_written() -> None:
    row: dict[str, Any] = {"ts": 1, "type": "say", "say": "text", "text": "hi", "unknown": [1]}
    adopted = TaskImported(
        ts=9,
        task_id="t",
        workspace="/w",
        mode="code",
        tool_protocol=ToolProtocol.XML,
        rows=(row,),
        messages=(),
    )
    created, message = encode_events([adopted])
    assert (created.event_name, created.payload.title) == ("taskCreated", "hi")
    assert msgspec.json.decode(encode_frame(message))["payload"] == {
        "action": "created",
        "message": row,
    }
