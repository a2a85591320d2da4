"""Trees and other objects of the shadow repository, read and written without starting git.

A tree of the current files is built from an earlier one and the changes: only the directories on
the path to a change are read and written. Each object is a separate file, named after the hash of
its kind, length and data. git packs them later; reading from packs is left to git.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha1
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from joey.system.files import create_file, write_fully
from joey.workspace.checkpoints.shadow_repo import ShadowRepository

_TREE_MODE = b"40000"
_OBJECT_ID_BYTES = 20
_MAX_CACHED_TREES = 500


class TreeEntry(NamedTuple):
    """The object that a name refers to."""

    mode: bytes
    object_id: str


TreeEntries = dict[bytes, TreeEntry]


class TreeCache:
    """Caches trees that were read or written; the content of an id never changes."""

    def __init__(self) -> None:
        self._cached_trees: dict[str, TreeEntries] = {}

    async def load_trees(self, git: ShadowRepository, tree: str, paths: Iterable[bytes]) -> None:
        """Load all directories on the path to these files. Raises CheckpointError."""
        if len(self._cached_trees) > _MAX_CACHED_TREES:
            self._cached_trees.clear()
        pending = [(tree, list(paths))]
        while pending:
            name, below = pending.pop()
            if name not in self._cached_trees:
                if (data := _read_object(git.repository_path, b"tree", name)) is None:
                    data = await git.run_git("cat-file", "tree", name)
                self._cached_trees[name] = dict(_parse_tree(data))
            for directory, inside in _group_by_directory(dict.fromkeys(below))[1].items():
                entry = self._cached_trees[name].get(directory)
                if entry is not None and entry.mode == _TREE_MODE:
                    pending.append((entry.object_id, list(inside)))

    def has_file(self, tree: str, path: bytes) -> bool:
        """Whether there is such a file. Its directories must be loaded."""
        directory, slash, rest = path.partition(b"/")
        entry = self._cached_trees[tree].get(directory)
        if entry is None or (entry.mode == _TREE_MODE) is not bool(slash):
            return False
        return not slash or self.has_file(entry.object_id, rest)

    def write_changed_tree(
        self, repository: Path, tree: str, changes: Mapping[bytes, TreeEntry | None]
    ) -> str:
        """Write the tree in which these files are as given, or missing. Their directories must be
        loaded. Raises OSError."""
        return self._write_tree(
            repository, self._apply_changes(repository, self._cached_trees[tree], changes)
        )

    def _apply_changes(
        self, repository: Path, directory: TreeEntries, changes: Mapping[bytes, TreeEntry | None]
    ) -> TreeEntries:
        here, below = _group_by_directory(changes)
        kept = {
            name: entry
            for name, entry in directory.items()
            if name not in here or entry.mode == _TREE_MODE
        }
        for name, inside in below.items():
            entry = kept.pop(name, None)
            before = (
                self._cached_trees[entry.object_id] if entry and entry.mode == _TREE_MODE else {}
            )
            if after := self._apply_changes(repository, before, inside):
                kept[name] = TreeEntry(_TREE_MODE, self._write_tree(repository, after))
            elif entry and entry.mode != _TREE_MODE:
                kept[name] = entry
        return kept | {name: entry for name, entry in here.items() if entry is not None}

    def _write_tree(self, repository: Path, directory: TreeEntries) -> str:
        ordered = sorted(
            directory.items(),
            key=lambda item: item[0] + b"/" if item[1].mode == _TREE_MODE else item[0],
        )
        lines = (
            b"%s %s\0%s" % (entry.mode, name, bytes.fromhex(entry.object_id))
            for name, entry in ordered
        )
        tree = write_object(repository, b"tree", b"".join(lines))
        self._cached_trees[tree] = directory
        return tree


def _group_by_directory(
    changes: Mapping[bytes, TreeEntry | None],
) -> tuple[dict[bytes, TreeEntry | None], dict[bytes, dict[bytes, TreeEntry | None]]]:
    """Group the files of a directory itself and of its subdirectories."""
    here: dict[bytes, TreeEntry | None] = {}
    below: dict[bytes, dict[bytes, TreeEntry | None]] = {}
    for path, entry in changes.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            below.setdefault(name, {})[rest] = entry
        else:
            here[name] = entry
    return here, below


def _parse_tree(data: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
    at = 0
    while at < len(data):
        named = data.index(b"\0", at)
        mode, _, name = data[at:named].partition(b" ")
        at = named + 1 + _OBJECT_ID_BYTES
        yield name, TreeEntry(mode, data[named + 1 : at].hex())


_FILE_PERMISSIONS, _DIRECTORY_PERMISSIONS = 0o400, 0o700
_COMPRESSION_LEVEL = 1
"""This is about speed."""


def write_object(repository: Path, kind: bytes, data: bytes) -> str:
    """Write an object atomically and return its id. Raises OSError."""
    head = b"%s %d\0" % (kind, len(data))
    digest = sha1(head, usedforsecurity=False)
    digest.update(data)
    path = _build_object_path(repository, digest.hexdigest())
    if not path.exists():
        path.parent.mkdir(mode=_DIRECTORY_PERMISSIONS, exist_ok=True)
        # Under a name that git removes when it finds it left behind.
        new = path.with_name(f"tmp_obj_{token_hex(8)}")
        try:
            with create_file(new, _FILE_PERMISSIONS) as file:
                write_fully(file.fileno(), zlib.compress(head + data, _COMPRESSION_LEVEL))
            new.rename(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    return digest.hexdigest()


def _read_object(repository: Path, kind: bytes, wanted: str) -> bytes | None:
    """Read an object; None if git has to be asked."""
    try:
        whole = zlib.decompress(_build_object_path(repository, wanted).read_bytes())
    except (OSError, zlib.error):
        return None
    head, _, data = whole.partition(b"\0")
    return data if head == b"%s %d" % (kind, len(data)) else None


def _build_object_path(repository: Path, name: str) -> Path:
    return repository / "objects" / name[:2] / name[2:]
