"""Keeping the files of the workspace before a task changes them, and after.

A checkpoint is saved before the first call of a reply that may change files, and before each that
a person was asked about, so that whatever they did meanwhile is theirs, and after each such call,
so that what it changed is the task's.
Where files cannot be kept the person is told once for each reason, and the work goes on: a
checkpoint is a net, not a gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from joey.core.events import CheckpointSaved, Said
from joey.core.modes import Group
from joey.core.permissions.policy import Access, Claim
from joey.errors import CheckpointError, UserError
from joey.ports import Checkpoints

if TYPE_CHECKING:
    from joey.engine.task import Task

CHANGING = frozenset({Access.WRITE, Access.EXECUTE, Access.MCP, Access.CUSTOM_TOOL})
"""What may change files of the workspace."""


def begin_checkpoints(task: Task) -> None:
    """Let the first checkpoint of the workspace be made while the model thinks."""
    checkpoints = task.bench.extras.checkpoints
    grants = (task.mode.grant(Group.EDIT), task.mode.grant(Group.COMMAND))
    if checkpoints is not None and any(grant is not None for grant in grants):
        checkpoints.begin(task.id)


def checkpoints_of(task: Task) -> Checkpoints:
    """Raises UserError: there are none."""
    checkpoints = task.bench.extras.checkpoints
    if checkpoints is None:
        raise UserError(
            "The files of this workspace are not kept in checkpoints, so they cannot be brought"
            " back. The history alone can be rewound."
        )
    return checkpoints


def may_change_files(claims: Iterable[Claim]) -> bool:
    return any(claim.access in CHANGING for claim in claims)


class Keeper:
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
        checkpoints, last = task.bench.extras.checkpoints, task.recorder.facts.ledger.checkpoint
        if checkpoints is None:
            return
        try:
            async with asyncio.timeout(task.bench.settings.checkpoint_timeout):
                saved = await checkpoints.save(task.id)
        except TimeoutError:
            self._tell("keeping them takes too long in a workspace of this size")
        except CheckpointError as error:
            self._tell(str(error))
        else:
            if saved != last or anyway:
                task.publish(CheckpointSaved(ts=task.now(), id=saved, before=last, own=own))

    def _tell(self, reason: str) -> None:
        task = self._task
        if reason not in task.told:
            task.told.add(reason)
            text = f"The files of this step are not in a checkpoint: {reason.rstrip('.')}."
            task.publish(Said(ts=task.now(), say="error", text=text))
