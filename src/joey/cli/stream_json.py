"""Events as lines of JSON, in the words that programs around Roo's command line understand.

A message that grows is told in pieces: each line holds what is new, and the last one of an id has
``done: true`` and the whole content, so that a reader may ignore all the others. Lines about
attempts and bookkeeping are left out, as they are there. Two things are told that Roo keeps to
itself: the results of all tools, and on the last line why a run ended and what all of it cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.asks import AskKind
from joey.core.events import (
    AskOpened,
    CallGrew,
    CommandGrew,
    Event,
    ReplyReceived,
    RowGrew,
    RowOpened,
    Said,
    TokenUsage,
    ToolAnnounced,
    ToolFinished,
    UserSaid,
)
from joey.core.messages import ReasoningPart, TextPart

Line = dict[str, Any]

SCHEMA_VERSION = 1
PROTOCOL = "roo-cli-stream"
COMMAND_TOOL = "execute_command"
NOT_TOLD = frozenset(
    {
        "api_req_started",
        "api_req_finished",
        "api_req_retried",
        "api_req_retry_delayed",
        "api_req_rate_limit_wait",
        "api_req_deleted",
        "checkpoint_saved",
        "condense_context",
        "condense_context_error",
        "sliding_window_truncation",
    }
)
_SPEAKING_TOOLS = frozenset({"attempt_completion", "ask_followup_question"})
"""Their arguments come again as words to the person."""


class RunResult(Struct, frozen=True, kw_only=True):
    """How a run ended."""

    exit_code: int
    code: str
    """`completed`, `aborted`, `needs_person`, `configuration`…, or the code of the failure."""
    reason: str = ""
    """A sentence for the person; nothing when all went well."""
    result: str | None = None
    """What the model presented as the result, if it did."""
    usage: TokenUsage = TokenUsage()
    task_id: str = ""


def init_line(task_id: str) -> Line:
    return {
        "type": "system",
        "subtype": "init",
        "content": "Task started",
        "taskId": task_id,
        "schemaVersion": SCHEMA_VERSION,
        "protocol": PROTOCOL,
        "capabilities": [],
    }


def result_line(run: RunResult, last_text: str) -> Line:
    """The last line. Without a presented result, the assistant's latest words stand in for it."""
    line: Line = {
        "type": "result",
        "done": True,
        "success": run.exit_code == 0,
        "content": last_text if run.result is None else run.result,
        "cost": {
            "totalCost": run.usage.total_cost,
            "inputTokens": run.usage.total_tokens_in,
            "outputTokens": run.usage.total_tokens_out,
            "cacheWrites": run.usage.total_cache_writes,
            "cacheReads": run.usage.total_cache_reads,
        },
        "code": run.code,
        "exitCode": run.exit_code,
    }
    if run.task_id:
        line["taskId"] = run.task_id
    if run.reason:
        line["reason"] = run.reason
    return line


class StreamJson:
    """Turns events into lines. Keeps only what is open."""

    def __init__(self) -> None:
        self._open: dict[int, str] = {}
        """Rows that grow, with the type of their lines."""
        self._output_id: int | None = None
        """Under which the output of the running command is told."""
        self.last_text = ""
        """The assistant's latest words: the content of a result when none was presented."""

    def feed(self, event: Event) -> list[Line]:
        return list(self._lines(event))

    def _lines(self, event: Event) -> Iterator[Line]:
        match event:
            case RowGrew(ts=ts, delta=delta) if kind := self._open.get(ts):
                yield {"type": kind, "id": ts, "content": delta}
            case CallGrew(ts=ts, delta=delta) if ts in self._open:
                yield {"type": "tool_use", "id": ts, "content": delta}
            case RowOpened():
                yield from self._open_row(event)
            case CommandGrew(ts=ts, output=output):
                yield self._grow_output(ts, output)
            case ReplyReceived():
                yield from self._close_reply(event)
            case UserSaid(ts=ts, text=text):
                yield _whole("user", ts, text)
            case ToolAnnounced(ts=ts, tool=tool, text=text):
                self._open.pop(ts, None)
                yield _tool_use(ts, tool, text)
            case AskOpened():
                self._open.pop(event.ts, None)
                yield from _ask(event)
            case ToolFinished():
                yield self._tool_result(event)
            case Said(say=say) if say not in NOT_TOLD:
                yield from self._said(event)

    def _open_row(self, event: RowOpened) -> Iterator[Line]:
        if event.tool in _SPEAKING_TOOLS:
            return
        if event.tool is None:
            self._open[event.ts] = "thinking" if event.say == "reasoning" else "assistant"
            return
        self._open[event.ts] = "tool_use"
        yield {
            "type": "tool_use",
            "subtype": "command" if event.tool == COMMAND_TOOL else "tool",
            "id": event.ts,
            "tool_use": {"name": event.tool},
        }

    def _close_reply(self, event: ReplyReceived) -> Iterator[Line]:
        for placed in event.parts:
            match placed.part:
                case TextPart(text=text) if text.strip():
                    self._open.pop(placed.ts, None)
                    self.last_text = text
                    yield _whole("assistant", placed.ts, text)
                case ReasoningPart(text=text) if text:
                    self._open.pop(placed.ts, None)
                    yield _whole("thinking", placed.ts, text)

    def _grow_output(self, ts: int, output: str) -> Line:
        self._output_id = self._output_id or ts
        return {
            "type": "tool_result",
            "subtype": "command",
            "id": self._output_id,
            "tool_result": {"name": COMMAND_TOOL, "output": output},
        }

    def _tool_result(self, event: ToolFinished) -> Line:
        """The end of a call; of a command, under the id that its output was told with."""
        result: Line = {"name": event.tool, "error" if event.is_error else "output": event.content}
        line: Line = {"type": "tool_result", "subtype": "tool", "id": event.ts}
        if event.tool == COMMAND_TOOL:
            line["subtype"] = "command"
            line["id"] = self._output_id or event.ts
            self._output_id = None
            if event.exit_code is not None:
                result["exitCode"] = event.exit_code
        return {**line, "tool_result": result, "done": True}

    def _said(self, event: Said) -> Iterator[Line]:
        match event.say:
            case "error":
                yield _whole("error", event.ts, event.text)
            case "command_output":
                # The tool's result repeats it.
                return
            case "text":
                self._open.pop(event.ts, None)
                self.last_text = event.text
                yield _whole("assistant", event.ts, event.text)
            case say if event.text:
                yield {**_whole("assistant", event.ts, event.text), "subtype": say}


def _ask(event: AskOpened) -> Iterator[Line]:
    match event.ask:
        case AskKind.TOOL | AskKind.COMMAND | AskKind.USE_MCP_SERVER:
            tool = COMMAND_TOOL if event.ask is AskKind.COMMAND else event.tool or ""
            yield _tool_use(event.ts, tool, event.text, mcp=event.ask is AskKind.USE_MCP_SERVER)
        case ask if event.text:
            yield {**_whole("assistant", event.ts, event.text), "subtype": str(ask)}


def _tool_use(ts: int, tool: str, text: str, *, mcp: bool = False) -> Line:
    name: str
    given: dict[str, Any]
    if tool == COMMAND_TOOL:
        subtype, name, given = "command", COMMAND_TOOL, {"command": text}
    elif mcp:
        subtype, name, given = "mcp", "mcp_server", {"raw": text}
    else:
        subtype, given = "tool", _row(text)
        name = str(given.pop("tool", None) or tool)
    return {
        "type": "tool_use",
        "subtype": subtype,
        "id": ts,
        "tool_use": {"name": name, "input": given},
        "done": True,
    }


def _row(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {"text": text}
    return value if isinstance(value, dict) else {"text": text}


def _whole(kind: str, ts: int, text: str) -> Line:
    return {"type": kind, "id": ts, "content": text, "done": True}
