from __future__ import annotations

import pytest

from joey.cli.headless.roo_stream_json import (
    JsonLine,
    RunResult,
    StreamJsonEncoder,
    build_init_line,
    build_result_line,
)
from joey.core.events import (
    ArgumentsDelta,
    AskAnswered,
    AskOpened,
    CommandOutputDelta,
    Event,
    ReplyReceived,
    RequestStarted,
    RetryCountdown,
    RowAdded,
    RowDelta,
    RowOpened,
    RowPart,
    TaskFinished,
    TokenUsage,
    ToolFinished,
    ToolStarted,
    UsageChanged,
    UserMessage,
)
from joey.core.messages import CallPart, ReasoningPart, TextPart, ToolCall
from joey.core.task_types import Answer, AskKind, Response

MCP_ROW = r'{"type":"use_mcp_tool","serverName":"s","toolName":"t","arguments":"{\"a\":1}"}'

EARLIER: JsonLine = {"type": "tool_use", "subtype": "tool", "id": 11, "callId": "c", "done": True}
EARLIER |= {"tool_use": {"name": "readFile", "tool": "read_file"}}
"""A call of another run, of which only the outcome is known."""

TABLE: list[tuple[str, Event, list[JsonLine]]] = [
    (
        "the prompt",
        UserMessage(ts=1, text="do it", is_first=True),
        [{"type": "user", "id": 1, "content": "do it", "done": True}],
    ),
    (
        "feedback",
        UserMessage(ts=2, text="more"),
        [{"type": "user", "id": 2, "content": "more", "done": True}],
    ),
    (
        "a tool that the rules allow",
        ToolStarted(
            ts=3,
            call_id="c",
            tool="read_file",
            text='{"tool":"readFile","path":"a.py"}',
            path="a.py",
        ),
        [
            {
                "type": "tool_use",
                "subtype": "tool",
                "id": 3,
                "callId": "c",
                "tool_use": {
                    "name": "readFile",
                    "tool": "read_file",
                    "input": {"path": "a.py"},
                    "row": {"tool": "readFile", "path": "a.py"},
                },
                "done": True,
            }
        ],
    ),
    (
        "a tool that is asked about",
        AskOpened(ts=4, ask=AskKind.TOOL, tool="write_to_file", text='{"tool":"newFileCreated"}'),
        [
            {
                "type": "tool_use",
                "subtype": "tool",
                "id": 4,
                "tool_use": {
                    "name": "newFileCreated",
                    "tool": "write_to_file",
                    "input": {},
                    "row": {"tool": "newFileCreated"},
                },
                "done": True,
            }
        ],
    ),
    (
        "a tool whose row is not JSON",
        ToolStarted(ts=4, call_id="c", tool="other", text="words"),
        [
            {
                "type": "tool_use",
                "subtype": "tool",
                "id": 4,
                "callId": "c",
                "tool_use": {
                    "name": "other",
                    "tool": "other",
                    "input": {"text": "words"},
                    "row": {"text": "words"},
                },
                "done": True,
            }
        ],
    ),
    (
        "a command that the rules allow",
        ToolStarted(ts=5, call_id="c", tool="execute_command", text="ls -l"),
        [
            {
                "type": "tool_use",
                "subtype": "command",
                "id": 5,
                "callId": "c",
                "tool_use": {
                    "name": "execute_command",
                    "tool": "execute_command",
                    "input": {"command": "ls -l"},
                },
                "done": True,
            }
        ],
    ),
    (
        "a command that is asked about",
        AskOpened(ts=6, ask=AskKind.COMMAND, tool="execute_command", text="rm x"),
        [
            {
                "type": "tool_use",
                "subtype": "command",
                "id": 6,
                "tool_use": {
                    "name": "execute_command",
                    "tool": "execute_command",
                    "input": {"command": "rm x"},
                },
                "done": True,
            }
        ],
    ),
    (
        "an MCP server",
        AskOpened(ts=6, ask=AskKind.USE_MCP_SERVER, tool="mcp--s--t", text=MCP_ROW),
        [
            {
                "type": "tool_use",
                "subtype": "mcp",
                "id": 6,
                "tool_use": {
                    "name": "mcp_server",
                    "tool": "mcp--s--t",
                    "input": {"raw": MCP_ROW},
                    "server": "s",
                    "serverTool": "t",
                    "arguments": {"a": 1},
                },
                "done": True,
            }
        ],
    ),
    (
        "a question",
        AskOpened(ts=7, ask=AskKind.FOLLOWUP, text='{"question":"?"}'),
        [
            {
                "type": "assistant",
                "id": 7,
                "content": '{"question":"?"}',
                "done": True,
                "subtype": "followup",
            }
        ],
    ),
    (
        "a failed request",
        AskOpened(ts=8, ask=AskKind.API_REQ_FAILED, text="overloaded"),
        [
            {
                "type": "assistant",
                "id": 8,
                "content": "overloaded",
                "done": True,
                "subtype": "api_req_failed",
            }
        ],
    ),
    ("the question whether a result is right", AskOpened(ts=8, ask=AskKind.COMPLETION_RESULT), []),
    (
        "a result",
        RowAdded(ts=9, say="completion_result", text="all done"),
        [
            {
                "type": "assistant",
                "id": 9,
                "content": "all done",
                "done": True,
                "subtype": "completion_result",
            }
        ],
    ),
    (
        "an error",
        RowAdded(ts=10, say="error", text="no such file"),
        [{"type": "error", "id": 10, "content": "no such file", "done": True}],
    ),
    (
        "the outcome of a tool",
        ToolFinished(ts=11, call_id="c", tool="read_file", content="1 | x"),
        [
            EARLIER,
            {
                "type": "tool_result",
                "subtype": "tool",
                "id": 11,
                "callId": "c",
                "tool_result": {"name": "readFile", "tool": "read_file", "output": "1 | x"},
                "done": True,
            },
        ],
    ),
    (
        "the failure of a tool",
        ToolFinished(ts=11, call_id="c", tool="read_file", content="missing", is_error=True),
        [
            EARLIER,
            {
                "type": "tool_result",
                "subtype": "tool",
                "id": 11,
                "callId": "c",
                "tool_result": {"name": "readFile", "tool": "read_file", "error": "missing"},
                "done": True,
            },
        ],
    ),
    ("a request", RequestStarted(ts=13, api_protocol="anthropic"), []),
    ("a wait", RetryCountdown(ts=14, seconds=3, message="overloaded"), []),
    ("the end of a wait", RowAdded(ts=14, say="api_req_retry_delayed", text="overloaded"), []),
    ("an answer", AskAnswered(ts=15, ask_ts=4, answer=Answer(Response.YES)), []),
    ("usage", UsageChanged(ts=16, usage=TokenUsage()), []),
    ("the end", TaskFinished(ts=17), []),
]


@pytest.mark.parametrize(("event", "lines"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE])
def test_each_event_has_its_lines(event: Event, lines: list[JsonLine]) -> None:
    """Summaries of calls are in the table of `tests/presentation`."""
    encoded = StreamJsonEncoder().encode(event)
    assert [{key: line[key] for key in line if key != "summary"} for line in encoded] == lines


def test_text_is_sent_piece_by_piece_and_then_whole() -> None:
    stream = StreamJsonEncoder()
    lines = [
        line
        for event in (
            RowOpened(ts=1, say="reasoning"),
            RowDelta(ts=1, delta="hm"),
            RowOpened(ts=2, say="text"),
            RowDelta(ts=2, delta="Hel"),
            RowDelta(ts=2, delta="lo"),
            ReplyReceived(
                ts=3, parts=(RowPart(1, ReasoningPart(text="hm")), RowPart(2, TextPart("Hello")))
            ),
        )
        for line in stream.encode(event)
    ]
    assert lines == [
        {"type": "thinking", "id": 1, "content": "hm"},
        {"type": "assistant", "id": 2, "content": "Hel"},
        {"type": "assistant", "id": 2, "content": "lo"},
        {"type": "thinking", "id": 1, "content": "hm", "done": True},
        {"type": "assistant", "id": 2, "content": "Hello", "done": True},
    ]
    assert stream.last_text == "Hello"


def test_arguments_are_sent_while_they_grow_and_not_after_the_call_is_whole() -> None:
    stream = StreamJsonEncoder()
    opened = RowOpened(ts=1, say="tool", tool="write_to_file", call_id="c")
    assert stream.encode(opened) == [
        {
            "type": "tool_use",
            "subtype": "tool",
            "id": 1,
            "callId": "c",
            "tool_use": {"tool": "write_to_file"},
        }
    ]
    assert stream.encode(ArgumentsDelta(ts=1, delta='{"pa')) == [
        {"type": "tool_use", "id": 1, "callId": "c", "content": '{"pa'}
    ]
    stream.encode(ToolStarted(ts=1, call_id="c", tool="write_to_file", text="{}"))
    assert stream.encode(ArgumentsDelta(ts=1, delta="late")) == []


ROWS = [("read_file", "readFile"), ("write_to_file", "newFileCreated")]


@pytest.mark.parametrize(("tool", "tag"), ROWS)
def test_all_lines_of_a_call_agree_and_the_last_has_its_arguments(tool: str, tag: str) -> None:
    stream = StreamJsonEncoder()
    made = ToolCall(id="c", name=tool, input={"path": "a", "more": 1})
    events = (
        RowOpened(ts=1, say="tool", tool=tool, call_id="c"),
        ArgumentsDelta(ts=1, delta='{"path"'),
        ReplyReceived(ts=2, parts=(RowPart(1, CallPart(made)),)),
        ToolStarted(ts=1, call_id="c", tool=tool, text=f'{{"tool":"{tag}","path":"a"}}'),
        ToolFinished(ts=3, call_id="c", tool=tool, content="x"),
    )
    lines = [line for event in events for line in stream.encode(event)]
    assert [line["callId"] for line in lines] == ["c"] * 4
    first, _, whole, result = lines
    assert first["tool_use"].get("name", tag) == tag
    assert whole["tool_use"] == {
        "name": tag,
        "tool": tool,
        "input": made.input,
        "row": {"tool": tag, "path": "a"},
    }
    assert (result["tool_result"]["name"], result["tool_result"]["tool"]) == (tag, tool)


def test_the_output_of_a_command_names_its_call() -> None:
    stream = StreamJsonEncoder()
    stream.encode(ToolStarted(ts=1, call_id="c7", tool="execute_command", text="ls"))
    (line,) = stream.encode(CommandOutputDelta(ts=2, output="a"))
    assert line["callId"] == "c7"


@pytest.mark.parametrize("tool", ["attempt_completion", "ask_followup_question"])
def test_calls_that_speak_to_the_user_are_sent_only_as_text(tool: str) -> None:
    stream = StreamJsonEncoder()
    assert stream.encode(RowOpened(ts=1, say="tool", tool=tool, call_id="c")) == []
    assert stream.encode(ArgumentsDelta(ts=1, delta='{"res')) == []


def test_a_reply_that_only_calls_says_nothing_by_itself() -> None:
    call = RowPart(1, CallPart(ToolCall(id="c", name="read_file")))
    assert StreamJsonEncoder().encode(ReplyReceived(ts=2, parts=(call,))) == []


def test_the_output_of_a_command_and_its_end_have_one_id() -> None:
    stream = StreamJsonEncoder()
    content = "Command executed in '/w'. The command was not successful.\nExit code: 3\nOutput:\nab"
    finished = ToolFinished(
        ts=30, call_id="c", tool="execute_command", content=content, exit_code=3
    )
    stream.encode(ToolStarted(ts=1, call_id="c", tool="execute_command", text="ls"))
    events = (
        CommandOutputDelta(ts=20, output="a"),
        CommandOutputDelta(ts=21, output="b"),
        finished,
    )
    lines = [line for event in events for line in stream.encode(event)]
    assert [line["id"] for line in lines] == [20, 20, 20]
    assert [line["tool_result"].get("output") for line in lines] == ["a", "b", content]
    assert lines[-1]["tool_result"]["exitCode"] == 3
    assert lines[-1]["done"] is True
    assert stream.encode(CommandOutputDelta(ts=40, output="next"))[0]["id"] == 40


def test_what_a_command_prints_is_not_taken_for_its_exit_code() -> None:
    content = "The command is still running in '/w'.\nOutput so far:\nExit code: 7\n"
    finished = ToolFinished(ts=1, call_id="c", tool="execute_command", content=content)
    assert "exitCode" not in StreamJsonEncoder().encode(finished)[-1]["tool_result"]


def test_the_first_line_names_the_format_and_the_task() -> None:
    line = build_init_line("t1")
    assert (line["type"], line["subtype"]) == ("system", "init")
    assert (line["schemaVersion"], line["protocol"]) == (1, "roo-cli-stream")
    assert line["taskId"] == "t1"


def test_the_last_line_says_how_it_went_and_what_it_cost() -> None:
    usage = TokenUsage(10, 5, 2, 1, 0.25)
    run = RunResult(exit_code=0, outcome_code="completed", result="ok", usage=usage, task_id="t1")
    assert build_result_line(run, "words") == {
        "type": "result",
        "done": True,
        "success": True,
        "content": "ok",
        "cost": {
            "totalCost": 0.25,
            "inputTokens": 10,
            "outputTokens": 5,
            "cacheWrites": 2,
            "cacheReads": 1,
        },
        "code": "completed",
        "exitCode": 0,
        "taskId": "t1",
    }


def test_without_a_result_the_latest_text_is_sent_instead() -> None:
    line = build_result_line(
        RunResult(exit_code=53, outcome_code="turns", reason="Enough."), "I was about to"
    )
    assert (line["success"], line["content"], line["reason"]) == (
        False,
        "I was about to",
        "Enough.",
    )
