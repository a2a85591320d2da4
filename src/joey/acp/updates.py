"""Session updates, encoded from the events of a task or from an imported history.

The same events give the same updates, live and when a session is loaded again; transient events
only bring them earlier. A call is announced as soon as the model begins to write it, and ends as
`completed` or `failed`, whatever becomes of the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    CurrentModeUpdate,
    PlanEntry,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
)

from joey.acp.editor import SessionUpdate
from joey.acp.prompts import user_chunks
from joey.acp.tool_calls import (
    COMMAND_TOOL,
    HIDDEN_TOOLS,
    ToolCallView,
    closer_look,
    fenced,
    first_look,
    image_contents,
    kind_of,
    outcome_contents,
    row_of,
    terminal_content,
    text_content,
)
from joey.core.events import (
    AskAnswered,
    AskOpened,
    CommandOutputDelta,
    ContextCondensed,
    ContextTruncated,
    Event,
    ModeSwitched,
    ReplyReceived,
    RequestStarted,
    RetryCountdown,
    RowAdded,
    RowDelta,
    RowOpened,
    TaskAborted,
    TaskCreated,
    TaskFailed,
    TaskFinished,
    TaskImported,
    TodosChanged,
    ToolFailed,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.messages import CallPart, ReasoningPart, TextPart
from joey.core.task import APPROVAL_ASKS, AskKind, Todo
from joey.presentation.phrases import (
    describe_error,
    describe_provider_error,
    ended_by,
    outcome,
    shrinkage,
    waiting,
)
from joey.presentation.questions import follow_up, hint_of, question_of
from joey.presentation.text import sanitise

MAX_RUNNING_OUTPUT_CHARS = 16 * 1024
"""Characters of the output of a running command that are shown, the latest."""
_HIDDEN_ERRORS = frozenset({"MODEL_NO_TOOLS_USED", "MODEL_NO_ASSISTANT_MESSAGES"})


class _OpenCall:
    """A call that has no outcome yet."""

    def __init__(self, id: str, tool: str) -> None:
        self.id = id
        self.tool = tool
        self.look: ToolCallView = first_look(tool)
        self.command = ""
        self.is_rejected = False
        self.output = ""
        self.terminal: str | None = None
        """The editor's, in which the output is shown."""


class UpdateEncoder:
    """Tells one task; `of_subtask` when it works for another one of the session."""

    def __init__(self, workspace: Path, *, of_subtask: str = "") -> None:
        self._workspace = workspace
        self._prefix = f"{of_subtask}:" if of_subtask else ""
        self._is_subtask = bool(of_subtask)
        self._kinds: dict[int, str] = {}
        """Rows that stream: text or reasoning."""
        self._streamed: dict[int, int] = {}
        """How many characters of a row were told."""
        self._calls: dict[str, _OpenCall] = {}
        self._inputs: dict[str, dict[str, Any]] = {}
        self._asked: dict[int, str] = {}
        """Calls by the question about them."""
        self._held: RowAdded | None = None
        """An error that may be that of a call, which tells it itself."""
        self._waits: set[int] = set()
        self._message = 0
        """The row whose words came last."""

    def encode(self, event: Event, *, live: bool = True) -> Iterator[SessionUpdate]:
        """The updates that an event is worth; `live`, the person knows what they said."""
        held, self._held = self._held, None
        if held is not None and not isinstance(event, ToolFailed):
            yield from self._encode_message(held.ts, f"*{sanitise(describe_error(held.text))}*")
        match event:
            case RowOpened() | RowDelta() | CommandOutputDelta() | RetryCountdown():
                yield from self._encode_transient(event)
            case ReplyReceived():
                yield from self._reply(event)
            case ToolStarted() | AskOpened() | AskAnswered() | ToolFinished():
                yield from self._encode_call_event(event)
            case RowAdded():
                yield from self._said(event)
            case UserMessage(ts=ts, text=text, images=images):
                self._message = 0
                if not live and not self._is_subtask:
                    yield from user_chunks(ts, text, images)
            case TaskImported():
                yield from adopted_updates(event, self._workspace)
            case TodosChanged(todos=todos) if not self._is_subtask:
                yield _plan(todos)
            case ModeSwitched(mode=mode) if not self._is_subtask:
                yield CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
            case ContextCondensed() | ContextTruncated():
                yield self._thought(event.ts, f"\n\n{shrinkage(event)}\n\n")
            case _:
                yield from self._encode_lifecycle(event)

    def close(self) -> Iterator[SessionUpdate]:
        """Nothing more will come of what has no outcome."""
        for call in list(self._calls.values()):
            yield self._progress(call, status="failed")
        self._calls.clear()

    def look_of(self, ask: AskOpened) -> tuple[str, ToolCallView]:
        """The call that a question is about: its name in the session, and how it looks."""
        call_id = ask.call_id or f"ask_{ask.ts}"
        return self._name(call_id), self._look(ask, call_id)

    @property
    def running_command(self) -> str | None:
        """What the command is that is at work."""
        return next((call.command for call in self._running()), None)

    def show_running_in(self, terminal: str | None) -> None:
        """Where the output of the command at work is to be seen: here, without a terminal."""
        for call in self._running():
            call.terminal = terminal

    # The task --------------------------------------------------------------------------------

    def _encode_lifecycle(self, event: Event) -> Iterator[SessionUpdate]:
        match event:
            case TaskCreated(workspace=workspace):
                self._workspace = Path(workspace)
            case RequestStarted():
                self._kinds.clear()
                self._streamed.clear()
            case TaskFailed(code=code, message=message):
                yield from self.close()
                if not self._is_subtask:
                    text = f"**{outcome(code).capitalize()}.** {sanitise(message)}"
                    yield from self._encode_message(event.ts, text)
            case TaskAborted() | TaskFinished():
                yield from self.close()

    # Words -----------------------------------------------------------------------------------

    def _encode_transient(
        self, event: RowOpened | RowDelta | CommandOutputDelta | RetryCountdown
    ) -> Iterator[SessionUpdate]:
        match event:
            case RowOpened(ts=ts, tool=None, say=say):
                self._kinds[ts] = say
            case RowOpened(tool=str(tool), call_id=str(call_id)):
                yield from self._announce(call_id, tool)
            case RowDelta(ts=ts, delta=delta) if ts in self._kinds:
                sent_chars = self._streamed.get(ts, 0)
                self._streamed[ts] = sent_chars + len(delta)
                yield from self._grow(ts, self._kinds[ts], delta)
            case CommandOutputDelta(output=output):
                yield from self._output(output)
            case RetryCountdown(ts=ts, seconds=seconds) if seconds and ts not in self._waits:
                self._waits.add(ts)
                text = f"{describe_provider_error(event.message)} ({waiting(event)})"
                yield self._thought(ts, f"\n\n{sanitise(text)}\n\n")

    def _reply(self, event: ReplyReceived) -> Iterator[SessionUpdate]:
        kept: set[str] = set()
        for placed in event.parts:
            match placed.part:
                case TextPart(text=text):
                    yield from self._rest(placed.ts, "text", text)
                case ReasoningPart(text=text):
                    yield from self._rest(placed.ts, "reasoning", text)
                case CallPart(call=call):
                    kept.add(call.id)
                    self._inputs[call.id] = call.input
                    yield from self._announce(call.id, call.name)
        # What was cut off while it streamed is no part of the reply.
        for call_id in [each for each in self._calls if each not in kept]:
            yield self._progress(self._calls.pop(call_id), status="failed")

    def _rest(self, ts: int, say: str, text: str) -> Iterator[SessionUpdate]:
        """What of a row has not been told yet."""
        sent_chars = self._streamed.get(ts, 0)
        if text[sent_chars:] and (sent_chars or text.strip()):
            self._streamed[ts] = len(text)
            yield from self._grow(ts, say, text[sent_chars:])

    def _grow(self, ts: int, say: str, delta: str) -> Iterator[SessionUpdate]:
        if say == "reasoning" or self._is_subtask:
            yield self._thought(ts, sanitise(delta))
        elif say == "text":
            yield from self._encode_message(ts, sanitise(delta))

    def _encode_message(self, ts: int, text: str) -> Iterator[SessionUpdate]:
        """Words of the agent; those of another row begin a paragraph."""
        if not text:
            return
        if self._is_subtask:
            yield self._thought(ts, text)
            return
        parted = f"\n\n{text}" if self._message not in (0, ts) else text
        self._message = ts
        block = TextContentBlock(type="text", text=parted)
        yield AgentMessageChunk(
            session_update="agent_message_chunk", content=block, message_id=str(ts)
        )

    def _thought(self, ts: int, text: str) -> SessionUpdate:
        block = TextContentBlock(type="text", text=text)
        return AgentThoughtChunk(
            session_update="agent_thought_chunk",
            content=block,
            message_id=f"{self._prefix}{ts}",
        )

    def _said(self, event: RowAdded) -> Iterator[SessionUpdate]:
        match event.say:
            case "text" | "reasoning":
                yield from self._rest(event.ts, event.say, event.text)
            case "completion_result" if not self._is_subtask and event.ts not in self._streamed:
                yield from self._encode_message(event.ts, sanitise(event.text))
            case "command_output":
                for call in self._running():
                    call.output = event.text
            case "error" if event.text not in _HIDDEN_ERRORS:
                self._held = event
            case "api_req_retry_delayed" if event.ts not in self._waits:
                yield self._thought(
                    event.ts, f"\n\n{sanitise(describe_provider_error(event.text))}\n\n"
                )

    # Calls -----------------------------------------------------------------------------------

    def _announce(self, call_id: str, tool: str) -> Iterator[SessionUpdate]:
        if call_id in self._calls or tool in HIDDEN_TOOLS:
            return
        call = self._calls[call_id] = _OpenCall(self._name(call_id), tool)
        self._message = 0
        yield ToolCallStart(
            session_update="tool_call",
            tool_call_id=call.id,
            title=call.look.title,
            kind=call.look.kind,
            status="pending",
        )

    def _encode_call_event(
        self, event: ToolStarted | AskOpened | AskAnswered | ToolFinished
    ) -> Iterator[SessionUpdate]:
        match event:
            case ToolStarted():
                yield from self._show(event, event.call_id, "in_progress")
            case AskOpened(ask=kind) if kind in APPROVAL_ASKS:
                if event.call_id is not None:
                    self._asked[event.ts] = event.call_id
                yield from self._show(event, event.call_id or f"ask_{event.ts}", "pending")
            case AskOpened(ask=AskKind.FOLLOWUP | AskKind.MISTAKE_LIMIT_REACHED):
                yield from self._question(event)
            case AskOpened(ask=AskKind.LIMIT_REACHED):
                yield from self._question(event)
            case AskAnswered(ask_ts=ask_ts, answer=answer) if ask_ts in self._asked:
                call = self._calls.get(self._asked.pop(ask_ts))
                if call is not None and answer.approves:
                    yield self._progress(call, status="in_progress")
                elif call is not None:
                    call.is_rejected = True
            case ToolFinished():
                yield from self._finish(event)

    def _question(self, ask: AskOpened) -> Iterator[SessionUpdate]:
        text = f"{question_of(ask)}\n\n{hint_of(ask)}" if ask.ask is not AskKind.FOLLOWUP else ""
        yield from self._encode_message(ask.ts, text or question_of(ask))

    def _show(
        self, event: ToolStarted | AskOpened, call_id: str, status: str
    ) -> Iterator[SessionUpdate]:
        tool = event.tool or ""
        if isinstance(event, ToolStarted) and tool in HIDDEN_TOOLS:
            return
        if call_id not in self._calls:
            self._calls[call_id] = _OpenCall(self._name(call_id), tool)
            yield ToolCallStart(
                session_update="tool_call",
                tool_call_id=self._name(call_id),
                title=first_look(tool).title,
                kind=kind_of(tool),
                status="pending",
            )
        call = self._calls[call_id]
        call.tool, call.look = tool, self._look(event, call_id)
        call.command = event.text if tool == COMMAND_TOOL else ""
        yield self._progress(
            call,
            status=status,
            title=call.look.title,
            kind=call.look.kind,
            content=list(call.look.content),
            locations=list(call.look.locations),
            raw_input=call.look.raw_input,
        )

    def _look(self, event: ToolStarted | AskOpened, call_id: str) -> ToolCallView:
        return closer_look(event, self._inputs.get(call_id, {}), self._workspace)

    def _output(self, output: str) -> Iterator[SessionUpdate]:
        for call in self._running():
            is_new = not call.output
            call.output = (call.output + output)[-MAX_RUNNING_OUTPUT_CHARS:]
            if call.terminal is not None:
                if is_new:
                    terminal = terminal_content(call.terminal)
                    yield self._progress(call, content=[*call.look.content, terminal])
                continue
            shown = text_content(fenced(call.output))
            yield self._progress(call, content=[*call.look.content, shown])

    def _running(self) -> list[_OpenCall]:
        """Commands run one after the other, so that the first is the one that is at work."""
        return [call for call in self._calls.values() if call.tool == COMMAND_TOOL][:1]

    def _finish(self, event: ToolFinished) -> Iterator[SessionUpdate]:
        self._inputs.pop(event.call_id, None)
        call = self._calls.pop(event.call_id, None)
        if call is None:
            return
        if call.is_rejected:
            yield self._progress(call, status="failed")
            return
        failed = event.is_error or bool(event.exit_code or ended_by(event))
        status = "failed" if failed else "completed"
        if call.look.kind == "edit" and not event.is_error:
            yield self._progress(call, status=status)
            return
        raw = None if event.exit_code is None else {"exitCode": event.exit_code}
        shown = outcome_contents(event, call.output, call.terminal)
        content = [*call.look.content, *shown, *image_contents(event.images)]
        yield self._progress(call, status=status, content=content, raw_output=raw)

    def _progress(self, call: _OpenCall, **fields: Any) -> SessionUpdate:
        known = {name: value for name, value in fields.items() if value is not None}
        return ToolCallProgress(session_update="tool_call_update", tool_call_id=call.id, **known)

    def _name(self, call_id: str) -> str:
        return f"{self._prefix}{call_id}"


def _plan(todos: tuple[Todo, ...]) -> SessionUpdate:
    entries = [
        PlanEntry(content=sanitise(todo.content), priority="medium", status=todo.status)
        for todo in todos
    ]
    return AgentPlanUpdate(session_update="plan", entries=entries)


_TOOL_BY_ROW_TOOL = {
    "readFile": "read_file",
    "editedExistingFile": "write_to_file",
    "newFileCreated": "write_to_file",
    "appliedDiff": "apply_diff",
    "insertContent": "insert_content",
    "searchFiles": "search_files",
    "codebaseSearch": "codebase_search",
    "listFilesTopLevel": "list_files",
    "listFilesRecursive": "list_files",
    "listCodeDefinitionNames": "list_code_definition_names",
    "switchMode": "switch_mode",
    "newTask": "new_task",
    "fetchInstructions": "fetch_instructions",
    "runSlashCommand": "run_slash_command",
    "skill": "skill",
    "browserAction": "browser_action",
    "generateImage": "generate_image",
}
_HIDDEN_ROW_TOOLS = ("finishTask", "updateTodoList")

_RowData = dict[str, Any]


def adopted_updates(event: TaskImported, workspace: Path) -> Iterator[SessionUpdate]:
    output: dict[int, str] = {}
    command: int | None = None
    rows = [row for row in event.rows if not row.get("partial")]
    for row in rows:  # what a command printed comes in rows of its own, after it
        kind = row.get("ask") or row.get("say")
        if kind == "command":
            command = int(row["ts"])
        elif kind == "command_output" and command is not None:
            output[command] = output.get(command, "") + str(row.get("text") or "")
    for place, row in enumerate(rows):
        yield from _updates(row, workspace, output, first=place == 0)


def _updates(
    row: _RowData, workspace: Path, output: dict[int, str], *, first: bool
) -> Iterator[SessionUpdate]:
    ts, text = int(row["ts"]), str(row.get("text") or "")
    kind = "user_feedback" if first else str(row.get("ask") or row.get("say"))
    match kind:
        case "user_feedback":
            images = row.get("images")
            image_uris = tuple(map(str, images)) if isinstance(images, list) else ()
            yield from user_chunks(ts, text, image_uris)
        case "text" | "completion_result" | "subtask_result" if text.strip():
            yield _build_message_update(ts, text)
        case "followup":
            asked = follow_up(text)
            suggested = "".join(f"\n- {one.answer}" for one in asked.suggest)
            yield _build_message_update(ts, f"{asked.question}\n{suggested}".rstrip())
        case "reasoning" if text.strip():
            block = TextContentBlock(type="text", text=sanitise(text))
            yield AgentThoughtChunk(
                session_update="agent_thought_chunk", content=block, message_id=str(ts)
            )
        case "command":
            yield _call(ts, COMMAND_TOOL, text, workspace, output.get(ts, ""))
        case "tool" | "use_mcp_server":
            tool = str(row_of(text).get("tool") or "use_mcp_tool")
            if tool not in _HIDDEN_ROW_TOOLS:
                yield _call(ts, _TOOL_BY_ROW_TOOL.get(tool, tool), text, workspace)


def _build_message_update(ts: int, text: str) -> SessionUpdate:
    block = TextContentBlock(type="text", text=f"{sanitise(text)}\n\n")
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=block, message_id=str(ts)
    )


def _call(ts: int, tool: str, text: str, workspace: Path, output: str = "") -> SessionUpdate:
    row = {} if tool == COMMAND_TOOL else row_of(text)
    path, diff = row.get("path"), row.get("diff") or row.get("content")
    asked = AskOpened(
        ts=ts,
        ask=AskKind.TOOL,
        text=text,
        tool=tool,
        path=path if isinstance(path, str) else None,
        diff=diff if isinstance(diff, str) else None,
    )
    look = closer_look(asked, {}, workspace)
    shown = [text_content(fenced(output))] if output.strip() else []
    return ToolCallStart(
        session_update="tool_call",
        tool_call_id=f"row_{ts}",
        title=look.title,
        kind=look.kind,
        status="completed",
        content=[*look.content, *shown],
        locations=list(look.locations),
    )
