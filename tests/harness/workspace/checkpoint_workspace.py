"""A workspace whose files can be compared with what they were, and a git of the user's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from joey.workspace.checkpoints.pool import CheckpointStorePool, TaskCheckpoints

FileState = tuple[str, bytes, bool]
"""Kind, what it holds, whether it is executable."""

IDENTITY = {
    f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(directory: Path, *arguments: str) -> str:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", **IDENTITY}
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=env, check=True, capture_output=True
    )
    return done.stdout.decode()


def commit_all(directory: Path) -> None:
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "--allow-empty", "-m", "first")


def snapshot(root: Path) -> dict[str, FileState]:
    """All files and links of a folder, but for those of git."""
    found = {str(path.relative_to(root)): path for path in _files(root)}
    return {
        name: read_file_state(path) for name, path in found.items() if ".git" not in name.split("/")
    }


def metadata(root: Path) -> dict[Path, tuple[FileState, int]]:
    """All files of git in a folder, with the times of their changes."""
    found = [path for path in _files(root) if ".git" in path.parts]
    return {path: (read_file_state(path), path.lstat().st_mtime_ns) for path in found}


def read_file_state(path: Path) -> FileState:
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode):
        return "link", os.fsencode(path.readlink()), False
    if not stat.S_ISREG(facts.st_mode):
        return "other", b"", False
    return "file", path.read_bytes(), bool(facts.st_mode & stat.S_IXUSR)


async def collect_garbage(checkpoints: TaskCheckpoints) -> None:
    """After what is being collected already."""
    store = checkpoints._store
    if store._garbage_collection_task is not None:
        await asyncio.shield(store._garbage_collection_task)
    await store._garbage_collector.run()


def measure_size(checkpoints: TaskCheckpoints) -> int:
    """Bytes on disk that the checkpoints of the workspace take."""
    return checkpoints._store._shadow_directory.measure_size()


def _files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_symlink() or not path.is_dir())


@asynccontextmanager
async def checkpoints_of(
    root: Path, home: Path, *, max_age_days: float = 30, max_megabytes: float = 2048
) -> AsyncIterator[TaskCheckpoints]:
    stores = CheckpointStorePool(home)
    lease = stores.lease(root, max_age_days=max_age_days, max_megabytes=max_megabytes)
    try:
        yield lease
    finally:
        await lease.close()


def shadow_of(home: Path) -> Path:
    """The only folder of checkpoints there is."""
    (directory,) = (home / "checkpoints").iterdir()
    return directory


def is_there(path: Path) -> bool:
    return path.exists()


def free(root: Path, name: bytes) -> Path:
    """The place of a file, with what is in the way removed."""
    path = root / os.fsdecode(name)
    for directory in reversed(path.relative_to(root).parents[:-1]):
        place = root / directory
        if place.is_symlink() or not place.is_dir():
            remove(place)
            place.mkdir()
    remove(path)
    return path


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
