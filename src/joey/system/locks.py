"""Locks between processes: advisory locks of the kernel, which end with their owner."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from joey.errors import ConfigError
from joey.system.files import make_private_directory, open_private_file

_UPDATE_TIMEOUT_S = 5.0
_POLL_INTERVAL_S = 0.01
_ASYNC_POLL_INTERVAL_S = 0.05


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file or directory until its descriptor is closed; False if it is locked
    already."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release the lock now. Closing the descriptor may leave it with a child that another thread is
    starting, until that has executed its program."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def try_lock_file(path: Path) -> int | None:
    """Return the descriptor that holds the lock, or None if another process holds it. The file is
    created; one that was unlinked meanwhile does not count. Raises OSError."""
    descriptor = open_private_file(path)
    try:
        if try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except FileNotFoundError:
        pass  # the whole folder was just removed
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


async def wait_for_lock(attempt: Callable[[], int | None], timeout_s: float) -> int | None:
    """Return the descriptor of the first successful attempt; None after the timeout."""
    import asyncio  # imported late: commands without an event loop use locks too

    deadline = time.monotonic() + timeout_s
    while (descriptor := attempt()) is None:
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(_ASYNC_POLL_INTERVAL_S)
    return descriptor


@contextmanager
def lock_directory(directory: Path, timeout_s: float = math.inf) -> Iterator[None]:
    """Hold the lock of a directory. Raises BlockingIOError if another process holds it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + timeout_s
        while not try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise BlockingIOError(errno.EAGAIN, "another process holds it")
            time.sleep(_POLL_INTERVAL_S)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def lock_for_update(path: Path) -> Iterator[None]:
    """Hold the lock while reading, changing and writing a file; other processes wait. Raises
    ConfigError if another one does not finish, or the directory cannot be used."""
    with ExitStack() as stack:
        try:
            make_private_directory(path.parent)
            stack.enter_context(lock_directory(path.parent, _UPDATE_TIMEOUT_S))
        except BlockingIOError:
            raise ConfigError(f"{path} is being changed by another process. Try again.") from None
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
        yield
