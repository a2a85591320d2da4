"""Events of a task, continued after a cut and folded into rows by the rules of the API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.harness.server.server_fixture import Frame, Peer, ServerFixture


def identity(event: dict[str, Any]) -> tuple[int, int]:
    return event["record"], event["part"]


async def continue_after(peer: Peer, task_id: str, received: list[dict[str, Any]]) -> None:
    """Subscribe from the last event; what came before the answer is told again after it."""
    record, part = identity(received[-1]) if received else (0, 0)
    await peer.ask("subscribe", task_id, since=record, part=part)
    peer.events.clear()


ALLOW: dict[str, Any] = {
    "autoApprovalEnabled": True,
    "alwaysAllowReadOnly": True,
    "alwaysAllowWrite": True,
    "alwaysAllowExecute": True,
    "allowedCommands": ["*"],
}


def fold(events: Sequence[Frame], task_id: str) -> list[Frame]:
    """The rows that a client has which knows only the document: what is created is appended, what
    is updated replaces the row with its `ts`."""
    rows: dict[int, Frame] = {}
    for event in events:
        if event["eventName"] != "message" or event["taskId"] != task_id:
            continue
        row = event["payload"]["message"]
        assert (event["payload"]["action"] == "updated") == (row["ts"] in rows), row
        rows[row["ts"]] = row
    assert list(rows) == sorted(rows), "a row was created before one with a lower ts"
    return list(rows.values())


def read_history(here: ServerFixture, task_id: str, name: str = "ui_messages.json") -> list[Any]:
    path = here.home / "tasks" / f"task_{task_id}" / name
    found: list[Any] = json.loads(path.read_bytes())
    return found
