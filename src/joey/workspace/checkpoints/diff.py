"""The differences between two checkpoints, and the contents of their files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

from joey.core.file_state import FileChange, FileDiff
from joey.errors import CheckpointError
from joey.workspace.checkpoints.scan import WorkspaceSnapshot
from joey.workspace.checkpoints.shadow_repo import ShadowGitError, ShadowRepository
from joey.workspace.files import to_printable_name
from joey.workspace.git.trees import RAW_DIFF_OPTIONS, TreeChange, parse_raw_diff

_PATCH_COMMAND = (
    *("diff-tree", "-r", "--patch", "--binary", "--full-index", "--no-renames"),
    *("--no-textconv", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/"),
)
_MAX_DIFFED_FILES = 200
_MAX_FILE_BYTES = 256 * 1024
_MAX_TOTAL_BYTES = 16 * 1024 * 1024
_MAX_BATCH_BYTES = 32 * 1024 * 1024


async def diff_snapshots(
    git: ShadowRepository, since: WorkspaceSnapshot, until: WorkspaceSnapshot
) -> list[TreeChange]:
    """Return the differences between two snapshots, except for files unknown to one of them."""
    if since.tree == until.tree:
        return []
    listed = await _run_git(git, "diff-tree", *RAW_DIFF_OPTIONS, since.tree, until.tree)
    unknown = since.skipped_files | until.skipped_files
    return [change for change in parse_raw_diff(listed) if change.path not in unknown]


async def build_patch(
    git: ShadowRepository, since: WorkspaceSnapshot, until: WorkspaceSnapshot
) -> bytes:
    """Build a patch for `git apply`, with binary files."""
    if since.tree == until.tree:
        return b""
    unknown = sorted(since.skipped_files | until.skipped_files)
    others = (f":(exclude,literal){os.fsdecode(path)}" for path in unknown)
    return await _run_git(git, *_PATCH_COMMAND, since.tree, until.tree, "--", ".", *others)


def to_file_change(change: TreeChange) -> FileChange:
    return FileChange(_format_path(change.path), change.kind)


async def load_file_diffs(git: ShadowRepository, found: Sequence[TreeChange]) -> list[FileDiff]:
    """Load the differences with the texts of the first files, up to a size limit."""
    wanted = (blob for one in found[:_MAX_DIFFED_FILES] for blob in (one.old_blob, one.new_blob))
    blobs = (blob for blob in wanted if blob.strip("0"))  # all zeros: there is no file
    shown: dict[str, int] = {}
    for blob, size in (await read_blob_sizes(git, blobs)).items():
        if size <= _MAX_FILE_BYTES and sum(shown.values()) + size <= _MAX_TOTAL_BYTES:
            shown[blob] = size
    held = {
        blob: None if b"\0" in data else data.decode(errors="replace")
        async for blob, data in iter_blobs(git, shown)
    }
    return [
        FileDiff(_format_path(one.path), one.kind, held.get(one.old_blob), held.get(one.new_blob))
        for one in found
    ]


async def read_blob_sizes(git: ShadowRepository, wanted: Iterable[str]) -> dict[str, int]:
    """Read the sizes of blobs. Raises CheckpointError if one of them is missing."""
    asked = "".join(f"{blob}\n" for blob in dict.fromkeys(wanted))
    if not asked:
        return {}
    lines = await _run_git(git, "cat-file", "--batch-check", stdin=asked.encode())
    sizes = {}
    for line in lines.decode().splitlines():
        blob, kind, *size = line.split(" ")
        if kind != "blob":
            raise _build_damaged_error(f"{blob} is {kind}")
        sizes[blob] = int(size[0])
    return sizes


async def iter_blobs(
    git: ShadowRepository, sizes: Mapping[str, int]
) -> AsyncIterator[tuple[str, bytes]]:
    """Iterate over the contents of blobs in batches. Raises CheckpointError."""
    for batch in _iter_batches(sizes):
        asked = "".join(f"{blob}\n" for blob in batch).encode()
        printed = await _run_git(git, "cat-file", "--batch", stdin=asked)
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


def _format_path(path: bytes) -> str:
    return to_printable_name(os.fsdecode(path))


async def _run_git(git: ShadowRepository, *arguments: str, stdin: bytes | None = None) -> bytes:
    try:
        return await git.run_git(*arguments, stdin=stdin)
    except ShadowGitError as refusal:
        raise _build_damaged_error(str(refusal)) from refusal


def _build_damaged_error(reason: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint is damaged and cannot be read: {reason}.")
