"""Tool calls as the user must see them to decide: a headline, the change, the output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.text import Text

from joey.core.text import split_lines
from joey.presentation.phrases import COMMAND_TOOL_NAME
from joey.presentation.text import find_line_breaks, sanitize, to_one_line

MAX_DIFF_LINES = 40
"""Of a change that the rules allow."""
MAX_ASK_DIFF_LINES = 400
"""Of a change that a user is asked about."""
OUTPUT_HEAD_LINES = 20
OUTPUT_TAIL_LINES = 5
CUSTOM_TOOL_KIND = "customTool"
_DETAIL_KEYS = ("path", "regex", "query", "mode", "command", "skill")


def render_call_card(
    tool: str, text: str, path: str | None, diff: str | None, *, is_ask: bool
) -> Text:
    """A headline, and below it the change if there is one. A command is always shown whole."""
    shown = render_headline(tool, text, path)
    limit = MAX_ASK_DIFF_LINES if is_ask else MAX_DIFF_LINES
    if change := extract_change(tool, text, diff):
        shown.append("\n").append_text(render_diff(change, limit))
    elif message := extract_subtask_message(text):
        shown.append("\n").append_text(_render_indented(message, limit))
    return shown


def render_headline(tool: str, text: str, path: str | None) -> Text:
    """What is done, to what; the command itself, or the arguments of a call to a server."""
    if tool == COMMAND_TOOL_NAME:
        command = sanitize(text).replace("\n", "\n  ")
        return Text.assemble(("$ ", "bold cyan"), (command, "bold"))
    row = decode_row(text)
    if row.get("tool") == "finishTask":
        return Text.assemble(("● ", "cyan"), ("the subtask is done", "bold"))
    if _is_mcp_call(row):
        return _render_mcp_call(row)
    if row.get("tool") == CUSTOM_TOOL_KIND:
        return _render_call_with_arguments(sanitize(tool), row)
    shown = Text.assemble(("● ", "cyan"), (sanitize(tool), "bold"))
    if detail := _format_detail(row, path):
        shown.append(f" {detail}", "cyan")
    if is_no_change(text):
        shown.append(": no change")
    if row.get("tool") == "newTask" and row.get("worktree"):
        shown.append(" in a git worktree of its own")
    return shown


def extract_change(tool: str, text: str, diff: str | None) -> str:
    """What a call does to files, if it changes any."""
    if tool == COMMAND_TOOL_NAME:
        return ""
    row = decode_row(text)
    if _is_mcp_call(row) or row.get("tool") in ("finishTask", CUSTOM_TOOL_KIND):
        return ""
    return diff or _extract_row_change(row)


def is_no_change(text: str) -> bool:
    """Whether a call writes a file as it is already."""
    row = decode_row(text)
    is_edit = row.get("tool") in ("editedExistingFile", "appliedDiff")
    return is_edit and row.get("content") == "" and not row.get("diff")


def format_write_question(text: str, path: str) -> str:
    """Whether a file may be written, as a question."""
    shown = to_one_line(path, 80)
    if is_no_change(text):
        return f"Write {shown} as it is?"
    is_new = decode_row(text).get("tool") == "newFileCreated"
    return f"{'Create' if is_new else 'Change'} {shown}?"


def extract_subtask_message(text: str) -> str:
    """The words that a subtask begins with."""
    row = decode_row(text)
    return str(row.get("content") or "") if row.get("tool") == "newTask" else ""


def is_custom_tool_call(text: str) -> bool:
    """Whether the row of a call is that of a tool that a user wrote."""
    return f'"{CUSTOM_TOOL_KIND}"' in text and decode_row(text).get("tool") == CUSTOM_TOOL_KIND


def wrap_text(text: Text, width: int | None, extra_indent: int = 0) -> Text:
    """The text with its lines broken between words (see `find_line_breaks`); None leaves them as
    they are."""
    if width is None:
        return text
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        hang, pieces = find_line_breaks(line.plain, width, extra_indent)
        for number, (start, end) in enumerate(pieces):
            piece = line[start:end]
            lines.append(piece if number == 0 else Text(" " * hang).append_text(piece))
    return Text("\n").join(lines)


def render_diff(diff: str, limit: int) -> Text:
    """At most `limit` lines of a diff, then how many more there are."""
    lines = split_lines(sanitize(diff))
    shown = Text("\n").join(Text(f"  {line}", _get_diff_style(line)) for line in lines[:limit])
    if len(lines) > limit:
        shown.append(f"\n  … {len(lines) - limit} more lines", "dim")
    return shown


def _render_indented(text: str, limit: int) -> Text:
    """What a subtask is told."""
    lines = split_lines(sanitize(text))
    shown = "\n".join(f"  {line}" for line in lines[:limit])
    more = f"\n  … {len(lines) - limit} more lines" if len(lines) > limit else ""
    return Text(shown + more)


def _get_diff_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "dim"
    match line[:1]:
        case "+":
            return "green"
        case "-":
            return "red"
        case "@":
            return "cyan"
        case _:
            return ""


def decode_row(text: str) -> dict[str, Any]:
    """What the JSON of a row says; nothing when it is none."""
    try:
        row = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return row if isinstance(row, dict) else {}


def _is_mcp_call(row: dict[str, Any]) -> bool:
    return str(row.get("type")).endswith(("_mcp_tool", "_mcp_resource"))


def _render_mcp_call(row: dict[str, Any]) -> Text:
    server, what = (sanitize(str(row.get(key) or "")) for key in ("serverName", "toolName"))
    target = what or to_one_line(str(row.get("uri") or ""), 160)
    return _render_call_with_arguments(f"{server}: {target}", row)


def _render_call_with_arguments(name: str, row: dict[str, Any]) -> Text:
    """Arguments are shown whole: they are what a user has to decide about."""
    shown = Text.assemble(("● ", "cyan"), (name, "bold"))
    arguments = str(row.get("arguments") or "")
    if arguments not in ("", "{}"):
        shown.append(f" {sanitize(arguments)}", "cyan")
    return shown


def _format_detail(row: dict[str, Any], path: str | None) -> str:
    named = {"path": path} | row if path else row
    values = (str(named[key]) for key in _DETAIL_KEYS if named.get(key))
    return to_one_line(" ".join(values), 160)


def _extract_row_change(row: dict[str, Any]) -> str:
    if row.get("tool") not in ("editedExistingFile", "newFileCreated", "appliedDiff"):
        return ""
    return str(row.get("diff") or row.get("content") or "")


class CommandOutputPreview:
    """Output as it comes, in whole lines: the first ones at once, of the rest the last ones."""

    def __init__(self) -> None:
        self._partial_line = ""
        self._head_count = 0
        self._tail_lines: deque[str] = deque(maxlen=OUTPUT_TAIL_LINES)
        self._omitted_count = 0

    def feed(self, output: str) -> Iterator[str]:
        """The lines to show now."""
        *lines, self._partial_line = (self._partial_line + sanitize(output)).split("\n")
        self._partial_line = self._partial_line[-10_000:]
        for line in lines:
            if self._head_count < OUTPUT_HEAD_LINES:
                self._head_count += 1
                yield line
            else:
                self._omitted_count += len(self._tail_lines) == OUTPUT_TAIL_LINES
                self._tail_lines.append(line)

    def close(self) -> Iterator[str]:
        """The lines that were held back, once nothing more can come."""
        if self._partial_line:
            yield from self.feed("\n")
        if self._omitted_count:
            yield f"… {self._omitted_count} lines left out …"
        yield from self._tail_lines
