"""The environment details: what the model is told with each request besides messages and results.

Everything that changes between turns is here and not in the system prompt, which can therefore be
cached. A request reports only what has changed since the last one. Names and output come from
outside, so they are prevented from closing the block early.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from msgspec import Struct, structs

from joey.core.messages import Block, TextBlock, UserBlock
from joey.core.models import ToolProtocol
from joey.core.modes import Mode
from joey.core.settings import Settings
from joey.core.task_types import Todo
from joey.core.text import compile_regex

OPENING_TAG = "<environment_details>"
CLOSING_TAG = "</environment_details>"

PROTECTED_MARK = "🛡️"
_MAX_SKIPPED_NAMES = 10
_TODO_STATUS_LABELS = {"pending": "Pending", "in_progress": "In Progress", "completed": "Completed"}

_RUNNING_TITLE = "# Actively Running Terminals"
_LOST_COMMANDS_TEXT = "# Terminals\nBackground commands of the previous run have ended."

_TIME_INTERVAL = timedelta(minutes=10)
_COST_STEP = 0.01
_MAX_TODO_AGE = 5
"""Requests after which open todo items are repeated."""

_ENVIRONMENT_TAG_RE = compile_regex(r"<(?=\s*+(?:/\s*+)?environment_details)", re.IGNORECASE)

BlockT = TypeVar("BlockT", bound=Block)


class TerminalStatus(Struct, frozen=True):
    """A background command, and what it printed since the last request."""

    id: int
    command: str
    cwd: str
    output: str
    is_running: bool
    exit_code: int | None = None
    running_s: float = 0.0
    artifact_id: str = ""
    """Names it in calls of `read_command_output`."""


class WorkspaceFiles(Struct, frozen=True):
    directory: str
    entries: Sequence[str] = ()
    is_truncated: bool = False
    error: str = ""
    skipped: Sequence[str] = ()


class EnvironmentFacts(Struct, frozen=True, kw_only=True):
    """The environment at the time of a request."""

    now: datetime
    """In UTC."""
    zone: str
    cost: float | None
    mode: Mode
    model_id: str
    protocol: ToolProtocol
    settings: Settings
    terminals: Sequence[TerminalStatus] = ()
    has_lost_commands: bool = False
    """Commands that were left in the background have ended unseen: with the process that ran
    them."""
    todos: Sequence[Todo] = ()
    files: WorkspaceFiles | None = None
    """With the first request of a task only."""
    recently_modified: Sequence[str] = ()
    git_status: str = ""


class ReportedEnvironment(Struct, frozen=True, kw_only=True):
    """What the model knows of the environment from earlier requests."""

    time: datetime
    cost: float | None
    mode: str
    terminals: frozenset[tuple[int, bool]]
    """Ids, and whether they were running."""
    todos: tuple[Todo, ...]
    todo_age: int
    """Requests since the todo list was last reported."""
    git_status: str


def report_environment(
    environment: EnvironmentFacts, known: ReportedEnvironment | None = None
) -> tuple[str, ReportedEnvironment]:
    """Render the block as text, and return what the model knows with it. Without `known` everything
    is reported. If nothing changed, there is no text, or in XML tasks a block that says so."""
    settings, todos = environment.settings, tuple(environment.todos)
    mode = _render_mode(environment)
    known_terminals: frozenset[tuple[int, bool]] = frozenset() if known is None else known.terminals
    terminals = frozenset((each.id, each.is_running) for each in environment.terminals)
    reports_time = known is None or environment.now - known.time >= _TIME_INTERVAL
    reports_cost = known is None or _has_cost_moved(known.cost, environment.cost)
    reports_todos = known is None or _are_todos_due(todos, known)
    reports_git_status = known is None or environment.git_status != known.git_status
    running = _render_running_terminals(environment.terminals, known_terminals)
    sections = [
        _render_recently_modified(environment.recently_modified),
        _render_ended_terminals(environment.terminals, known_terminals),
        _LOST_COMMANDS_TEXT if environment.has_lost_commands else "",
        _render_time(environment) if reports_time and settings.include_current_time else "",
        _render_git_status(environment.git_status) if reports_git_status else "",
        _render_cost(environment.cost) if reports_cost and settings.include_current_cost else "",
        mode if known is None or mode != known.mode else "",
        _render_files(environment.files, settings.max_workspace_files)
        if environment.files is not None
        else "",
        _render_todos(todos) if reports_todos and settings.todo_list_enabled else "",
    ]
    reported = ReportedEnvironment(
        time=environment.now if known is None or reports_time else known.time,
        cost=environment.cost if known is None or reports_cost else known.cost,
        mode=mode,
        terminals=terminals,
        todos=todos,
        todo_age=0
        if known is None or reports_todos or todos != known.todos
        else known.todo_age + 1,
        git_status=environment.git_status,
    )
    if not running and any(sections):
        running = _render_unchanged_terminals(environment.terminals)
    sections.insert(1, running)
    body = "\n\n".join(section for section in sections if section)
    if not body and environment.protocol is ToolProtocol.NATIVE:
        return "", reported
    return f"{OPENING_TAG}\n{body or '(unchanged)'}\n{CLOSING_TAG}", reported


def _has_cost_moved(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return round(abs(now - before), 6) >= _COST_STEP


def _are_todos_due(todos: tuple[Todo, ...], known: ReportedEnvironment) -> bool:
    """Whether to repeat the list. A change is none: the model has just written it."""
    is_open = any(todo.status != "completed" for todo in todos)
    return is_open and todos == known.todos and known.todo_age + 1 >= _MAX_TODO_AGE


def strip_environment_details(blocks: Iterable[BlockT]) -> tuple[BlockT, ...]:
    """Remove outdated environment details from the blocks; each request adds new ones."""
    return tuple(block for block in blocks if not _is_environment_block(block))


def restate_tool_format(blocks: Iterable[UserBlock], protocol: ToolProtocol) -> Iterator[UserBlock]:
    """Replace the environment details in the blocks by ones that name this protocol."""
    other = ToolProtocol.XML if protocol is ToolProtocol.NATIVE else ToolProtocol.NATIVE
    stale, current = _render_tool_format(other), _render_tool_format(protocol)
    for block in blocks:
        if isinstance(block, TextBlock) and stale in block.text and _is_environment_block(block):
            yield TextBlock(block.text.replace(stale, current))
        else:
            yield block


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


def _render_time(environment: EnvironmentFacts) -> str:
    now = environment.now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"# Current Time\nISO 8601, UTC: {now}\nUser time zone: {environment.zone}"


def _render_git_status(status: str) -> str:
    return f"# Git Status\n{_escape_environment_tag(status)}" if status else ""


def _render_cost(cost: float | None) -> str:
    return "" if cost is None else f"# Current Cost\n${cost:.2f}"


def _render_mode(environment: EnvironmentFacts) -> str:
    mode = environment.mode
    return (
        f"# Current Mode\n<slug>{mode.slug}</slug>\n<name>{_to_single_line(mode.name)}</name>\n"
        f"<model>{_to_single_line(environment.model_id)}</model>\n"
        + _render_tool_format(environment.protocol)
    )


_PROGRESS_RE = compile_regex(r"(?:[.\s]|\[\s*\d{1,3}%\])+")
"""Output of a test run that only shows its progress: the artifact has it."""


def _render_running_terminals(
    terminals: Sequence[TerminalStatus], known: frozenset[tuple[int, bool]]
) -> str:
    """Render all terminals if one has started, ended or printed something."""
    running = [
        structs.replace(each, output="") if _PROGRESS_RE.fullmatch(each.output) else each
        for each in terminals
        if each.is_running
    ]
    known_ids = {number for number, was_running in known if was_running}
    if {each.id for each in running} == known_ids and not any(each.output for each in running):
        return ""
    notes = [_render_terminal(each) for each in running]
    return "\n".join([_RUNNING_TITLE, *(notes or ["(none)"])])


def _render_unchanged_terminals(terminals: Sequence[TerminalStatus]) -> str:
    """Render each unchanged terminal in a line: without these, they would seem to have ended."""
    lines = [
        f"`{_to_single_line(each.command)}` ({each.artifact_id or f'terminal {each.id}'})"
        for each in terminals
        if each.is_running
    ]
    return "\n".join([_RUNNING_TITLE, *lines]) if lines else ""


def _render_ended_terminals(
    terminals: Sequence[TerminalStatus], known: frozenset[tuple[int, bool]]
) -> str:
    ended = [
        each
        for each in terminals
        if not each.is_running and (each.output or (each.id, False) not in known)
    ]
    title = "# Inactive Terminals with Completed Process Output"
    return "\n".join([title, *map(_render_terminal, ended)]) if ended else ""


def _render_terminal(note: TerminalStatus) -> str:
    output = _escape_environment_tag(note.output).strip("\n")
    code = "" if note.exit_code is None else f" (exit code {note.exit_code})"
    command = f"`{_to_single_line(note.command)}`"
    lines = [
        f"## Terminal {note.id} ({'Active' if note.is_running else 'Inactive'})",
        f"### Working Directory: `{_to_single_line(note.cwd)}`",
        f"### Original command: {command}" if note.is_running else f"Command: {command}{code}",
        *([f"### Running for: {note.running_s:.0f} s"] if note.is_running else []),
        *([f"### Artifact ID: {note.artifact_id}"] if note.is_running and note.artifact_id else []),
        *(["### New Output", output] if output else []),
    ]
    return "\n".join(lines)


def _render_files(files: WorkspaceFiles, limit: int) -> str:
    lines = [f"# Current Workspace Directory ({_to_single_line(files.directory)}) Files"]
    if limit == 0:
        lines.append("(The listing is switched off; use list_files.)")
    elif files.error:
        lines.append(f"(Not available: {_to_single_line(files.error)})")
    elif not files.entries:
        lines.append("(No files.)")
    else:
        lines += map(_to_single_line, files.entries)
        if files.is_truncated:
            lines.append("(There are more; use list_files to see more of a folder.)")
    if files.skipped:
        lines.append(_to_single_line(render_skipped_directories(files.skipped)))
    return "\n".join(lines)


def render_skipped_directories(paths: Sequence[str]) -> str:
    """Render a note that names the first skipped directories; empty without any."""
    if not paths:
        return ""
    more = f" and {len(paths) - _MAX_SKIPPED_NAMES} more" if paths[_MAX_SKIPPED_NAMES:] else ""
    named = ", ".join(paths[:_MAX_SKIPPED_NAMES])
    return f"(Not listed, as git ignores them or packages are installed there: {named}{more}.)"


def _render_todos(todos: Sequence[Todo]) -> str:
    if not todos:
        return (
            "There is no todo list yet. If the task takes several steps, write one with"
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
            "Your todo list:",
            "",
            "| # | Content | Status |",
            "|---|---------|--------|",
            *rows,
            "",
            "Keep it up to date: call update_todo_list when the status of an item changes.",
        ]
    )


def _to_single_line(text: str) -> str:
    """Escape a name so that it takes one line."""
    return _escape_environment_tag(text).replace("\r", "\\r").replace("\n", "\\n")


def _escape_environment_tag(text: str) -> str:
    return _ENVIRONMENT_TAG_RE.sub("&lt;", text)
