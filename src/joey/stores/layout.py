"""Where the folder of a task is, and what the files in it are called.

$JOEY_HOME/tasks/task_<id>/    or tasks/<id>/, as Roo names them
    journal.jsonl                    the truth
    ui_messages.json                 } snapshots for people, for Roo and for adoption;
    api_conversation_history.json    } not read back while there is a journal
    task_metadata.json               what the list of tasks shows
    command-output/
    lock
"""

from __future__ import annotations

import re
from pathlib import Path

from joey.core.regex import regex

JOURNAL = "journal.jsonl"
UI = "ui_messages.json"
API = "api_conversation_history.json"
LEGACY = "claude_messages.json"
METADATA = "task_metadata.json"
HISTORY_ITEM = "history_item.json"
IMPORTED = "imported.json"
"""Marks a copy that `joey tasks import` made of somebody else's task."""
COMMAND_OUTPUT = "command-output"
LOCK = "lock"
INDEX = "index.sqlite"
"""Beside `tasks/`."""
WORKTREES = "worktrees"
"""Beside `tasks/`, too: where subtasks work that have a worktree of their own."""

PREFIX = "task_"
_SNAPSHOTS = (UI, API, LEGACY)
_ID = regex(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


def clean_id(task_id: str) -> str | None:
    """The id without the folder's prefix; None when it cannot be the name of a folder of ours."""
    bare = task_id.removeprefix(PREFIX)
    return bare if _ID.fullmatch(bare) else None


def new_folder(tasks: Path, task_id: str) -> Path:
    return tasks / f"{PREFIX}{task_id}"


def find_folder(tasks: Path, task_id: str) -> Path | None:
    """The folder that holds this task's history, in either spelling."""
    for folder in (new_folder(tasks, task_id), tasks / task_id):
        if has_history(folder):
            return folder
    return None


def has_history(folder: Path) -> bool:
    return (folder / JOURNAL).is_file() or has_snapshots(folder)


def has_snapshots(folder: Path) -> bool:
    """Whether there is something to adopt the task from."""
    return any((folder / name).is_file() for name in _SNAPSHOTS)
