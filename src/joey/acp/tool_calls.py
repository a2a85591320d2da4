"""Tool calls as editors show them: kind, title, locations, diffs, text.

Events carry unified diffs with a few lines around each change; an editor gets the text before and
after, one pair for each hunk. A pair holds the lines of one hunk; of a new file, all lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from acp import schema
from joey.core.events import AskOpened, ToolFinished, ToolStarted
from joey.presentation.phrases import describe_command_exit, describe_error
from joey.presentation.text import sanitize, to_one_line

COMMAND_TOOL = "execute_command"
HIDDEN_TOOLS = frozenset({"attempt_completion", "ask_followup_question", "update_todo_list"})
"""Their outcome is told otherwise: as the agent's words, and as its plan."""

TOOL_KINDS: dict[str, schema.ToolKind] = {
    "read_file": "read",
    "list_code_definition_names": "read",
    "read_command_output": "read",
    "list_files": "search",
    "search_files": "search",
    "codebase_search": "search",
    "apply_diff": "edit",
    "apply_patch": "edit",
    "edit": "edit",
    "edit_file": "edit",
    "search_replace": "edit",
    "write_to_file": "edit",
    "insert_content": "edit",
    "generate_image": "edit",
    COMMAND_TOOL: "execute",
    "browser_action": "fetch",
    "access_mcp_resource": "fetch",
    "switch_mode": "switch_mode",
    "new_task": "think",
    "update_todo_list": "think",
    "fetch_instructions": "think",
    "run_slash_command": "think",
    "skill": "think",
    "ask_followup_question": "think",
    "attempt_completion": "think",
}
"""Tools that servers and people bring along are of the kind `other`."""

_TOOL_TITLES: dict[str, str] = {
    "read_file": "Read",
    "list_code_definition_names": "Look at the definitions of",
    "read_command_output": "Read the output of a command",
    "list_files": "List",
    "search_files": "Search",
    "codebase_search": "Search for",
    "write_to_file": "Write",
    "insert_content": "Insert into",
    "generate_image": "Draw",
    COMMAND_TOOL: "Run a command",
    "browser_action": "Use the browser",
    "switch_mode": "Switch to mode",
    "new_task": "Subtask in mode",
    "fetch_instructions": "Fetch instructions for",
    "run_slash_command": "Run the command",
    "skill": "Use the skill",
    "attempt_completion": "Hand over the result of the subtask",
}
_EDIT_TOOLS = frozenset(name for name, kind in TOOL_KINDS.items() if kind == "edit")
_TITLE_DETAIL_KEYS = ("path", "regex", "query", "mode", "command", "skill", "action", "url")

ToolCallContent = schema.ContentToolCallContent | schema.FileEditToolCallContent


class ToolCallView(Struct, frozen=True):
    """What is known of a call once its tool has looked at it."""

    kind: schema.ToolKind
    title: str
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[schema.ToolCallLocation, ...] = ()
    raw_input: Any = None


def build_initial_view(tool: str) -> ToolCallView:
    """While the model still writes the call."""
    return ToolCallView(get_tool_kind(tool), _get_tool_title(tool))


def get_tool_kind(tool: str) -> schema.ToolKind:
    return TOOL_KINDS.get(tool, "other")


def build_prepared_view(
    event: ToolStarted | AskOpened, arguments: dict[str, Any], workspace: Path
) -> ToolCallView:
    """What is about to be done, as a user must see it to decide."""
    tool = event.tool or ""
    if tool == COMMAND_TOOL:
        return _build_command_view(event.text, event.path, arguments)
    row = decode_row_json(event.text)
    if str(row.get("type")).endswith(("_mcp_tool", "_mcp_resource")):
        return _build_mcp_call_view(row, arguments, get_tool_kind(tool))
    hunks = fix_final_newlines(
        parse_hunks(event.path, event.diff, row), _get_string_values(arguments)
    )
    edits = tuple(
        schema.FileEditToolCallContent(
            type="diff",
            path=str(workspace / hunk.path),
            old_text=hunk.old_text,
            new_text=hunk.new_text,
        )
        for hunk in hunks
    )
    locations = [*((hunk.path, hunk.first_changed_line) for hunk in hunks)] or _find_locations(
        event.path, row
    )
    return ToolCallView(
        _resolve_edit_kind(tool, event.diff, hunks),
        f"{_get_tool_title(tool)} {_format_title_detail(event.path, row)}".strip(),
        edits or _build_fallback_content(tool, event, row),
        tuple(
            schema.ToolCallLocation(path=str(workspace / path), line=line)
            for path, line in locations
        ),
        None if tool in _EDIT_TOOLS else arguments or None,
    )


def decode_row_json(text: str) -> dict[str, Any]:
    """What a row of the history says in JSON; nothing when it is no JSON."""
    try:
        row = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return row if isinstance(row, dict) else {}


def build_text_content(text: str) -> schema.ContentToolCallContent:
    block = schema.TextContentBlock(type="text", text=text)
    return schema.ContentToolCallContent(type="content", content=block)


def build_terminal_content(terminal_id: str) -> schema.TerminalToolCallContent:
    return schema.TerminalToolCallContent(type="terminal", terminal_id=terminal_id)


def build_image_contents(images: Iterable[str]) -> Iterable[schema.ContentToolCallContent]:
    """Data URIs."""
    for uri in images:
        head, _, data = uri.partition(",")
        media = head.removeprefix("data:").partition(";")[0]
        block = schema.ImageContentBlock(type="image", mime_type=media, data=data)
        yield schema.ContentToolCallContent(type="content", content=block)


def build_outcome_contents(
    event: ToolFinished, output: str, terminal_id: str | None
) -> Iterable[schema.ContentToolCallContent | schema.TerminalToolCallContent]:
    """What a user reads of a call that has ended; `output` is what a command has printed,
    `terminal_id` the editor's that has shown it."""
    end = describe_command_exit(event) if event.tool == COMMAND_TOOL else ""
    has_run = bool(output or end) or event.exit_code is not None
    result_text = describe_error(event.content) if event.is_error else event.content
    shown = output if has_run else result_text
    if terminal_id is not None:
        yield build_terminal_content(terminal_id)
    elif shown.strip():
        yield build_text_content(format_code_block(shown))
    if end:
        yield build_text_content(end)


def _get_tool_title(tool: str) -> str:
    if tool in _TOOL_TITLES:
        return _TOOL_TITLES[tool]
    return "Edit" if tool in _EDIT_TOOLS else to_one_line(tool, 80) or "Tool"


def _build_command_view(
    command: str, directory: str | None, arguments: dict[str, Any]
) -> ToolCallView:
    where = f" in {format_inline_code(to_one_line(directory, 160))}" if directory else ""
    return ToolCallView(
        "execute",
        format_inline_code(to_one_line(command, 160)) + where,
        (build_text_content(format_code_block(command, "sh", unlimited=True)),),
        (),
        arguments or {"command": command},
    )


def _build_mcp_call_view(
    row: dict[str, Any], arguments: dict[str, Any], kind: schema.ToolKind
) -> ToolCallView:
    target = row.get("toolName") or row.get("uri") or ""
    title = f"{row.get('serverName') or ''}: {target}"
    given = str(row.get("arguments") or "")
    shown = (
        (build_text_content(format_code_block(given, "json", unlimited=True)),)
        if given not in ("", "{}")
        else ()
    )
    return ToolCallView(kind, to_one_line(title, 160), shown, (), arguments or None)


def _resolve_edit_kind(tool: str, diff: str | None, hunks: Iterable[Any]) -> schema.ToolKind:
    if tool in _EDIT_TOOLS and diff and not any(hunks):
        if diff.endswith(" will be deleted."):
            return "delete"
        if " will be moved to " in diff:
            return "move"
    return get_tool_kind(tool)


def _build_fallback_content(
    tool: str, event: ToolStarted | AskOpened, row: dict[str, Any]
) -> tuple[schema.ContentToolCallContent, ...]:
    """Where there are no lines to compare."""
    if tool in _EDIT_TOOLS and event.diff:
        return (build_text_content(format_code_block(event.diff, "diff")),)
    if row.get("tool") == "newTask":
        return (build_text_content(format_code_block(str(row.get("content") or ""))),)
    if row.get("tool") == "customTool" and (given := str(row.get("arguments") or "")):
        return (build_text_content(format_code_block(given, "json", unlimited=True)),)
    return ()


def _format_title_detail(path: str | None, row: dict[str, Any]) -> str:
    named = {"path": path} | row if path else row
    values = (str(named[key]) for key in _TITLE_DETAIL_KEYS if named.get(key))
    if several := _get_batch_items(row):
        values = (str(item.get("path")) for item in several)
    return to_one_line(" ".join(values), 160)


def _find_locations(path: str | None, row: dict[str, Any]) -> list[tuple[str, int | None]]:
    line = row.get("startLine")
    if path is not None:
        return [(path, line if isinstance(line, int) and line >= 1 else None)]
    return [(str(item.get("path")), None) for item in _get_batch_items(row)]


def _get_batch_items(row: dict[str, Any]) -> list[dict[str, Any]]:
    listed = row.get("batchFiles") or row.get("batchDiffs")
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _get_string_values(arguments: dict[str, Any]) -> list[str]:
    return [value for value in arguments.values() if isinstance(value, str)]


_HUNK_HEADER_RE = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NEW_FILE_HEADER = "--- /dev/null"


class DiffHunk(Struct, frozen=True):
    path: str
    old_text: str | None
    """None: the file is new."""
    new_text: str
    first_changed_line: int
    """Where the change begins, in the file as it will be."""


def parse_hunks(path: str | None, diff: str | None, row: dict[str, Any]) -> list[DiffHunk]:
    """What a call is about to change. `row` tells of several files where `path` names none."""
    if path is not None:
        return list(_iter_hunks(path, diff or ""))
    batch = row.get("batchDiffs")
    listed = batch if isinstance(batch, list) else []
    files = ((str(item.get("path")), str(item.get("content") or "")) for item in listed)
    return [hunk for name, text in files for hunk in _iter_hunks(name, text)]


def fix_final_newlines(hunks: Iterable[DiffHunk], contents: Iterable[str]) -> list[DiffHunk]:
    """Whether a new file ends with a line break is in the model's own `contents`, not in a diff."""
    exact = {content.replace("\r\n", "\n") for content in contents}
    return [
        DiffHunk(hunk.path, None, hunk.new_text[:-1], hunk.first_changed_line)
        if hunk.old_text is None and hunk.new_text not in exact and hunk.new_text[:-1] in exact
        else hunk
        for hunk in hunks
    ]


def _iter_hunks(path: str, diff: str) -> Iterator[DiffHunk]:
    is_new = diff.startswith(_NEW_FILE_HEADER)
    hunk: _HunkBuilder | None = None
    for line in diff.split("\n"):
        if found := _HUNK_HEADER_RE.match(line):
            if hunk is not None:
                yield hunk.build(path, is_new=is_new)
            hunk = _HunkBuilder(max(1, int(found[2])))
        elif hunk is not None:
            hunk.add_line(line)
    if hunk is not None:
        yield hunk.build(path, is_new=is_new)
    elif is_new:
        yield DiffHunk(path, None, "", 1)


class _HunkBuilder:
    def __init__(self, start: int) -> None:
        self._old_lines: list[str] = []
        self._new_lines: list[str] = []
        self._start_line = start
        self._first_changed_line: int | None = None

    def add_line(self, line: str) -> None:
        sign, text = line[:1], line[1:]
        if sign in ("-", "+") and self._first_changed_line is None:
            self._first_changed_line = self._start_line + len(self._new_lines)
        if sign in (" ", "-"):
            self._old_lines.append(text)
        if sign in (" ", "+"):
            self._new_lines.append(text)

    def build(self, path: str, *, is_new: bool) -> DiffHunk:
        old, new = (
            "".join(f"{line}\n" for line in lines) for lines in (self._old_lines, self._new_lines)
        )
        return DiffHunk(
            path, None if is_new else old, new, self._first_changed_line or self._start_line
        )


MAX_CODE_BLOCK_CHARS = 32 * 1024
_CODE_FENCE_RE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def format_code_block(text: str, language: str = "", *, unlimited: bool = False) -> str:
    """A code block whose fence is longer than any in the text. What a user has to decide about
    is shown `unlimited`."""
    text = sanitize(text) if unlimited else clip_text(sanitize(text))
    longest = max((len(match[1]) for match in _CODE_FENCE_RE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def clip_text(text: str, max_chars: int = MAX_CODE_BLOCK_CHARS) -> str:
    """Head and tail of a text that is too long."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]}\n[…{len(text) - 2 * half} characters left out…]\n{text[-half:]}"


def format_inline_code(text: str) -> str:
    """A word of code within a line."""
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text}{ticks}"
