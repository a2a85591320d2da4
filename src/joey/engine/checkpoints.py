"""Checkpoints of the workspace's files: saved around tool calls, and restored.

A checkpoint is saved before the first call of a reply that may change files and before each call
the user was asked about, so that changes made meanwhile count as the user's; and after each such
call, so that its changes count as the task's. Where files cannot be saved, the user is told once
per reason and the task continues.

Restoring would undo changes by others. The journal shows them: a checkpoint saved before a call
differs from the previous one by what others did in between. In danger is what the files have and
the checkpoint to restore has not, and whatever no checkpoint has recorded yet. Files that the task
changed and no checkpoint covers (ignored, outside, too large) are reported as left as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, structs

from joey.core.events import (
    AskAnswered,
    AskOpened,
    CheckpointSaved,
    FilesRestored,
    Record,
    ReplyReceived,
    RowAdded,
    TaskRewound,
    ToolFinished,
    ToolStarted,
)
from joey.core.file_state import FileChange
from joey.core.modes import ToolGroup
from joey.core.permissions.policy import Access, Claim
from joey.core.rewind import RewindPreview, build_rewind_preview
from joey.errors import CheckpointError, ToolError, UserError
from joey.ports import Checkpoints

if TYPE_CHECKING:
    from joey.engine.task import Task


FILE_CHANGING_ACCESSES = frozenset({Access.WRITE, Access.EXECUTE, Access.MCP, Access.CUSTOM_TOOL})


def begin_checkpoints(task: Task) -> None:
    """Let the first checkpoint of the workspace be made while the model thinks."""
    checkpoints = task.runtime.capabilities.checkpoints
    grants = (task.mode.find_grant(ToolGroup.EDIT), task.mode.find_grant(ToolGroup.COMMAND))
    if checkpoints is not None and any(grant is not None for grant in grants):
        checkpoints.begin(task.id)


def checkpoints_of(task: Task) -> Checkpoints:
    """Raises UserError: there are none."""
    checkpoints = task.runtime.capabilities.checkpoints
    if checkpoints is None:
        raise UserError(
            "The files of this workspace are not kept in checkpoints, so they cannot be brought"
            " back. The history alone can be rewound."
        )
    return checkpoints


def may_change_files(claims: Iterable[Claim]) -> bool:
    return any(claim.access in FILE_CHANGING_ACCESSES for claim in claims)


class CheckpointGuard:
    """The checkpoints of one reply's calls."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._kept = False

    async def before(self, claims: Iterable[Claim], *, was_asked: bool) -> None:
        """Before a call runs: once for each reply is enough, unless somebody had time to work."""
        if (was_asked or not self._kept) and may_change_files(claims):
            await self._save(own=False, anyway=not self._kept)
            self._kept = True

    async def before_subtasks(self) -> None:
        if not self._kept:
            self._kept = True
            await self._save(own=False, anyway=True)

    async def after(self, claims: Iterable[Claim]) -> None:
        """After a call has run."""
        if may_change_files(claims):
            await self._save(own=True)

    async def after_subtasks(self) -> None:
        """What they changed was changed for this task."""
        await self._save(own=True)

    async def _save(self, *, own: bool, anyway: bool = False) -> None:
        """It is recorded where it is another one than the last, or `anyway`."""
        task = self._task
        checkpoints, last = (
            task.runtime.capabilities.checkpoints,
            task.recorder.facts.ledger.last_checkpoint,
        )
        if checkpoints is None:
            return
        try:
            async with asyncio.timeout(task.runtime.settings.checkpoint_timeout):
                saved = await checkpoints.save(task.id)
        except TimeoutError:
            self._warn_once("keeping them takes too long in a workspace of this size")
        except CheckpointError as error:
            self._warn_once(str(error))
        else:
            if saved != last or anyway:
                task.publish(
                    CheckpointSaved(ts=task.now(), id=saved, previous_id=last, is_own_change=own)
                )

    def _warn_once(self, reason: str) -> None:
        task = self._task
        if reason not in task.shown_once:
            task.shown_once.add(reason)
            text = f"The files of this step are not in a checkpoint: {reason.rstrip('.')}."
            task.publish(RowAdded(ts=task.now(), say="error", text=text))


FileChangeKind = Literal["added", "changed", "removed"]

MAX_JOURNALED_PATHS = 100
MAX_LISTED_CONFLICTS = 10
_INVERSE_CHANGES: dict[FileChangeKind, FileChangeKind] = {
    "added": "removed",
    "removed": "added",
    "changed": "changed",
}


async def keep_files(task: Task) -> str:
    """The files as they are now."""
    try:
        return await checkpoints_of(task).save(task.id)
    except CheckpointError as error:
        raise UserError(str(error)) from error


async def preview_restore(task: Task, checkpoint: str) -> RewindPreview:
    """What bringing back the files of a checkpoint, and nothing else, would change."""
    since = check_saved(task, checkpoint)
    path = task.recorder.path
    preview = await preview_files(task, build_rewind_preview(path, path), checkpoint)
    return await with_left_files(task, preview, since)


async def restore_checkpoint(task: Task, checkpoint: str, *, force: bool) -> RewindPreview:
    """Bring back the files of a checkpoint; the history stays."""
    check_saved(task, checkpoint)
    async with task.at_rest():
        preview = await preview_restore(task, checkpoint)
        refuse_conflicts(preview, force)
        last = task.recorder.facts.ledger.last_checkpoint
        saved = await keep_files(task)
        task.publish(CheckpointSaved(ts=task.now(), id=saved, previous_id=last))
        await task.recorder.commit()
        try:
            await _restore(task, checkpoint, saved)
        except CheckpointError as error:
            raise UserError(str(error)) from error
        finally:
            await task.save()
        return preview


def check_saved(task: Task, checkpoint: str) -> int:
    """The record that tells of it last. Raises UserError: the task has no such checkpoint."""
    saved = {r.event.id: r.seq for r in task.bus.after(0) if isinstance(r.event, CheckpointSaved)}
    if checkpoint not in saved:
        raise UserError(f"There is no checkpoint {checkpoint!r} of task {task.id}.")
    return saved[checkpoint]


async def restore_due_files(task: Task) -> None:
    """What the latest rewind wants done to the files, unless it is done.

    Raises:
        CheckpointError
    """
    rewound = task.recorder.facts.pending_restore
    if rewound is not None and rewound.files_checkpoint is not None:
        await _restore(task, rewound.files_checkpoint, rewound.files_checkpoint_before)


async def finish_restoring(task: Task) -> None:
    """The same for a task whose process died before: it can be worked with in any case."""
    try:
        await restore_due_files(task)
    except CheckpointError as error:
        text = f"The history was rewound, but the files could not be brought back: {error}"
        events = (record.event for record in task.recorder.path)
        if not any(isinstance(event, RowAdded) and event.text == text for event in events):
            task.publish(RowAdded(ts=task.now(), say="error", text=text))


async def _restore(task: Task, checkpoint: str, before: str | None) -> None:
    checkpoints = task.runtime.capabilities.checkpoints
    if checkpoints is None:
        raise CheckpointError("checkpoints are switched off.")
    changed = await checkpoints.restore(checkpoint, before)
    paths = tuple(each.path for each in changed[:MAX_JOURNALED_PATHS])
    task.publish(FilesRestored(ts=task.now(), checkpoint=checkpoint, paths=paths))
    await task.recorder.commit()


# What would change


async def preview_files(task: Task, preview: RewindPreview, checkpoint: str) -> RewindPreview:
    """With what is done to the files."""
    checkpoints = checkpoints_of(task)
    try:
        differing = await checkpoints.changes(checkpoint)
        foreign = await changed_by_others(task, checkpoints, checkpoint) if differing else ()
    except CheckpointError as error:
        raise UserError(str(error)) from error
    if not differing:
        return preview
    files = tuple(FileChange(each.path, _INVERSE_CHANGES[each.kind]) for each in differing)
    conflicts = tuple(each.path for each in files if each.path in foreign)
    return structs.replace(preview, checkpoint=checkpoint, file_changes=files, conflicts=conflicts)


def refuse_conflicts(preview: RewindPreview, force: bool) -> None:
    """Raises UserError."""
    if not preview.conflicts or force:
        return
    named = ", ".join(preview.conflicts[:MAX_LISTED_CONFLICTS])
    rest = len(preview.conflicts) - MAX_LISTED_CONFLICTS
    more = f" and {rest} more" if rest > 0 else ""
    raise UserError(
        f"Somebody else has changed files that would be brought back: {named}{more}. Nothing was"
        " changed. Force it to give up their changes; a checkpoint keeps them."
    )


_CheckpointPair = tuple[str, str]
"""Two checkpoints, with the work of others in between."""


async def changed_by_others(task: Task, checkpoints: Checkpoints, wanted: str) -> frozenset[str]:
    """Files that somebody else changed, and that are otherwise in the checkpoint that is wanted.

    Raises CheckpointError."""
    stopped, foreign = InterruptedCalls(task), set[str]()
    done = _ExternalChanges(task.bus.after(0), stopped.before)
    for before, saved in set(done.now).difference(done.until.get(wanted, ())):
        foreign |= _paths(await checkpoints.changes(before, saved))
    known = task.recorder.facts.ledger.last_checkpoint
    if known is not None and None not in stopped.at_last:
        foreign |= _paths(await checkpoints.changes(known))
    return frozenset(foreign.difference(path for path in stopped.at_last if path is not None))


def _paths(changes: Sequence[FileChange]) -> set[str]:
    return {each.path for each in changes}


class _ExternalChanges:
    """Of others."""

    def __init__(self, records: Iterable[Record], own: set[str]) -> None:
        """`own` are checkpoints that only tell of the task's work."""
        self.now: tuple[_CheckpointPair, ...] = ()
        """Those that the files have."""
        self.until: dict[str, tuple[_CheckpointPair, ...]] = {}
        """Those that a checkpoint has."""
        known: str | None = None
        for record in records:
            match record.event:
                case CheckpointSaved(id=saved, is_own_change=is_own):
                    if not is_own and saved not in own:
                        self.now = self._with(known, saved)
                    self.until[saved], known = self.now, saved
                case TaskRewound(files_checkpoint_before=str(saved)):
                    self.until[saved] = self.now if saved in own else self._with(known, saved)
                case FilesRestored(checkpoint=restored):
                    self.now, known = self.until.get(restored, ()), restored

    def _with(self, before: str | None, saved: str) -> tuple[_CheckpointPair, ...]:
        return self.now if before in (None, saved) else (*self.now, (before, saved))


class InterruptedCalls:
    """Calls that were stopped before what they changed was kept: it is the task's own work."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.at_last: set[str | None] = set()
        """Files of those that no checkpoint has seen; None stands for any file."""
        self.before: set[str] = set()
        """Checkpoints that others have seen."""
        begun: dict[str, str | None] = {}
        asked: dict[int, AskOpened] = {}
        for record in task.bus.after(0):
            match record.event:
                case AskOpened(call_id=str()) as opened:
                    asked[opened.ts] = opened
                case AskAnswered(ask_ts=ts, answer=answer) if answer.approves and ts in asked:
                    self._begin(asked[ts], begun)
                case ToolStarted() as announced:
                    self._begin(announced, begun)
                case ToolFinished(call_id=call_id):
                    begun.pop(call_id, None)
                case ReplyReceived():
                    self.at_last.update(begun.values())
                    begun.clear()
                case CheckpointSaved(id=saved) if self.at_last:
                    self.before.add(saved)
                    self.at_last.clear()
                case TaskRewound(files_checkpoint_before=str(saved)) if begun or self.at_last:
                    self.before.add(saved)
                case FilesRestored():
                    self.at_last.clear()
                    begun.clear()
        self.at_last.update(begun.values())

    def _begin(self, call: ToolStarted | AskOpened, begun: dict[str, str | None]) -> None:
        if call.tool is not None and call.call_id is not None and self._may_change(call.tool):
            begun[call.call_id] = call.path

    def _may_change(self, tool: str) -> bool:
        try:
            return not self._task.runtime.toolbox.find(tool).parallel
        except ToolError:
            return True


class _DiffEntry(Struct, frozen=True):
    path: str | None = None


class _EditRow(Struct, frozen=True, rename="camel"):
    """Of a call that edits."""

    path: str | None = None
    batch_diffs: tuple[_DiffEntry, ...] = ()


class _RecordedEdit(Struct, frozen=True):
    seq: int
    call: ToolStarted | AskOpened


async def with_left_files(task: Task, preview: RewindPreview, since: int) -> RewindPreview:
    """With those of the files changed after this record that stay as they are.

    Raises:
        UserError: files are not kept here.
    """
    paths = list(dict.fromkeys(_edited(task, since)))
    if not paths:
        return preview
    try:
        left = await checkpoints_of(task).left(paths)
    except CheckpointError as error:
        raise UserError(str(error)) from error
    # One that was ignored only after it was first kept comes back.
    back = {each.path for each in preview.file_changes}
    return structs.replace(
        preview, unrestorable_files=tuple(each for each in left if each.path not in back)
    )


def _edited(task: Task, since: int) -> Iterator[str]:
    """By the task's own tools. The journal tells it, whatever of it was rewound meanwhile."""
    asked: dict[int, AskOpened] = {}
    begun: dict[str | None, _RecordedEdit] = {}
    done: list[_RecordedEdit] = []
    for record in task.bus.after(0):
        match record.event:
            case AskOpened(call_id=str()) as opened:
                asked[opened.ts] = opened
            case AskAnswered(ask_ts=ts, answer=answer) if answer.approves and ts in asked:
                begun[asked[ts].call_id] = _RecordedEdit(record.seq, asked[ts])
            case ToolStarted() as announced:
                begun[announced.call_id] = _RecordedEdit(record.seq, announced)
            case ToolFinished(call_id=call_id, is_error=failed) if call_id in begun:
                call = begun.pop(call_id).call
                # Of several files, which have no one path, some may be written when it fails.
                if not failed or call.path is None:
                    done.append(_RecordedEdit(record.seq, call))
    for edit in (*done, *begun.values()):  # those that were stopped may have written, too
        if edit.seq > since:
            yield from _files(task, edit.call)


def _files(task: Task, call: ToolStarted | AskOpened) -> tuple[str, ...]:
    if call.tool is None or not _edits(task, call.tool):
        return ()
    try:
        row = msgspec.json.decode(call.text, type=_EditRow)
    except msgspec.DecodeError:  # of another program
        row = _EditRow(path=call.path)
    files = (row.path, *(each.path for each in row.batch_diffs))
    return tuple(path for path in files if path)


def _edits(task: Task, tool: str) -> bool:
    try:
        return task.runtime.toolbox.find(tool).group is ToolGroup.EDIT
    except ToolError:
        return False
