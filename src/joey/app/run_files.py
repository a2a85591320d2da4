"""Files about a run, for programs: its patch and its journal.

A module of its own because it reads the journal format, which front ends must not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from joey.core.events import CheckpointSaved, Record
from joey.engine.task import Task
from joey.storage.journal import encode_record


def encode_journal(records: Sequence[Record]) -> bytes:
    return b"".join(map(encode_record, records))


async def build_run_patch(task: Task, records: Sequence[Record], since: int) -> bytes | None:
    """What was changed in the workspace after this record, for `git apply`; None: there are no
    checkpoints to tell it from. Raises CheckpointError."""
    checkpoints = task.runtime.capabilities.checkpoints
    if checkpoints is None:
        return None
    saved = (
        each.event.id
        for each in records
        if each.seq > since and isinstance(each.event, CheckpointSaved)
    )
    first = next(saved, None)
    return b"" if first is None else await checkpoints.build_patch(first)
