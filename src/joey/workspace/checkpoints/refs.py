"""The checkpoints in a shadow repository: commits, the refs of their tasks, age and size limits.

Commits have no parents. A ref is named after its creation time, which shows the newest one of a
task, and the age of any. The message of a commit names the files that were left out: their contents
are unknown, so they must not be deleted or replaced because of that commit.

Retention (`CheckpointGarbageCollector`) first packs everything, which takes long and needs no lock,
since nothing is deleted. Then, with the lock, checkpoints that are too old or too many are deleted
with their objects. The current files are always kept, by the index.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

from msgspec import Struct

from joey.errors import CheckpointError
from joey.system.locks import try_lock_file
from joey.workspace.checkpoints.objects import write_object
from joey.workspace.checkpoints.scan import WorkspaceSnapshot
from joey.workspace.checkpoints.shadow_repo import (
    LOCK_FILE,
    ShadowDirectory,
    ShadowGitError,
    ShadowRepository,
    write_private_file,
)

_REFS_PREFIX = "refs/joey/"
_COMMIT_ID_RE = re.compile(r"[0-9a-f]{40}")
_PLAIN_TASK_ID_RE = re.compile(r"[A-Za-z0-9_-]{1,100}")
_NS_PER_SECOND = 1_000_000_000
_COMMIT_IDENTITY = "joey <joey@localhost>"


class Checkpoint(Struct, frozen=True):
    id: str
    snapshot: WorkspaceSnapshot


def write_checkpoint(git: ShadowRepository, task_id: str, sight: WorkspaceSnapshot) -> str:
    """Write a checkpoint and return its id. Raises OSError."""
    now = time.time_ns()
    lines = [
        f"tree {sight.tree}",
        *(
            f"{who} {_COMMIT_IDENTITY} {now // _NS_PER_SECOND} +0000"
            for who in ("author", "committer")
        ),
        *("", f"Files of {_encode_task_id(task_id)}", ""),
        *(quote_from_bytes(path) for path in sorted(sight.skipped_files)),
    ]
    made = write_object(git.repository_path, b"commit", "\n".join([*lines, ""]).encode())
    ref = git.repository_path / build_task_refs_path(task_id) / f"{now:020}"
    for directory in (ref.parent.parent, ref.parent):
        directory.mkdir(mode=0o700, exist_ok=True)
    # As git does it: there either is a ref, or what the next one who has the lock removes.
    new = ref.with_name(f"{ref.name}.lock")
    write_private_file(new, f"{made}\n".encode())
    new.rename(ref)
    return made


async def read_last_checkpoint(git: ShadowRepository, task_id: str) -> Checkpoint | None:
    if not any(
        (git.repository_path / name).exists()
        for name in (build_task_refs_path(task_id), "packed-refs")
    ):
        return None
    wanted = ("--sort=-refname", "--count=1", "--format=%(objectname)")
    listed = await git.run_git("for-each-ref", *wanted, build_task_refs_path(task_id))
    found = listed.decode().strip()
    return await read_checkpoint(git, found) if found else None


async def read_checkpoint(git: ShadowRepository, checkpoint: str) -> Checkpoint:
    """Read a checkpoint. Raises CheckpointError if there is none with this id."""
    if not _COMMIT_ID_RE.fullmatch(checkpoint):
        raise CheckpointError(f"{checkpoint!r} is not the id of a checkpoint.")
    try:
        text = (await git.run_git("cat-file", "commit", checkpoint)).decode()
    except ShadowGitError as refusal:
        raise CheckpointError(
            f"there is no checkpoint {checkpoint[:12]} any more: it was too old, its task was"
            " deleted, or it was damaged."
        ) from refusal
    head, _, message = text.partition("\n\n")
    tree = head.partition("\n")[0].removeprefix("tree ")
    left_out = frozenset(map(unquote_to_bytes, filter(None, message.split("\n")[1:])))
    return Checkpoint(checkpoint, WorkspaceSnapshot(tree, left_out))


async def list_refs(git: ShadowRepository, task_id: str | None = None) -> list[str]:
    """List the refs of a task or of all, the oldest first."""
    below = _REFS_PREFIX if task_id is None else build_task_refs_path(task_id)
    names = (await git.run_git("for-each-ref", "--format=%(refname)", below)).decode().split()
    return sorted(names, key=_parse_creation_time)


def _parse_creation_time(ref: str) -> float:
    """Parse the creation time in seconds since 1970."""
    stamp = ref.rpartition("/")[2]
    return int(stamp) / _NS_PER_SECOND if stamp.isdecimal() else 0.0


async def delete_refs(git: ShadowRepository, gone: list[str]) -> None:
    if lines := "".join(f"delete {ref}\n" for ref in gone):
        await git.run_git("update-ref", "--stdin", stdin=lines.encode())


def build_task_refs_path(task_id: str) -> str:
    """Return the directory of a task's refs in the repository."""
    return f"{_REFS_PREFIX}{_encode_task_id(task_id)}/"


def _encode_task_id(task_id: str) -> str:
    """Encode a task id as a name that git accepts: unchanged if it is an ordinary one."""
    if _PLAIN_TASK_ID_RE.fullmatch(task_id) and not task_id.startswith("-"):
        return task_id
    return "x" + task_id.encode(errors="surrogateescape").hex()[:200]


log = logging.getLogger(__name__)

_SECONDS_PER_DAY = 24 * 60 * 60
_BYTES_PER_MB = 1024 * 1024
_MIN_GROWTH_BYTES = 64 * _BYTES_PER_MB
_MAX_LOOSE_OBJECTS = 6_000
_MAX_PACKS = 50
_SAMPLED_OBJECT_DIRECTORY = "17"
"""One of 256 folders among which objects that are not packed are spread evenly."""
_REPACK_TIMEOUT_S = 1800.0
_DROP_FRACTION_DIVISOR = 4
"""Of checkpoints that are too many, a fourth goes at a time."""
_LAST_COLLECTION_FILE, _COLLECTION_LOCK_FILE = "collected", "collecting"


class RetentionLimits(Struct, frozen=True):
    max_age_days: float = 30
    max_megabytes: float = 2048

    @property
    def max_bytes(self) -> int:
        return int(self.max_megabytes * _BYTES_PER_MB)


class CheckpointGarbageCollector(Struct):
    _shadow_directory: ShadowDirectory
    _workspace: Path
    _open_shadow: Callable[[], AbstractAsyncContextManager[ShadowRepository]]
    """With the lock."""
    _limits: RetentionLimits

    def is_due(self) -> bool:
        """Whether enough was added since the last run. Blocks while it reads a directory."""
        size = self._shadow_directory.measure_size()
        try:
            facts, last = self._stamp_path.stat(), int(self._stamp_path.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            self._write_stamp(size)
            return False
        objects = self._shadow_directory.repository_path / "objects"
        return (
            time.time() - facts.st_mtime > _SECONDS_PER_DAY
            or size - last > max(_MIN_GROWTH_BYTES, self._limits.max_bytes // 8)
            or _count_files(objects / _SAMPLED_OBJECT_DIRECTORY) * 256 > _MAX_LOOSE_OBJECTS
            or _count_files(objects / "pack") // 2 > _MAX_PACKS
        )

    async def run(self) -> None:
        """Collect garbage. Raises CheckpointError."""
        # Not in a thread: a cancelled caller would never release it.
        if (lock := try_lock_file(self._shadow_directory.path / _COLLECTION_LOCK_FILE)) is None:
            return  # another process is at it
        try:
            git = ShadowRepository(self._shadow_directory, self._workspace, low_priority=True)
            await git.run_git("repack", "-a", "-d", "-k", "-q", timeout_s=_REPACK_TIMEOUT_S)
            await self._enforce_limits()
            await asyncio.to_thread(self._remove_abandoned_directories)
            self._write_stamp(await asyncio.to_thread(self._shadow_directory.measure_size))
        finally:
            os.close(lock)

    @property
    def _stamp_path(self) -> Path:
        return self._shadow_directory.path / _LAST_COLLECTION_FILE

    def _write_stamp(self, size: int) -> None:
        write_private_file(self._stamp_path, b"%d\n" % size)

    async def _enforce_limits(self) -> None:
        async with self._open_shadow() as git:
            await git.run_git("pack-refs", "--all")
            kept = await list_refs(git)
            since = time.time() - self._limits.max_age_days * _SECONDS_PER_DAY
            old = [ref for ref in kept if _parse_creation_time(ref) < since]
            kept = kept[len(old) :]
            await delete_refs(git, old)
            await _prune_objects(git)
            while (
                await asyncio.to_thread(self._shadow_directory.measure_size)
                > self._limits.max_bytes
                and len(kept) > 1
            ):
                gone = kept[: max(1, (len(kept) - 1) // _DROP_FRACTION_DIVISOR)]
                kept = kept[len(gone) :]
                await delete_refs(git, gone)
                await _prune_objects(git)
                log.info("%d checkpoints of %s went, for room", len(gone), self._workspace)

    def _remove_abandoned_directories(self) -> None:
        """Remove directories of workspaces in which nothing was saved for so long that all of it
        has expired."""
        since = time.time() - self._limits.max_age_days * _SECONDS_PER_DAY
        for directory in self._shadow_directory.parent.iterdir():
            lock = directory / LOCK_FILE
            if (
                directory == self._shadow_directory.path
                or not lock.exists()
                or lock.stat().st_mtime > since
            ):
                continue
            if (descriptor := try_lock_file(lock)) is None:
                continue
            try:
                shutil.rmtree(directory)
            except OSError as error:
                log.warning("%s cannot be removed: %s", directory, error)
            finally:
                os.close(descriptor)


async def _prune_objects(git: ShadowRepository) -> None:
    """Remove objects that no checkpoint uses."""
    await git.run_git("repack", "-a", "-d", "-q", timeout_s=_REPACK_TIMEOUT_S)
    await git.run_git("prune", "--expire=now", timeout_s=_REPACK_TIMEOUT_S)


def _count_files(directory: Path) -> int:
    try:
        return len(os.listdir(directory))  # noqa: PTH208 (only how many)
    except FileNotFoundError:
        return 0
