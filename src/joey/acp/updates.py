"""Session updates, encoded from the events of a task or from an imported history.

The same events give the same updates, live and when a session is loaded again; transient events
only deliver them earlier. A call is announced as soon as the model begins to write it, and ends as
`completed` or `failed`, whatever becomes of the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from acp import schema
from joey.acp.editor import SessionUpdate
from joey.acp.prompts import build_user_message_chunks
from joey.acp.tool_calls import (
    HIDDEN_TOOLS,
    ToolCallView,
    build_image_contents,
    build_initial_view,
    build_outcome_contents,
    build_prepared_view,
    build_terminal_content,
    build_text_content,
    format_code_block,
)
from joey.core import events as ev
from joey.core.messages import CallPart, ReasoningPart, TextPart
from joey.core.task_types import APPROVAL_ASKS, AskKind, RowKind
from joey.core.tool_calls import (
    COMMAND_TOOL_NAME,
    ToolCallSummary,
    parse_plain_text,
    summarize_call_row,
)
from joey.presentation.phrases import (
    describe_condense,
    describe_error,
    describe_failure,
    describe_provider_error,
    describe_retry,
)
from joey.presentation.questions import (
    build_ask_view,
    format_answer_hint,
    format_question,
    parse_follow_up,
)
from joey.presentation.text import sanitize

MAX_RUNNING_OUTPUT_CHARS = 16 * 1024
"""The latest are shown."""
_HIDDEN_ERRORS = frozenset({"MODEL_NO_TOOLS_USED", "MODEL_NO_ASSISTANT_MESSAGES"})


class _OpenCall(Struct):
    """A call that has no outcome yet."""

    id: str
    tool: str
    view: ToolCallView
    is_rejected: bool = False
    output: str = ""
    has_terminal: bool = False
    """The output is shown in a display-only terminal, whose id is that of the call."""


class UpdateEncoder:
    """Encodes one task; `subtask_id` if it is a subtask of the session's task.

    With `uses_terminals`, command output goes to display-only terminals: the `_meta` of a call
    announces its terminal (`terminal_info`) and carries output (`terminal_output`) and exit status
    (`terminal_exit`), as Zed's client reads them."""

    def __init__(
        self, workspace: Path, *, subtask_id: str = "", uses_terminals: bool = False
    ) -> None:
        self._workspace = workspace
        self._uses_terminals = uses_terminals
        self._id_prefix = f"{subtask_id}:" if subtask_id else ""
        self._is_subtask = bool(subtask_id)
        self._streaming_row_kinds: dict[int, str] = {}
        """Rows that stream: text or reasoning."""
        self._sent_chars_by_row: dict[int, int] = {}
        """How many characters of a row were told."""
        self._open_calls: dict[str, _OpenCall] = {}
        self._call_inputs: dict[str, dict[str, Any]] = {}
        self._call_id_by_ask: dict[int, str] = {}
        """Calls by the question about them."""
        self._pending_error: ev.RowAdded | None = None
        """An error that may be that of a call, which tells it itself."""
        self._announced_retries: set[int] = set()
        self._last_message_ts = 0
        """The row whose words came last."""

    def encode(self, event: ev.Event, *, live: bool = True) -> Iterator[SessionUpdate]:
        """Encode an event as updates; with `live`, the user's own messages are left out."""
        pending_error, self._pending_error = self._pending_error, None
        if pending_error is not None and not isinstance(event, ev.ToolFailed):
            yield from self._encode_message(
                pending_error.ts, f"*{sanitize(describe_error(pending_error.text))}*"
            )
        match event:
            case ev.RowOpened() | ev.RowDelta() | ev.CommandOutputDelta() | ev.RetryCountdown():
                yield from self._encode_transient(event)
            case ev.ReplyReceived():
                yield from self._encode_reply(event)
            case ev.ToolStarted() | ev.AskOpened() | ev.AskAnswered() | ev.ToolFinished():
                yield from self._encode_call_event(event)
            case ev.RowAdded():
                yield from self._encode_row(event)
            case ev.CallDropped(ts=ts, tool="attempt_completion", text=text):
                yield from self._encode_unsent_text(ts, RowKind.TEXT, text)
            case ev.UserMessage(ts=ts, text=text, images=images):
                self._last_message_ts = 0
                if not live and not self._is_subtask:
                    yield from build_user_message_chunks(ts, text, images)
            case ev.TaskImported():
                yield from encode_imported_history(event, self._workspace)
            case ev.TodosChanged(todos=todos) if not self._is_subtask:
                entries = [
                    schema.PlanEntry(
                        content=sanitize(todo.content), priority="medium", status=todo.status
                    )
                    for todo in todos
                ]
                yield schema.AgentPlanUpdate(session_update="plan", entries=entries)
            case ev.ModeSwitched(mode=mode) if not self._is_subtask:
                yield schema.CurrentModeUpdate(
                    session_update="current_mode_update", current_mode_id=mode
                )
            case ev.ContextCondensed() | ev.ContextTruncated():
                yield self._build_thought(event.ts, f"\n\n{describe_condense(event)}\n\n")
            case _:
                yield from self._encode_lifecycle(event)

    def fail_open_calls(self) -> Iterator[SessionUpdate]:
        """Fail calls that will get no outcome."""
        for call in list(self._open_calls.values()):
            yield self._build_final(call, "failed")
        self._open_calls.clear()

    def build_ask_view(self, ask: ev.AskOpened) -> tuple[str, ToolCallView]:
        """Return the id and the view of the call that a question is about."""
        call_id = ask.call_id or f"ask_{ask.ts}"
        return f"{self._id_prefix}{call_id}", self._build_view(ask, call_id)

    # The task --------------------------------------------------------------------------------

    def _encode_lifecycle(self, event: ev.Event) -> Iterator[SessionUpdate]:
        match event:
            case ev.TaskCreated(workspace=workspace):
                self._workspace = Path(workspace)
            case ev.RequestStarted():
                self._streaming_row_kinds.clear()
                self._sent_chars_by_row.clear()
            case ev.TaskFailed(code=code, message=message):
                yield from self.fail_open_calls()
                if not self._is_subtask:
                    text = f"**{describe_failure(code).capitalize()}.** {sanitize(message)}"
                    yield from self._encode_message(event.ts, text)
            case ev.TaskAborted() | ev.TaskFinished():
                yield from self.fail_open_calls()

    # Words -----------------------------------------------------------------------------------

    def _encode_transient(
        self, event: ev.RowOpened | ev.RowDelta | ev.CommandOutputDelta | ev.RetryCountdown
    ) -> Iterator[SessionUpdate]:
        match event:
            case ev.RowOpened(ts=ts, tool=None, say=say):
                self._streaming_row_kinds[ts] = say
            case ev.RowOpened(tool=str(tool), call_id=str(call_id)):
                yield from self._start_call(call_id, tool)
            case ev.RowDelta(ts=ts, delta=delta) if ts in self._streaming_row_kinds:
                self._sent_chars_by_row[ts] = self._sent_chars_by_row.get(ts, 0) + len(delta)
                yield from self._encode_text_delta(ts, self._streaming_row_kinds[ts], delta)
            case ev.CommandOutputDelta(output=output):
                yield from self._encode_output(output)
            case ev.RetryCountdown(ts=ts, seconds=seconds) if (
                seconds and ts not in self._announced_retries
            ):
                self._announced_retries.add(ts)
                text = f"{describe_provider_error(event.message)} ({describe_retry(event)})"
                yield self._build_thought(ts, f"\n\n{sanitize(text)}\n\n")

    def _encode_reply(self, event: ev.ReplyReceived) -> Iterator[SessionUpdate]:
        reply_call_ids: set[str] = set()
        for row_part in event.parts:
            match row_part.part:
                case TextPart(text=text):
                    yield from self._encode_unsent_text(row_part.ts, RowKind.TEXT, text)
                case ReasoningPart(text=text):
                    yield from self._encode_unsent_text(row_part.ts, RowKind.REASONING, text)
                case CallPart(call=call):
                    reply_call_ids.add(call.id)
                    self._call_inputs[call.id] = call.input
                    yield from self._start_call(call.id, call.name)
        # Text of an interrupted stream is not part of the reply.
        for call_id in [each for each in self._open_calls if each not in reply_call_ids]:
            yield self._build_final(self._open_calls.pop(call_id), "failed")

    def _encode_unsent_text(self, ts: int, say: str, text: str) -> Iterator[SessionUpdate]:
        """Encode the part of a row that has not been sent yet."""
        sent_chars = self._sent_chars_by_row.get(ts, 0)
        if text[sent_chars:] and (sent_chars or text.strip()):
            self._sent_chars_by_row[ts] = len(text)
            yield from self._encode_text_delta(ts, say, text[sent_chars:])

    def _encode_text_delta(self, ts: int, say: str, delta: str) -> Iterator[SessionUpdate]:
        if say == RowKind.REASONING or self._is_subtask:
            yield self._build_thought(ts, sanitize(delta))
        elif say == RowKind.TEXT:
            yield from self._encode_message(ts, sanitize(delta))

    def _encode_message(self, ts: int, text: str) -> Iterator[SessionUpdate]:
        """Encode text of the agent; a new row starts a new paragraph."""
        if not text:
            return
        if self._is_subtask:
            yield self._build_thought(ts, text)
            return
        parted = f"\n\n{text}" if self._last_message_ts not in (0, ts) else text
        self._last_message_ts = ts
        yield build_agent_chunk(parted, str(ts))

    def _build_thought(self, ts: int, text: str) -> SessionUpdate:
        return build_agent_chunk(text, f"{self._id_prefix}{ts}", is_thought=True)

    def _encode_row(self, event: ev.RowAdded) -> Iterator[SessionUpdate]:
        match event.say:
            case RowKind.TEXT | RowKind.REASONING:
                yield from self._encode_unsent_text(event.ts, event.say, event.text)
            case RowKind.COMPLETION_RESULT if (
                not self._is_subtask and event.ts not in self._sent_chars_by_row
            ):
                yield from self._encode_message(event.ts, sanitize(event.text))
            case RowKind.COMMAND_OUTPUT:
                for call in self._get_running_command_calls():
                    call.output = event.text
            case RowKind.ERROR if event.text not in _HIDDEN_ERRORS:
                self._pending_error = event
            case RowKind.API_REQ_RETRY_DELAYED if event.ts not in self._announced_retries:
                yield self._build_thought(
                    event.ts, f"\n\n{sanitize(describe_provider_error(event.text))}\n\n"
                )

    # Calls -----------------------------------------------------------------------------------

    def _start_call(self, call_id: str, tool: str) -> Iterator[SessionUpdate]:
        if call_id in self._open_calls or tool in HIDDEN_TOOLS:
            return
        self._last_message_ts = 0
        yield self._announce_call(call_id, tool)

    def _announce_call(self, call_id: str, tool: str) -> SessionUpdate:
        call = _OpenCall(f"{self._id_prefix}{call_id}", tool, build_initial_view(tool))
        self._open_calls[call_id] = call
        start = schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=call.id,
            title=call.view.title,
            kind=call.view.kind,
            status="pending",
        )
        if self._uses_terminals and tool == COMMAND_TOOL_NAME:
            info = {"terminal_id": call.id, "cwd": str(self._workspace)}
            start.field_meta = {"terminal_info": info}
        return start

    def _encode_call_event(
        self, event: ev.ToolStarted | ev.AskOpened | ev.AskAnswered | ev.ToolFinished
    ) -> Iterator[SessionUpdate]:
        match event:
            case ev.ToolStarted():
                yield from self._encode_call_view(event, event.call_id, "in_progress")
            case ev.AskOpened(ask=kind) if kind in APPROVAL_ASKS:
                if event.call_id is not None:
                    self._call_id_by_ask[event.ts] = event.call_id
                yield from self._encode_call_view(
                    event, event.call_id or f"ask_{event.ts}", "pending"
                )
            case ev.AskOpened(
                ask=AskKind.FOLLOWUP | AskKind.MISTAKE_LIMIT_REACHED | AskKind.LIMIT_REACHED
            ):
                yield from self._encode_question(event)
            case ev.AskAnswered(ask_ts=ask_ts, answer=answer) if ask_ts in self._call_id_by_ask:
                call = self._open_calls.get(self._call_id_by_ask.pop(ask_ts))
                if call is not None and answer.approves:
                    yield self._build_progress(call, status="in_progress")
                elif call is not None:
                    call.is_rejected = True
            case ev.ToolFinished():
                yield from self._finish_call(event)

    def _encode_question(self, ask: ev.AskOpened) -> Iterator[SessionUpdate]:
        view = build_ask_view(ask)
        hint = f"\n\n{format_answer_hint(view)}" if ask.ask is not AskKind.FOLLOWUP else ""
        yield from self._encode_message(ask.ts, f"{format_question(view)}{hint}")

    def _encode_call_view(
        self, event: ev.ToolStarted | ev.AskOpened, call_id: str, status: str
    ) -> Iterator[SessionUpdate]:
        tool = event.tool or ""
        if isinstance(event, ev.ToolStarted) and tool in HIDDEN_TOOLS:
            return
        if call_id not in self._open_calls:
            yield self._announce_call(call_id, tool)
        call = self._open_calls[call_id]
        call.tool, call.view = tool, self._build_view(event, call_id)
        yield self._build_progress(
            call,
            status=status,
            title=call.view.title,
            kind=call.view.kind,
            content=list(call.view.content),
            locations=list(call.view.locations),
            raw_input=call.view.raw_input,
        )

    def _build_view(self, event: ev.ToolStarted | ev.AskOpened, call_id: str) -> ToolCallView:
        return build_prepared_view(event, self._call_inputs.get(call_id, {}), self._workspace)

    def _encode_output(self, output: str) -> Iterator[SessionUpdate]:
        for call in self._get_running_command_calls():
            call.output = (call.output + output)[-MAX_RUNNING_OUTPUT_CHARS:]
            if self._uses_terminals:
                yield self._build_terminal_output(call, output)
                continue
            shown = build_text_content(format_code_block(call.output))
            yield self._build_progress(call, content=[*call.view.content, shown])

    def _build_terminal_output(self, call: _OpenCall, output: str) -> SessionUpdate:
        # A bare carriage return redraws a progress bar, which a terminal can show.
        data = "\r".join(map(sanitize, output.split("\r")))
        content = None
        if not call.has_terminal:
            content = [*call.view.content, build_terminal_content(call.id)]
        call.has_terminal = True
        meta = {"terminal_output": {"terminal_id": call.id, "data": data}}
        return self._build_progress(call, content=content, field_meta=meta)

    def _get_running_command_calls(self) -> list[_OpenCall]:
        """Return the running commands; they run one after another, so the first one is active."""
        return [call for call in self._open_calls.values() if call.tool == COMMAND_TOOL_NAME][:1]

    def _finish_call(self, event: ev.ToolFinished) -> Iterator[SessionUpdate]:
        self._call_inputs.pop(event.call_id, None)
        call = self._open_calls.pop(event.call_id, None)
        if call is None:
            return
        if call.is_rejected:
            yield self._build_final(call, "failed")
            return
        failed = event.is_error or event.exit_code or event.signal
        status = "failed" if failed else "completed"
        if call.view.kind == "edit" and not event.is_error:
            yield self._build_final(call, status)
            return
        if self._uses_terminals and call.output.strip() and not call.has_terminal:
            yield self._build_terminal_output(call, call.output)
        raw = None if event.exit_code is None else {"exitCode": event.exit_code}
        shown = build_outcome_contents(event, call.output, call.id if call.has_terminal else None)
        content = [*call.view.content, *shown, *build_image_contents(event.images)]
        exit_status = {"exit_code": event.exit_code, "signal": event.signal}
        yield self._build_final(call, status, exit_status, content=content, raw_output=raw)

    def _build_final(
        self,
        call: _OpenCall,
        status: str,
        exit_status: Mapping[str, object] = MappingProxyType({}),
        **fields: Any,
    ) -> SessionUpdate:
        if call.has_terminal:
            fields["field_meta"] = {"terminal_exit": {"terminal_id": call.id, **exit_status}}
        return self._build_progress(call, status=status, **fields)

    def _build_progress(self, call: _OpenCall, **fields: Any) -> SessionUpdate:
        known = {name: value for name, value in fields.items() if value is not None}
        return schema.ToolCallProgress(
            session_update="tool_call_update", tool_call_id=call.id, **known
        )


def build_agent_chunk(
    text: str, message_id: str | None = None, *, is_thought: bool = False
) -> SessionUpdate:
    block = schema.TextContentBlock(type="text", text=text)
    if is_thought:
        return schema.AgentThoughtChunk(
            session_update="agent_thought_chunk", content=block, message_id=message_id
        )
    return schema.AgentMessageChunk(
        session_update="agent_message_chunk", content=block, message_id=message_id
    )


_RowData = dict[str, Any]


def encode_imported_history(event: ev.TaskImported, workspace: Path) -> Iterator[SessionUpdate]:
    output: dict[int, str] = {}
    command: int | None = None
    rows = [row for row in event.rows if not row.get("partial")]
    for row in rows:  # the output of a command comes in its own rows, after the call
        kind = row.get("ask") or row.get("say")
        if kind == AskKind.COMMAND:
            command = int(row["ts"])
        elif kind == RowKind.COMMAND_OUTPUT and command is not None:
            output[command] = output.get(command, "") + str(row.get("text") or "")
    for index, row in enumerate(rows):
        yield from _encode_imported_row(row, workspace, output, first=index == 0)


def _encode_imported_row(
    row: _RowData, workspace: Path, output: dict[int, str], *, first: bool
) -> Iterator[SessionUpdate]:
    ts, text = int(row["ts"]), str(row.get("text") or "")
    kind = RowKind.USER_FEEDBACK if first else str(row.get("ask") or row.get("say"))
    match kind:
        case RowKind.USER_FEEDBACK:
            images = row.get("images")
            image_uris = tuple(map(str, images)) if isinstance(images, list) else ()
            yield from build_user_message_chunks(ts, text, image_uris)
        case RowKind.TEXT | RowKind.COMPLETION_RESULT | RowKind.SUBTASK_RESULT if text.strip():
            yield build_agent_chunk(f"{sanitize(text)}\n\n", str(ts))
        case AskKind.FOLLOWUP:
            question = parse_follow_up(text)
            suggested = "".join(f"\n- {suggestion.answer}" for suggestion in question.suggestions)
            message = sanitize(f"{question.question}\n{suggested}".rstrip())
            yield build_agent_chunk(f"{message}\n\n", str(ts))
        case RowKind.REASONING if text.strip():
            yield build_agent_chunk(sanitize(text), str(ts), is_thought=True)
        case RowKind.TOOL | AskKind.USE_MCP_SERVER | AskKind.COMMAND:
            summary = summarize_call_row(row)
            if summary and summary.tool not in ("finish_task", "update_todo_list"):
                plain = parse_plain_text(summary.tool, text)
                yield _build_imported_call_update(ts, summary, plain, workspace, output.get(ts, ""))


def _build_imported_call_update(
    ts: int, summary: ToolCallSummary, text: str, workspace: Path, output: str
) -> SessionUpdate:
    path = summary.files[0].path if len(summary.files) == 1 else None
    asked = ev.AskOpened(ts=ts, ask=AskKind.TOOL, text=text, path=path, summary=summary)
    view = build_prepared_view(asked, {}, workspace)
    shown = [build_text_content(format_code_block(output))] if output.strip() else []
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=f"row_{ts}",
        title=view.title,
        kind=view.kind,
        status="completed",
        content=[*view.content, *shown],
        locations=list(view.locations),
    )
