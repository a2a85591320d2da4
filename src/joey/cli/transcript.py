"""A task as a document: its facts, then the conversation, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from joey.core.events import Record
from joey.core.history.branch import live_path
from joey.core.history.ui import UiHistory
from joey.ports import Store, TaskMetadata
from joey.presentation.phrases import mishap
from joey.presentation.questions import follow_up

_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
_BOXES = {"completed": "x", "in_progress": "-"}
_CHANGES = ("editedExistingFile", "newFileCreated", "appliedDiff")


def as_markdown(
    task: TaskMetadata, rows: Sequence[dict[str, Any]], subtasks: Sequence[str] = ()
) -> str:
    """`subtasks` are lines of a list."""
    title = task.title.strip().split("\n")[0][:120] or task.id
    sections = [f"# {title}", _facts(task)]
    if subtasks:
        sections.append("\n".join(["Subtasks:", "", *subtasks]))
    for number, row in enumerate(rows):
        sections += _section(row, first=number == 0)
    return "\n\n".join(sections) + "\n"


def read_rows(store: Store, task_id: str) -> list[dict[str, Any]]:
    """The UI history of a task, from its journal."""
    return rows_of(store.read(task_id))


def rows_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    history = UiHistory()
    for record in live_path(records):
        history.apply(record.event)
    return [msgspec.to_builtins(row) for row in history.rows]


def _facts(task: TaskMetadata) -> str:
    facts = {
        "Task": task.id,
        "Subtask of": task.parent_id or "",
        "Workspace": task.workspace,
        "Model": task.model,
        "Mode": task.mode,
        "Protocol": task.protocol,
        "Status": task.status,
        "Begun": _time(task.created),
        "Tokens": f"{task.tokens_in} in, {task.tokens_out} out",
        "Cost": f"${task.total_cost:.4f}" if task.total_cost else "",
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)


def _section(row: dict[str, Any], *, first: bool) -> Iterator[str]:
    """One row; rows about bookkeeping are left out."""
    kind, text = str(row.get("ask") or row.get("say")), str(row.get("text") or "")
    if first:
        kind = "user_feedback"
    match kind:
        case "user_feedback":
            yield f"## User\n\n{text}"
            yield from (f"({len(images)} images)" for images in [row.get("images")] if images)
        case "text" if text.strip():
            yield f"## Assistant\n\n{text}"
        case "reasoning" if text.strip():
            quoted = "\n".join(f"> {line}" for line in text.split("\n"))
            yield f"> *Reasoning*\n>\n{quoted}"
        case "tool" | "use_mcp_server":
            yield from _tool(row, text)
        case "mcp_server_response" if text:
            yield f"Answer of the server:\n\n{fenced(text)}"
        case "command":
            yield f"### Command{_verdict(row)}\n\n{fenced(text, 'sh')}"
        case "command_output" if text:
            yield f"Output:\n\n{fenced(text)}"
        case "followup":
            asked = follow_up(text)
            suggested = "".join(f"\n- {one.answer}" for one in asked.suggest)
            yield f"## Question\n\n{asked.question}\n{suggested}".rstrip()
        case "subtask_result" if text:
            yield f"Result of the subtask:\n\n{text}"
        case "completion_result" if text:
            yield f"## Result\n\n{text}"
        case "error" | "diff_error":
            yield f"**Error:** {mishap(text)}"


def _tool(row: dict[str, Any], text: str) -> Iterator[str]:
    try:
        details = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        details = {}
    if not isinstance(details, dict):
        details = {}
    tool = str(row.get("tool") or details.get("tool") or "tool")
    if tool == "execute_command":
        yield f"### Command\n\n{fenced(text, 'sh')}"
        return
    if str(details.get("type")).endswith(("_mcp_tool", "_mcp_resource")):
        yield from _server_call(row, details)
        return
    path = row.get("path") or details.get("path") or details.get("regex") or ""
    yield f"### {tool} {f'`{path}`' if path else ''}".rstrip() + _verdict(row)
    change = row.get("diff") or details.get("diff")
    if not change and details.get("tool") in _CHANGES:
        change = details.get("content")
    if change:
        yield fenced(str(change), "diff")
    if details.get("tool") == "updateTodoList":
        yield _todos(details.get("todos"))
    elif (arguments := str(details.get("arguments") or "")) not in ("", "{}"):
        yield fenced(arguments, "json")


def _server_call(row: dict[str, Any], details: dict[str, Any]) -> Iterator[str]:
    target = details.get("toolName") or details.get("uri") or ""
    yield f"### {details.get('serverName') or ''}: {target}{_verdict(row)}"
    if (arguments := str(details.get("arguments") or "")) not in ("", "{}"):
        yield fenced(arguments, "json")


def _todos(todos: Any) -> str:
    """A list with boxes."""
    items = todo_items(todos) if isinstance(todos, list) else []
    return "\n".join(f"- {item}" for item in items) or "(the list is empty)"


def todo_items(todos: Sequence[Any]) -> list[str]:
    """Each with its box: `[x] write it`."""
    return [
        f"[{_BOXES.get(str(todo.get('status')), ' ')}] {todo.get('content')}"
        for todo in todos
        if isinstance(todo, dict)
    ]


def _verdict(row: dict[str, Any]) -> str:
    state = row.get("approvalState")
    return f" ({state})" if row.get("type") == "ask" and state else ""


def fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(match[1]) for match in _FENCE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _time(milliseconds: int) -> str:
    if not milliseconds:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
