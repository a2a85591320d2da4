"""Files that a task has changed and that no checkpoint has: bringing files back leaves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from joey.core.events import AskAnswered, AskOpened, ToolAnnounced, ToolFinished
from joey.core.modes import Group
from joey.core.rewind import RewindPreview
from joey.engine.checkpoints import checkpoints_of
from joey.errors import CheckpointError, ToolError, UserError

if TYPE_CHECKING:
    from joey.engine.task import Task


class _File(Struct, frozen=True):
    path: str | None = None


class _Row(Struct, frozen=True, rename="camel"):
    """Of a call that edits."""

    path: str | None = None
    batch_diffs: tuple[_File, ...] = ()


class _Edit(Struct, frozen=True):
    seq: int
    call: ToolAnnounced | AskOpened


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
    back = {each.path for each in preview.files}
    return structs.replace(
        preview, files_left=tuple(each for each in left if each.path not in back)
    )


def _edited(task: Task, since: int) -> Iterator[str]:
    """By the task's own tools. The journal tells it, whatever of it was rewound meanwhile."""
    asked: dict[int, AskOpened] = {}
    begun: dict[str | None, _Edit] = {}
    done: list[_Edit] = []
    for record in task.bus.after(0):
        match record.event:
            case AskOpened(call_id=str()) as opened:
                asked[opened.ts] = opened
            case AskAnswered(ask_ts=ts, answer=answer) if answer.approves and ts in asked:
                begun[asked[ts].call_id] = _Edit(record.seq, asked[ts])
            case ToolAnnounced() as announced:
                begun[announced.call_id] = _Edit(record.seq, announced)
            case ToolFinished(call_id=call_id, is_error=failed) if call_id in begun:
                call = begun.pop(call_id).call
                # Of several files, which have no one path, some may be written when it fails.
                if not failed or call.path is None:
                    done.append(_Edit(record.seq, call))
    for edit in (*done, *begun.values()):  # those that were stopped may have written, too
        if edit.seq > since:
            yield from _files(task, edit.call)


def _files(task: Task, call: ToolAnnounced | AskOpened) -> tuple[str, ...]:
    if call.tool is None or not _edits(task, call.tool):
        return ()
    try:
        row = msgspec.json.decode(call.text, type=_Row)
    except msgspec.DecodeError:  # of another program
        row = _Row(path=call.path)
    files = (row.path, *(each.path for each in row.batch_diffs))
    return tuple(path for path in files if path)


def _edits(task: Task, tool: str) -> bool:
    try:
        return task.bench.toolbox.find(tool).group is Group.EDIT
    except ToolError:
        return False
