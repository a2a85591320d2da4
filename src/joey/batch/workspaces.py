"""Workspaces of items: created once per attempt, set up, and compared with their start.

A workspace is complete when its state file exists; one that a killed worker left incomplete is
created again, after ending the programs still running in it. The start is recorded in a git
repository outside of the workspace, which nothing in the workspace can configure.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.batch.items import Item, WorkspaceKind
from joey.batch.results import Check, Patch
from joey.errors import UserError
from joey.system.files import (
    build_storage_error,
    is_disk_full,
    make_private_directory,
    replace_file,
)
from joey.system.subprocess import (
    MARKER_VARIABLE,
    CompletedProgram,
    ProgramTimeoutError,
    kill_marked_processes,
    run,
)
from joey.workspace.git.process import GitError, run_git

_COMMAND_TIMEOUT_S = 3600.0
_GIT_TIMEOUT_S = 1800.0
_MAX_OUTPUT_BYTES = 10 * 1024 * 1024
_MAX_SHOWN_CHARS = 2000
_TIMEOUT_EXIT_CODE = 124


class WorkspaceFailure(UserError):
    """An item's workspace could not be created, set up or compared."""


class WorkspaceState(Struct, frozen=True):
    """A complete workspace."""

    directory: str
    start_tree: str


class ItemWorkspace:
    """The workspace of one attempt."""

    def __init__(
        self, root: Path, task_id: str, item: Item, kind: WorkspaceKind, env: Mapping[str, str]
    ) -> None:
        self._root, self._item, self._kind = root, item, kind
        self._marker = f"workspace-{task_id}"
        """Environment variable set for programs started here, to find those of a killed worker."""
        marks = f"{os.environ.get(MARKER_VARIABLE, '')}:{self._marker}".lstrip(":")
        self._marks = {MARKER_VARIABLE: marks}
        self._env = {**env, **self._marks, "GIT_TERMINAL_PROMPT": "0"}
        self._state_file = root / f"{task_id}.json"
        self._repository = root / f"{task_id}.git"
        self._own_directory = root / task_id
        self._start_tree = ""

    @property
    def directory(self) -> Path:
        if self._kind is WorkspaceKind.DIR and self._item.repo is not None:
            return Path(self._item.repo).expanduser().absolute()
        return self._own_directory

    @property
    def is_prepared(self) -> bool:
        """Whether it was created on this host."""
        return self._state_file.exists() and self.directory.is_dir()

    async def prepare(self) -> Path:
        """Create the workspace and run the setup command, unless both were done before. Raises
        WorkspaceFailure."""
        make_private_directory(self._root)
        if self._state_file.exists() or self._own_directory.exists() or self._repository.exists():
            await asyncio.to_thread(kill_marked_processes, self._marker)
        if self._state_file.exists():
            state = msgspec.json.decode(self._state_file.read_bytes(), type=WorkspaceState)
            self._start_tree = state.start_tree
            if self.directory.is_dir():
                return self.directory
        try:
            await self._discard_unfinished()
            await self._create()
            await self._run_setup()
            await self._git("init", "-q", "--bare", str(self._repository), cwd=self._root)
            self._exclude_output()
            self._start_tree = await self._snapshot()
        except OSError as error:
            if is_disk_full(error):
                raise build_storage_error("could not create a workspace", self._root, error) from (
                    error
                )
            raise WorkspaceFailure(
                f"The workspace {self.directory} cannot be created: {error.strerror or error}."
            ) from error
        state = WorkspaceState(str(self.directory), self._start_tree)
        replace_file(self._state_file, msgspec.json.encode(state))
        return self.directory

    async def _discard_unfinished(self) -> None:
        self._state_file.unlink(missing_ok=True)
        for directory in (self._own_directory, self._repository):
            if directory.exists():
                await asyncio.to_thread(shutil.rmtree, directory)
        if self._kind is WorkspaceKind.WORKTREE and self._item.repo is not None:
            await self._run_program(("git", "-C", self._item.repo, "worktree", "prune"))

    async def _create(self) -> None:
        repo, to = self._item.repo, self._own_directory
        if (self._item.ref or "").startswith("-"):  # git would read it as an option
            raise WorkspaceFailure(f"`{self._item.ref}` is not a commit or branch.")
        if repo is None:
            make_private_directory(to)
            return
        match self._kind:
            case WorkspaceKind.CLONE:
                await self._run_program(("git", "clone", "-q", "--", repo, str(to)))
                if self._item.ref is not None:
                    await self._checkout(to, self._item.ref)
            case WorkspaceKind.WORKTREE:
                ref = self._item.ref or "HEAD"
                add = ("worktree", "add", "-q", "--detach", str(to), ref)
                await self._run_program(("git", "-C", repo, *add))
            case WorkspaceKind.COPY:
                await asyncio.to_thread(_copy_directory, repo, to, self._root.parent)
            case WorkspaceKind.DIR:
                if not self.directory.is_dir():
                    raise WorkspaceFailure(f"The directory {repo} does not exist.")

    def _exclude_output(self) -> None:
        """Exclude an output directory in the workspace (`--workspace dir`) from the patch."""
        output, directory = self._root.parent, self.directory.resolve()
        if output.resolve().is_relative_to(directory):
            pattern = output.resolve().relative_to(directory).as_posix()
            (self._repository / "info" / "exclude").write_text(f"/{pattern}/\n", encoding="utf-8")

    async def _checkout(self, clone: Path, ref: str) -> None:
        checkout = ("git", "-C", str(clone), "checkout", "-q", "--detach")
        answer = await self._run_program((*checkout, ref), accepts_failure=True)
        if answer.returncode != 0:  # a commit without a branch, or a branch of the remote
            await self._run_program(("git", "-C", str(clone), "fetch", "-q", "origin", ref))
            await self._run_program((*checkout, "FETCH_HEAD"))

    async def _run_setup(self) -> None:
        if self._item.setup is None:
            return
        answer, _ = await self._run_command(self._item.setup)
        if answer.returncode != 0:
            raise WorkspaceFailure(
                f"The setup command `{self._item.setup}` ended with {answer.returncode}:"
                f" {_tail(answer.stdout)}"
            )

    async def build_patch(self, file: Path) -> Patch:
        """Write all changes since the start, new files included. Raises WorkspaceFailure."""
        now = await self._snapshot()
        data = await self._git("diff-tree", "-r", "-p", "--binary", "-M", self._start_tree, now)
        counts = (await self._git("diff-tree", "-r", "--numstat", self._start_tree, now)).decode(
            errors="replace"
        )
        rows = [line.split("\t")[:2] for line in counts.splitlines()]
        added, removed = (sum(int(row[n]) for row in rows if row[n].isdecimal()) for n in (0, 1))
        make_private_directory(file.parent)
        replace_file(file, data)
        name = f"{file.parent.name}/{file.name}"
        return Patch(name, len(rows), added, removed, sha256(data).hexdigest())

    async def run_check(self, file: Path) -> Check | None:
        """Run the check command and store its output. Raises WorkspaceFailure."""
        if self._item.check is None:
            return None
        answer, seconds = await self._run_command(self._item.check)
        make_private_directory(file.parent)
        replace_file(file, answer.stdout)
        return Check(answer.returncode, round(seconds, 3))

    async def _run_command(self, command: str) -> tuple[CompletedProgram, float]:
        began = time.monotonic()
        try:
            answer = await run(
                ("bash", "-c", command),
                cwd=self.directory,
                env=self._env,
                merge_stderr=True,
                is_marked=True,
                timeout_s=_COMMAND_TIMEOUT_S,
                max_output_bytes=_MAX_OUTPUT_BYTES,
            )
        except ProgramTimeoutError as error:
            answer = msgspec.structs.replace(error.completed, returncode=_TIMEOUT_EXIT_CODE)
        except OSError as error:
            raise WorkspaceFailure(f"`{command}` cannot be run: {error.strerror}.") from error
        return answer, time.monotonic() - began

    async def _run_program(
        self, command: tuple[str, ...], *, accepts_failure: bool = False
    ) -> CompletedProgram:
        """Run git with the user's own configuration and credentials. Raises WorkspaceFailure."""
        try:
            answer = await run(command, env=self._env, merge_stderr=True, timeout_s=_GIT_TIMEOUT_S)
        except ProgramTimeoutError as error:
            raise WorkspaceFailure(f"`{' '.join(command[:4])}` timed out.") from error
        if answer.returncode != 0 and not accepts_failure:
            raise WorkspaceFailure(f"git failed: {_tail(answer.stdout)}")
        return answer

    async def _snapshot(self) -> str:
        """Return the tree of all files that git does not ignore. It uses a copy of the index: a
        killed git leaves its lock, and a git whose worker was killed may still be running."""
        index = self._repository / "index"
        copy = self._repository / f"index-{os.urandom(4).hex()}"
        if index.exists():
            shutil.copy2(index, copy)  # with its time, which git uses to detect changes
        try:
            await self._git("add", "-A", "--", ".", index=copy)
            tree = await self._git("write-tree", index=copy)
            if copy.exists():
                copy.replace(index)
        finally:
            copy.unlink(missing_ok=True)
        return tree.decode().strip()

    async def _git(
        self, *arguments: str, cwd: Path | None = None, index: Path | None = None
    ) -> bytes:
        environment = {"HOME": str(self._root), "GIT_CONFIG_NOSYSTEM": "1", **self._marks}
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        if cwd is None:
            cwd = self.directory
            environment |= {"GIT_DIR": str(self._repository), "GIT_WORK_TREE": str(cwd)}
        options = ("-c", "core.bare=false", "-c", "core.autocrlf=false", "-c", "core.quotePath=off")
        try:
            answer = await run_git(
                (*options, *arguments),
                cwd,
                environment,
                timeout_s=_GIT_TIMEOUT_S,
                max_output_bytes=1024 * 1024 * 1024,
            )
        except GitError as error:
            raise WorkspaceFailure(f"The changes cannot be read: {error}.") from error
        if answer.returncode != 0:
            raise WorkspaceFailure(f"The changes cannot be read: {_tail(answer.stderr)}")
        return answer.stdout


def _copy_directory(source: str, to: Path, output: Path) -> None:
    """Copy a directory without the batch's output directory, which may be in it."""
    directory = Path(source).expanduser()
    if not directory.is_dir():
        raise WorkspaceFailure(f"The directory {source} to copy does not exist.")

    def find_output(parent: str, names: list[str]) -> list[str]:
        is_in = output.name in names and Path(parent).samefile(output.parent)
        return [output.name] if is_in else []

    try:
        shutil.copytree(directory, to, symlinks=True, ignore=find_output)
    except shutil.Error as error:
        file, _, reason = error.args[0][0]
        raise WorkspaceFailure(f"{file} cannot be copied: {reason}.") from error


def build_item_environment(item_id: str, attempt: int) -> dict[str, str]:
    """Build the environment of an item's commands from the worker's."""
    own = {name: value for name, value in os.environ.items() if name != "JOEY_STORE"}
    return {**own, "JOEY_ITEM": item_id, "JOEY_ATTEMPT": str(attempt)}


def _tail(output: bytes) -> str:
    return output.decode(errors="replace").strip()[-_MAX_SHOWN_CHARS:]
