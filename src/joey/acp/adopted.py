"""A history that Roo Code, or one of its kin, has written: rows in, session updates out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acp.schema import AgentMessageChunk, AgentThoughtChunk, TextContentBlock, ToolCallStart

from joey.acp.chunks import Update, user_chunks
from joey.acp.texts import fenced
from joey.acp.tool_calls import COMMAND_TOOL, closer_look, row_of, text_content
from joey.core.events import AskOpened, TaskAdopted
from joey.core.task import AskKind
from joey.presentation.questions import follow_up
from joey.presentation.text import sanitise

_TOOLS = {
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
_UNSHOWN = ("finishTask", "updateTodoList")

_Row = dict[str, Any]


def adopted_updates(event: TaskAdopted, workspace: Path) -> Iterator[Update]:
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
    row: _Row, workspace: Path, output: dict[int, str], *, first: bool
) -> Iterator[Update]:
    ts, text = int(row["ts"]), str(row.get("text") or "")
    kind = "user_feedback" if first else str(row.get("ask") or row.get("say"))
    match kind:
        case "user_feedback":
            images = row.get("images")
            pictures = tuple(map(str, images)) if isinstance(images, list) else ()
            yield from user_chunks(ts, text, pictures)
        case "text" | "completion_result" | "subtask_result" if text.strip():
            yield _words(ts, text)
        case "followup":
            asked = follow_up(text)
            suggested = "".join(f"\n- {one.answer}" for one in asked.suggest)
            yield _words(ts, f"{asked.question}\n{suggested}".rstrip())
        case "reasoning" if text.strip():
            block = TextContentBlock(type="text", text=sanitise(text))
            yield AgentThoughtChunk(
                session_update="agent_thought_chunk", content=block, message_id=str(ts)
            )
        case "command":
            yield _call(ts, COMMAND_TOOL, text, workspace, output.get(ts, ""))
        case "tool" | "use_mcp_server":
            tool = str(row_of(text).get("tool") or "use_mcp_tool")
            if tool not in _UNSHOWN:
                yield _call(ts, _TOOLS.get(tool, tool), text, workspace)


def _words(ts: int, text: str) -> Update:
    block = TextContentBlock(type="text", text=f"{sanitise(text)}\n\n")
    return AgentMessageChunk(
        session_update="agent_message_chunk", content=block, message_id=str(ts)
    )


def _call(ts: int, tool: str, text: str, workspace: Path, output: str = "") -> Update:
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
