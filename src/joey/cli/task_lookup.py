"""Lookup of the workspace and the tasks that arguments name.

Separate from `task_launch`, which loads the engine: read-only commands do without it.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from joey.cli.exit_codes import UsageError
from joey.ports.storage import TaskIndex, TaskMetadata

SHORT_ID_CHARS = 13
"""Of our ids, those that hold the time."""


def find_task_by_prefix(tasks: Sequence[TaskMetadata], prefix: str) -> TaskMetadata:
    """Find the one task whose id begins like this. Raises UsageError if there is none, or more than
    one."""
    prefix = prefix.removeprefix("task_")
    found = [task for task in tasks if prefix and task.id.startswith(prefix)]
    exact = [task for task in found if task.id == prefix]
    match exact or found:
        case [task]:
            return task
        case []:
            raise UsageError(f"there is no task {prefix!r}; see joey tasks list --all")
        case several:
            ids = ", ".join(task.id for task in several[:5])
            raise UsageError(f"{len(several)} tasks begin with {prefix!r}: {ids}")


def find_indexed_task(index: TaskIndex, prefix: str) -> TaskMetadata:
    """Find a task by the index, without reading all tasks."""
    return find_task_by_prefix(index.find_by_prefix(prefix), prefix)


def shorten_task_id(task_id: str, ids: Iterable[str]) -> str:
    """Return a short unique beginning of an id. It includes the time to the millisecond, so that
    later tasks do not make it ambiguous."""
    other_ids = set(ids) - {task_id}
    size = SHORT_ID_CHARS
    while size < len(task_id) and any(other.startswith(task_id[:size]) for other in other_ids):
        size += 1
    return task_id[:size]


def resolve_workspace_argument(arguments: Namespace) -> Path:
    """Raises UsageError."""
    try:
        workspace = Path(arguments.workspace or Path.cwd()).resolve()
    except FileNotFoundError as error:
        raise UsageError(
            "the current folder no longer exists; change to another one, or name one with -w"
        ) from error
    shown = os.fsencode(workspace).decode(errors="replace")
    if shown != str(workspace):
        raise UsageError(
            f"{shown} cannot be used as a workspace: its name is not UTF-8; name another with -w"
        )
    return workspace
