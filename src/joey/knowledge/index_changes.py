"""What is different on disk from what the index knows, and reading it in."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from joey.knowledge.encodings import text_of
from joey.knowledge.index_store import IndexStore, Stamp
from joey.knowledge.index_text import Passage, passages
from joey.ports import Listing

LARGEST_FILE = 1024 * 1024
_BATCH = 50
"""Files in one transaction."""
_HEAD = 8192
_SETTLING = 100_000_000
"""Nanoseconds."""
UNSETTLED: Stamp = (0, 0, 0, 0)
"""Of a file that was changed a moment ago: it may be changed again within the same tick of the
disk's clock and look the same, so it is like no other."""
_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Changes(Struct, frozen=True):
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    listed: int
    cut: bool
    """There are more files than are listed."""

    @property
    def count(self) -> int:
        return len(self.changed) + len(self.gone)


class Progress:
    """How far reading is; looked at by others meanwhile."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0


def compare(
    root: Path,
    list_files: Callable[[], Listing],
    known: Mapping[str, Stamp],
    shows: Callable[[str], bool],
    doubtful: Collection[str] = (),
) -> Changes:
    """What of the listed files is new or different, and what is known but listed no more.

    A file that must not be shown counts as not listed; those that are known are asked about only
    when they have changed, or are `doubtful`. Listing and looking at what is known take
    about as long, and are done at the same time.
    """
    with ThreadPoolExecutor(1) as pool:
        listed = pool.submit(list_files)
        seen = {path: _stamp_on_disk(f"{root}/{path}") for path in known}
        listing = listed.result()
    changed = []
    left = set(known)
    for path in listing.entries:
        stamp = seen[path] if path in known else _stamp_on_disk(f"{root}/{path}")
        if stamp is None:
            continue
        if stamp != UNSETTLED and stamp == known.get(path) and path not in doubtful:
            left.discard(path)
        elif shows(path):
            left.discard(path)
            changed.append(path)
    return Changes(tuple(changed), tuple(left), len(listing.entries), listing.truncated)


def take_in(
    store: IndexStore, root: Path, changes: Changes, progress: Progress, stop: threading.Event
) -> bool:
    """Read what changed; False when it was stopped before the end."""
    progress.done, progress.total = 0, changes.count
    work = [*((path, False) for path in changes.gone), *((path, True) for path in changes.changed)]
    for start in range(0, len(work), _BATCH):
        with store.changes():
            for path, is_there in work[start : start + _BATCH]:
                if stop.is_set():
                    return False
                _take_in_file(store, root, path, is_there)
                progress.done += 1
            store.set_facts({"done": str(progress.done), "total": str(progress.total)})
    return True


def _take_in_file(store: IndexStore, root: Path, path: str, is_there: bool) -> None:
    read = _read(root, path) if is_there else None
    if read is None:
        store.drop(path)
        return
    stamp, data = read
    digest = blake2b(data, digest_size=16).digest()
    if not store.restamp(path, stamp, digest):
        store.put(path, stamp, digest, _passages(path, data))


def _passages(path: str, data: bytes) -> list[Passage]:
    """None for what is no text, or too much of it; such a file is known, but not found."""
    if len(data) > LARGEST_FILE:
        return []
    text = text_of(data)
    return [] if "\0" in text[:_HEAD] else passages(path, text)


def _read(root: Path, path: str) -> tuple[Stamp, bytes] | None:
    """What the file looks like and holds; None when it is not there any more, or no file."""
    try:
        descriptor = _open(root, path)
    except OSError as error:
        # A folder that is a link by now may lead anywhere.
        return None if error.errno in (errno.ELOOP, errno.ENOTDIR) else _unreadable(root / path)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return None
        size = facts.st_size
        return _stamp(facts), file.read(LARGEST_FILE + 1) if size <= LARGEST_FILE else b"\0"


def _open(root: Path, path: str) -> int:
    """Down from the root, without following a link that was put there after the listing."""
    *folders, name = path.split("/")
    current = os.open(root, _WALK)
    try:
        for folder in folders:
            below = os.open(folder, _WALK, dir_fd=current)
            os.close(current)
            current = below
        return os.open(name, _READ, dir_fd=current)
    finally:
        os.close(current)


def _unreadable(path: Path) -> tuple[Stamp, bytes] | None:
    """A file that may not be read is known, so that it is not tried again until it changes."""
    stamp = _stamp_on_disk(path)
    return None if stamp is None else (stamp, b"")


def _stamp_on_disk(path: Path | str) -> Stamp | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return _stamp(facts) if stat.S_ISREG(facts.st_mode) else None


def _stamp(facts: os.stat_result) -> Stamp:
    if abs(time.time_ns() - facts.st_ctime_ns) < _SETTLING:
        return UNSETTLED
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino
