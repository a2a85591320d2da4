"""Environment details for the model: time, mode, terminals, todos, git, changed files.

Each is reported when it has changed; everything is reported when a run starts and after earlier
messages were summarised or hidden. Files that the model has read and others have changed since are
listed once each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from joey.core.events import CommandEnded, Event, ToolFinished
from joey.core.file_state import ReadTracker
from joey.core.messages import TextBlock
from joey.core.path_access import ResolvedPath
from joey.core.prompts.environment import (
    PROTECTED_MARK,
    EnvironmentFacts,
    ReportedEnvironment,
    TerminalStatus,
    WorkspaceFiles,
    report_environment,
)
from joey.core.protected_paths import is_protected
from joey.core.task_types import CallEnding
from joey.errors import ToolError, WorkspaceError
from joey.ports.workspace import Files, FileStat

if TYPE_CHECKING:
    from joey.engine.task import Task


class KnownEnvironment(Struct, frozen=True):
    """What the model has been told, as long as the messages are visible to it."""

    reported: ReportedEnvironment
    hidden_by: tuple[object, ...]
    """The times of the summary and the marker that hid earlier messages then."""


def build_environment_blocks(task: Task, environment: EnvironmentFacts) -> tuple[TextBlock, ...]:
    text = report_environment(environment, _find_known_environment(task))[0]
    return (TextBlock(text),) if text else ()


def record_environment(task: Task, environment: EnvironmentFacts) -> None:
    """Record that the environment was reported: later requests report changes from here on."""
    reported = report_environment(environment, _find_known_environment(task))[1]
    task.known_environment = KnownEnvironment(reported, _list_hiding_times(task))
    task.has_lost_commands = False


def _find_known_environment(task: Task) -> ReportedEnvironment | None:
    known = task.known_environment
    return known.reported if known and known.hidden_by == _list_hiding_times(task) else None


def _list_hiding_times(task: Task) -> tuple[object, ...]:
    return tuple(
        each.ts
        for each in task.recorder.api_history.visible_messages[:2]
        if each.is_summary or each.is_truncation_marker
    )


_MAX_FILES_IN_SMALL_WINDOW = 40


async def observe_environment(task: Task, *, with_files: bool) -> EnvironmentFacts:
    """Observe the environment. This consumes the new output of terminals, so it must be
    reported."""
    record_ended_commands(task)
    runtime, projection = task.runtime, task.recorder.projection
    model, settings = task.provider.model, runtime.settings
    if model.has_small_window:
        most = min(settings.max_workspace_files, _MAX_FILES_IN_SMALL_WINDOW)
        settings = structs.replace(
            settings, max_workspace_files=most, todo_list_enabled=False
        )  # update_todo_list is not offered there
    files, git_status = await asyncio.gather(
        _list_workspace_files(task, settings.max_workspace_files, with_files),
        _read_git_status(task, with_files),
    )
    priced = model.prices is not None or projection.usage.total_cost > 0
    return EnvironmentFacts(
        now=datetime.fromtimestamp(runtime.clock.now() / 1000, UTC),
        zone=runtime.environment.get_time_zone(),
        cost=projection.usage.total_cost if priced else None,
        mode=task.mode,
        model_id=model.id,
        protocol=projection.tool_protocol,
        settings=settings,
        terminals=_describe_terminals(task),
        has_lost_commands=task.has_lost_commands,
        todos=projection.todos,
        files=files,
        git_status=git_status,
        recently_modified=await find_externally_modified_files(runtime.read_tracker, runtime.files),
    )


def left_command_running(event: Event) -> bool:
    """Whether a call ended while its command, or a part of it, continues."""
    return isinstance(event, ToolFinished) and (
        event.ending is CallEnding.RUNNING or event.has_background_processes
    )


def has_background_command(task: Task) -> bool:
    return any(command.is_running for command in task.runtime.terminal.background_commands)


def record_ended_commands(task: Task) -> None:
    """Record how background commands ended, unless the result of a call reported it."""
    for command in task.runtime.terminal.background_commands:
        if (end := command.exit) is not None and not command.is_end_recorded:
            command.is_end_recorded = True
            task.publish(
                CommandEnded(
                    ts=task.next_ts(),
                    command=command.command,
                    exit_code=end.exit_code,
                    signal=end.signal,
                )
            )


def _describe_terminals(task: Task) -> list[TerminalStatus]:
    return [
        TerminalStatus(
            id=command.pid,
            command=command.command,
            artifact_id=command.artifact.name if command.artifact is not None else "",
            cwd=str(command.cwd),
            output=command.read_new_output(),
            is_running=command.is_running,
            running_s=command.running_s,
            exit_code=command.exit.exit_code if command.exit is not None else None,
        )
        for command in task.runtime.terminal.background_commands
    ]


_MAX_INITIAL_STATUS_FILES = 20
_INITIAL_STATUS_TIMEOUT_S = 2.0


async def _read_git_status(task: Task, is_first: bool) -> str:
    repository, limit = task.runtime.capabilities.repository, task.settings.max_git_status_files
    is_wanted = limit is not None
    if limit is None:
        limit = _MAX_INITIAL_STATUS_FILES if is_first else 0
    if repository is None or limit <= 0:
        return ""
    try:
        async with asyncio.timeout(None if is_wanted else _INITIAL_STATUS_TIMEOUT_S):
            return await repository.show_status(limit)
    except TimeoutError:
        return ""
    except ToolError as error:
        return f"(not available: {error})" if is_wanted else ""


async def _list_workspace_files(task: Task, limit: int, is_first: bool) -> WorkspaceFiles | None:
    if not is_first:
        return None
    runtime = task.runtime
    directory = str(runtime.workspace)
    try:
        listing = await runtime.environment.list_workspace(limit)
    except WorkspaceError as error:
        return WorkspaceFiles(directory, error=str(error))
    entries = [
        f"{PROTECTED_MARK} {entry}" if is_protected(entry) else entry
        for entry in _drop_single_child_directories(listing.entries)
    ]
    return WorkspaceFiles(directory, entries, listing.truncated, skipped=listing.skipped)


def _drop_single_child_directories(entries: Sequence[str]) -> list[str]:
    """Drop directories with a single subdirectory, whose path names them too."""
    parents = Counter(f"{entry.rstrip('/').rpartition('/')[0]}/" for entry in entries)
    return [entry for entry in entries if parents[entry] != 1]


_MAX_CHECKED_FILES = 200
"""Of the files that the model has seen, the latest."""
_MAX_COMPARED_FILE_BYTES = 1024 * 1024


async def find_externally_modified_files(memory: ReadTracker, files: Files) -> list[str]:
    """Find modified files by size and time; only rewritten ones are read. Deletions are left out
    after a command of the model, which knows what it deletes."""
    with_deletions, memory.has_command_run = not memory.has_command_run, False
    checked = memory.list_recent_paths(_MAX_CHECKED_FILES)
    modified: list[str] = []
    for resolved, kind in zip(checked, await files.stat_all(checked), strict=True):
        if not kind.is_file:
            memory.discard(resolved)
            if with_deletions:
                modified.append(f"{resolved.display_path} (deleted)")
        elif memory.may_have_changed(resolved, kind.stamp) and await _has_file_changed(
            memory, files, resolved, kind
        ):
            memory.record_change_reported(resolved, kind.stamp)
            modified.append(resolved.display_path)
    return modified


async def _has_file_changed(
    memory: ReadTracker, files: Files, resolved: ResolvedPath, kind: FileStat
) -> bool:
    if not memory.may_have_same_bytes(resolved, kind.stamp) or kind.size > _MAX_COMPARED_FILE_BYTES:
        return True
    try:
        data = await files.read(resolved)
    except ToolError:
        return True
    if memory.is_stale(resolved, kind.stamp, data):
        return True
    memory.record_seen(resolved, kind.stamp, data)
    return False
