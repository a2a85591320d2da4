"""The scan of a workspace by git that updates the shadow's index.

git's index stores the `stat` data of each file when it was last read, so that only files that have
changed since are read. Two concurrent commands find them: one for changed files, one for unknown
files. Both check every file, as `git status` does.

Repositories inside the workspace need care: git lists such a directory without entering it, unless
its index has a file of it. So for a new one, git is run again with an index that has one. From then
on its files are known like any others.

All files that git does not ignore are saved. Besides the `.gitignore` files of the workspace, which
git reads itself, these are excluded: directories that programs fill and nobody edits; matches of
`.gitignore` files above the workspace, when it is part of a repository; joey's own directory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from joey.errors import CheckpointError, ToolError
from joey.system.files import (
    FileFingerprint,
    NotRegularFileError,
    open_private_file,
    open_regular_file,
    read_fingerprint,
)
from joey.workspace.checkpoints.objects import TreeEntry
from joey.workspace.checkpoints.shadow_repo import (
    ShadowGitError,
    ShadowRepository,
    write_private_file,
)
from joey.workspace.files import is_root_or_home
from joey.workspace.git.process import Git, find_repository_root
from joey.workspace.ignore import GitIgnore

log = logging.getLogger(__name__)

_MAX_SCAN_ROUNDS = 3
"""Of a workspace that is changed while one looks."""
_FILES_PER_BATCH = 5_000
_MIN_FILES_TO_PACK = 200
_MIN_PACKING_GIT_VERSION = (2, 38)
"""The first git that writes one pack of many files."""
_BATCH_TIMEOUT_S = 900.0
_BYTES_PER_MB = 1024 * 1024
_MAX_TRACKED_LIST_BYTES = 16 * 1024 * 1024
_NESTED_REPOSITORIES_PER_BATCH = 100
_MAX_REFUSED_FILES = 20
_UNPROCESSED_PATH_RE = re.compile(r"^fatal: Unable to process path (.*)$", re.MULTILINE)
_EMPTY_BLOB_ID = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


class WorkspaceSnapshot(Struct, frozen=True):
    """The files of the workspace at one moment."""

    tree: str
    skipped_files: frozenset[bytes] = frozenset()
    """Files that are there, but too large or not to be read."""


class GitScan(NamedTuple):
    snapshot: WorkspaceSnapshot
    added_files: frozenset[bytes]
    """Files that git has read because they were new or had changed."""


class _WorkspaceChangedError(CheckpointError):
    """Too many files disappeared during the scan, or it must be repeated."""


class IndexUpdatePlan(Struct, frozen=True):
    paths_to_add: list[bytes]
    paths_to_remove: list[bytes]
    skipped_files: frozenset[bytes]
    added_bytes: int
    """Bytes of what is to be kept."""


class WorkspaceScanner:
    """Scans a workspace, and caches results for the next scan."""

    def __init__(self, root: Path, home: Path, max_bytes: int) -> None:
        """At most `max_bytes` are read at once; more is data rather than a project."""
        self._workspace = root
        self._max_added_bytes = max_bytes
        self._exclude_options = ["--exclude-standard"]
        if root in home.parents:  # joey's folder is never looked into
            inside = home.relative_to(root).as_posix()
            escaped = "".join(f"\\{char}" if char in "\\*?[]!# " else char for char in inside)
            self._exclude_options.append(f"--exclude=/{escaped}/")
        self._cached_tree: tuple[FileFingerprint, str] | None = None
        self._has_listed_force_added = False

    async def scan(self, git: ShadowRepository) -> GitScan:
        """Scan the workspace. Raises CheckpointError, or ShadowGitError if the repository may be
        damaged."""
        self._write_exclude_file(git)
        await _apply_pending_index_entries(git)
        for _ in range(_MAX_SCAN_ROUNDS - 1):
            try:
                return await self._scan_once(git)
            except _WorkspaceChangedError as error:
                log.info("looking at %s again: %s", self._workspace, error)
        return await self._scan_once(git)

    async def find_ignored(self, git: ShadowRepository, paths: Iterable[bytes]) -> set[bytes]:
        """Find which of these files are ignored, known or not. Raises CheckpointError."""
        self._write_exclude_file(git)
        # Which takes no literal paths; nothing that begins with `./` means anything else.
        command = ("--no-literal-pathspecs", "check-ignore", "--no-index", "--stdin", "-z")
        asked = _join_nul_terminated(b"./" + path for path in paths)
        listed = await git.run_git(*command, stdin=asked, accepted_codes=(0, 1))
        return {path.removeprefix(b"./") for path in listed.split(b"\0")[:-1]}

    async def list_ignored_directories(self, git: ShadowRepository) -> frozenset[bytes]:
        """List directories in which all files are ignored, including future ones. Raises
        CheckpointError."""
        command = ("ls-files", "--others", "--ignored", "--directory", "-z")
        listed = (await git.run_git(*command, *self._exclude_options)).split(b"\0")
        # Also folders in which there just happen to be ignored files only.
        directories = {path.removesuffix(b"/") for path in listed if path.endswith(b"/")}
        return frozenset(await self.find_ignored(git, directories) if directories else ())

    async def list_indexed_but_ignored(self, git: ShadowRepository) -> set[bytes]:
        """Raises CheckpointError."""
        await _apply_pending_index_entries(git)
        listed = await git.run_git(
            "ls-files", "--cached", "--ignored", "-z", *self._exclude_options
        )
        return set(listed.split(b"\0"))

    def reset(self) -> None:
        """Reset the cache after the index was replaced."""
        self._cached_tree = None
        self._has_listed_force_added = False

    async def _scan_once(self, git: ShadowRepository) -> GitScan:
        listed, others = await asyncio.gather(
            git.run_git("diff-files", "-z", "--name-status", "--no-renames"),
            self._list_untracked(git),
        )
        fields = listed.split(b"\0")
        changed = list(zip(fields[0::2], fields[1::2], strict=False))  # letters and paths
        if nested := [path for path in others if path.endswith(b"/")]:
            others = [path for path in others if not path.endswith(b"/")]
            others += await self._list_nested_repository_files(git, nested)
        others += await self._list_force_added((*(path for _, path in changed), *others))
        plan = await asyncio.to_thread(plan_index_update, self._workspace, changed, others)
        if plan.added_bytes > self._max_added_bytes:
            raise CheckpointError(
                f"{plan.added_bytes // _BYTES_PER_MB:,} MB of files in {self._workspace} are new, "
                f"and checkpoints may take {self._max_added_bytes // _BYTES_PER_MB:,} MB. Name "
                "what need not be kept in .gitignore, or set checkpointMaxMegabytes to more."
            )
        if plan.paths_to_remove:
            gone = _join_nul_terminated(plan.paths_to_remove)
            await git.run_git(*_UPDATE_INDEX_COMMAND, "--force-remove", "--stdin", stdin=gone)
            place = os.fsencode(self._workspace) + b"/"
            if any(_is_directory(place + path) for path in plan.paths_to_remove):
                # While it was known as a file, git said nothing of a repository there.
                raise _WorkspaceChangedError("what was a file is a folder by now")
        left_out = plan.skipped_files | await _add_to_index(git, plan.paths_to_add)
        tree = await self._write_tree(git, bool(plan.paths_to_add or plan.paths_to_remove))
        return GitScan(WorkspaceSnapshot(tree, left_out), frozenset(plan.paths_to_add))

    async def _list_untracked(
        self, git: ShadowRepository, *below: bytes, index: Path | None = None
    ) -> list[bytes]:
        """List files that are neither known nor ignored, and directories of repositories as
        `name/`."""
        paths = ("--", *map(os.fsdecode, below)) if below else ()
        listed = await git.run_git(
            "ls-files", "--others", "-z", *self._exclude_options, *paths, index=index
        )
        return listed.split(b"\0")[:-1]

    async def _list_nested_repository_files(
        self, git: ShadowRepository, nested: list[bytes]
    ) -> list[bytes]:
        """List the files of repositories of which no file is known yet."""
        index = git.repository_path / "nested.index"
        found: list[bytes] = []
        try:
            while batch := nested[:_NESTED_REPOSITORIES_PER_BATCH]:
                index.unlink(missing_ok=True)
                lines = _join_nul_terminated(
                    b"100644 %s\t%s.joey" % (_EMPTY_BLOB_ID, directory) for directory in batch
                )
                await git.run_git(*_UPDATE_INDEX_COMMAND, "--index-info", stdin=lines, index=index)
                listed = await self._list_untracked(git, *batch, index=index)
                found += (path for path in listed if not path.endswith(b"/"))
                nested = nested[len(batch) :] + [path for path in listed if path.endswith(b"/")]
        finally:
            index.unlink(missing_ok=True)
        return found

    async def _list_force_added(self, seen: Iterable[bytes]) -> list[bytes]:
        """List files that are ignored, but in the user's repository nevertheless.

        Run for the first scan, and when ignore rules have changed.
        """
        if find_repository_root(self._workspace) is None:
            return []
        ignore = (path for path in seen if path.rpartition(b"/")[2] == b".gitignore")
        if self._has_listed_force_added and next(ignore, None) is None:
            return []
        question = ("ls-files", "-z", "--cached", "--ignored", "--exclude-per-directory=.gitignore")
        try:
            theirs = await Git.open_at(self._workspace)
            listed = await theirs.run_bytes(*question, max_output_bytes=_MAX_TRACKED_LIST_BYTES)
        except ToolError as error:
            log.info("files that are ignored are not kept: %s", error)
            listed = b""
        self._has_listed_force_added = True
        return listed.split(b"\0")[:-1]

    async def _write_tree(self, git: ShadowRepository, is_new: bool) -> str:
        """Write the tree of the index."""
        if (
            not is_new
            and self._cached_tree is not None
            and self._cached_tree[0] == read_fingerprint(git.index_path)
        ):
            return self._cached_tree[1]
        tree = (await git.run_git("write-tree")).decode().strip()
        self._cached_tree = (read_fingerprint(git.index_path), tree)
        return tree

    def _write_exclude_file(self, git: ShadowRepository) -> None:
        path = git.repository_path / "info" / "exclude"
        rules = build_exclude_rules(self._workspace)
        if not path.exists() or path.read_bytes() != rules:
            write_private_file(path, rules)


_UPDATE_INDEX_COMMAND = ("update-index", "-z")
_PENDING_INDEX_FILE = "news.files"
_REMOVED_INDEX_ENTRY = b"0 " + b"0" * 40


def append_pending_index_entries(
    git: ShadowRepository, kept: Mapping[bytes, TreeEntry], dropped: Iterable[bytes]
) -> None:
    """Append saved files that are not in the index, and those to remove from it: a known file stays
    known, also for the next process, even if it is ignored by then. Raises OSError."""
    lines = [b"%s\t%s\0" % (_REMOVED_INDEX_ENTRY, path) for path in dropped]
    lines += (b"%s %s\t%s\0" % (mode, blob.encode(), path) for path, (mode, blob) in kept.items())
    if lines:
        path = git.repository_path / _PENDING_INDEX_FILE
        with os.fdopen(open_private_file(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
            file.write(b"".join(lines))


async def _apply_pending_index_entries(git: ShadowRepository) -> None:
    """Apply pending entries to the index. Raises CheckpointError."""
    news = git.repository_path / _PENDING_INDEX_FILE
    if not news.exists():
        return
    whole, end, _ = news.read_bytes().rpartition(b"\0")
    try:
        await git.run_git(*_UPDATE_INDEX_COMMAND, "--index-info", stdin=whole + end)
    except ShadowGitError:
        news.unlink()
        raise
    news.unlink()


async def _add_to_index(git: ShadowRepository, paths: Sequence[bytes]) -> frozenset[bytes]:
    """Add files to the index batch by batch, so that an interruption keeps finished batches.

    Returns those that could not be saved: they disappeared meanwhile, or cannot be read.
    """
    settings = {}
    if len(paths) >= _MIN_FILES_TO_PACK:
        version = re.search(rb"(\d+)\.(\d+)", await git.run_git("version"))
        if version and (int(version[1]), int(version[2])) >= _MIN_PACKING_GIT_VERSION:
            settings = {"core.bigFileThreshold": "0"}
    remaining = iter(paths)
    refused: set[bytes] = set()
    while batch := list(islice(remaining, _FILES_PER_BATCH)):
        while batch:
            try:
                await git.run_git(
                    *(*_UPDATE_INDEX_COMMAND, "--add", "--replace", "--stdin"),
                    stdin=_join_nul_terminated(batch),
                    settings=settings,
                    timeout_s=_BATCH_TIMEOUT_S,
                )
                break
            except ShadowGitError as refusal:
                culprit = _find_failing_path(refusal, batch)
                if culprit is None or len(refused) == _MAX_REFUSED_FILES:
                    raise _WorkspaceChangedError(
                        f"files change while they are kept: {refusal}"
                    ) from refusal
                log.info("%r is not kept: %s", culprit, refusal)
                refused.add(culprit)
                batch.remove(culprit)
    return frozenset(refused)


def _find_failing_path(refusal: ShadowGitError, batch: Sequence[bytes]) -> bytes | None:
    """Find the file at which git failed, if it can be determined. Raises errors without a file."""
    if (named := _UNPROCESSED_PATH_RE.search(refusal.stderr)) is None:
        raise refusal
    return next((path for path in batch if path.decode(errors="replace") == named[1]), None)


def plan_index_update(
    root: Path, changed: Iterable[tuple[bytes, bytes]], others: Iterable[bytes]
) -> IndexUpdatePlan:
    keep: list[bytes] = []
    drop: list[bytes] = []
    left_out: set[bytes] = set()
    size = 0
    place = os.fsencode(root) + b"/"
    for letter, path in [*changed, *((b"", path) for path in others)]:
        facts = None if letter == b"D" else _lstat_storable(place, path)
        if facts is not None and _can_store(facts, place, path):
            keep.append(path)
            size += facts.st_size
            continue
        if facts is not None:
            left_out.add(path)
        if letter:
            drop.append(path)
    return IndexUpdatePlan(keep, drop, frozenset(left_out), size)


def _is_directory(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _lstat_storable(place: bytes, path: bytes) -> os.stat_result | None:
    """Stat a file or link whose name git accepts."""
    if b".git" in path.lower().split(b"/"):
        return None
    try:
        facts = os.lstat(place + path)
    except OSError:
        return None
    return facts if stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode) else None


def _can_store(facts: os.stat_result, place: bytes, path: bytes) -> bool:
    if stat.S_ISLNK(facts.st_mode):
        return not path.lower().endswith(b".gitmodules")  # which git refuses
    return facts.st_size <= MAX_FILE_BYTES and os.access(place + path, os.R_OK)


def _join_nul_terminated(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


MAX_FILE_BYTES = 10 * 1024 * 1024
_MAX_GITIGNORE_BYTES = 1024 * 1024
_GENERATED_DIRECTORIES = """
    node_modules bower_components __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache
    .ruff_cache .gradle .next .nuxt .svelte-kit .parcel-cache .turbo .terraform
""".split()  # noqa: SIM905 (a table)
_NON_PROJECT_DIRECTORIES = ("Desktop", "Documents", "Downloads")


def check_workspace(root: Path, home: Path) -> None:
    """Check the workspace. Raises CheckpointError, which says why its files are not saved."""
    if _is_no_project(root):
        raise CheckpointError(
            f"the files of {root} are not kept: it is a home or system directory, not a project. "
            f"Work in a separate folder to get checkpoints."
        )
    if not root.is_dir():
        raise CheckpointError(f"the folder {root} does not exist. Restore it and try again.")
    if root == home or home.joinpath("checkpoints") in (root, *root.parents):
        raise CheckpointError(f"the files of {root} are not kept: they are joey's own.")


@cache
def _is_no_project(root: Path) -> bool:
    """Whether the directory is not a project; checked before each snapshot."""
    if is_root_or_home(root):
        return True
    try:
        user_home = Path.home()
    except RuntimeError:  # a user without a home
        return False
    return root in {Path(os.path.realpath(user_home / name)) for name in _NON_PROJECT_DIRECTORIES}


def build_exclude_rules(root: Path) -> bytes:
    """Build rules for `info/exclude`, which has lower precedence than every `.gitignore` of the
    workspace."""
    rules = [f"{name}/".encode() for name in _GENERATED_DIRECTORIES]
    return b"\n".join([*rules, *_collect_parent_rules(root), b""])


def _collect_parent_rules(root: Path) -> list[bytes]:
    top = find_repository_root(root)
    if top is None or top == root:
        return []
    directories = [
        directory for directory in reversed(root.parents) if top in (directory, *directory.parents)
    ]
    found: list[bytes] = []
    for directory in directories:
        lines = _read_gitignore(directory / ".gitignore")
        below = root.relative_to(directory)
        try:
            if GitIgnore(b"\n".join(lines)).is_ignored(os.fsencode(below), is_dir=True):
                # The whole workspace is ignored: only a few files of a home directory are in git.
                return []
        except ValueError as error:
            log.warning("rules above %s are not understood: %s", below, error)
            return []
        found += (rule for line in lines if (rule := _rebase_rule(line, below.parts)))
    return found


def _rebase_rule(line: bytes, below: tuple[str, ...]) -> bytes | None:
    """Rebase a rule from a parent directory; None if it does not apply here."""
    rule = line.removeprefix(b"!")
    mark = line[: len(line) - len(rule)]
    if b"/" not in rule.rstrip(b"/") or rule.startswith(b"**/"):
        return line
    pieces = os.fsdecode(rule.removeprefix(b"/")).split("/")
    for name in below:
        if len(pieces) < 2 or not fnmatchcase(name, pieces[0]):
            return None
        if pieces[0] == "**":
            break
        pieces = pieces[1:]
    return mark + b"/" + os.fsencode("/".join(pieces)) if any(pieces) else None


def _read_gitignore(path: Path) -> list[bytes]:
    try:
        with open_regular_file(path, follow_symlinks=False) as file:
            text = file.read(_MAX_GITIGNORE_BYTES + 1)
    except (IsADirectoryError, NotRegularFileError):
        text = None
    except OSError:
        # There is none, or it may not be read: then git would not follow it either.
        return []
    if text is None or len(text) > _MAX_GITIGNORE_BYTES:
        log.warning("%s is not followed: it is no file of reasonable size", path)
        return []
    return [line for line in text.splitlines() if line.strip() and not line.startswith(b"#")]
