"""One process holds a task at a time.

The truth is an advisory lock of the kernel on the file `lock`: it ends with the process that took
it, however that ends, so a dead holder never blocks anybody. What is written in the file only
serves the message to whoever comes second. The file stays when the lock is released; removing it
would let two processes lock two files of the same name.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.errors import TaskLockedError
from joey.stores.layout import LOCK
from joey.system.files import FILE_MODE, storage_error, write_fully

_log = logging.getLogger(__name__)

_LOOKS, _BETWEEN = 50, 0.02
"""How often, and how many seconds apart, the lock of a process that has ended is tried."""


class Holder(Struct, frozen=True, omit_defaults=True):
    pid: int
    since: int
    """Milliseconds since 1970."""
    started: int | None = None
    """The process's start in the kernel's own count: tells it from a later one of the same pid."""


class TaskLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, folder: Path, task_id: str) -> TaskLock:
        """Raises TaskLockedError when another holder lives."""
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
        except OSError as error:
            raise storage_error(f"could not lock task {task_id}", folder, error) from error
        try:
            os.fchmod(descriptor, FILE_MODE)
            _lock(descriptor)
        except BlockingIOError as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            raise TaskLockedError(_describe(task_id, holder)) from error
        except OSError as error:
            os.close(descriptor)
            raise storage_error(f"could not lock task {task_id}", folder, error) from error
        _sign(descriptor, folder)
        return cls(descriptor)

    def release(self) -> None:
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Raises BlockingIOError when somebody else has it.

    A process that was killed while it started another leaves the lock in that one's hands until
    it has become the program it was started for: a moment, which is worth waiting for.
    """
    for _ in range(_LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read_holder(descriptor)
            if holder is None or not _has_ended(holder):
                raise
            time.sleep(_BETWEEN)
        else:
            return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _has_ended(holder: Holder) -> bool:
    return holder.started is not None and process_start(holder.pid) != holder.started


def is_held(folder: Path) -> bool:
    """Whether a living process has the task.

    The lock is tried only where somebody has signed and not signed off, so that nobody who comes
    to take a free task finds us there.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error("could not look who holds the task", folder, error) from error
    try:
        if os.fstat(descriptor).st_size:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _sign(descriptor: int, folder: Path) -> None:
    """Say who we are; on a full disk the lock holds without it."""
    pid = os.getpid()
    holder = Holder(pid=pid, since=time.time_ns() // 1_000_000, started=process_start(pid))
    try:
        os.ftruncate(descriptor, 0)
        write_fully(descriptor, msgspec.json.encode(holder))
    except OSError as error:
        _log.warning("could not write who holds the lock in %s: %s", folder, error)


def process_start(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None when it is gone or cannot be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may hold anything.
    fields = stat.rpartition(")")[2].split()
    return int(fields[19])


def _read_holder(descriptor: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Holder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        # The holder may be just about to write its name.
        return None


def _describe(task_id: str, holder: Holder | None) -> str:
    if holder is None:
        return f"task {task_id} is open in another process. Close it there and try again."
    since = datetime.fromtimestamp(holder.since / 1000).astimezone().isoformat(" ", "seconds")
    if holder.pid == os.getpid():
        return f"task {task_id} is already open in this process (since {since})."
    if _has_ended(holder):
        return (
            f"task {task_id} is open in a process left behind by process {holder.pid}, which took"
            f" it at {since} and has ended. Stop that process and try again."
        )
    return (
        f"task {task_id} is open in process {holder.pid} since {since}."
        " Close it there, or stop that process, and try again."
    )
