"""The differences between two checkpoints, and the contents of their files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from joey.core.file_state import FileChange, FileDiff
from joey.errors import CheckpointError
from joey.workspace.checkpoints.scan import WorkspaceSnapshot
from joey.workspace.checkpoints.shadow_repo import ShadowGitError, ShadowRepository
from joey.workspace.files import to_printable_name

_MAX_DIFFED_FILES = 200
_MAX_FILE_BYTES = 256 * 1024
_MAX_TOTAL_BYTES = 16 * 1024 * 1024
_MAX_BATCH_BYTES = 32 * 1024 * 1024
_ABSENT_MODE = "000000"


class TreeDiffEntry(Struct, frozen=True):
    """One path, before and after; a mode of zeros where there is no file."""

    path: bytes
    old_mode: str
    new_mode: str
    old_blob: str
    new_blob: str

    @property
    def kind(self) -> Literal["added", "changed", "removed"]:
        if self.old_mode == _ABSENT_MODE:
            return "added"
        return "removed" if self.new_mode == _ABSENT_MODE else "changed"

    @property
    def file_change(self) -> FileChange:
        return FileChange(_format_path(self.path), self.kind)


async def diff_snapshots(
    git: ShadowRepository, since: WorkspaceSnapshot, until: WorkspaceSnapshot
) -> list[TreeDiffEntry]:
    """Between two moments, but for files of which one of them knows nothing."""
    if since.tree == until.tree:
        return []
    command = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    try:
        fields = (await git.run_git(*command, since.tree, until.tree)).split(b"\0")
    except ShadowGitError as refusal:
        raise _build_damaged_error(str(refusal)) from refusal
    unknown = since.skipped_files | until.skipped_files
    found = []
    for facts, path in zip(fields[0::2], fields[1::2], strict=False):
        if path not in unknown:
            old_mode, mode, old_blob, blob, _ = facts.decode().removeprefix(":").split(" ")
            found.append(TreeDiffEntry(path, old_mode, mode, old_blob, blob))
    return found


async def load_file_diffs(git: ShadowRepository, found: Sequence[TreeDiffEntry]) -> list[FileDiff]:
    """With what the first of the files held, as far as it is text, and not too much of it."""
    wanted = found[:_MAX_DIFFED_FILES]
    sizes = await read_blob_sizes(git, _iter_blob_ids(wanted))
    small = {blob: size for blob, size in sizes.items() if size <= _MAX_FILE_BYTES}
    shown: dict[str, int] = {}
    for blob, size in small.items():
        if sum(shown.values()) + size <= _MAX_TOTAL_BYTES:
            shown[blob] = size
    held = {blob: _decode_text(data) async for blob, data in iter_blobs(git, shown)}
    return [
        FileDiff(_format_path(one.path), one.kind, held.get(one.old_blob), held.get(one.new_blob))
        for one in found
    ]


async def read_blob_sizes(git: ShadowRepository, wanted: Iterable[str]) -> dict[str, int]:
    """Raises CheckpointError: one of them is missing."""
    asked = "".join(f"{blob}\n" for blob in dict.fromkeys(wanted))
    if not asked:
        return {}
    try:
        lines = (await git.run_git("cat-file", "--batch-check", stdin=asked.encode())).decode()
    except ShadowGitError as refusal:
        raise _build_damaged_error(str(refusal)) from refusal
    sizes = {}
    for line in lines.splitlines():
        blob, kind, *size = line.split(" ")
        if kind != "blob":
            raise _build_damaged_error(f"{blob} is {kind}")
        sizes[blob] = int(size[0])
    return sizes


async def iter_blobs(
    git: ShadowRepository, sizes: Mapping[str, int]
) -> AsyncIterator[tuple[str, bytes]]:
    """What they hold, not too much at a time. Raises CheckpointError."""
    for batch in _iter_batches(sizes):
        asked = "".join(f"{blob}\n" for blob in batch).encode()
        try:
            printed = await git.run_git("cat-file", "--batch", stdin=asked)
        except ShadowGitError as refusal:
            raise _build_damaged_error(str(refusal)) from refusal
        at = 0
        for blob in batch:
            # "<blob> blob <size>\n", the bytes, and another line end
            start = printed.index(b"\n", at) + 1
            end = start + sizes[blob]
            yield blob, printed[start:end]
            at = end + 1


def _iter_batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    room = _MAX_BATCH_BYTES
    for blob, size in sizes.items():
        if batch and size > room:
            yield batch
            batch, room = [], _MAX_BATCH_BYTES
        batch.append(blob)
        room -= size
    if batch:
        yield batch


def _iter_blob_ids(found: Iterable[TreeDiffEntry]) -> Iterator[str]:
    for one in found:
        if one.old_mode != _ABSENT_MODE:
            yield one.old_blob
        if one.new_mode != _ABSENT_MODE:
            yield one.new_blob


def _decode_text(data: bytes) -> str | None:
    return None if b"\0" in data else data.decode(errors="replace")


def _format_path(path: bytes) -> str:
    return to_printable_name(os.fsdecode(path))


def _build_damaged_error(reason: str) -> CheckpointError:
    return CheckpointError(f"what was kept is damaged, and cannot be read: {reason}.")
