"""Summaries of tool calls: kind, title, subject and warnings, the same for every front end.

A summary is created when a call is prepared, from the JSON that Roo's clients read (a *row*), and
is part of the call's events. Journals and imported histories without summaries only have the row's
JSON: `summarize_row_text` creates the same summary from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from joey.core.text import compile_regex, reveal, to_one_line

if TYPE_CHECKING:
    from joey.core.events import AskOpened, ToolStarted
    from joey.core.permissions.policy import SandboxStatus

COMMAND_TOOL_NAME = "execute_command"
MAX_SUBJECT_CHARS = 160
MAX_LISTED_FILES = 3
_PROTECTED_WARNING = "Protected file: it controls what joey does"
_OUTSIDE_WARNING = "Outside the workspace"

Row = Mapping[str, Any]


class CallKind(StrEnum):
    READ = "read"
    SEARCH = "search"
    EDIT = "edit"
    CREATE = "create"
    DELETE = "delete"
    MOVE = "move"
    EXECUTE = "execute"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    THINK = "think"
    OTHER = "other"


EDIT_KINDS = frozenset({CallKind.EDIT, CallKind.CREATE, CallKind.DELETE, CallKind.MOVE})
_TOOLS: dict[str, tuple[CallKind, str]] = {
    "read_file": (CallKind.READ, "Read"),
    "list_code_definition_names": (CallKind.READ, "List definitions"),
    "read_command_output": (CallKind.READ, "Read output"),
    "list_files": (CallKind.SEARCH, "List"),
    "search_files": (CallKind.SEARCH, "Search"),
    "codebase_search": (CallKind.SEARCH, "Search code"),
    "write_to_file": (CallKind.EDIT, "Write"),
    "apply_diff": (CallKind.EDIT, "Edit"),
    "apply_patch": (CallKind.EDIT, "Edit"),
    "edit": (CallKind.EDIT, "Edit"),
    "edit_file": (CallKind.EDIT, "Edit"),
    "search_replace": (CallKind.EDIT, "Edit"),
    "search_and_replace": (CallKind.EDIT, "Edit"),
    "insert_content": (CallKind.EDIT, "Edit"),
    "generate_image": (CallKind.EDIT, "Generate image"),
    COMMAND_TOOL_NAME: (CallKind.EXECUTE, "Run"),
    "browser_action": (CallKind.FETCH, "Browser"),
    "use_mcp_tool": (CallKind.OTHER, "MCP tool"),
    "access_mcp_resource": (CallKind.FETCH, "MCP resource"),
    "custom_tool": (CallKind.OTHER, "Custom tool"),
    "switch_mode": (CallKind.SWITCH_MODE, "Switch mode"),
    "new_task": (CallKind.THINK, "Subtask"),
    "finish_task": (CallKind.THINK, "Finish subtask"),
    "update_todo_list": (CallKind.THINK, "Update todo list"),
    "fetch_instructions": (CallKind.THINK, "Fetch instructions"),
    "run_slash_command": (CallKind.THINK, "Slash command"),
    "skill": (CallKind.THINK, "Skill"),
    "ask_followup_question": (CallKind.THINK, "Question"),
    "attempt_completion": (CallKind.THINK, "Result"),
}
_KINDS_BY_ROW_NAME = {"editedExistingFile": CallKind.EDIT, "newFileCreated": CallKind.CREATE}
_TOOLS_BY_ROW_NAME = {
    "editedExistingFile": "write_to_file",
    "newFileCreated": "write_to_file",
    "appliedDiff": "apply_diff",
    "listFilesTopLevel": "list_files",
    "listFilesRecursive": "list_files",
}
"""Names in rows that are not just a tool's name in camel case."""
_CHANGE_ROW_NAMES = frozenset(
    {"editedExistingFile", "newFileCreated", "appliedDiff", "insertContent", "searchAndReplace"}
)
_ROW_KEYS_BY_ARGUMENT = {
    "file_path": "path",
    "mode_slug": "mode",
    "server_name": "serverName",
    "tool_name": "toolName",
    "file_pattern": "filePattern",
    "line": "lineNumber",
    "message": "content",
    "prompt": "content",
    "task": "content",
}
_SUBJECT_PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    COMMAND_TOOL_NAME: (("command", "{}"), ("path", "(in {})")),
    "use_mcp_tool": (("serverName", "{}:"), ("toolName", "{}")),
    "access_mcp_resource": (("serverName", "{}:"), ("uri", "{}")),
    "browser_action": tuple((key, "{}") for key in ("action", "url", "coordinate", "text", "path")),
    "search_files": (("regex", "/{}/"), ("path", "in {}"), ("filePattern", "({})")),
    "codebase_search": (("query", "{}"), ("path", "in {}")),
    "read_command_output": (("searchPattern", "/{}/"), ("command", "{}")),
    "insert_content": (("path", "{}"), ("position", "{}")),
    "generate_image": (("path", "{}"), ("inputImage", "from {}")),
    "skill": (("skill", "{}"), ("args", "{}"), ("source", "({})")),
    "run_slash_command": (("command", "/{}"), ("args", "{}"), ("source", "({})")),
    "custom_tool": (("name", "{}"), ("path", "({})")),
    "fetch_instructions": (("content", "{}"),),
    "new_task": (("mode", "{}"), ("worktree", "in its own git worktree")),
    "update_todo_list": (("progress", "{}"),),
    "ask_followup_question": (("question", "{}"),),
    "attempt_completion": (),
    "finish_task": (),
}
"""Keys of the row, each with the pattern of its value. Other tools name files, or a mode."""
_MESSAGE_KEYS = {
    "new_task": "content",
    "generate_image": "content",
    "skill": "description",
    "run_slash_command": "description",
    "switch_mode": "reason",
}
_CALL_ASKS = ("tool", "command", "use_mcp_server", "browser_action_launch")
_CAPITAL_RE = compile_regex("[A-Z]")


class CalledFile(Struct, frozen=True, omit_defaults=True):
    path: str
    line: int | None = None
    """The first that is of interest."""
    lines: str = ""
    added: int = 0
    removed: int = 0


class ToolCallSummary(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The summary of a call. All texts but paths are safe to show in a terminal; title and subject
    form one line."""

    tool: str
    """Of joey's tools; `use_mcp_tool` and `custom_tool` stand for those of others."""
    kind: CallKind = CallKind.OTHER
    title: str
    subject: str = ""
    arguments: str = ""
    """JSON, of calls to tools of others: what a user decides about."""
    message: str = ""
    """Text that the call hands on: a subtask's task, the prompt of an image, a reason."""
    diff: str = ""
    """The change, if the event or row does not have it itself."""
    files: tuple[CalledFile, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        return f"{self.title} {self.subject}".rstrip()

    @property
    def is_mcp(self) -> bool:
        return self.tool in ("use_mcp_tool", "access_mcp_resource")

    @property
    def is_custom(self) -> bool:
        return self.tool == "custom_tool"


def summarize_call(
    tool: str,
    row: Row,
    *,
    text: str = "",
    path: str | None = None,
    diff: str | None = None,
    kind: CallKind | None = None,
    is_protected: bool = False,
    sandbox: SandboxStatus | None = None,
) -> ToolCallSummary:
    """Summarize a call; `text` is a row other than JSON: a command or the address of a page."""
    name, row_name = _resolve_tool(tool, row), str(row.get("tool") or "")
    base_kind, title = _TOOLS.get(name, (CallKind.OTHER, to_one_line(name, 80)))
    kind = kind or _KINDS_BY_ROW_NAME.get(row_name, base_kind)
    if kind in EDIT_KINDS and (kind is not base_kind or row_name in _CHANGE_ROW_NAMES):
        title = kind.capitalize()
    elif name == "browser_action" and text:
        title = "Open page"
    elif name == "read_command_output" and (row.get("stop") or row.get("wait")):
        title = "Stop" if row.get("stop") else "Wait for"
    files = () if name == COMMAND_TOOL_NAME else _list_files(row, path)
    is_edit = row_name in ("editedExistingFile", "appliedDiff")
    is_no_change = is_edit and row.get("content") == "" and not row.get("diff")
    arguments = row.get("arguments") if name in ("use_mcp_tool", "custom_tool") else None
    return ToolCallSummary(
        tool=name,
        kind=kind,
        title=title,
        subject=_format_subject(name, tool, row, text, path, files, kind)
        + (" (no change)" if is_no_change else ""),
        arguments=reveal(arguments) if isinstance(arguments, str) and arguments != "{}" else "",
        message=reveal(str(row.get(_MESSAGE_KEYS.get(name, "")) or "")),
        diff="" if diff else _extract_diff(row, row_name),
        files=files,
        warnings=tuple(_iter_warnings(row, sandbox, is_protected=is_protected)),
    )


def summarize_arguments(tool: str, arguments: Row) -> ToolCallSummary:
    """Summarize a call that the model is still writing."""
    row = {
        _ROW_KEYS_BY_ARGUMENT.get(name, name): value
        for name, value in arguments.items()
        if name not in ("tool", "type") and isinstance(value, str | int)
    }
    if tool.startswith("mcp--"):
        row = dict(zip(("serverName", "toolName"), tool.split("--")[1:], strict=False))
    return summarize_call(tool, row, text=str(row.get("command") or ""))


def summarize_row_text(
    tool: str, text: str, path: str | None, diff: str | None = None, *, ask: str = "", **known: Any
) -> ToolCallSummary:
    """Summarize a call from its row alone. `known` is as in `summarize_call`."""
    if ask == "command" or tool == COMMAND_TOOL_NAME:
        command = parse_plain_text(COMMAND_TOOL_NAME, text)
        return summarize_call(COMMAND_TOOL_NAME, {}, text=command, path=path, **known)
    if ask == "browser_action_launch":
        return summarize_call("browser_action", {}, text=text, **known)
    return summarize_call(tool, decode_row(text), path=path, diff=diff, **known)


def get_summary(event: ToolStarted | AskOpened) -> ToolCallSummary:
    """Return the summary of an event; for an old journal, created from its row."""
    return event.summary or summarize_row_text(
        event.tool or "",
        event.text,
        event.path,
        event.diff,
        ask=getattr(event, "ask", ""),
        is_protected=getattr(event, "is_protected", False),
        sandbox=event.sandbox,
    )


def summarize_call_row(row: Row) -> ToolCallSummary | None:
    """Summarize the call that a stored row shows, if any; other programs may have written it."""
    if row.get("summary"):
        return msgspec.convert(row["summary"], ToolCallSummary)
    texts = {name: value for name, value in row.items() if isinstance(value, str)}
    ask = texts.get("ask", "")
    if ask not in _CALL_ASKS and texts.get("say") != "tool":
        return None
    return summarize_row_text(
        texts.get("tool", ""),
        texts.get("text", ""),
        texts.get("path"),
        texts.get("diff"),
        ask=ask,
        is_protected=bool(row.get("isProtected")),
        sandbox=texts.get("sandbox"),
    )


def decode_row(text: str) -> dict[str, Any]:
    """Decode the JSON object of a row; empty if it is not one."""
    try:
        row = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return row if isinstance(row, dict) else {}


def parse_plain_text(tool: str, text: str) -> str:
    """Parse the command or the address of a row, whose text is JSON if no user was asked about
    it."""
    row = decode_row(text) if text.startswith("{") else {}
    match tool, row:
        case "execute_command", {"tool": "execute_command", "command": str(command)}:
            return command
        case "browser_action", {"action": "launch", "url": str(address)}:
            return address
        case _:
            return text


def describe_confinement(sandbox: SandboxStatus, network: str = "") -> str:
    """Describe a command's sandbox; `network` is what it may reach."""
    match sandbox:
        case "none":
            return "runs UNCONFINED: no sandbox works here (see joey doctor)"
        case "off":
            return "runs UNCONFINED: the sandbox is switched off"
    confined = f"sandboxed ({sandbox}): writes only in this directory"
    return f"{confined} · network: {network}" if network else confined


def _resolve_tool(tool: str, row: Row) -> str:
    """Resolve the tool of a call. If one name stands for several tools, the row decides."""
    name, row_type = str(row.get("tool") or ""), row.get("type")
    if name in ("finishTask", "customTool") or not tool:
        return (
            _TOOLS_BY_ROW_NAME.get(name)
            or _CAPITAL_RE.sub(lambda found: f"_{found[0].lower()}", name)
            or str(row_type or "tool")
        )
    if row_type in ("use_mcp_tool", "access_mcp_resource"):
        return str(row_type)
    return "use_mcp_tool" if tool.startswith("mcp--") else tool


def _format_subject(
    name: str,
    tool: str,
    row: Row,
    text: str,
    path: str | None,
    files: tuple[CalledFile, ...],
    kind: CallKind,
) -> str:
    values = {**row, "path": path or row.get("path"), "files": _format_files(files, kind)}
    match name:
        case "execute_command":
            values["command"] = text.strip().replace("\n", " ⏎ ")
        case "browser_action" if text:
            values["url"] = text
        case "insert_content" if "lineNumber" in row:
            line = row["lineNumber"]
            values["position"] = f"before line {line}" if line else "at the end"
        case "custom_tool":
            values["name"] = row.get("name") or tool
        case "update_todo_list":
            values["progress"] = _format_todo_progress(row.get("todos"))
    parts = _SUBJECT_PARTS.get(name, (("files", "{}"), ("mode", "{}")))
    given = [pattern.format(values[key]) for key, pattern in parts if values.get(key)]
    return to_one_line(reveal(" ".join(given)[: 4 * MAX_SUBJECT_CHARS]), MAX_SUBJECT_CHARS)


def _format_files(files: tuple[CalledFile, ...], kind: CallKind) -> str:
    names = [f"{each.path} ({each.lines})" if each.lines else each.path for each in files]
    if kind is CallKind.MOVE:
        return " → ".join(names)
    more = len(names) - MAX_LISTED_FILES
    return ", ".join(names[:MAX_LISTED_FILES]) + (f" and {more} more" if more > 0 else "")


def _format_todo_progress(todos: object) -> str:
    items = [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []
    done = sum(todo.get("status") == "completed" for todo in items)
    now = next((todo for todo in items if todo.get("status") == "in_progress"), None)
    progress = f"{done} of {len(items)} done"
    return progress if now is None else f"{progress} · now: {now.get('content') or ''}"


def _list_files(row: Row, path: str | None) -> tuple[CalledFile, ...]:
    listed = row.get("batchDiffs") or row.get("batchFiles")
    if isinstance(listed, list):
        return tuple(_build_file(item) for item in listed if isinstance(item, dict))
    if (name := path or row.get("path")) and isinstance(name, str):
        return (_build_file({**row, "path": name}),)
    return ()


def _build_file(item: Row) -> CalledFile:
    line, stats = item.get("startLine"), item.get("diffStats")
    reason = item.get("lineSnippet") or item.get("reason")
    counts = stats if isinstance(stats, dict) else {}
    added, removed = (
        count if isinstance(count := counts.get(name), int) else 0 for name in ("added", "removed")
    )
    return CalledFile(
        str(item.get("path") or item.get("key") or ""),
        line if isinstance(line, int) and line >= 1 else None,
        to_one_line(reason, 80) if isinstance(reason, str) else "",
        added,
        removed,
    )


def _extract_diff(row: Row, row_name: str) -> str:
    if row_name not in _CHANGE_ROW_NAMES:
        return ""
    if isinstance(batch := row.get("batchDiffs"), list):
        return "\n".join(
            f"--- {item.get('path')}\n+++ {item.get('path')}\n{item.get('content') or ''}"
            for item in batch
            if isinstance(item, dict)
        )
    return str(row.get("content") or row.get("diff") or "")


def _iter_warnings(row: Row, sandbox: SandboxStatus | None, *, is_protected: bool) -> Iterable[str]:
    listed = row.get("batchFiles")
    items = listed if isinstance(listed, list) else ()
    if is_protected or row.get("isProtected"):
        yield _PROTECTED_WARNING
    if any(isinstance(each, dict) and each.get("isOutsideWorkspace") for each in (row, *items)):
        yield _OUTSIDE_WARNING
    if sandbox in ("none", "off"):
        yield describe_confinement(sandbox)
