"""Filing of spooled exchanges into the book.

A thread of the recording process files them without delaying traffic; the next command files those
of a dead process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from msgspec import Struct

from joey.errors import StoreError
from joey.proxy.book import Book, open_book
from joey.proxy.spool import (
    get_spool_root,
    list_spool_files,
    lock_dead_directory,
    remove_dead_directory,
)
from joey.proxy.spool_reader import SpoolReader, UnreadableSpoolError

log = logging.getLogger(__name__)

_PRUNE_INTERVAL_S = 600.0


class BookLimits(Struct, frozen=True):
    """Limits beyond which exchanges are removed from the book."""

    max_age_ms: int | None = None
    max_bytes: int | None = None

    def apply(self, book: Book) -> None:
        """Raises StoreError."""
        if self.max_age_ms is not None:
            book.forget_before(int(time.time() * 1000) - self.max_age_ms)
        if self.max_bytes is not None:
            book.shrink(self.max_bytes)


def open_filed_book(path: Path) -> Book:
    """Open the book after filing all ended exchanges: those of dead processes, and those that
    running ones are about to file. Raises StoreError."""
    book = open_book(path)
    try:
        file_left_spools(book)
    except BaseException:
        book.close()
        raise
    return book


def file_left_spools(book: Book) -> None:
    """Raises StoreError."""
    root = get_spool_root(book.path)
    try:
        for directory in sorted(root.iterdir()) if root.exists() else ():
            _file_directory(book, directory)
    except OSError as error:
        raise StoreError(f"The spool {root} cannot be read: {error.strerror}.") from error


def _file_directory(book: Book, directory: Path) -> None:
    try:
        lock = lock_dead_directory(directory)
    except (FileNotFoundError, NotADirectoryError):
        return  # another process has just removed it
    for path in list_spool_files(directory):
        file_spool(book, path, is_dead=lock is not None)
    if lock is not None:
        remove_dead_directory(directory, lock)


def file_spool(book: Book, path: Path, *, is_dead: bool = False) -> bool:
    """File a spooled exchange if it, or its process, has ended; return whether it is in the book.
    Raises StoreError or OSError."""
    try:
        with SpoolReader(path) as spool:
            if spool.is_complete or is_dead:
                name = f"{path.parent.name}/{path.stem}"
                requests, responses = spool.iter_request(), spool.iter_response()
                book.add(spool.exchange, requests, responses, spool=name)
                return True
    except FileNotFoundError:
        pass  # its own process was faster
    except UnreadableSpoolError:
        log.debug("%s contains no request", path)
    return False


class FilingThread:
    """Files exchanges of this process when they end."""

    def __init__(self, book: Path, limits: BookLimits, on_failure: Callable[[str], None]) -> None:
        """`on_failure` is called once in the thread; the spool then keeps the exchanges that were
        not filed."""
        self._book_path = book
        self._limits = limits
        self._on_failure = on_failure
        self._ended: SimpleQueue[Path | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="joey-filing", daemon=True)
        self._thread.start()

    def add(self, spool: Path) -> None:
        self._ended.put(spool)

    def close(self) -> None:
        """Return when all ended exchanges are filed."""
        self._ended.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            with open_book(self._book_path) as book:
                self._limits.apply(book)
                pruned_at = time.monotonic()
                while (path := self._ended.get()) is not None:
                    if file_spool(book, path):
                        path.unlink(missing_ok=True)
                    if time.monotonic() > pruned_at + _PRUNE_INTERVAL_S:
                        self._limits.apply(book)
                        pruned_at = time.monotonic()
        except (StoreError, OSError) as error:
            self._on_failure(str(error))
