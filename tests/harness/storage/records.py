"""Small records for the tests of stores."""

from __future__ import annotations

from joey.core.events import Durable, Record, RowAdded, TaskCreated, TaskStarted, UserMessage
from joey.core.models import ToolProtocol

TASK = "0198c0de-0000-7000-8000-000000000001"


def created(seq: int = 1, task_id: str = TASK, ts: int = 1_000) -> Record:
    event = TaskCreated(
        ts=ts,
        task_id=task_id,
        workspace="/home/ann/shop",
        mode="code",
        tool_protocol=ToolProtocol.NATIVE,
    )
    return Record(seq=seq, event=event)


def said(seq: int, text: str = "words") -> Record:
    return Record(seq=seq, event=RowAdded(ts=1_000 + seq, say="text", text=text))


def opening(task_id: str = TASK) -> list[Record]:
    """The first records of any task."""
    events: list[Durable] = [
        TaskStarted(ts=1_002),
        UserMessage(ts=1_003, text="Fix the login test\n", is_first=True),
    ]
    return [created(1, task_id), *(Record(n, event) for n, event in enumerate(events, start=2))]
