"""Checkpoints of the workspace's files: saved around tool calls, and restored.

A checkpoint is saved before the first call of a reply that may change files and before each call
the user was asked about, so that changes made meanwhile count as the user's; and after each such
call, so that its changes count as the task's. If files cannot be saved, the user is told once per
reason and the task continues.

Restoring would undo changes by others. The journal shows these: a checkpoint saved before a call
differs from the previous one by what others did in between. Changes at risk are those that are in
the files but not in the checkpoint to restore, and those that no checkpoint has recorded yet. Files
that the task changed and no checkpoint covers (ignored, outside, too large) are reported as
unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, structs

from joey.core import events as ev
from joey.core.file_state import FileChange
from joey.core.modes import ToolGroup
from joey.core.permissions.policy import Access, Claim
from joey.core.rewind import RewindPreview, build_rewind_preview
from joey.core.task_types import RowKind
from joey.errors import CheckpointError, UserError
from joey.ports.workspace import Checkpoints

if TYPE_CHECKING:
    from joey.engine.task import Task


FILE_CHANGING_ACCESSES = frozenset({Access.WRITE, Access.EXECUTE, Access.MCP, Access.CUSTOM_TOOL})


def prewarm_initial_checkpoint(task: Task) -> None:
    """Create the first checkpoint of the workspace while the model generates."""
    checkpoints = task.runtime.capabilities.checkpoints
    grants = (task.mode.find_grant(ToolGroup.EDIT), task.mode.find_grant(ToolGroup.COMMAND))
    if checkpoints is not None and any(grant is not None for grant in grants):
        checkpoints.prewarm(task.id)


def require_checkpoints(task: Task) -> Checkpoints:
    """Raises UserError if there are no checkpoints."""
    checkpoints = task.runtime.capabilities.checkpoints
    if checkpoints is None:
        raise UserError(
            "This workspace has no checkpoints, so its files cannot be restored. Only the history"
            " can be rewound."
        )
    return checkpoints


def can_change_files(claims: Iterable[Claim]) -> bool:
    return any(claim.access in FILE_CHANGING_ACCESSES for claim in claims)


class ReplyCheckpointSaver:
    """Saves the checkpoints of one reply's calls."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._has_saved = False

    async def save_before_call(self, claims: Iterable[Claim], *, was_asked: bool) -> None:
        """Save a checkpoint before a call: once per reply, and again if a user had time to edit
        files."""
        if (was_asked or not self._has_saved) and can_change_files(claims):
            await self._save_checkpoint(is_own=False, always_record=not self._has_saved)
            self._has_saved = True

    async def save_before_subtasks(self) -> None:
        if not self._has_saved:
            self._has_saved = True
            await self._save_checkpoint(is_own=False, always_record=True)

    async def save_after_call(self, claims: Iterable[Claim]) -> None:
        """Save a checkpoint after a call."""
        if can_change_files(claims):
            await self._save_checkpoint(is_own=True)

    async def save_after_subtasks(self) -> None:
        """Save a checkpoint after subtasks: their changes count as this task's."""
        await self._save_checkpoint(is_own=True)

    async def _save_checkpoint(self, *, is_own: bool, always_record: bool = False) -> None:
        """Save a checkpoint; record it if it differs from the last one, or with `always_record`."""
        task = self._task
        checkpoints = task.runtime.capabilities.checkpoints
        last = task.recorder.projection.ledger.last_checkpoint
        if checkpoints is None:
            return
        try:
            async with asyncio.timeout(task.runtime.settings.checkpoint_timeout):
                saved = await checkpoints.save(task.id)
        except TimeoutError:
            reason = "keeping them takes too long in a workspace of this size"
        except CheckpointError as error:
            reason = str(error).rstrip(".")
        else:
            if saved != last or always_record:
                task.publish(
                    ev.CheckpointSaved(
                        ts=task.next_ts(), id=saved, previous_id=last, is_own_change=is_own
                    )
                )
            return
        task.warn_once(f"The files of this step are not in a checkpoint: {reason}.")


FileChangeKind = Literal["added", "changed", "removed"]

MAX_JOURNALED_PATHS = 100
MAX_LISTED_CONFLICTS = 10
_INVERSE_CHANGES: dict[FileChangeKind, FileChangeKind] = {
    "added": "removed",
    "removed": "added",
    "changed": "changed",
}


@contextmanager
def _errors_for_users() -> Iterator[None]:
    try:
        yield
    except CheckpointError as error:
        raise UserError(str(error)) from error


async def save_checkpoint(task: Task) -> str:
    """Save the current files."""
    with _errors_for_users():
        return await require_checkpoints(task).save(task.id)


async def build_run_patch(task: Task, records: Iterable[ev.Record], since: int) -> bytes | None:
    """Build the patch of the workspace's changes after a record, for `git apply`; None without
    checkpoints to compare with. Raises CheckpointError."""
    checkpoints = task.runtime.capabilities.checkpoints
    if checkpoints is None:
        return None
    saved = (
        each.event.id
        for each in records
        if each.seq > since and isinstance(each.event, ev.CheckpointSaved)
    )
    first = next(saved, None)
    return b"" if first is None else await checkpoints.build_patch(first)


async def preview_restore(task: Task, checkpoint: str) -> RewindPreview:
    """Preview restoring only the files of a checkpoint."""
    since = find_checkpoint_seq(task, checkpoint)
    path = task.recorder.live_branch
    preview = await add_file_changes(task, build_rewind_preview(path, path), checkpoint)
    return await add_unrestorable_files(task, preview, since)


async def restore_checkpoint(task: Task, checkpoint: str, *, force: bool) -> RewindPreview:
    """Restore the files of a checkpoint; the history stays."""
    find_checkpoint_seq(task, checkpoint)
    async with task.stop_for_revision():
        preview = await preview_restore(task, checkpoint)
        check_conflicts(preview, force)
        last = task.recorder.projection.ledger.last_checkpoint
        saved = await save_checkpoint(task)
        task.publish(ev.CheckpointSaved(ts=task.next_ts(), id=saved, previous_id=last))
        await task.recorder.commit()
        try:
            with _errors_for_users():
                await _restore_files(task, checkpoint, saved)
        finally:
            await task.save()
        return preview


def find_checkpoint_seq(task: Task, checkpoint: str) -> int:
    """Find the last record about a checkpoint. Raises UserError if the task has no such
    checkpoint."""
    saved = {
        r.event.id: r.seq
        for r in task.bus.list_records_after(0)
        if isinstance(r.event, ev.CheckpointSaved)
    }
    if checkpoint not in saved:
        raise UserError(f"There is no checkpoint {checkpoint!r} of task {task.id}.")
    return saved[checkpoint]


async def restore_rewound_files(task: Task) -> None:
    """Restore files as the latest rewind requires, unless done. Raises CheckpointError."""
    rewound = task.recorder.projection.pending_restore
    if rewound is not None and rewound.files_checkpoint is not None:
        await _restore_files(task, rewound.files_checkpoint, rewound.files_checkpoint_before)


async def resume_interrupted_restore(task: Task) -> None:
    """Complete the restore of a task whose process died; never fails, so that the task stays
    usable."""
    try:
        await restore_rewound_files(task)
    except CheckpointError as error:
        text = f"The history was rewound, but the files could not be restored: {error}"
        events = (record.event for record in task.recorder.live_branch)
        if not any(isinstance(event, ev.RowAdded) and event.text == text for event in events):
            task.add_row(RowKind.ERROR, text)


async def _restore_files(task: Task, checkpoint: str, before: str | None) -> None:
    checkpoints = task.runtime.capabilities.checkpoints
    if checkpoints is None:
        raise CheckpointError("checkpoints are switched off.")
    changed = await checkpoints.restore(checkpoint, before)
    paths = tuple(each.path for each in changed[:MAX_JOURNALED_PATHS])
    task.publish(ev.FilesRestored(ts=task.next_ts(), checkpoint=checkpoint, paths=paths))
    await task.recorder.commit()


# What would change


async def add_file_changes(task: Task, preview: RewindPreview, checkpoint: str) -> RewindPreview:
    """Add the changes to files to a preview."""
    checkpoints = require_checkpoints(task)
    with _errors_for_users():
        differing = await checkpoints.list_changes(checkpoint)
        if not differing:
            return preview
        foreign = await find_externally_changed_files(task, checkpoints, checkpoint)
    files = tuple(FileChange(each.path, _INVERSE_CHANGES[each.kind]) for each in differing)
    conflicts = tuple(each.path for each in files if each.path in foreign)
    return structs.replace(
        preview, target_checkpoint=checkpoint, files=files, conflicting_paths=conflicts
    )


def check_conflicts(preview: RewindPreview, force: bool) -> None:
    """Check for conflicts. Raises UserError."""
    if not preview.conflicting_paths or force:
        return
    named = ", ".join(preview.conflicting_paths[:MAX_LISTED_CONFLICTS])
    rest = len(preview.conflicting_paths) - MAX_LISTED_CONFLICTS
    more = f" and {rest} more" if rest > 0 else ""
    raise UserError(
        f"Some files were modified outside joey: {named}{more}. Nothing was restored. Use force to"
        " restore anyway; a checkpoint keeps those changes."
    )


_ExternalChangeRange = tuple[str, str]
"""Two checkpoints, with the work of others in between."""


async def find_externally_changed_files(
    task: Task, checkpoints: Checkpoints, target: str
) -> frozenset[str]:
    """Find files that others changed and that the wanted checkpoint has differently. Raises
    CheckpointError."""
    interrupted, foreign = InterruptedCalls(task), set[str]()
    external = _ExternalChanges(task.bus.list_records_after(0), interrupted.own_checkpoints)
    kept_ranges = external.ranges_by_checkpoint.get(target, ())
    for before, saved in set(external.current_ranges).difference(kept_ranges):
        foreign |= {each.path for each in await checkpoints.list_changes(before, saved)}
    known = task.recorder.projection.ledger.last_checkpoint
    if known is not None and None not in interrupted.unsaved_paths:
        foreign |= {each.path for each in await checkpoints.list_changes(known)}
    return frozenset(foreign - interrupted.unsaved_paths)


class _ExternalChanges:
    """Changes made by others."""

    def __init__(self, records: Iterable[ev.Record], own: set[str]) -> None:
        """`own` are checkpoints that only show the task's work."""
        self.current_ranges: tuple[_ExternalChangeRange, ...] = ()
        """Those that the files have."""
        self.ranges_by_checkpoint: dict[str, tuple[_ExternalChangeRange, ...]] = {}
        """Those that a checkpoint has."""
        known: str | None = None
        for record in records:
            match record.event:
                case ev.CheckpointSaved(id=saved, is_own_change=is_own):
                    if not is_own and saved not in own:
                        self.current_ranges = self._append_change(known, saved)
                    self.ranges_by_checkpoint[saved], known = self.current_ranges, saved
                case ev.TaskRewound(files_checkpoint_before=str(saved)):
                    self.ranges_by_checkpoint[saved] = (
                        self.current_ranges if saved in own else self._append_change(known, saved)
                    )
                case ev.FilesRestored(checkpoint=restored):
                    self.current_ranges, known = (
                        self.ranges_by_checkpoint.get(restored, ()),
                        restored,
                    )

    def _append_change(self, before: str | None, saved: str) -> tuple[_ExternalChangeRange, ...]:
        return (
            self.current_ranges
            if before in (None, saved)
            else (*self.current_ranges, (before, saved))
        )


class InterruptedCalls:
    """Calls that were stopped before their changes were saved: those are the task's own work."""

    def __init__(self, task: Task) -> None:
        self.unsaved_paths: set[str | None] = set()
        """Files of those that no checkpoint has seen; None stands for any file."""
        self.own_checkpoints: set[str] = set()
        """Checkpoints that others have seen."""
        started: dict[str, str | None] = {}
        for _, event in _iter_with_starts(task):
            match event:
                case ev.ToolStarted(call_id=str(id)) | ev.AskOpened(call_id=str(id)):
                    tool = task.runtime.tool_set.get(event.tool or "")
                    if event.tool is not None and (tool is None or not tool.can_run_in_parallel):
                        started[id] = event.path
                case ev.ToolFinished(call_id=call_id):
                    started.pop(call_id, None)
                case ev.ReplyReceived():
                    self.unsaved_paths.update(started.values())
                    started.clear()
                case ev.CheckpointSaved(id=saved) if self.unsaved_paths:
                    self.own_checkpoints.add(saved)
                    self.unsaved_paths.clear()
                case ev.TaskRewound(files_checkpoint_before=str(saved)) if (
                    started or self.unsaved_paths
                ):
                    self.own_checkpoints.add(saved)
                case ev.FilesRestored():
                    self.unsaved_paths.clear()
                    started.clear()
        self.unsaved_paths.update(started.values())


def _iter_with_starts(task: Task) -> Iterator[tuple[int, ev.Durable]]:
    """Iterate over the numbered events of the journal; the question about a call is at its
    approval, because there the call starts."""
    asks: dict[int, ev.AskOpened] = {}
    for record in task.bus.list_records_after(0):
        match record.event:
            case ev.AskOpened() as opened:
                asks[opened.ts] = opened
            case ev.AskAnswered(ask_ts=ts, answer=answer) if answer.approves and ts in asks:
                yield record.seq, asks[ts]
            case event:
                yield record.seq, event


class _BatchEditEntry(Struct, frozen=True):
    path: str | None = None


class _EditRow(Struct, frozen=True, rename="camel"):
    """The row of a call that edits."""

    path: str | None = None
    batch_diffs: tuple[_BatchEditEntry, ...] = ()


async def add_unrestorable_files(task: Task, preview: RewindPreview, since: int) -> RewindPreview:
    """Add files changed after this record that cannot be restored. Raises UserError without
    checkpoints."""
    paths = list(dict.fromkeys(_iter_edited_paths(task, since)))
    if not paths:
        return preview
    with _errors_for_users():
        unrestorable = await require_checkpoints(task).list_unrestorable_files(paths)
    # A file that was ignored only after its first save is restored.
    restored_paths = {each.path for each in preview.files}
    return structs.replace(
        preview,
        unrestorable_files=tuple(each for each in unrestorable if each.path not in restored_paths),
    )


def _iter_edited_paths(task: Task, since: int) -> Iterator[str]:
    """Iterate over paths edited by the task's own tools, from the journal, including rewound
    records."""
    started: dict[str, tuple[int, ev.ToolStarted | ev.AskOpened]] = {}
    done: list[tuple[int, ev.ToolStarted | ev.AskOpened]] = []
    for seq, event in _iter_with_starts(task):
        match event:
            case ev.ToolStarted(call_id=str(id)) | ev.AskOpened(call_id=str(id)):
                started[id] = seq, event
            # A failed call on several files, which has no single path, may have written some.
            case ev.ToolFailed(call_id=str(id), has_run=False):
                if id in started and started[id][1].path:
                    del started[id]
            case ev.ToolFinished(call_id=id) if id in started:
                done.append((seq, started.pop(id)[1]))
    for seq, call in (*done, *started.values()):  # stopped calls may have written too
        if seq > since:
            yield from _parse_edited_paths(task, call)


def _parse_edited_paths(task: Task, call: ev.ToolStarted | ev.AskOpened) -> tuple[str, ...]:
    tool = None if call.tool is None else task.runtime.tool_set.get(call.tool)
    if tool is None or tool.group is not ToolGroup.EDIT:
        return ()
    try:
        row = msgspec.json.decode(call.text, type=_EditRow)
    except msgspec.DecodeError:  # from another program
        row = _EditRow(path=call.path)
    files = (row.path, *(each.path for each in row.batch_diffs))
    return tuple(path for path in files if path)
