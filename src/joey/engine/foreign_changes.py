"""Changes of files that are not the task's own work, and that bringing files back would undo.

The journal tells them: a checkpoint saved before a step differs from the one before it by what
others did meanwhile. The files have all that was done until now, less what was taken back with
them; a checkpoint has what had been done when it was saved. What is in the first and not in the
second is in danger, and so is whatever nobody has recorded yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from joey.core.events import (
    AskAnswered,
    AskOpened,
    CheckpointSaved,
    FilesRestored,
    Record,
    ReplyReceived,
    TaskRewound,
    ToolAnnounced,
    ToolFinished,
)
from joey.core.file_state import FileChange
from joey.errors import ToolError
from joey.ports import Checkpoints

if TYPE_CHECKING:
    from joey.engine.task import Task

_Step = tuple[str, str]
"""Two checkpoints, with the work of others in between."""


async def changed_by_others(task: Task, checkpoints: Checkpoints, wanted: str) -> frozenset[str]:
    """Files that somebody else changed, and that are otherwise in the checkpoint that is wanted.

    Raises CheckpointError."""
    stopped, foreign = Stopped(task), set[str]()
    done = _Steps(task.bus.after(0), stopped.before)
    for before, saved in set(done.now).difference(done.until.get(wanted, ())):
        foreign |= _paths(await checkpoints.changes(before, saved))
    known = task.recorder.facts.ledger.checkpoint
    if known is not None and None not in stopped.at_last:
        foreign |= _paths(await checkpoints.changes(known))
    return frozenset(foreign.difference(path for path in stopped.at_last if path is not None))


def _paths(changes: Sequence[FileChange]) -> set[str]:
    return {each.path for each in changes}


class _Steps:
    """Of others."""

    def __init__(self, records: Iterable[Record], own: set[str]) -> None:
        """`own` are checkpoints that only tell of the task's work."""
        self.now: tuple[_Step, ...] = ()
        """Those that the files have."""
        self.until: dict[str, tuple[_Step, ...]] = {}
        """Those that a checkpoint has."""
        known: str | None = None
        for record in records:
            match record.event:
                case CheckpointSaved(id=saved, own=is_own):
                    if not is_own and saved not in own:
                        self.now = self._with(known, saved)
                    self.until[saved], known = self.now, saved
                case TaskRewound(files_before=str(saved)):
                    self.until[saved] = self.now if saved in own else self._with(known, saved)
                case FilesRestored(checkpoint=restored):
                    self.now, known = self.until.get(restored, ()), restored

    def _with(self, before: str | None, saved: str) -> tuple[_Step, ...]:
        return self.now if before in (None, saved) else (*self.now, (before, saved))


class Stopped:
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
                case ToolAnnounced() as announced:
                    self._begin(announced, begun)
                case ToolFinished(call_id=call_id):
                    begun.pop(call_id, None)
                case ReplyReceived():
                    self.at_last.update(begun.values())
                    begun.clear()
                case CheckpointSaved(id=saved) if self.at_last:
                    self.before.add(saved)
                    self.at_last.clear()
                case TaskRewound(files_before=str(saved)) if begun or self.at_last:
                    self.before.add(saved)
                case FilesRestored():
                    self.at_last.clear()
                    begun.clear()
        self.at_last.update(begun.values())

    def _begin(self, call: ToolAnnounced | AskOpened, begun: dict[str, str | None]) -> None:
        if call.tool is not None and call.call_id is not None and self._may_change(call.tool):
            begun[call.call_id] = call.path

    def _may_change(self, tool: str) -> bool:
        try:
            return not self._task.bench.toolbox.find(tool).parallel
        except ToolError:
            return True
