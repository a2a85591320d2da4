"""One table of calls and questions (`tool_calls.json`), shown alike by every front end.

`web/test/calls.test.ts` draws the same rows and views as the page. `JOEY_RENEW=1` writes the rows
and views of the table anew from its events.
"""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.acp.permissions import build_permission_options, build_permission_tool_call
from joey.acp.tool_calls import build_prepared_view
from joey.cli.headless.roo_stream_json import StreamJsonEncoder
from joey.cli.line_renderer import LineWriter, TaskRenderer
from joey.core.events import AskOpened, Durable, ToolStarted
from joey.core.history.ui import build_row
from joey.core.task_types import APPROVAL_ASKS, AskKind
from joey.core.wire.event_encoder import FrameEncoder
from joey.core.wire.frames import encode_frame
from joey.presentation.questions import build_ask_view
from joey.presentation.tool_calls import describe_call
from joey.tui.blocks.task_blocks import build_block
from joey.tui.widgets.question_panel import format_row, list_rows
from tests.harness.tui.conversation_harness import block_lines

TABLE = Path(__file__).with_name("tool_calls.json")
CASES: list[dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
CALLS = [
    each for each in CASES if each["event"].get("ask") not in ("followup", "completion_result")
]
ASKS = [each for each in CASES if each["event"]["event"] == "askOpened"]
WIDTH = 2000
REJECT_LABELS = dict.fromkeys(("Reject and stop", "Leave it"), "Reject")
"""What an editor calls a no."""
RENEW = bool(os.environ.get("JOEY_RENEW"))


def decode_event(case: dict[str, Any]) -> ToolStarted | AskOpened:
    event = msgspec.convert(case["event"], Durable)
    assert isinstance(event, ToolStarted | AskOpened)
    return event


def encode_frames(event: ToolStarted | AskOpened) -> list[dict[str, Any]]:
    frames = FrameEncoder("t", build_ask_view).encode(1, event)
    return [json.loads(encode_frame(frame)) for frame in frames]


def draw_plain(event: ToolStarted | AskOpened) -> str:
    written = StringIO()
    TaskRenderer(LineWriter(written)).render(event)
    return written.getvalue()


def get_headline(summary: dict[str, Any]) -> str:
    return f"{summary['title']} {summary.get('subject', '')}".rstrip()


def test_the_frames_carry_the_rows_and_views_of_the_table() -> None:
    made = []
    for case in CASES:
        message, *asked = (frame["payload"] for frame in encode_frames(decode_event(case)))
        views = {"view": asked[0]["view"]} if asked else {}
        known = {"name": case["name"], "event": case["event"]}
        made.append({**known, "row": message["message"], **views})
    if RENEW:
        TABLE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert made == CASES


@pytest.mark.parametrize("case", CALLS, ids=lambda case: str(case["name"]))
def test_a_call_has_the_same_title_everywhere(case: dict[str, Any]) -> None:
    event, summary = decode_event(case), case["row"]["summary"]
    headline, is_command = get_headline(summary), summary.get("kind") == "execute"
    view = build_prepared_view(event, {}, Path("/w"))
    assert view.title.replace("`", "") == headline
    mark, shown = ("$ ", summary["subject"]) if is_command else ("· ", headline)
    assert describe_call(event).startswith(f"{mark}{shown}")
    first = f"$ {event.text.splitlines()[0]}" if is_command else f"● {headline}"
    assert draw_plain(event).splitlines()[0].startswith(first)
    row = build_row(event)
    assert row is not None
    block = build_block(row)
    assert block is not None
    assert block_lines(block, WIDTH)[0].startswith(first)
    if event.tool and getattr(event, "ask", None) is not AskKind.BROWSER_ACTION_LAUNCH:
        line = msgspec.json.encode(StreamJsonEncoder().encode(event)[-1])
        assert json.loads(line)["summary"] == summary


@pytest.mark.parametrize("case", ASKS, ids=lambda case: str(case["name"]))
def test_a_question_is_put_alike_everywhere(case: dict[str, Any]) -> None:
    event, view = decode_event(case), case["view"]
    assert isinstance(event, AskOpened)
    plain = draw_plain(event)
    expected = [*view.get("warnings", ()), view.get("reason", ""), view.get("confinement", "")]
    assert [text for text in expected if text not in plain] == []
    labels = [f"{each['label']} {each.get('rule', '')}".strip() for each in view["choices"]]
    rows = list_rows(build_ask_view(event), ())
    assert [format_row(row) for row in rows if row is not None] == labels
    if event.ask in APPROVAL_ASKS:
        options = [REJECT_LABELS.get(label, label) for label in labels]
        assert [option.name for option in build_permission_options(event)] == options
        prepared = build_prepared_view(event, {}, Path("/w"))
        shown = str(build_permission_tool_call(event, "c", prepared).model_dump())
        assert [text for text in expected if text not in shown] == []


def test_no_text_of_the_table_can_command_a_terminal() -> None:
    for case in CASES:
        summary = {**case["row"].get("summary", {}), "files": (), "diff": ""}
        shown = json.dumps([summary, {**case.get("view", {}), "choices": ()}], ensure_ascii=False)
        assert "\\u001b" not in shown
        assert "\u202e" not in shown
