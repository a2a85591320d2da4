"""Check and cleanup of the task store: stale locks, unfinished copies, broken tasks.

The check is quick: names, sizes and beginnings of files. Files that another process may still use
are only reported.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from joey.errors import StoreError
from joey.storage import task_directory as td
from joey.storage.journal import decode_journal
from joey.storage.task_store import find_abandoned_staging_directories
from joey.system.files import read_regular_file

MAX_CHECKED_TASKS = 2_000
"""Latest first."""
_JOURNAL_HEAD_BYTES = 64 * 1024


class StoreHealth(Struct, frozen=True):
    task_count: int = 0
    stale_locks: tuple[Path, ...] = ()
    """Folders whose lock names a process that is gone."""
    unfinished_copies: tuple[Path, ...] = ()
    """Copies that were never finished."""
    broken_tasks: tuple[tuple[str, str], ...] = ()
    """Names of folders, and what is wrong with each."""
    unreadable_journal_parts: tuple[Path, ...] = ()
    """Parts of journals that could not be read, and were moved aside."""


def check_store(tasks: Path) -> StoreHealth:
    """Raises OSError."""
    if not tasks.is_dir():
        return StoreHealth()
    with os.scandir(tasks) as entries:
        names = sorted(
            (each.name for each in entries if td.normalize_task_id(each.name)), reverse=True
        )
    directories = [tasks / name for name in names[:MAX_CHECKED_TASKS] if (tasks / name).is_dir()]
    return StoreHealth(
        task_count=len(names),
        stale_locks=tuple(directory for directory in directories if _has_stale_lock(directory)),
        unfinished_copies=tuple(find_abandoned_staging_directories(tasks)),
        broken_tasks=tuple(
            (directory.name, why) for directory in directories for why in _find_problems(directory)
        ),
        unreadable_journal_parts=tuple(
            path for each in directories for path in each.glob("journal.unreadable-*")
        ),
    )


def clean_up_store(state: StoreHealth) -> Iterator[str]:
    """Remove files that no process uses any more; return a sentence about each."""
    for directory in state.stale_locks:
        try:
            td.TaskLock.acquire(directory, directory.name).release()
        except StoreError as error:
            yield f"the lock of {directory.name} was left: {error}"
        else:
            yield f"the lock of {directory.name} is released"
    for path in state.unfinished_copies:
        shutil.rmtree(path, ignore_errors=True)
        yield f"{path} is {'still there' if path.exists() else 'removed'}"


def _has_stale_lock(directory: Path) -> bool:
    try:
        return (directory / td.LOCK_FILE).stat().st_size > 0 and not td.is_locked(directory)
    except (OSError, StoreError):
        return False


def _find_problems(directory: Path) -> Iterator[str]:
    try:
        if not td.has_history(directory):
            if any(directory.iterdir()) and not (directory / td.METADATA_FILE).exists():
                yield "it has no history"
            return
        head = read_regular_file(directory / td.JOURNAL_FILE, _JOURNAL_HEAD_BYTES)
        if head is not None and not head.strip():
            yield "its journal is empty"
        elif head is not None and b"\n" in head and not decode_journal(head)[0]:
            yield "the beginning of its journal cannot be read"
    except OSError as error:
        yield f"it cannot be read: {error.strerror}"
    except StoreError as error:
        yield str(error)
