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
from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    ImageContentBlock,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolKind,
)
from msgspec import Struct

from joey.core.events import AskOpened, ToolFinished, ToolStarted
from joey.presentation.phrases import command_end, describe_error
from joey.presentation.text import one_line, sanitise

COMMAND_TOOL = "execute_command"
HIDDEN_TOOLS = frozenset({"attempt_completion", "ask_followup_question", "update_todo_list"})
"""Their outcome is told otherwise: as the agent's words, and as its plan."""

TOOL_KINDS: dict[str, ToolKind] = {
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
_DETAIL_KEYS = ("path", "regex", "query", "mode", "command", "skill", "action", "url")

ToolCallContent = ContentToolCallContent | FileEditToolCallContent


class ToolCallView(Struct, frozen=True):
    """What is known of a call once its tool has looked at it."""

    kind: ToolKind
    title: str
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None


def first_look(tool: str) -> ToolCallView:
    """While the model still writes the call."""
    return ToolCallView(kind_of(tool), _named(tool))


def kind_of(tool: str) -> ToolKind:
    return TOOL_KINDS.get(tool, "other")


def closer_look(
    event: ToolStarted | AskOpened, arguments: dict[str, Any], workspace: Path
) -> ToolCallView:
    """What is about to be done, as a person must see it to decide."""
    tool = event.tool or ""
    if tool == COMMAND_TOOL:
        return _command(event.text, event.path, arguments)
    row = row_of(event.text)
    if str(row.get("type")).endswith(("_mcp_tool", "_mcp_resource")):
        return _server_call(row, arguments, kind_of(tool))
    changes = with_exact_end(changes_of(event.path, event.diff, row), _get_string_values(arguments))
    edits = tuple(
        FileEditToolCallContent(
            type="diff", path=str(workspace / one.path), old_text=one.old, new_text=one.new
        )
        for one in changes
    )
    places = [*((one.path, one.line) for one in changes)] or _places(event.path, row)
    return ToolCallView(
        _edit_kind(tool, event.diff, changes),
        f"{_named(tool)} {_detail(event.path, row)}".strip(),
        edits or _build_fallback_content(tool, event, row),
        tuple(ToolCallLocation(path=str(workspace / path), line=line) for path, line in places),
        None if tool in _EDIT_TOOLS else arguments or None,
    )


def row_of(text: str) -> dict[str, Any]:
    """What a row of the history says in JSON; nothing when it is no JSON."""
    try:
        row = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return row if isinstance(row, dict) else {}


def text_content(text: str) -> ContentToolCallContent:
    block = TextContentBlock(type="text", text=text)
    return ContentToolCallContent(type="content", content=block)


def terminal_content(terminal_id: str) -> TerminalToolCallContent:
    return TerminalToolCallContent(type="terminal", terminal_id=terminal_id)


def image_contents(images: Iterable[str]) -> Iterable[ContentToolCallContent]:
    """Data URIs."""
    for uri in images:
        head, _, data = uri.partition(",")
        media = head.removeprefix("data:").partition(";")[0]
        block = ImageContentBlock(type="image", mime_type=media, data=data)
        yield ContentToolCallContent(type="content", content=block)


def outcome_contents(
    event: ToolFinished, output: str, terminal: str | None
) -> Iterable[ContentToolCallContent | TerminalToolCallContent]:
    """What a person reads of a call that has ended; `output` is what a command has printed,
    `terminal` the editor's that has shown it."""
    end = command_end(event) if event.tool == COMMAND_TOOL else ""
    has_run = bool(output or end) or event.exit_code is not None
    result_text = describe_error(event.content) if event.is_error else event.content
    shown = output if has_run else result_text
    if terminal is not None:
        yield terminal_content(terminal)
    elif shown.strip():
        yield text_content(fenced(shown))
    if end:
        yield text_content(end)


def _named(tool: str) -> str:
    if tool in _TOOL_TITLES:
        return _TOOL_TITLES[tool]
    return "Edit" if tool in _EDIT_TOOLS else one_line(tool, 80) or "Tool"


def _command(command: str, directory: str | None, arguments: dict[str, Any]) -> ToolCallView:
    where = f" in {code(one_line(directory, 160))}" if directory else ""
    return ToolCallView(
        "execute",
        code(one_line(command, 160)) + where,
        (text_content(fenced(command, "sh", whole=True)),),
        (),
        arguments or {"command": command},
    )


def _server_call(row: dict[str, Any], arguments: dict[str, Any], kind: ToolKind) -> ToolCallView:
    target = row.get("toolName") or row.get("uri") or ""
    title = f"{row.get('serverName') or ''}: {target}"
    given = str(row.get("arguments") or "")
    shown = (text_content(fenced(given, "json", whole=True)),) if given not in ("", "{}") else ()
    return ToolCallView(kind, one_line(title, 160), shown, (), arguments or None)


def _edit_kind(tool: str, diff: str | None, changes: Iterable[Any]) -> ToolKind:
    if tool in _EDIT_TOOLS and diff and not any(changes):
        if diff.endswith(" will be deleted."):
            return "delete"
        if " will be moved to " in diff:
            return "move"
    return kind_of(tool)


def _build_fallback_content(
    tool: str, event: ToolStarted | AskOpened, row: dict[str, Any]
) -> tuple[ContentToolCallContent, ...]:
    """Where there are no lines to compare."""
    if tool in _EDIT_TOOLS and event.diff:
        return (text_content(fenced(event.diff, "diff")),)
    if row.get("tool") == "newTask":
        return (text_content(fenced(str(row.get("content") or ""))),)
    if row.get("tool") == "customTool" and (given := str(row.get("arguments") or "")):
        return (text_content(fenced(given, "json", whole=True)),)
    return ()


def _detail(path: str | None, row: dict[str, Any]) -> str:
    named = {"path": path} | row if path else row
    values = (str(named[key]) for key in _DETAIL_KEYS if named.get(key))
    if several := _batch(row):
        values = (str(one.get("path")) for one in several)
    return one_line(" ".join(values), 160)


def _places(path: str | None, row: dict[str, Any]) -> list[tuple[str, int | None]]:
    line = row.get("startLine")
    if path is not None:
        return [(path, line if isinstance(line, int) and line >= 1 else None)]
    return [(str(one.get("path")), None) for one in _batch(row)]


def _batch(row: dict[str, Any]) -> list[dict[str, Any]]:
    listed = row.get("batchFiles") or row.get("batchDiffs")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _get_string_values(arguments: dict[str, Any]) -> list[str]:
    return [value for value in arguments.values() if isinstance(value, str)]


_HUNK_HEADER_RE = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NEW_FILE_HEADER = "--- /dev/null"


class DiffHunk(Struct, frozen=True):
    path: str
    old: str | None
    """None: the file is new."""
    new: str
    line: int
    """Where the change begins, in the file as it will be."""


def changes_of(path: str | None, diff: str | None, row: dict[str, Any]) -> list[DiffHunk]:
    """What a call is about to change. `row` tells of several files where `path` names none."""
    if path is not None:
        return list(_changes(path, diff or ""))
    batch = row.get("batchDiffs")
    listed = batch if isinstance(batch, list) else []
    files = ((str(one.get("path")), str(one.get("content") or "")) for one in listed)
    return [change for name, text in files for change in _changes(name, text)]


def with_exact_end(changes: Iterable[DiffHunk], contents: Iterable[str]) -> list[DiffHunk]:
    """Whether a new file ends with a line break is in the model's own `contents`, not in a diff."""
    exact = {word.replace("\r\n", "\n") for word in contents}
    return [
        DiffHunk(one.path, None, one.new[:-1], one.line)
        if one.old is None and one.new not in exact and one.new[:-1] in exact
        else one
        for one in changes
    ]


def _changes(path: str, diff: str) -> Iterator[DiffHunk]:
    is_new = diff.startswith(_NEW_FILE_HEADER)
    hunk: _HunkBuilder | None = None
    for line in diff.split("\n"):
        if found := _HUNK_HEADER_RE.match(line):
            if hunk is not None:
                yield hunk.change(path, is_new=is_new)
            hunk = _HunkBuilder(max(1, int(found[2])))
        elif hunk is not None:
            hunk.add(line)
    if hunk is not None:
        yield hunk.change(path, is_new=is_new)
    elif is_new:
        yield DiffHunk(path, None, "", 1)


class _HunkBuilder:
    def __init__(self, start: int) -> None:
        self._old: list[str] = []
        self._new: list[str] = []
        self._start = start
        self._first: int | None = None

    def add(self, line: str) -> None:
        sign, text = line[:1], line[1:]
        if sign in ("-", "+") and self._first is None:
            self._first = self._start + len(self._new)
        if sign in (" ", "-"):
            self._old.append(text)
        if sign in (" ", "+"):
            self._new.append(text)

    def change(self, path: str, *, is_new: bool) -> DiffHunk:
        old, new = ("".join(f"{line}\n" for line in lines) for lines in (self._old, self._new))
        return DiffHunk(path, None if is_new else old, new, self._first or self._start)


MAX_RESULT_CHARS = 32 * 1024
_CODE_FENCE_RE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def fenced(text: str, language: str = "", *, whole: bool = False) -> str:
    """A code block whose fence is longer than any in the text. What a person has to decide about
    is shown `whole`."""
    text = sanitise(text) if whole else clipped(sanitise(text))
    longest = max((len(match[1]) for match in _CODE_FENCE_RE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def clipped(text: str, most: int = MAX_RESULT_CHARS) -> str:
    """Head and tail of a text that is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[…{len(text) - 2 * half} characters left out…]\n{text[-half:]}"


def code(text: str) -> str:
    """A word of code within a line."""
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{text}{ticks}"
