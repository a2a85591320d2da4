"""Events as lines of JSON, in the `stream-json` format of Roo's command line.

A growing message is sent in pieces: each line holds the new part, and the last line of an id has
``done: true`` and the whole content, so a reader may ignore all others. Lines about attempts and
bookkeeping are left out, as in Roo. Unlike Roo, joey also sends the results of all tools, the ids
and arguments of calls as the model made them, and on the last line why a run ended and what all of
it cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from joey.core import events as ev
from joey.core.messages import CallPart, ReasoningPart, TextPart, ToolCall
from joey.core.task_types import AskKind, RowKind
from joey.core.tool_calls import COMMAND_TOOL_NAME, get_summary

JsonLine = dict[str, Any]

SCHEMA_VERSION = 1
PROTOCOL_NAME = "roo-cli-stream"
OMITTED_ROW_KINDS = frozenset(
    {
        RowKind.API_REQ_STARTED,
        RowKind.API_REQ_FINISHED,
        RowKind.API_REQ_RETRIED,
        RowKind.API_REQ_RETRY_DELAYED,
        RowKind.API_REQ_RATE_LIMIT_WAIT,
        RowKind.API_REQ_DELETED,
        RowKind.CHECKPOINT_SAVED,
        RowKind.CONDENSE_CONTEXT,
        RowKind.CONDENSE_CONTEXT_ERROR,
        RowKind.SLIDING_WINDOW_TRUNCATION,
        # The tool's result repeats them.
        RowKind.CODEBASE_SEARCH_RESULT,
        RowKind.COMMAND_OUTPUT,
        RowKind.MCP_SERVER_RESPONSE,
    }
)
_USER_FACING_TOOLS = frozenset({"attempt_completion", "ask_followup_question"})
"""Their arguments come as words to the user, and once more with their outcome."""
_MCP_TOOL_NAME = "mcp_server"
_ROO_TOOL_NAMES = {
    COMMAND_TOOL_NAME: COMMAND_TOOL_NAME,
    "apply_diff": "appliedDiff",
    "apply_patch": "appliedDiff",
    "codebase_search": "codebaseSearch",
    "edit": "appliedDiff",
    "insert_content": "insertContent",
    "new_task": "newTask",
    "list_code_definition_names": "listCodeDefinitionNames",
    "read_command_output": "readCommandOutput",
    "read_file": "readFile",
    "search_files": "searchFiles",
    "search_replace": "appliedDiff",
    "switch_mode": "switchMode",
    "update_todo_list": "updateTodoList",
}
"""What Roo's rows call a tool. Of the others that depends on what the call turns out to do."""


class RunResultCode(StrEnum):
    """How a run ended, unless its task failed."""

    COMPLETED = "completed"
    ANSWERED = "answered"
    NEEDS_USER = "needs_person"
    ABORTED = "aborted"
    FAILED = "failed"
    USAGE = "usage"
    TRY_AGAIN = "try_again"
    CONFIGURATION = "configuration"


class RunResult(Struct, frozen=True, kw_only=True):
    """How a run ended."""

    exit_code: int
    outcome_code: str
    """A `RunResultCode`, or the code with which the task failed."""
    reason: str = ""
    """A sentence for the user; nothing when all went well."""
    result: str | None = None
    """What the model presented as the result, if it did."""
    background_commands: tuple[ev.BackgroundCommand, ...] = ()
    """The result ends with a sentence about each."""
    structured_result: Any = UNSET
    """The value of a result that had to fit a JSON schema."""
    usage: ev.TokenUsage = ev.TokenUsage()
    task_id: str = ""
    turns: int = 0
    """Replies of the model in this run, those of subtasks included."""
    model: str | None = None


def build_init_line(
    task_id: str, content: str = "Task started", capabilities: Sequence[str] = ()
) -> JsonLine:
    line: JsonLine = {"type": "system", "subtype": "init", "content": content}
    if task_id:
        line["taskId"] = task_id
    said = {"schemaVersion": SCHEMA_VERSION, "protocol": PROTOCOL_NAME}
    return line | said | {"capabilities": list(capabilities)}


def build_result_line(run: RunResult, last_text: str) -> JsonLine:
    """Build the last line. Without a presented result, it holds the assistant's latest text."""
    line: JsonLine = {
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
        "code": run.outcome_code,
        "exitCode": run.exit_code,
    }
    if run.structured_result is not UNSET:
        line["structured"] = run.structured_result
    if run.task_id:
        line["taskId"] = run.task_id
    if run.reason:
        line["reason"] = run.reason
    return line


def build_error_lines(run: RunResult) -> list[JsonLine]:
    """Build the lines before the last line of a failed run."""
    if not run.reason or run.outcome_code in (RunResultCode.ABORTED, RunResultCode.NEEDS_USER):
        return []
    return [{"type": "error", "content": run.reason, "done": True}]


class StreamJsonEncoder:
    """Turns events into lines; keeps only unfinished messages."""

    def __init__(self) -> None:
        self._open_row_types: dict[int, str] = {}
        """Rows that grow, with the type of their lines."""
        self._streaming_call_ids: dict[int, str] = {}
        """Calls whose arguments come, by their rows."""
        self._reply_calls: dict[str, tuple[int, ToolCall]] = {}
        """Calls of the latest reply, with their rows."""
        self._emitted_tool_names: dict[str, str] = {}
        """What they were called on their lines."""
        self._call_id_by_ask: dict[int, str] = {}
        """Calls of the latest reply that were asked about, by the questions."""
        self._refused_call_ids: set[str] = set()
        """Those that were not allowed."""
        self._command_call_id = ""
        """The call whose command runs."""
        self._current_mcp_call: tuple[str, str] | None = None
        """The call that an MCP server works on, and its tool."""
        self._command_output_id: int | None = None
        """Under which the output of the running command is told."""
        self.last_text = ""
        """The assistant's latest words: the content of a result when none was presented."""

    def encode(self, event: ev.Event) -> list[JsonLine]:
        return list(self._iter_lines(event))

    def _iter_lines(self, event: ev.Event) -> Iterator[JsonLine]:
        match event:
            case ev.RowDelta(ts=ts, delta=delta) if kind := self._open_row_types.get(ts):
                yield {"type": kind, "id": ts, "content": delta}
            case ev.ArgumentsDelta(ts=ts, delta=delta) if ts in self._streaming_call_ids:
                call_id = self._streaming_call_ids[ts]
                yield {"type": "tool_use", "id": ts, "callId": call_id, "content": delta}
            case ev.RowOpened():
                yield from self._encode_row_opened(event)
            case ev.CommandOutputDelta(ts=ts, output=output):
                yield self._encode_output_delta(ts, output)
            case ev.ReplyReceived():
                yield from self._encode_reply(event)
            case ev.UserMessage(ts=ts, text=text):
                yield _build_complete_line("user", ts, text)
            case ev.ToolStarted():
                yield self._encode_tool_use(event, event.tool)
            case ev.AskOpened():
                yield from self._encode_ask(event)
            case ev.AskAnswered(ask_ts=ts, answer=answer) if ts in self._call_id_by_ask:
                if not answer.approves:
                    self._refused_call_ids.add(self._call_id_by_ask[ts])
            case ev.ToolFinished():
                if event.call_id not in self._emitted_tool_names:
                    yield self._encode_unannounced_tool_use(event)
                yield self._encode_tool_result(event)
            case ev.RowAdded(say=say) if say not in OMITTED_ROW_KINDS:
                yield from self._encode_row(event)
            case ev.CallDropped(ts=ts, tool="attempt_completion", text=text):
                yield from self._encode_row(ev.RowAdded(ts=ts, say=RowKind.TEXT, text=text))

    def _encode_row_opened(self, event: ev.RowOpened) -> Iterator[JsonLine]:
        if event.tool in _USER_FACING_TOOLS:
            return
        if event.tool is None:
            kind = "thinking" if event.say == RowKind.REASONING else "assistant"
            self._open_row_types[event.ts] = kind
            return
        self._streaming_call_ids[event.ts] = event.call_id or ""
        yield {
            "type": "tool_use",
            "subtype": _select_tool_subtype(event.tool),
            "id": event.ts,
            "callId": event.call_id,
            "tool_use": _build_tool_names(_ROO_TOOL_NAMES.get(event.tool), event.tool),
        }

    def _encode_reply(self, event: ev.ReplyReceived) -> Iterator[JsonLine]:
        self._reply_calls.clear()
        self._emitted_tool_names.clear()
        self._call_id_by_ask.clear()
        self._refused_call_ids.clear()
        self._streaming_call_ids.clear()
        for placed in event.parts:
            match placed.part:
                case TextPart(text=text) if text.strip():
                    self._open_row_types.pop(placed.ts, None)
                    self.last_text = text
                    yield _build_complete_line("assistant", placed.ts, text)
                case ReasoningPart(text=text) if text:
                    self._open_row_types.pop(placed.ts, None)
                    yield _build_complete_line("thinking", placed.ts, text)
                case CallPart(call=call):
                    self._reply_calls[call.id] = (placed.ts, call)

    def _encode_tool_use(self, event: ev.ToolStarted | ev.AskOpened, tool: str) -> JsonLine:
        """Encode a complete call: as the model made it, and as Roo's rows show it."""
        call_id = event.call_id or ""
        self._streaming_call_ids.pop(event.ts, None)
        if get_summary(event).is_mcp:
            self._current_mcp_call = (call_id, tool)
            self._emitted_tool_names[call_id] = _MCP_TOOL_NAME
            return _build_tool_use_line(event, "mcp", _build_mcp_tool_use(tool, event.text))
        _, call = self._reply_calls.get(call_id, (event.ts, None))
        row = {"tool": COMMAND_TOOL_NAME, "command": event.text}
        if tool == COMMAND_TOOL_NAME:
            self._command_call_id = call_id
        else:
            row = _parse_row_text(event.text)
        name = str(row.get("tool") or _ROO_TOOL_NAMES.get(tool, tool))
        self._emitted_tool_names[call_id] = name
        rest = {key: value for key, value in row.items() if key != "tool"}
        use: JsonLine = {**_build_tool_names(name, tool), "input": call.input if call else rest}
        if tool != COMMAND_TOOL_NAME:
            use["row"] = row
        return _build_tool_use_line(event, _select_tool_subtype(tool), use)

    def _encode_unannounced_tool_use(self, event: ev.ToolFinished) -> JsonLine:
        """Encode a call without a row: it was refused, skipped or invalid, or addressed the
        user."""
        ts, call = self._reply_calls.get(event.call_id, (event.row_ts or event.ts, None))
        self._emitted_tool_names[event.call_id] = _ROO_TOOL_NAMES.get(event.tool, event.tool)
        use = _build_tool_names(self._emitted_tool_names[event.call_id], event.tool)
        if call is not None:
            use["input"] = call.input
        line: JsonLine = {"type": "tool_use", "subtype": _select_tool_subtype(event.tool), "id": ts}
        return {**line, "callId": event.call_id, "tool_use": use, "done": True}

    def _encode_ask(self, event: ev.AskOpened) -> Iterator[JsonLine]:
        self._open_row_types.pop(event.ts, None)
        match event.ask:
            case AskKind.TOOL | AskKind.COMMAND | AskKind.USE_MCP_SERVER:
                tool = COMMAND_TOOL_NAME if event.ask is AskKind.COMMAND else event.tool or ""
                self._call_id_by_ask[event.ts] = event.call_id or ""
                yield self._encode_tool_use(event, tool)
            case ask if event.text:
                line = _build_complete_line("assistant", event.ts, event.text)
                yield {**line, "subtype": str(ask)}

    def _encode_output_delta(self, ts: int, output: str) -> JsonLine:
        if self._current_mcp_call is not None:
            subtype, name, (call_id, tool) = "mcp", _MCP_TOOL_NAME, self._current_mcp_call
        else:
            subtype, name, call_id = "command", COMMAND_TOOL_NAME, self._command_call_id
            tool = COMMAND_TOOL_NAME
            ts = self._command_output_id = self._command_output_id or ts
        result = {**_build_tool_names(name, tool), "output": output}
        line: JsonLine = {"type": "tool_result", "subtype": subtype, "id": ts, "callId": call_id}
        return {**line, "tool_result": result}

    def _encode_tool_result(self, event: ev.ToolFinished) -> JsonLine:
        """Encode the end of a call; for a command, under the id of its output."""
        name = self._emitted_tool_names.get(event.call_id) or _ROO_TOOL_NAMES.get(
            event.tool, event.tool
        )
        said = "error" if event.is_error or event.call_id in self._refused_call_ids else "output"
        result: JsonLine = {**_build_tool_names(name, event.tool), said: event.content}
        line: JsonLine = {"type": "tool_result", "subtype": "tool", "id": event.ts}
        if name == _MCP_TOOL_NAME:
            line["subtype"] = "mcp"
            self._current_mcp_call = None
        if event.tool == COMMAND_TOOL_NAME:
            line["subtype"] = "command"
            line["id"] = self._command_output_id or event.ts
            self._command_output_id = None
            if event.exit_code is not None:
                result["exitCode"] = event.exit_code
        return {**line, "callId": event.call_id, "tool_result": result, "done": True}

    def _encode_row(self, event: ev.RowAdded) -> Iterator[JsonLine]:
        match event.say:
            case RowKind.ERROR:
                yield _build_complete_line("error", event.ts, event.text)
            case RowKind.ROOIGNORE_ERROR:
                message = f"{event.text} is hidden by .rooignore"
                yield {**_build_complete_line("error", event.ts, message), "subtype": event.say}
            case RowKind.TEXT if not event.text.strip():
                self._open_row_types.pop(event.ts, None)
            case RowKind.TEXT:
                self._open_row_types.pop(event.ts, None)
                self.last_text = event.text
                yield _build_complete_line("assistant", event.ts, event.text)
            case say if event.text:
                yield {**_build_complete_line("assistant", event.ts, event.text), "subtype": say}


def _select_tool_subtype(tool: str) -> str:
    return "command" if tool == COMMAND_TOOL_NAME else "tool"


def _build_tool_use_line(
    event: ev.ToolStarted | ev.AskOpened, subtype: str, use: JsonLine
) -> JsonLine:
    line: JsonLine = {"type": "tool_use", "subtype": subtype, "id": event.ts}
    if event.call_id:
        line["callId"] = event.call_id
    match event:
        case ev.ToolStarted(rule=str(rule)):
            line["rule"] = rule
        case ev.AskOpened(reason=str(reason), reasons=reasons):
            line |= {"reason": reason, "reasons": msgspec.to_builtins(reasons)}
    if event.sandbox is not None:
        line["sandbox"] = event.sandbox
    summary = msgspec.to_builtins(get_summary(event))
    return {**line, "tool_use": use, "summary": summary, "done": True}


def _build_mcp_tool_use(tool: str, text: str) -> JsonLine:
    """Build the entry of an MCP call. Roo's `input` is the row as text; its parts are added as
    fields."""
    row = _parse_row_text(text)
    named = _build_tool_names(_MCP_TOOL_NAME, tool or str(row.get("type") or _MCP_TOOL_NAME))
    use: JsonLine = {**named, "input": {"raw": text}, "server": row.get("serverName", "")}
    if "uri" in row:
        return {**use, "uri": row["uri"]}
    given = str(row.get("arguments") or "{}")
    return {**use, "serverTool": row.get("toolName", ""), "arguments": _parse_row_text(given)}


def _build_tool_names(name: str | None, tool: str) -> JsonLine:
    """Build the names of a tool: Roo's `name`, left out while unknown, and the model's `tool`."""
    return {"tool": tool} if name is None else {"name": name, "tool": tool}


def _parse_row_text(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {"text": text}
    return value if isinstance(value, dict) else {"text": text}


def _build_complete_line(kind: str, ts: int, text: str) -> JsonLine:
    return {"type": kind, "id": ts, "content": text, "done": True}
