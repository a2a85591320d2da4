"""Subtasks: work that a task delegates, and the way its results and files come back.

    1. the parent names the child of a call in its journal, and commits
    2. the child is created (directory, first message, todos), or opened as it was left
    3. the parent pauses
    4. the child runs next to its siblings; all draw from the parent's run limits, and a child with
       a git worktree of its own sees no changes but its own
    5. it hands over its result, fails, or is stopped
    6. the parent records the outcome as the result of the call
    7. the parent continues

The process may die between any two steps. Resuming the parent finds the calls that have a child and
no result and goes through the same steps again: a child that was never created is created under its
name, an unfinished one continues, a finished one is not asked again. A call gets its result once,
because it is open until then.

A merge of a worktree is recorded before the worktree is removed, and the call gets its result last.
So a resumed parent merges what is not recorded (merging twice is harmless), removes worktrees that
still exist, and does neither for a call that has its result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from joey.core import events as ev
from joey.core.file_state import WorktreeMergeResult
from joey.core.history.state import TaskProjection
from joey.core.permissions.policy import BoundarySetting
from joey.core.prompts import messages_to_model
from joey.core.prompts.messages_to_model import render_merge_report, render_merge_warning
from joey.core.task_types import RowKind, TaskState
from joey.engine.outcomes import Completed, Failed, RowCall, RunStopped, StoppedByUser
from joey.engine.run_start import RunStart
from joey.engine.runtime import generate_task_id
from joey.errors import FailureCode, JoeyError, StoreError, ToolError, UserError
from joey.ports.workspace import Worktrees
from joey.tools.base import StartSubtask

if TYPE_CHECKING:
    from joey.engine.engine import Engine, TaskOptions
    from joey.engine.task import Task


class SubtaskResult(Struct, frozen=True):
    usage: ev.TokenUsage = ev.TokenUsage()
    result: str | None = None
    error: ToolError | None = None


log = logging.getLogger(__name__)

MAX_CONCURRENT_WORKTREE_CREATIONS = 8
"""Making them keeps the disk busy."""

ResultCallback = Callable[[ev.SubtaskSpawned, SubtaskResult], None]


class Subtasks:
    """The subtasks of one task; `options` apply to it and to them."""

    def __init__(self, engine: Engine, options: TaskOptions) -> None:
        self._engine = engine
        self._options = options
        self.interrupted_usage = ev.TokenUsage()
        """Of those that were cut off before they returned."""

    def find_open(self, child_id: str) -> Task | None:
        return self._engine.find_open_task(child_id)

    def load_unfinished_projections(self, task: Task) -> list[TaskProjection]:
        """Load the unfinished subtasks of open calls, and those below them, from their journals:
        their earlier usage counts."""
        found: list[TaskProjection] = []
        task_ids = [child.child_id for child in task.recorder.pending_delegations]
        while task_ids:
            try:
                records = self._engine.store.read_records(task_ids.pop())
            except StoreError as error:
                log.info("the usage of a subtask is not known: %s", error)
                continue
            projection, waiting = TaskProjection(), dict[str, str]()
            for record in records:
                projection.ledger.apply(record.event)
                match record.event:
                    case ev.TaskCreated():
                        projection.apply_branch_event(record.event)
                    case ev.SubtaskSpawned(call_id=call_id, child_id=child_id):
                        waiting[call_id] = child_id
                    case ev.ToolFinished(call_id=call_id):
                        waiting.pop(call_id, None)
            found.append(projection)
            task_ids += waiting.values()
        return found

    def spawn(self, task: Task, row_call: RowCall, delegate: StartSubtask) -> ev.SubtaskSpawned:
        """Name the child that will do the work of a call."""
        spawned = ev.SubtaskSpawned(
            ts=task.next_ts(),
            child_id=generate_task_id(task.runtime.clock.now()),
            call_id=row_call.call.id,
            row_ts=row_call.row_ts,
            result_ts=task.next_ts(),
            mode=delegate.mode,
            message=delegate.message,
            todos=delegate.todos,
            has_worktree=delegate.use_worktree,
        )
        task.publish(spawned)
        return spawned

    async def run_all(
        self, task: Task, spawned: Sequence[ev.SubtaskSpawned], on_result: ResultCallback
    ) -> None:
        """Perform steps 1 to 7 for children named just now or in an earlier run. Raises RunStopped
        if a child cannot be opened; the task can be resumed later."""
        await task.recorder.commit()
        children: dict[str, Task | ToolError] = {}
        try:
            workspaces = await self._prepare_workspaces(task, spawned)
            for each, workspace in zip(spawned, workspaces, strict=True):
                children[each.child_id] = await self._open_subtask(task, each, workspace)
            task.publish(ev.TaskPaused(ts=task.next_ts(), child_ids=tuple(children)))
            for child in _list_opened(children):
                await child.wait_for_revision()
                _start_subtask(task, child)
            await task.save()
            await _wait_until_idle(_list_opened(children))
            for each in spawned:
                on_result(each, await self._collect_result(task, each, children[each.child_id]))
                del children[each.child_id]
        finally:
            try:
                await self._close_subtasks(spawned)
            finally:
                self.interrupted_usage = reduce(
                    ev.TokenUsage.plus,
                    (child.total_usage for child in _list_opened(children)),
                    ev.TokenUsage(),
                )
                if task.state is TaskState.DELEGATED:
                    task.publish(ev.TaskUnpaused(ts=task.next_ts()))

    async def _collect_result(
        self, task: Task, spawned: ev.SubtaskSpawned, member: Task | ToolError
    ) -> SubtaskResult:
        returned = build_subtask_result(member)
        if not spawned.has_worktree or isinstance(member, ToolError):
            return returned
        await self._engine.release(member)  # no process uses the worktree any more
        return await merge_worktree_changes(task, spawned, returned)

    async def _prepare_workspaces(
        self, task: Task, spawned: Sequence[ev.SubtaskSpawned]
    ) -> Sequence[Path | ToolError]:
        """Prepare the directory of each child."""
        semaphore = asyncio.Semaphore(MAX_CONCURRENT_WORKTREE_CREATIONS)

        async def place(each: ev.SubtaskSpawned) -> Path | ToolError:
            async with semaphore:
                try:
                    return await prepare_workspace(task, each)
                except ToolError as error:
                    return ToolError(messages_to_model.render_subtask_not_started(str(error)))

        return await asyncio.gather(*map(place, spawned))

    async def _open_subtask(
        self, task: Task, spawned: ev.SubtaskSpawned, workspace: Path | ToolError
    ) -> Task | ToolError:
        if isinstance(workspace, ToolError):
            return workspace
        try:
            return await self._engine.open_subtask(task, self._options, spawned, workspace)
        except StoreError as error:
            raise RunStopped(
                FailureCode.SUBTASK_NOT_OPENED, f"The subtask cannot be opened: {error}"
            ) from error
        except UserError as error:
            return ToolError(messages_to_model.render_subtask_not_started(str(error)))

    async def _close_subtasks(self, spawned: Sequence[ev.SubtaskSpawned]) -> None:
        """Close the children, which are open only while their parent waits; running ones are
        stopped.

        They are looked up by name: one whose creation was interrupted may be open.
        """
        found = [self._engine.find_open_task(each.child_id) for each in spawned]
        children = [child for child in found if child is not None]
        releasing = asyncio.gather(
            *(self._engine.release(child) for child in children), return_exceptions=True
        )
        try:
            await asyncio.shield(releasing)
        except asyncio.CancelledError:
            await releasing  # must not be visible half closed
            raise
        finally:
            for child, problem in zip(children, releasing.result(), strict=True):
                if isinstance(problem, Exception):
                    log.warning("subtask %s could not be closed: %s", child.id, problem)


def _list_opened(children: Mapping[str, Task | ToolError]) -> list[Task]:
    return [member for member in children.values() if not isinstance(member, ToolError)]


def _start_subtask(task: Task, child: Task) -> None:
    projection = child.recorder.projection
    if child.is_running:
        return
    if projection.is_result_accepted and not projection.queued_messages:
        if projection.state is TaskState.RUNNING:
            # The process died between the acceptance and the final event.
            child.publish(ev.TaskFinished(ts=child.next_ts()))
        return
    if projection.request_count:
        _forward_messages(task, child)
    child.start(RunStart.CONTINUE if projection.request_count else RunStart.NEW, task.run_limits)


def _forward_messages(task: Task, child: Task) -> None:
    """Forward messages: a user who stops a task and then sends a message may mean the current
    work."""
    since, projection = child.recorder.projection.updated, task.recorder.projection
    queued = [(said.ts, said.text, said.images) for said in projection.queued_messages.values()]
    answered = [
        (said.ts, said.answer.text, said.answer.images)
        for said in projection.unsent_feedback
        if said.call_id is None
    ]
    for ts, text, images in (*answered, *queued):
        if ts > since:
            child.publish(
                ev.MessageQueued(ts=child.next_ts(), id=f"queued_{ts}", text=text, images=images)
            )


async def _wait_until_idle(children: Sequence[Task]) -> None:
    """Wait until all of them are idle at once: a message may restart one while its siblings run.
    Raises StoppedByUser if one was stopped, and with it the whole tree."""
    while working := [child for child in children if child.is_running]:
        waits = [asyncio.ensure_future(_wait_for_run_end(child)) for child in working]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if any(child.is_stopped_by_user and not child.is_running for child in children):
            raise StoppedByUser


async def _wait_for_run_end(child: Task) -> None:
    with suppress(StoreError):  # reported when its outcome is read
        await child.wait()


def build_subtask_result(member: Task | ToolError) -> SubtaskResult:
    if isinstance(member, ToolError):
        return SubtaskResult(error=member)
    usage = member.total_usage
    if member.recorder.projection.is_result_accepted:
        return SubtaskResult(usage, member.result or "")
    match member.error or member.ending:
        case Completed(result):
            return SubtaskResult(usage, result)
        case (Failed(message=message)) | (JoeyError() as message):
            text = messages_to_model.render_subtask_failed(member.id, str(message))
        case _:
            text = messages_to_model.render_subtask_stopped(member.id)
    return SubtaskResult(usage, error=ToolError(text))


async def prepare_workspace(task: Task, spawned: ev.SubtaskSpawned) -> Path:
    """Prepare the directory that a subtask works in. Raises ToolError."""
    merged = task.recorder.projection.worktree_merges.get(spawned.child_id)
    if not spawned.has_worktree or (merged is not None and merged.is_clean):
        return task.runtime.workspace
    return await _require_worktrees(task).add(spawned.child_id)


async def merge_worktree_changes(
    task: Task, spawned: ev.SubtaskSpawned, returned: SubtaskResult
) -> SubtaskResult:
    """Merge a subtask's changes and return its outcome with theirs."""
    name = spawned.child_id
    try:
        worktrees = _require_worktrees(task)
    except ToolError as error:
        return _append_report(returned, str(error))
    if returned.error is not None:
        left = messages_to_model.render_worktree_location(
            str(worktrees.get_directory(name)), worktrees.get_branch(name)
        )
        return structs.replace(returned, error=ToolError(f"{returned.error} {left}"))
    merged = task.recorder.projection.worktree_merges.get(name)
    if merged is None:
        merged = await _merge_worktree(task, worktrees, name)
    if merged.is_clean:
        try:
            await worktrees.remove(name)
        except ToolError as error:
            log.warning("the worktree of subtask %s could not be removed: %s", name, error)
    return _append_report(returned, merged.report)


async def _merge_worktree(task: Task, worktrees: Worktrees, name: str) -> ev.WorktreeMerged:
    try:
        merge = await worktrees.merge(name, lambda path: _explain_merge_refusal(task, path))
    except ToolError as error:
        directory, branch = str(worktrees.get_directory(name)), worktrees.get_branch(name)
        merge = WorktreeMergeResult(
            changed_files=(), directory=directory, branch=branch, error=str(error)
        )
    merged = ev.WorktreeMerged(
        ts=task.next_ts(), child_id=name, report=render_merge_report(merge), is_clean=merge.is_clean
    )
    task.publish(merged)
    if not merge.is_clean:
        text = render_merge_warning(merge)
        task.publish(ev.RowAdded(ts=task.next_ts(), say=RowKind.ERROR, text=text, subtask_id=name))
    await task.recorder.commit()
    return merged


def _explain_merge_refusal(task: Task, path: str) -> str:
    """Explain why a merge may not change a path of the workspace. Without `-y`, the user was asked
    about each protected file when the subtask changed it."""
    if not task.runtime.file_scope.matches_sandbox:
        return ""
    try:
        resolved = task.runtime.files.resolve(path)
    except ToolError as error:
        return str(error)
    if resolved.is_protected and not task.settings.always_allow_write_protected:
        return f"{resolved.display_path} is protected, and {BoundarySetting.WRITE_PROTECTED} is off"
    return ""


def _append_report(returned: SubtaskResult, report: str) -> SubtaskResult:
    if returned.error is not None:
        return returned
    result = f"{returned.result}\n\n{report}" if returned.result else report
    return structs.replace(returned, result=result)


def _require_worktrees(task: Task) -> Worktrees:
    worktrees = task.runtime.capabilities.worktrees
    if worktrees is None:
        raise ToolError("Its worktree cannot be reached: the workspace is in no git repository.")
    return worktrees
