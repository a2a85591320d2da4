"""The environment details: the last block of every request.

Everything that changes from turn to turn is here and not in the system prompt, which can then be
cached. Names and output come from outside, so they are kept from closing the block early.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from joey.core.messages import Block, TextBlock
from joey.core.models import ToolProtocol
from joey.core.modes import Mode
from joey.core.settings import Settings
from joey.core.task import Todo
from joey.core.text import regex

OPENING_TAG = "<environment_details>"
CLOSING_TAG = "</environment_details>"

_TODO_STATUS_LABELS = {"pending": "Pending", "in_progress": "In Progress", "completed": "Completed"}

_ENVIRONMENT_TAG_RE = regex(r"<(?=\s*+(?:/\s*+)?environment_details)", re.IGNORECASE)

BlockT = TypeVar("BlockT", bound=Block)


class TerminalStatus(Struct, frozen=True):
    """A command that was left in the background, and what it printed since the last request."""

    id: int
    command: str
    cwd: str
    output: str
    running: bool
    exit_code: int | None = None


class WorkspaceFiles(Struct, frozen=True):
    directory: str
    entries: Sequence[str] = ()
    truncated: bool = False
    error: str = ""
    """Why there is no listing."""


def environment_details(  # noqa: PLR0913 (one argument per fact, all by name)
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
    sections = [
        _recently_modified(recently_modified),
        _running(terminals),
        _ended(terminals),
        _time(now_utc, zone) if settings.include_current_time else "",
        f"# Git Status\n{_contained(git_status)}" if git_status else "",
        _cost(cost) if settings.include_current_cost else "",
        _mode(mode, model_id, protocol),
        _files(files, settings.max_workspace_files) if files is not None else "",
    ]
    body = "\n\n".join(section for section in sections if section)
    if settings.todo_list_enabled:
        body += f"\n{_todos(todos or ())}"
    return f"{OPENING_TAG}\n{body}\n{CLOSING_TAG}"


def strip_environment(blocks: Iterable[BlockT]) -> tuple[BlockT, ...]:
    """The blocks without stale environment details; a fresh one goes with each request."""
    return tuple(block for block in blocks if not _is_environment(block))


def _is_environment(block: Block) -> bool:
    if not isinstance(block, TextBlock):
        return False
    text = block.text.strip()
    return text.startswith(OPENING_TAG) and text.endswith(CLOSING_TAG)


def _recently_modified(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    listed = "\n".join(map(_line, paths))
    return (
        "# Recently Modified Files\nChanged since you last saw them, by the user or by a command;"
        f" read them again before you edit them:\n{listed}"
    )


def _running(terminals: Sequence[TerminalStatus]) -> str:
    notes = [
        _terminal(note, "Active", f"### Original command: `{_line(note.command)}`")
        for note in terminals
        if note.running
    ]
    return "\n".join(["# Actively Running Terminals", *notes]) if notes else ""


def _ended(terminals: Sequence[TerminalStatus]) -> str:
    notes = []
    for note in terminals:
        if not note.running:
            code = "" if note.exit_code is None else f" (exit code {note.exit_code})"
            notes.append(_terminal(note, "Inactive", f"Command: `{_line(note.command)}`{code}"))
    if not notes:
        return ""
    return "\n".join(["# Inactive Terminals with Completed Process Output", *notes])


def _terminal(note: TerminalStatus, state: str, command: str) -> str:
    output = _contained(note.output).strip("\n")
    lines = [
        f"## Terminal {note.id} ({state})",
        f"### Working Directory: `{_line(note.cwd)}`",
        command,
        *(["### New Output", output] if output else []),
    ]
    return "\n".join(lines)


def _time(now_utc: str, zone: str) -> str:
    return f"# Current Time\nISO 8601, UTC: {now_utc}\nUser time zone: {zone}"


def _cost(cost: float | None) -> str:
    return "# Current Cost\n" + ("(Not available)" if cost is None else f"${cost:.2f}")


def _mode(mode: Mode, model_id: str, protocol: ToolProtocol) -> str:
    return (
        f"# Current Mode\n<slug>{mode.slug}</slug>\n<name>{_line(mode.name)}</name>\n"
        f"<model>{_line(model_id)}</model>\n<tool_format>{protocol}</tool_format>"
    )


def _files(files: WorkspaceFiles, limit: int) -> str:
    return "\n".join(
        [f"# Current Workspace Directory ({_line(files.directory)}) Files", *_listing(files, limit)]
    )


def _listing(files: WorkspaceFiles, limit: int) -> Iterator[str]:
    if limit == 0:
        yield "(Listing is switched off; use list_files to look around.)"
        return
    if files.error:
        yield f"(Not available: {_line(files.error)})"
        return
    if not files.entries:
        yield "(No files.)"
        return
    yield from map(_line, files.entries)
    if files.truncated:
        yield "(There are more; use list_files on a folder to see what is in it.)"


def _todos(todos: Sequence[Todo]) -> str:
    if not todos:
        return (
            "\nThere is no todo list yet. If the task takes several steps, write one with"
            " update_todo_list."
        )
    rows = [
        f"| {number} | {_cell(todo.content)} | {_TODO_STATUS_LABELS[todo.status]} |"
        for number, todo in enumerate(todos, start=1)
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


def _line(text: str) -> str:
    """A name on one line, whatever characters it has."""
    return _contained(text).replace("\r", "\\r").replace("\n", "\\n")


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _contained(text: str) -> str:
    return _ENVIRONMENT_TAG_RE.sub("&lt;", text)
