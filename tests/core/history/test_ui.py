"""Rows: what a user and Roo's clients see, folded from events."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from joey.core.events import (
    ArgumentsDelta,
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    CallDropped,
    CommandOutputDelta,
    Event,
    ReplyReceived,
    RequestEnded,
    RequestStarted,
    RetryCountdown,
    RowAdded,
    RowDelta,
    RowOpened,
    RowPart,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.history.ui import RowChange, UiHistory, get_ts
from joey.core.messages import TextPart, Usage
from joey.core.task_types import Answer, AskKind, Response


def folded(*events: Event) -> UiHistory:
    history = UiHistory()
    for event in events:
        history.apply(event)
    return history


def shown(history: UiHistory, ts: int) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(history.get_row(ts))
    return row


def test_the_first_row_is_the_users_request_and_later_messages_are_feedback() -> None:
    history = folded(
        UserMessage(ts=1, text="do it", is_first=True), UserMessage(ts=2, text="faster")
    )
    assert msgspec.to_builtins(list(history.iter_stored_rows())) == [
        {"ts": 1, "type": "say", "say": "text", "text": "do it"},
        {"ts": 2, "type": "say", "say": "user_feedback", "text": "faster"},
    ]


@pytest.mark.contract("history:ui")
def test_text_streams_as_a_partial_row_and_keeps_its_ts_when_it_is_complete() -> None:
    opened = RowOpened(ts=5, say="text")
    history = folded(opened, RowDelta(ts=5, delta="Hel"), RowDelta(ts=5, delta="lo"))
    assert shown(history, 5) == {
        "ts": 5, "type": "say", "say": "text", "text": "Hello", "partial": True,
    }  # fmt: skip
    assert list(history.rows) == []
    changes = history.apply(ReplyReceived(ts=6, parts=(RowPart(ts=5, part=TextPart("Hello")),)))
    assert changes == (RowChange("updated", 5),)
    assert shown(history, 5) == {
        "ts": 5, "type": "say", "say": "text", "text": "Hello", "partial": False,
    }  # fmt: skip


def test_rows_are_open_until_a_record_closes_them() -> None:
    reply = RowOpened(ts=5, say="text"), RowOpened(ts=6, say="tool", tool="new", call_id="c")
    command = CommandOutputDelta(ts=7, output="still running")
    history = folded(*reply, command)
    assert list(history.open_row_timestamps) == [5, 6, 7]
    assert [get_ts(row) for row in history.rows_with_open] == [5, 6, 7]
    assert history.rows == []
    closing = (
        RowAdded(ts=5, say="text", text=""),
        CallDropped(ts=6, tool="new", text='{"tool":"new"}'),
        RowAdded(ts=7, say="command_output", text="still running"),
    )
    assert [history.apply(event) for event in closing] == [
        (RowChange("updated", ts),) for ts in (5, 6, 7)
    ]
    assert list(history.open_row_timestamps) == []
    assert [shown(history, ts)["partial"] for ts in (5, 6, 7)] == [False] * 3


@pytest.mark.contract("calls:native")
def test_arguments_can_be_read_in_the_row_while_they_grow() -> None:
    history = folded(
        RowOpened(ts=5, say="tool", tool="write_to_file", call_id="c"),
        ArgumentsDelta(ts=5, delta='{"path": "src/a.py", "content": "imp'),
    )
    row = shown(history, 5)
    assert (row["tool"], row["path"], row["partial"]) == ("write_to_file", "src/a.py", True)
    assert json.loads(row["text"])["content"] == "imp"


@pytest.mark.contract("history:ui")
def test_a_tool_that_the_rules_allow_is_said_and_one_that_waits_is_asked() -> None:
    allowed = folded(
        ToolStarted(ts=1, call_id="c", tool="read_file", text='{"tool":"readFile"}', path="a"),
        ToolFinished(ts=2, call_id="c", tool="read_file", content="body", row_ts=1),
    )
    assert shown(allowed, 1) == {
        "ts": 1, "type": "say", "say": "tool", "text": '{"tool":"readFile"}', "tool": "read_file",
        "path": "a", "approvalState": "approved", "result": "body", "partial": False,
    }  # fmt: skip
    asked = folded(AskOpened(ts=1, ask=AskKind.TOOL, text="{}", tool="write_to_file", diff="+a"))
    assert shown(asked, 1)["type"] == "ask"
    assert shown(asked, 1)["approvalState"] == "pending"
    assert shown(asked, 1)["diff"] == "+a"


@pytest.mark.contract("history:ui")
@pytest.mark.parametrize(
    ("answer", "state"),
    [(Response.YES, "approved"), (Response.NO, "rejected"), (Response.MESSAGE, "rejected")],
)
def test_an_answer_settles_the_approval(answer: Response, state: str) -> None:
    history = folded(
        AskOpened(ts=1, ask=AskKind.COMMAND, text="ls"),
        AskAnswered(ts=2, ask_ts=1, answer=Answer(answer)),
    )
    assert (shown(history, 1)["approvalState"], shown(history, 1)["isAnswered"]) == (state, True)


def test_a_withdrawn_ask_is_not_left_pending() -> None:
    history = folded(AskOpened(ts=1, ask=AskKind.TOOL, text="{}"), AskWithdrawn(ts=2, ask_ts=1))
    assert shown(history, 1)["approvalState"] == "rejected"


@pytest.mark.contract("history:ui")
def test_a_request_row_is_rewritten_with_its_usage() -> None:
    usage = Usage(input=10, output=5, cache_reads=3)
    history = folded(
        RequestStarted(ts=1, api_protocol="anthropic"),
        RequestEnded(ts=2, request_ts=1, usage=usage, cost=0.5),
    )
    assert json.loads(shown(history, 1)["text"]) == {
        "apiProtocol": "anthropic", "tokensIn": 10, "tokensOut": 5,
        "cacheWrites": 0, "cacheReads": 3, "cost": 0.5,
    }  # fmt: skip


@pytest.mark.contract("history:ui")
def test_a_cancelled_request_says_why_it_ended() -> None:
    history = folded(
        RequestStarted(ts=1, api_protocol="openai"),
        RequestEnded(ts=2, request_ts=1, cancel_reason="user_cancelled"),
    )
    assert json.loads(shown(history, 1)["text"])["cancelReason"] == "user_cancelled"


@pytest.mark.contract("retry:transient")
def test_a_countdown_is_one_row_that_ticks_and_then_stays() -> None:
    history = folded(
        RetryCountdown(ts=1, seconds=2, message="529\noverloaded"),
        RetryCountdown(ts=1, seconds=1, message="529\noverloaded"),
    )
    assert shown(history, 1)["text"] == "529\noverloaded\n<retry_timer>1</retry_timer>"
    history.apply(RowAdded(ts=1, say="api_req_retry_delayed", text="529\noverloaded"))
    assert shown(history, 1)["partial"] is False
    assert len(history.rows) == 1


def test_command_output_is_one_row_that_grows() -> None:
    history = folded(CommandOutputDelta(ts=1, output="a\n"), CommandOutputDelta(ts=1, output="b\n"))
    assert shown(history, 1)["text"] == "a\nb\n"


def test_rows_of_calls_that_were_cut_off_stay_as_they_looked() -> None:
    live = folded(
        RowOpened(ts=5, say="tool", tool="read_file", call_id="c"),
        ArgumentsDelta(ts=5, delta='{"path": "a.p'),
        ReplyReceived(ts=6, parts=(), interrupted=True),
    )
    look = shown(live, 5)
    dropped = CallDropped(ts=5, tool="read_file", text=look["text"])
    live.apply(dropped)
    assert shown(live, 5) == {**look, "partial": False}
    assert list(folded(dropped).rows) == list(live.rows)


def test_an_argument_does_not_hide_the_name_of_its_tool() -> None:
    history = folded(
        RowOpened(ts=5, say="tool", tool="mcp--a--b", call_id="c"),
        ArgumentsDelta(ts=5, delta='{"tool": "hammer", "n": 1}'),
    )
    assert json.loads(shown(history, 5)["text"]) == {"tool": "mcp--a--b", "n": 1}


def test_a_result_that_is_not_presented_keeps_its_kind() -> None:
    history = folded(
        RowOpened(ts=5, say="tool", tool="attempt_completion", call_id="c"),
        ArgumentsDelta(ts=5, delta='{"result": "do'),
    )
    assert (shown(history, 5)["say"], shown(history, 5)["text"]) == ("completion_result", "do")
    history.apply(CallDropped(ts=5, tool="attempt_completion", text="done"))
    assert (shown(history, 5)["say"], shown(history, 5)["text"]) == ("completion_result", "done")
