"""Keeping checkpoints from growing without end.

First everything is packed, which takes long and disturbs nobody: nothing is dropped by it, so
others may save meanwhile. Then, with the lock, checkpoints that are too old or too many go, and
what only they held. The files as they are now are always kept, by the index.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec import Struct

from joey.workspace.checkpoints.folder import LOCK, ShadowFolder, take_lock, write_private
from joey.workspace.checkpoints.history import Ref, drop, refs
from joey.workspace.checkpoints.shadow import Shadow

log = logging.getLogger(__name__)

_DAY = 24 * 60 * 60
_MEGABYTE = 1024 * 1024
_GROWN_BY = 64 * _MEGABYTE
_MOST_LOOSE = 6_000
_MOST_PACKS = 50
_SAMPLE = "17"
"""One of 256 folders among which objects that are not packed are spread evenly."""
_SECONDS = 1800.0
_PART = 4
"""Of checkpoints that are too many, a fourth goes at a time."""
_STAMP, _COLLECTING = "collected", "collecting"


class Limits(Struct, frozen=True):
    days: float = 30
    megabytes: float = 2048

    @property
    def bytes(self) -> int:
        return int(self.megabytes * _MEGABYTE)


class Collection:
    def __init__(
        self,
        folder: ShadowFolder,
        root: Path,
        opened: Callable[[], AbstractAsyncContextManager[Shadow]],
        limits: Limits,
    ) -> None:
        """`opened` gives the shadow, with the lock."""
        self._folder = folder
        self._root = root
        self._opened = opened
        self._limits = limits

    def is_due(self) -> bool:
        """Whether enough has come since the last time. Blocks for a look at the folder."""
        size = self._folder.size()
        try:
            facts, last = self._stamp.stat(), int(self._stamp.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            self._sign(size)
            return False
        objects = self._folder.repository / "objects"
        return (
            time.time() - facts.st_mtime > _DAY
            or size - last > max(_GROWN_BY, self._limits.bytes // 8)
            or _count(objects / _SAMPLE) * 256 > _MOST_LOOSE
            or _count(objects / "pack") // 2 > _MOST_PACKS
        )

    async def run(self) -> None:
        """Raises CheckpointError."""
        # Not in a thread: who is cancelled meanwhile would never let go of it.
        lock = take_lock(self._folder.path / _COLLECTING)
        if lock is None:
            return  # another process is at it
        try:
            await self._pack()
            await self._drop()
            await asyncio.to_thread(self._remove_forsaken)
            await asyncio.to_thread(lambda: self._sign(self._folder.size()))
        finally:
            os.close(lock)

    @property
    def _stamp(self) -> Path:
        return self._folder.path / _STAMP

    def _sign(self, size: int) -> None:
        write_private(self._stamp, b"%d\n" % size)

    async def _pack(self) -> None:
        git = Shadow(self._folder, self._root, gentle=True)
        await git.run("repack", "-a", "-d", "-k", "-q", seconds=_SECONDS)

    async def _drop(self) -> None:
        async with self._opened() as git:
            await git.run("pack-refs", "--all")
            kept = await refs(git)
            since = time.time() - self._limits.days * _DAY
            old = [ref for ref in kept if ref.seconds < since]
            kept = kept[len(old) :]
            await drop(git, old)
            await _prune(git)
            while await asyncio.to_thread(self._folder.size) > self._limits.bytes and len(kept) > 1:
                gone = kept[: max(1, (len(kept) - 1) // _PART)]
                kept = await self._drop_some(git, gone, kept)

    async def _drop_some(self, git: Shadow, gone: list[Ref], kept: list[Ref]) -> list[Ref]:
        await drop(git, gone)
        await _prune(git)
        log.info("%d checkpoints of %s went, for room", len(gone), self._root)
        return kept[len(gone) :]

    def _remove_forsaken(self) -> None:
        """Folders of workspaces in which nothing was saved for so long that all of it is old."""
        since = time.time() - self._limits.days * _DAY
        for folder in self._folder.parent.iterdir():
            lock = folder / LOCK
            if folder == self._folder.path or not lock.exists() or lock.stat().st_mtime > since:
                continue
            descriptor = take_lock(lock)
            if descriptor is None:
                continue
            try:
                shutil.rmtree(folder)
            except OSError as error:
                log.warning("%s cannot be removed: %s", folder, error)
            finally:
                os.close(descriptor)


async def _prune(git: Shadow) -> None:
    """Let go of what no checkpoint holds."""
    await git.run("repack", "-a", "-d", "-q", seconds=_SECONDS)
    await git.run("prune", "--expire=now", seconds=_SECONDS)


def _count(folder: Path) -> int:
    try:
        return len(os.listdir(folder))  # noqa: PTH208 (only how many)
    except FileNotFoundError:
        return 0
