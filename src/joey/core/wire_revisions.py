"""Commands of the WebSocket API that change a task's past, or look at its files as they were."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from joey.core.file_changes import FileDiff
from joey.core.rewinding import RewindPreview


class _In(Struct, frozen=True, rename="camel", kw_only=True):
    """Arguments; what is not known is passed over."""


class _Out(Struct, frozen=True, rename="camel", kw_only=True):
    """Data of a successful response."""


_DataUri = Annotated[str, Meta(pattern=r"^data:image/[a-z0-9.+-]+;base64,[A-Za-z0-9+/]+=*$")]
_Name = Annotated[str, Meta(min_length=1, max_length=200)]


class RewindTask(_In, frozen=True):
    message_ts: int
    keep: bool = True
    """Whether the row itself stays."""
    files: bool = False
    force: bool = False
    """Give up what others changed in the files; a checkpoint keeps it."""
    preview: bool = False
    """Only tell what would change."""


class UndoRewind(_In, frozen=True):
    force: bool = False
    preview: bool = False


class EditMessage(_In, frozen=True):
    message_ts: int
    text: str
    images: tuple[_DataUri, ...] | None = None


class ForkTask(_In, frozen=True):
    message_ts: int | None = None
    """The last row that the new task has; all of them, without it."""
    keep: bool = True
    text: str | None = None
    """The new task goes on with it, else it rests."""
    images: tuple[_DataUri, ...] | None = None
    profile: _Name | None = None
    """Another model than before."""


class NoArguments(_In, frozen=True):
    pass


class DiffCheckpoint(_In, frozen=True):
    checkpoint: _Name
    to: _Name | None = None
    """Another checkpoint; the files as they are now, without it."""


class RestoreCheckpoint(_In, frozen=True):
    checkpoint: _Name
    force: bool = False
    preview: bool = False


class Revised(_Out, frozen=True):
    done: bool
    """False when it was only looked at."""
    changes: RewindPreview


class Forked(_Out, frozen=True):
    task_id: str


class CheckpointData(_Out, frozen=True):
    id: str
    ts: int
    """Its row."""
    own: bool
    """What differs from the one before is the task's own work."""
    before: str | None


class CheckpointList(_Out, frozen=True):
    checkpoints: list[CheckpointData]


class FileDiffs(_Out, frozen=True):
    files: list[FileDiff]


REVISIONS: tuple[tuple[str, type[Struct], type[Struct]], ...] = (
    ("rewindTask", RewindTask, Revised),
    ("undoRewind", UndoRewind, Revised),
    ("editMessage", EditMessage, Revised),
    ("forkTask", ForkTask, Forked),
    ("getCheckpoints", NoArguments, CheckpointList),
    ("diffCheckpoint", DiffCheckpoint, FileDiffs),
    ("restoreCheckpoint", RestoreCheckpoint, Revised),
)
"""Each is about the named task, else the current one."""
