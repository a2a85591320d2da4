"""The directory of a task: its name, the files in it, its lock.

    $JOEY_HOME/tasks/task_<id>/          or tasks/<id>/, as Roo names them
        journal.jsonl                    the truth
        ui_messages.json                 } snapshots for people, for Roo and for adoption;
        api_conversation_history.json    } not read back while there is a journal
        task_metadata.json               what the list of tasks shows
        command-output/
        lock

One process at a time has a task open, by an advisory lock on the file `lock`: it ends with its
process, so a dead holder never blocks a task. The content of the file is only used for error
messages. The file stays when the lock is released; removing it would let two processes lock two
files of the same name.

Shell completion finds the latest tasks by the names of their directories (`list_recent_tasks`),
which is quicker than any index. So this module must not import the rest of the store.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, field, structs

from joey.core.text import compile_regex
from joey.errors import TaskLockedError
from joey.system.files import (
    PRIVATE_FILE_MODE,
    build_storage_error,
    open_private_file,
    translate_storage_errors,
    write_fully,
)
from joey.system.locks import try_lock, unlock

JOURNAL_FILE = "journal.jsonl"
UI_HISTORY_FILE = "ui_messages.json"
API_HISTORY_FILE = "api_conversation_history.json"
LEGACY_HISTORY_FILE = "claude_messages.json"
METADATA_FILE = "task_metadata.json"
HISTORY_ITEM_FILE = "history_item.json"
IMPORT_MARKER_FILE = "imported.json"
"""Marks a copy of another user's task made by `joey tasks import`."""
COMMAND_OUTPUT_DIRECTORY = "command-output"
LOCK_FILE = "lock"
INDEX_FILE = "index.sqlite"
"""Beside `tasks/`."""
WORKTREES_DIRECTORY = "worktrees"
"""Beside `tasks/`, too: where subtasks work that have a worktree of their own."""

TASK_DIRECTORY_PREFIX = "task_"
_HISTORY_FILES = (UI_HISTORY_FILE, API_HISTORY_FILE, LEGACY_HISTORY_FILE)
_TASK_ID_RE = compile_regex(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


def normalize_task_id(task_id: str) -> str | None:
    """Return the id without the directory's prefix; None if it is not a valid directory name."""
    bare = task_id.removeprefix(TASK_DIRECTORY_PREFIX)
    return bare if _TASK_ID_RE.fullmatch(bare) else None


def build_task_directory_path(tasks: Path, task_id: str) -> Path:
    return tasks / f"{TASK_DIRECTORY_PREFIX}{task_id}"


def find_task_directory(tasks: Path, task_id: str) -> Path | None:
    """Find the directory with this task's history, in either spelling."""
    spellings = (build_task_directory_path(tasks, task_id), tasks / task_id)
    return next(filter(has_history, spellings), None)


def has_history(directory: Path) -> bool:
    return (directory / JOURNAL_FILE).is_file() or has_history_snapshots(directory)


def has_history_snapshots(directory: Path) -> bool:
    """Whether there are snapshots to adopt the task from."""
    return any((directory / name).is_file() for name in _HISTORY_FILES)


_MAX_METADATA_BYTES = 64 * 1024


class RecentTask(Struct, frozen=True):
    id: str = ""
    title: str = ""
    workspace: str = ""


def list_recent_tasks(tasks: Path, id_prefix: str, limit: int) -> list[RecentTask]:
    """List tasks whose ids begin like this, the latest first: ids begin with the time."""
    try:
        with os.scandir(tasks) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return []
    wanted = id_prefix.removeprefix(TASK_DIRECTORY_PREFIX)
    ids = {bare: name for name in sorted(names) if (bare := normalize_task_id(name)) is not None}
    found = sorted((each for each in ids if each.startswith(wanted)), reverse=True)
    return [_read_recent_task(tasks / ids[each], each) for each in found[:limit]]


def _read_recent_task(directory: Path, task_id: str) -> RecentTask:
    try:
        with (directory / METADATA_FILE).open("rb") as file:
            found = msgspec.json.decode(file.read(_MAX_METADATA_BYTES), type=RecentTask)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return RecentTask(task_id)  # just begun, or of another program
    return structs.replace(found, id=task_id)


_log = logging.getLogger(__name__)

_LOCK_ATTEMPTS, _LOCK_RETRY_DELAY_S = 50, 0.02
"""For the lock of a process that has ended."""


class LockOwner(Struct, frozen=True, omit_defaults=True):
    pid: int
    acquired_at_ms: int = field(name="since")
    """Milliseconds since 1970."""
    process_start_ticks: int | None = field(default=None, name="started")
    """The process's start in the kernel's own count: tells it from a later one of the same pid."""


class TaskLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, directory: Path, task_id: str) -> TaskLock:
        """Acquire the lock. Raises TaskLockedError if another live process holds it."""
        with translate_storage_errors(f"could not lock task {task_id}", directory):
            descriptor = open_private_file(directory / LOCK_FILE)
        try:
            os.fchmod(descriptor, PRIVATE_FILE_MODE)
            _acquire_flock(descriptor)
        except BlockingIOError as error:
            holder = _read_lock_owner(descriptor)
            os.close(descriptor)
            raise TaskLockedError(_format_locked_message(task_id, holder)) from error
        except OSError as error:
            os.close(descriptor)
            raise build_storage_error(f"could not lock task {task_id}", directory, error) from error
        _write_lock_owner(descriptor, directory)
        return cls(descriptor)

    def release(self) -> None:
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        os.ftruncate(descriptor, 0)
        unlock(descriptor)
        os.close(descriptor)


def _acquire_flock(descriptor: int) -> None:
    """Acquire the lock. Raises BlockingIOError if another process holds it. A process killed while
    starting another one leaves the lock to that child until it executes its program: a moment that
    is worth waiting for."""
    for _ in range(_LOCK_ATTEMPTS):
        if try_lock(descriptor):
            return
        holder = _read_lock_owner(descriptor)
        if holder is None or not _is_owner_dead(holder):
            break
        time.sleep(_LOCK_RETRY_DELAY_S)
    raise BlockingIOError(errno.EAGAIN, "another process holds it")


def _is_owner_dead(holder: LockOwner) -> bool:
    return (
        holder.process_start_ticks is not None
        and read_process_start_ticks(holder.pid) != holder.process_start_ticks
    )


def is_locked(directory: Path) -> bool:
    """Whether a live process holds the task. The lock is tried only if the last holder has not
    signed off, so that this check does not block a process that opens a free task."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise build_storage_error(
            "could not determine which process holds the task", directory, error
        ) from error
    try:
        return os.fstat(descriptor).st_size > 0 and not try_lock(descriptor, shared=True)
    finally:
        unlock(descriptor)
        os.close(descriptor)


def _write_lock_owner(descriptor: int, directory: Path) -> None:
    """Write who holds the lock; on a full disk the lock works without it."""
    pid = os.getpid()
    holder = LockOwner(
        pid=pid,
        acquired_at_ms=time.time_ns() // 1_000_000,
        process_start_ticks=read_process_start_ticks(pid),
    )
    try:
        os.ftruncate(descriptor, 0)
        write_fully(descriptor, msgspec.json.encode(holder))
    except OSError as error:
        _log.warning("could not write who holds the lock in %s: %s", directory, error)


def read_process_start_ticks(pid: int) -> int | None:
    """Read the clock ticks from boot to the start of a process; None if it is gone or not
    visible."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may contain any character.
    return int(stat.rpartition(")")[2].split()[19])


def _read_lock_owner(descriptor: int) -> LockOwner | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=LockOwner)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None  # the holder may be just about to write its name


def _format_locked_message(task_id: str, holder: LockOwner | None) -> str:
    if holder is None:
        return f"task {task_id} is open in another process. Close it there and try again."
    since = (
        datetime.fromtimestamp(holder.acquired_at_ms / 1000).astimezone().isoformat(" ", "seconds")
    )
    if holder.pid == os.getpid():
        return f"task {task_id} is already open in this process (since {since})."
    if _is_owner_dead(holder):
        return (
            f"task {task_id} is still open in a child of process {holder.pid}, which opened it at "
            f"{since} and has exited. Stop that process and try again."
        )
    return (
        f"task {task_id} is open in process {holder.pid} since {since}."
        f" If it is joey serve, use joey attach {task_id}; otherwise close the task there, or stop"
        " that process, and try again."
    )
