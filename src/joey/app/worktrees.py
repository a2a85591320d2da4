"""Worktrees of subtasks, where nobody has their parents open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from joey.config.home import joey_home
from joey.errors import ToolError
from joey.storage.task_folder import WORKTREES
from joey.workspace.git.worktrees import GitWorktrees


def worktrees_folder(home: Path) -> Path:
    return home.resolve() / WORKTREES


async def remove_worktree(
    task_id: str, home: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    """A task is deleted, and with it its worktree and its branch, if it has them."""
    folder = worktrees_folder(home or joey_home(os.environ if env is None else env))
    place = folder / task_id
    if not place.is_dir():
        return
    try:
        # The worktree itself knows which repository it is of.
        await GitWorktrees(place, folder).remove(task_id)
    except ToolError:
        shutil.rmtree(place, ignore_errors=True)  # the repository is gone, too
