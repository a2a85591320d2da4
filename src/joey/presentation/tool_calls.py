"""Tool calls as the user must see them to decide: a headline, the change, the output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.text import Text

from joey.core.text import split_lines
from joey.presentation.phrases import COMMAND_TOOL
from joey.presentation.text import cut, one_line, sanitise

MAX_DIFF_LINES = 40
"""Of a change that the rules allow."""
MAX_ASK_DIFF_LINES = 400
"""Of a change that a person is asked about."""
OUTPUT_HEAD_LINES = 20
OUTPUT_TAIL_LINES = 5
CUSTOM_TOOL_KIND = "customTool"
"""What the row of a call calls the tools that users wrote."""
_DETAIL_KEYS = ("path", "regex", "query", "mode", "command", "skill")


def card(tool: str, text: str, path: str | None, diff: str | None, *, asked: bool) -> Text:
    """A headline, and below it the change if there is one. A command is always shown whole."""
    shown = headline(tool, text, path)
    limit = MAX_ASK_DIFF_LINES if asked else MAX_DIFF_LINES
    if change := change_of(tool, text, diff):
        shown.append("\n").append_text(coloured_diff(change, limit))
    elif message := extract_subtask_message(text):
        shown.append("\n").append_text(_quoted(message, limit))
    return shown


def headline(tool: str, text: str, path: str | None) -> Text:
    """What is done, to what; the command itself, or the arguments of a call to a server."""
    if tool == COMMAND_TOOL:
        command = sanitise(text).replace("\n", "\n  ")
        return Text.assemble(("$ ", "bold cyan"), (command, "bold"))
    row = row_facts(text)
    if row.get("tool") == "finishTask":
        return Text.assemble(("● ", "cyan"), ("the subtask is done", "bold"))
    if _is_server_call(row):
        return _mcp_call(row)
    if row.get("tool") == CUSTOM_TOOL_KIND:
        return _with_arguments(sanitise(tool), row)
    shown = Text.assemble(("● ", "cyan"), (sanitise(tool), "bold"))
    if detail := _detail(row, path):
        shown.append(f" {detail}", "cyan")
    if changes_nothing(text):
        shown.append(": no change")
    if row.get("tool") == "newTask" and row.get("worktree"):
        shown.append(" in a git worktree of its own")
    return shown


def change_of(tool: str, text: str, diff: str | None) -> str:
    """What a call does to files, if it changes any."""
    if tool == COMMAND_TOOL:
        return ""
    row = row_facts(text)
    if _is_server_call(row) or row.get("tool") in ("finishTask", CUSTOM_TOOL_KIND):
        return ""
    return diff or _change(row)


def changes_nothing(text: str) -> bool:
    """Whether a call writes a file as it is already."""
    row = row_facts(text)
    is_edit = row.get("tool") in ("editedExistingFile", "appliedDiff")
    return is_edit and row.get("content") == "" and not row.get("diff")


def asked_change(text: str, path: str) -> str:
    """Whether a file may be written, as a question."""
    shown = one_line(path, 80)
    if changes_nothing(text):
        return f"Write {shown} as it is?"
    is_new = row_facts(text).get("tool") == "newFileCreated"
    return f"{'Create' if is_new else 'Change'} {shown}?"


def extract_subtask_message(text: str) -> str:
    """The words that a subtask begins with."""
    row = row_facts(text)
    return str(row.get("content") or "") if row.get("tool") == "newTask" else ""


def is_custom(text: str) -> bool:
    """Whether the row of a call is that of a tool that a user wrote."""
    return f'"{CUSTOM_TOOL_KIND}"' in text and row_facts(text).get("tool") == CUSTOM_TOOL_KIND


def wrapped(text: Text, width: int | None, deeper: int = 0) -> Text:
    """The text with its lines broken between words (see `cut`); None leaves them as they are."""
    if width is None:
        return text
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        hang, pieces = cut(line.plain, width, deeper)
        for number, (start, end) in enumerate(pieces):
            piece = line[start:end]
            lines.append(piece if number == 0 else Text(" " * hang).append_text(piece))
    return Text("\n").join(lines)


def coloured_diff(diff: str, limit: int) -> Text:
    """At most `limit` lines of a diff, then how many more there are."""
    lines = split_lines(sanitise(diff))
    shown = Text("\n").join(Text(f"  {line}", _style(line)) for line in lines[:limit])
    if len(lines) > limit:
        shown.append(f"\n  … {len(lines) - limit} more lines", "dim")
    return shown


def _quoted(text: str, limit: int) -> Text:
    """What a subtask is told."""
    lines = split_lines(sanitise(text))
    shown = "\n".join(f"  {line}" for line in lines[:limit])
    more = f"\n  … {len(lines) - limit} more lines" if len(lines) > limit else ""
    return Text(shown + more)


def _style(line: str) -> str:
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


def row_facts(text: str) -> dict[str, Any]:
    """What the JSON of a row says; nothing when it is none."""
    try:
        row = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return row if isinstance(row, dict) else {}


def _is_server_call(row: dict[str, Any]) -> bool:
    return str(row.get("type")).endswith(("_mcp_tool", "_mcp_resource"))


def _mcp_call(row: dict[str, Any]) -> Text:
    server, what = (sanitise(str(row.get(key) or "")) for key in ("serverName", "toolName"))
    target = what or one_line(str(row.get("uri") or ""), 160)
    return _with_arguments(f"{server}: {target}", row)


def _with_arguments(name: str, row: dict[str, Any]) -> Text:
    """Arguments are shown whole: they are what a person has to decide about."""
    shown = Text.assemble(("● ", "cyan"), (name, "bold"))
    arguments = str(row.get("arguments") or "")
    if arguments not in ("", "{}"):
        shown.append(f" {sanitise(arguments)}", "cyan")
    return shown


def _detail(row: dict[str, Any], path: str | None) -> str:
    named = {"path": path} | row if path else row
    values = (str(named[key]) for key in _DETAIL_KEYS if named.get(key))
    return one_line(" ".join(values), 160)


def _change(row: dict[str, Any]) -> str:
    if row.get("tool") not in ("editedExistingFile", "newFileCreated", "appliedDiff"):
        return ""
    return str(row.get("diff") or row.get("content") or "")


class CommandOutputPreview:
    """Output as it comes, in whole lines: the first ones at once, of the rest the last ones."""

    def __init__(self) -> None:
        self._unfinished = ""
        self._shown = 0
        self._tail: deque[str] = deque(maxlen=OUTPUT_TAIL_LINES)
        self._left_out = 0

    def feed(self, output: str) -> Iterator[str]:
        """The lines to show now."""
        *lines, self._unfinished = (self._unfinished + sanitise(output)).split("\n")
        self._unfinished = self._unfinished[-10_000:]
        for line in lines:
            if self._shown < OUTPUT_HEAD_LINES:
                self._shown += 1
                yield line
            else:
                self._left_out += len(self._tail) == OUTPUT_TAIL_LINES
                self._tail.append(line)

    def close(self) -> Iterator[str]:
        """The lines that were held back, once nothing more can come."""
        if self._unfinished:
            yield from self.feed("\n")
        if self._left_out:
            yield f"… {self._left_out} lines left out …"
        yield from self._tail
