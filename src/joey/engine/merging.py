"""Subtasks in worktrees of their own: where they work, and how their changes come back.

The merge is recorded before its worktree goes, and the call gets its result last. So whoever
resumes the parent after a death merges what is not recorded (again, if need be: that is made to be
done twice), removes what is still there, and never does either for a call that has its result.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from joey.core.events import ChildSpawned, Said, WorktreeMerged
from joey.core.file_state import Merge
from joey.core.permissions.policy import Beyond
from joey.core.prompts import replies
from joey.core.prompts.replies import merge_report, merge_warning
from joey.engine.returns import Returned
from joey.errors import ToolError
from joey.ports import Worktrees

if TYPE_CHECKING:
    from joey.engine.task import Task

log = logging.getLogger(__name__)


async def workspace_for(task: Task, spawned: ChildSpawned) -> Path:
    """The folder that a subtask works in.

    Raises ToolError."""
    merged = task.recorder.facts.merged.get(spawned.child_id)
    if not spawned.worktree or (merged is not None and merged.clean):
        return task.bench.workspace
    return await _worktrees(task).add(spawned.child_id)


async def bring_back(task: Task, spawned: ChildSpawned, returned: Returned) -> Returned:
    """What came of a subtask, with what came of its changes."""
    name = spawned.child_id
    try:
        worktrees = _worktrees(task)
    except ToolError as error:
        return _with_report(returned, str(error))
    if returned.error is not None:
        left = replies.worktree_left(str(worktrees.folder(name)), worktrees.branch(name))
        return structs.replace(returned, error=ToolError(f"{returned.error} {left}"))
    merged = task.recorder.facts.merged.get(name)
    if merged is None:
        merged = await _merge(task, worktrees, name)
    if merged.clean:
        try:
            await worktrees.remove(name)
        except ToolError as error:
            log.warning("the worktree of subtask %s could not be removed: %s", name, error)
    return _with_report(returned, merged.report)


async def _merge(task: Task, worktrees: Worktrees, name: str) -> WorktreeMerged:
    try:
        merge = await worktrees.merge(name, lambda path: _refusal(task, path))
    except ToolError as error:
        folder, branch = str(worktrees.folder(name)), worktrees.branch(name)
        merge = Merge(files=(), folder=folder, branch=branch, problem=str(error))
    merged = WorktreeMerged(
        ts=task.now(), child_id=name, report=merge_report(merge), clean=merge.is_clean
    )
    task.publish(merged)
    if not merge.is_clean:
        task.publish(Said(ts=task.now(), say="error", text=merge_warning(merge), task_id=name))
    await task.recorder.commit()
    return merged


def _refusal(task: Task, path: str) -> str:
    """Why a path of the workspace may not be changed by a merge. Without `-y`, the user was asked
    about each protected file when the subtask changed it."""
    if not task.bench.scope.as_sandboxed:
        return ""
    try:
        place = task.bench.files.resolve(path)
    except ToolError as error:
        return str(error)
    if place.protected and not task.settings.always_allow_write_protected:
        return f"{place.shown} is protected, and {Beyond.WRITE_PROTECTED} is off"
    return ""


def _with_report(returned: Returned, report: str) -> Returned:
    if returned.error is not None:
        return returned
    result = f"{returned.result}\n\n{report}" if returned.result else report
    return structs.replace(returned, result=result)


def _worktrees(task: Task) -> Worktrees:
    worktrees = task.bench.extras.worktrees
    if worktrees is None:
        raise ToolError("Its worktree cannot be reached: the workspace is in no git repository.")
    return worktrees
