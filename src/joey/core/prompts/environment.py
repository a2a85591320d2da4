"""The environment details: the last block of every request.

Everything that changes from turn to turn is here and not in the system prompt, which can then be
cached. Names and output come from outside, so they are kept from closing the block early.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from joey.core.messages import Block, TextBlock
from joey.core.models import ToolProtocol
from joey.core.modes import Mode
from joey.core.settings import Settings
from joey.core.task_types import Todo
from joey.core.text import compile_regex

OPENING_TAG = "<environment_details>"
CLOSING_TAG = "</environment_details>"

_TODO_STATUS_LABELS = {"pending": "Pending", "in_progress": "In Progress", "completed": "Completed"}

_ENVIRONMENT_TAG_RE = compile_regex(r"<(?=\s*+(?:/\s*+)?environment_details)", re.IGNORECASE)

BlockT = TypeVar("BlockT", bound=Block)


class TerminalStatus(Struct, frozen=True):
    """A command that was left in the background, and what it printed since the last request."""

    id: int
    command: str
    cwd: str
    output: str
    is_running: bool
    exit_code: int | None = None
    artifact_id: str = ""
    """Names it in calls of `read_command_output`."""


class WorkspaceFiles(Struct, frozen=True):
    directory: str
    entries: Sequence[str] = ()
    is_truncated: bool = False
    error: str = ""


def build_environment_details(  # noqa: PLR0913 (one argument per fact, all by name)
    *,
    now_utc: str,
    zone: str,
    cost: float | None,
    mode: Mode,
    model_id: str,
    protocol: ToolProtocol,
    settings: Settings,
    terminals: Sequence[TerminalStatus] = (),
    todos: Sequence[Todo] | None = None,
    files: WorkspaceFiles | None = None,
    recently_modified: Sequence[str] = (),
    git_status: str = "",
) -> str:
    """The block as text. `files` is given with the first request of a task only."""
    shown_cost = "(Not available)" if cost is None else f"${cost:.2f}"
    sections = [
        _render_recently_modified(recently_modified),
        _render_terminals("# Actively Running Terminals", terminals, is_running=True),
        _render_terminals(
            "# Inactive Terminals with Completed Process Output", terminals, is_running=False
        ),
        f"# Current Time\nISO 8601, UTC: {now_utc}\nUser time zone: {zone}"
        if settings.include_current_time
        else "",
        f"# Git Status\n{_escape_environment_tag(git_status)}" if git_status else "",
        f"# Current Cost\n{shown_cost}" if settings.include_current_cost else "",
        f"# Current Mode\n<slug>{mode.slug}</slug>\n<name>{_to_single_line(mode.name)}</name>\n"
        f"<model>{_to_single_line(model_id)}</model>\n{_render_tool_format(protocol)}",
        _render_files(files, settings.max_workspace_files) if files is not None else "",
    ]
    body = "\n\n".join(section for section in sections if section)
    if settings.todo_list_enabled:
        body += f"\n{_render_todos(todos or ())}"
    return f"{OPENING_TAG}\n{body}\n{CLOSING_TAG}"


def strip_environment_details(blocks: Iterable[BlockT]) -> tuple[BlockT, ...]:
    """The blocks without stale environment details; a fresh one goes with each request."""
    return tuple(block for block in blocks if not _is_environment_block(block))


def restate_tool_format(blocks: Iterable[Block], protocol: ToolProtocol) -> tuple[TextBlock, ...]:
    """The environment details among the blocks as they read in this protocol."""
    formats = [_render_tool_format(each) for each in ToolProtocol]
    restated = []
    for block in blocks:
        if isinstance(block, TextBlock) and _is_environment_block(block):
            text = block.text
            for written in formats:
                text = text.replace(written, _render_tool_format(protocol))
            restated.append(TextBlock(text))
    return tuple(restated)


def _render_tool_format(protocol: ToolProtocol) -> str:
    return f"<tool_format>{protocol}</tool_format>"


def _is_environment_block(block: Block) -> bool:
    text = block.text.strip() if isinstance(block, TextBlock) else ""
    return text.startswith(OPENING_TAG) and text.endswith(CLOSING_TAG)


def _render_recently_modified(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    listed = "\n".join(map(_to_single_line, paths))
    return (
        "# Recently Modified Files\nChanged since you last saw them, by the user or by a command;"
        f" read them again before you edit them:\n{listed}"
    )


def _render_terminals(title: str, terminals: Sequence[TerminalStatus], *, is_running: bool) -> str:
    notes = [_render_terminal(note) for note in terminals if note.is_running is is_running]
    return "\n".join([title, *notes]) if notes else ""


def _render_terminal(note: TerminalStatus) -> str:
    output = _escape_environment_tag(note.output).strip("\n")
    code = "" if note.exit_code is None else f" (exit code {note.exit_code})"
    command = f"`{_to_single_line(note.command)}`"
    lines = [
        f"## Terminal {note.id} ({'Active' if note.is_running else 'Inactive'})",
        f"### Working Directory: `{_to_single_line(note.cwd)}`",
        f"### Original command: {command}" if note.is_running else f"Command: {command}{code}",
        *([f"### Artifact ID: {note.artifact_id}"] if note.is_running and note.artifact_id else []),
        *(["### New Output", output] if output else []),
    ]
    return "\n".join(lines)


def _render_files(files: WorkspaceFiles, limit: int) -> str:
    lines = [f"# Current Workspace Directory ({_to_single_line(files.directory)}) Files"]
    if limit == 0:
        lines.append("(Listing is switched off; use list_files to look around.)")
    elif files.error:
        lines.append(f"(Not available: {_to_single_line(files.error)})")
    elif not files.entries:
        lines.append("(No files.)")
    else:
        lines += map(_to_single_line, files.entries)
        if files.is_truncated:
            lines.append("(There are more; use list_files on a folder to see what is in it.)")
    return "\n".join(lines)


def _render_todos(todos: Sequence[Todo]) -> str:
    if not todos:
        return (
            "\nThere is no todo list yet. If the task takes several steps, write one with"
            " update_todo_list."
        )
    contents = [_to_single_line(todo.content).replace("|", "\\|") for todo in todos]
    rows = [
        f"| {number} | {content} | {_TODO_STATUS_LABELS[todo.status]} |"
        for number, (content, todo) in enumerate(zip(contents, todos, strict=True), start=1)
    ]
    return "\n".join(
        [
            "====",
            "",
            "REMINDERS",
            "",
            "Your todo list as it stands:",
            "",
            "| # | Content | Status |",
            "|---|---------|--------|",
            *rows,
            "",
            "Keep it true: call update_todo_list as soon as the status of an item changes.",
        ]
    )


def _to_single_line(text: str) -> str:
    """A name on one line, whatever characters it has."""
    return _escape_environment_tag(text).replace("\r", "\\r").replace("\n", "\\n")


def _escape_environment_tag(text: str) -> str:
    return _ENVIRONMENT_TAG_RE.sub("&lt;", text)
