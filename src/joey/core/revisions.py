"""Events by which a task's own past changes: what the model is shown of it, and what is taken back.

Nothing is ever removed from a journal. A summary or a marker hides messages; a rewind says at
which earlier record the history goes on (see `history.path`), so that it can be undone in the
same way.
"""

from __future__ import annotations

from joey.core.event_base import EventBase
from joey.core.messages import TextBlock, Usage
from joey.core.settings import Route


class ContextCondensed(EventBase, frozen=True, tag="contextCondensed"):
    """Everything so far is told to the model by a summary from here on."""

    condense_id: str
    summary: str
    """What the model wrote."""
    content: tuple[TextBlock, ...]
    """What it is shown in place of the messages: the summary, and what must not be lost in it."""
    tokens_before: int
    tokens_after: int
    """How full the window was and is, by our own count."""
    usage: Usage | None = None
    """Of the request that made the summary."""
    cost: float | None = None


class ContextTruncated(EventBase, frozen=True, tag="contextTruncated"):
    """The oldest turns are hidden from the model; the first message stays."""

    truncation_id: str
    messages: int
    """How many of the messages that were visible, after the first."""
    tokens_before: int
    tokens_after: int
    longest: int | None = None
    """Texts of what stays visible are cut to this many characters, where that was not enough."""


class CheckpointSaved(EventBase, frozen=True, tag="checkpointSaved"):
    """The files of the workspace as they were at this moment can be brought back."""

    id: str
    before: str | None = None
    """The checkpoint before it."""
    own: bool = False
    """What differs from the one before is this task's own work; else it is somebody's else."""


class TaskRewound(EventBase, frozen=True, tag="taskRewound"):
    """The history goes on from an earlier record. All that came after it is out of sight."""

    to: int
    row_ts: int | None = None
    """The last row that stays, where the record made more than one; 0 when none does."""
    files: str | None = None
    """The checkpoint that the files shall be brought back to; done when `FilesRestored` says so."""
    files_before: str | None = None
    """The checkpoint of the files as they were when this was asked for."""
    undo: bool = False
    """It takes a rewind back; the next undo goes on with the one before that."""


class FilesRestored(EventBase, frozen=True, tag="filesRestored"):
    """The files are as they were at a checkpoint."""

    checkpoint: str
    paths: tuple[str, ...] = ()
    """The files that were changed by it, or the first of them."""


class TaskForked(EventBase, frozen=True, tag="taskForked"):
    """The records before this one were taken over from another task. What they used and whom they
    spawned is not this task's."""

    source_id: str
    source_seq: int
    """The last record that was taken over, by its number there."""
    route: Route | None = None
    """The model that it worked with."""
