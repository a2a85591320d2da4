"""The shadow repository of a workspace: its directory, its lock, and git run on it.

A process that changes it holds an advisory lock, and so does every git process it runs: if the
process is killed, its last git may still be running, and the lock ends with that one. The lock file
is empty unless its owner is working, so the next owner knows if the last one was interrupted.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from joey.errors import CheckpointError
from joey.system.files import (
    FileFingerprint,
    PrivateDirectory,
    open_private_file,
    read_fingerprint,
)
from joey.system.locks import try_lock_file, wait_for_lock
from joey.system.subprocess import CompletedProgram
from joey.workspace.git.process import SAFE_SETTINGS, GitError, build_config_options, run_git

_MAX_OUTPUT_BYTES = 128 * 1024 * 1024
_GIT_TIMEOUT_S = 120.0
_GIT_SETTINGS = {
    **SAFE_SETTINGS,
    "core.bare": "false",
    "core.bigFileThreshold": "64m",
    "core.compression": "1",
    "core.fileMode": "true",
    "core.ignoreCase": "false",
    "core.logAllRefUpdates": "false",
    "core.precomposeUnicode": "false",
    # Names that would be dangerous on other systems are just names here.
    "core.protectHFS": "false",
    "core.protectNTFS": "false",
    "core.symlinks": "true",
    "gc.auto": "0",
    "index.version": "4",
    "pack.threads": "1",
    "pack.windowMemory": "64m",
}
_ATTRIBUTES_FILE = "info/attributes"
_REPOSITORY_FILES = {
    "HEAD": "ref: refs/heads/none\n",
    "config": "[core]\n\trepositoryformatversion = 0\n",
    # Files are stored unchanged. This takes precedence over the workspace's own attribute files.
    _ATTRIBUTES_FILE: "* -text -ident -filter !eol !working-tree-encoding\n",
}
_NON_DAMAGE_ERROR_TEXTS = (
    *("No space left on device", "Out of diskspace", "Disk quota exceeded"),
    "Read-only file system",
    *("Permission denied", "insufficient permission", "Too many open files", "Out of memory"),
)
_EXTERNAL_KILL_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)


class ShadowGitError(CheckpointError):
    """git ended with an error that says the repository may be damaged."""

    def __init__(self, message: str, stderr: str) -> None:
        super().__init__(message)
        self.stderr = stderr


class ShadowRepository:
    """The repository while the lock is held; `lock` is None for work that needs none."""

    def __init__(
        self,
        directory: ShadowDirectory,
        root: Path,
        lock: ShadowLock | None = None,
        *,
        low_priority: bool = False,
    ) -> None:
        self.workspace = root
        self.repository_path = directory.repository_path
        self._lock = lock
        self._is_low_priority = low_priority

    @property
    def index_path(self) -> Path:
        return self.repository_path / "index"

    def build_signature(self, holder: str) -> tuple[FileFingerprint, ...]:
        """Build a signature that changes whenever this file or directory of refs has changed, refs
        were packed or deleted, or the repository was replaced."""
        names = (holder, "packed-refs", "HEAD", "config", "objects")
        return tuple(read_fingerprint(f"{self.repository_path}/{name}") for name in names)

    def create_if_missing(self) -> None:
        """Create the repository if it does not exist, atomically."""
        if self.repository_path.exists():
            path = self.repository_path / _ATTRIBUTES_FILE
            text = _REPOSITORY_FILES[_ATTRIBUTES_FILE]
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                # Without them, git would change what files hold.
                path.parent.mkdir(mode=0o700, exist_ok=True)
                write_private_file(path, text.encode())
            return
        new = self.repository_path.with_name("new")
        shutil.rmtree(new, ignore_errors=True)
        for directory in (".", "objects", "refs", "info"):
            new.joinpath(directory).mkdir(mode=0o700)
        for name, text in _REPOSITORY_FILES.items():
            write_private_file(new / name, text.encode())
        new.rename(self.repository_path)

    async def run_git(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        settings: Mapping[str, str] | None = None,
        accepted_codes: Sequence[int] = (0,),
        index: Path | None = None,
        timeout_s: float = _GIT_TIMEOUT_S,
    ) -> bytes:
        """Run git and return its output. Raises ShadowGitError on an unexpected exit code,
        CheckpointError if it could not run or was stopped."""
        try:
            answer = await run_git(
                (*build_config_options({**_GIT_SETTINGS, **(settings or {})}), *arguments),
                self.workspace,
                self._build_environment(index or self.index_path),
                stdin=stdin,
                max_output_bytes=_MAX_OUTPUT_BYTES,
                timeout_s=timeout_s,
                is_low_priority=self._is_low_priority,
                pass_fds=() if self._lock is None else (self._lock.descriptor,),
            )
        except GitError as error:
            raise CheckpointError(f"files are not kept: {error}.") from error
        if answer.is_truncated:
            raise CheckpointError("the workspace has too many files to keep them.")
        if answer.returncode not in accepted_codes:
            raise _build_git_error(arguments[0], answer)
        return answer.stdout

    def _build_environment(self, index: Path) -> dict[str, str]:
        return {
            "GIT_DIR": str(self.repository_path),
            "GIT_WORK_TREE": str(self.workspace),
            "GIT_INDEX_FILE": str(index),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            # An old git knows no GIT_CONFIG_GLOBAL.
            "HOME": str(self.repository_path.parent),
            "LC_ALL": "C",
        }


def _build_git_error(command: str, answer: CompletedProgram) -> CheckpointError:
    stderr = answer.stderr.decode(errors="replace")
    lines = stderr.strip().splitlines() or [f"it ended with code {answer.returncode}"]
    for line in lines:
        if line.startswith(("error:", "fatal:")) and any(
            text in line for text in _NON_DAMAGE_ERROR_TEXTS
        ):
            return CheckpointError(
                f"git {command} failed: {line}. Check the free disk space and the permissions "
                f"there."
            )
    if -answer.returncode in _EXTERNAL_KILL_SIGNALS:
        return CheckpointError(f"git {command} was killed by another process.")
    return ShadowGitError(f"git {command} failed: {lines[0]}", stderr)


LOCK_FILE = "lock"
_REPOSITORY_DIRECTORY, _DAMAGED_DIRECTORY = "repository", "damaged"
_WORKSPACE_PATH_FILE, _RECOVERY_FILE = "workspace", "restoring"
_LOCK_TIMEOUT_S = 60.0


class ShadowLock(Struct, frozen=True):
    """The lock while it is held."""

    descriptor: int
    was_last_owner_interrupted: bool
    """Whether the last one who had it was killed at work."""


class ShadowDirectory(PrivateDirectory):
    @property
    def repository_path(self) -> Path:
        return self.path / _REPOSITORY_DIRECTORY

    @property
    def recovery_path(self) -> Path:
        """The path of a file that exists while files are being restored."""
        return self.path / _RECOVERY_FILE

    def create(self) -> None:
        super().create()
        self.parent.chmod(0o700)
        name = self.path / _WORKSPACE_PATH_FILE
        if not name.exists():
            write_private_file(name, os.fsencode(self._workspace) + b"\n")

    @asynccontextmanager
    async def acquire_lock(self) -> AsyncIterator[ShadowLock]:
        """Acquire the lock. Raises CheckpointError if another process keeps it."""
        descriptor = await wait_for_lock(self._try_lock, _LOCK_TIMEOUT_S)
        if descriptor is None:
            raise CheckpointError(
                "another process is at work on the checkpoints of this workspace, for more"
                f" than {_LOCK_TIMEOUT_S:g} seconds. Try again when it is done."
            )
        try:
            lock = ShadowLock(descriptor, os.fstat(descriptor).st_size > 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
            yield lock
            # Not after a failure: the next owner must see whether it left something behind.
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _try_lock(self) -> int | None:
        try:
            self.create()
            return try_lock_file(self.path / LOCK_FILE)
        except OSError as error:
            raise CheckpointError(
                f"the folder for checkpoints, {self.path}, cannot be used:"
                f" {error.strerror or error}."
            ) from error

    def move_away_damaged_repository(self) -> Path:
        """Start anew; the old repository is kept until this happens again."""
        aside = self.path / _DAMAGED_DIRECTORY
        shutil.rmtree(aside, ignore_errors=True)
        self.repository_path.rename(aside)
        return aside

    def remove_repositories(self) -> None:
        """Remove all saved files; the lock stays."""
        for name in (_REPOSITORY_DIRECTORY, _DAMAGED_DIRECTORY):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def remove_stale_git_files(self) -> None:
        """Remove files that a killed git leaves and that block the next one. Requires the lock."""
        for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/pack/.tmp-*"):
            for path in self.repository_path.glob(pattern):
                path.unlink(missing_ok=True)

    def measure_size(self) -> int:
        """Measure the size on disk in bytes."""
        return sum(facts.st_blocks * 512 for facts in _iter_stats(self.path))


def write_private_file(path: Path, data: bytes) -> None:
    with os.fdopen(open_private_file(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)


def _iter_stats(directory: Path) -> Iterator[os.stat_result]:
    """Iterate over the `stat` data of everything below; disappearing files do not count."""
    pending = [str(directory)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    yield entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
