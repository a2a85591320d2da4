"""git, run on the shadow repository: its own objects, index and refs, the workspace's files."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from joey.errors import CheckpointError
from joey.workspace.checkpoints.folder import Hold, ShadowFolder, signature, write_private
from joey.workspace.git_process import (
    HARMLESS,
    GitAnswer,
    GitRun,
    GitTrouble,
    options,
    run_git,
)

_MOST_BYTES = 128 * 1024 * 1024
_SECONDS = 120.0
_SETTINGS = {
    **HARMLESS,
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
_ATTRIBUTES = "info/attributes"
_FILES = {
    "HEAD": "ref: refs/heads/none\n",
    "config": "[core]\n\trepositoryformatversion = 0\n",
    # Files are kept as they are. This counts for more than what the workspace's own files ask for.
    _ATTRIBUTES: "* -text -ident -filter !eol !working-tree-encoding\n",
}
"""What makes a folder a repository."""
_NO_DAMAGE = (
    *("No space left on device", "Out of diskspace", "Disk quota exceeded"),
    "Read-only file system",
    *("Permission denied", "insufficient permission", "Too many open files", "Out of memory"),
)
_ENDED_FROM_OUTSIDE = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)


class GitRefusal(CheckpointError):
    """git ended with an error that says the repository may be damaged."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


class Shadow:
    """While one has the lock; `hold` is None for work that needs none."""

    def __init__(
        self, folder: ShadowFolder, root: Path, hold: Hold | None = None, *, gentle: bool = False
    ) -> None:
        self.root = root
        self.path = folder.repository
        self._hold = hold
        self._gentle = gentle

    @property
    def index(self) -> Path:
        return self.path / "index"

    def marks(self, holder: str) -> tuple[tuple[int, ...], ...]:
        """Others whenever this file or folder of refs was changed, refs were packed or dropped, or
        the repository is not what it was."""
        names = (holder, "packed-refs", "HEAD", "config", "objects")
        return tuple(signature(self.path / name) for name in names)

    def make(self) -> None:
        """Have the repository, if it is not there: whole, or not at all."""
        if self.path.exists():
            self._check_attributes()
            return
        new = self.path.with_name("new")
        shutil.rmtree(new, ignore_errors=True)
        for folder in (".", "objects", "refs", "info"):
            new.joinpath(folder).mkdir(mode=0o700)
        for name, text in _FILES.items():
            write_private(new / name, text.encode())
        new.rename(self.path)

    def _check_attributes(self) -> None:
        """Without them, git would change what files hold."""
        path = self.path / _ATTRIBUTES
        if not path.exists() or path.read_text(encoding="utf-8") != _FILES[_ATTRIBUTES]:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_private(path, _FILES[_ATTRIBUTES].encode())

    async def run(
        self,
        *arguments: str,
        given: bytes | None = None,
        settings: Mapping[str, str] | None = None,
        fine: Sequence[int] = (0,),
        index: Path | None = None,
        seconds: float = _SECONDS,
    ) -> bytes:
        """What git prints.

        Raises:
            GitRefusal: it ended with a code that is not fine.
            CheckpointError: it could not be run, or not to its end.
        """
        run = GitRun(
            arguments=(*options({**_SETTINGS, **(settings or {})}), *arguments),
            folder=self.root,
            environment=self._environment(index or self.index),
            given=given,
            most=_MOST_BYTES,
            seconds=seconds,
            gentle=self._gentle,
            held=() if self._hold is None else (self._hold.descriptor,),
        )
        try:
            answer = await run_git(run)
        except GitTrouble as trouble:
            raise CheckpointError(f"files are not kept: {trouble}.") from trouble
        if answer.is_cut:
            raise CheckpointError("the workspace has too many files to keep them.")
        if answer.code not in fine:
            raise _refusal(arguments[0], answer)
        return answer.out

    def _environment(self, index: Path) -> dict[str, str]:
        return {
            "GIT_DIR": str(self.path),
            "GIT_WORK_TREE": str(self.root),
            "GIT_INDEX_FILE": str(index),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            # An old git knows no GIT_CONFIG_GLOBAL.
            "HOME": str(self.path.parent),
            "LC_ALL": "C",
        }


def _refusal(command: str, answer: GitAnswer) -> CheckpointError:
    lines = answer.said.strip().splitlines() or [f"it ended with code {answer.code}"]
    for line in lines:
        if line.startswith(("error:", "fatal:")) and any(words in line for words in _NO_DAMAGE):
            return CheckpointError(
                f"git {command} failed: {line}. Check the room and the permissions there."
            )
    if -answer.code in _ENDED_FROM_OUTSIDE:
        return CheckpointError(f"git {command} was ended by somebody else.")
    return GitRefusal(f"git {command} failed: {lines[0]}", answer.said)
