"""Results of a batch: statuses, result lines, and the file to which they are appended."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from joey.system.files import (
    open_private_file,
    sync_directory,
    translate_storage_errors,
    write_fully,
)
from joey.system.locks import lock_directory

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from joey.batch.tables import ItemRow

log = logging.getLogger(__name__)


class ItemStatus(StrEnum):
    """The state of an item; `waiting` and `running` are never written into a result."""

    DONE = "done"
    FAILED = "failed"
    LIMIT = "limit"
    ERROR = "error"
    CANCELLED = "cancelled"
    BUDGET = "budget"
    RUNNING = "running"
    WAITING = "waiting"


CONTINUED_STATUSES = frozenset({ItemStatus.CANCELLED, ItemStatus.BUDGET})
"""An item that stopped like this resumes in the same attempt."""
ENDED_STATUSES = (
    *(ItemStatus.DONE, ItemStatus.FAILED, ItemStatus.LIMIT),
    *(ItemStatus.ERROR, ItemStatus.CANCELLED, ItemStatus.BUDGET),
)


class TokenCounts(Struct, frozen=True, rename="camel"):
    input: int = msgspec.field(default=0, name="in")
    """Without cached tokens."""
    output: int = msgspec.field(default=0, name="out")
    cache_reads: int = 0
    cache_writes: int = 0


class Patch(Struct, frozen=True):
    file: str
    files: int
    added: int
    removed: int
    sha256: str


class Check(Struct, frozen=True):
    exit: int
    seconds: float


class RefusedCall(Struct, frozen=True):
    tool: str
    argument: str


class ResultLine(Struct, frozen=True, rename="camel", kw_only=True):
    """One line of `results.jsonl`: how an attempt ended."""

    item: str
    attempt: int
    status: ItemStatus
    code: str
    result: str | None = None
    task_id: str | None = None
    host: str = ""
    started: float | None = None
    ended: float
    turns: int = 0
    requests: int = 0
    tokens: TokenCounts = TokenCounts()
    cost: float = 0.0
    patch: Patch | None = None
    check: Check | None = None
    resumed: int = 0
    refused: tuple[RefusedCall, ...] = ()

    def repeats(self, earlier: ResultLine) -> bool:
        """Whether a second line would add nothing to the first."""
        if self.attempt != earlier.attempt:
            return False
        if earlier.status not in (*CONTINUED_STATUSES, ItemStatus.LIMIT):
            return True
        same = (self.status, self.turns, self.requests, self.cost)
        return same == (earlier.status, earlier.turns, earlier.requests, earlier.cost)


def locate_patch(root: Path, item_id: str) -> Path:
    return root / "patches" / f"{item_id}.patch"


def locate_check(root: Path, item_id: str) -> Path:
    """Locate the output of an item's check command."""
    return root / "checks" / f"{item_id}.txt"


class ResultsFile:
    """`results.jsonl`, appended to by several processes; the last line of an item counts.

    Threads of a worker share it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lock = threading.RLock()
        self.lines: list[ResultLine] = []
        """All results as of the latest `refresh`."""
        self.latest: dict[str, ResultLine] = {}

    def refresh(self) -> None:
        """Read new lines. A line that a dying process left incomplete is ignored."""
        with self._lock:
            try:
                with self._path.open("rb") as file:
                    if os.fstat(file.fileno()).st_size < self._offset:
                        self._forget()
                    file.seek(self._offset)
                    data = file.read()
            except FileNotFoundError:
                self._forget()
                return
            end = data.rfind(b"\n") + 1
            self._offset += end
            for line in decode_lines(data[:end]):
                self.lines.append(line)
                self.latest[line.item] = line

    def _forget(self) -> None:
        """Forget the content after the file was removed or truncated by another process."""
        self._offset = 0
        self.lines.clear()
        self.latest.clear()

    def append(self, line: ResultLine) -> ResultLine:
        """Append and sync one line and return it; if it only repeats the latest line of its item,
        return that one. Raises StoreError."""
        directory = self._path.parent
        with (
            translate_storage_errors("could not write results.jsonl", directory),
            self._lock,
            lock_directory(directory),
        ):
            self.refresh()
            earlier = self.latest.get(line.item)
            if earlier is not None and line.repeats(earlier):
                return earlier
            self._write(line)
            self.refresh()
        return line

    def record(self, connection: Connection, row: ItemRow, line: ResultLine) -> None:
        """Add a line as part of the transaction that ends its attempt, if lines are kept in
        tables."""

    def _write(self, line: ResultLine) -> None:
        """Write a line, and remove files of earlier attempts that have no newer version; the caller
        holds the locks."""
        directory = self._path.parent
        if line.patch is None:
            locate_patch(directory, line.item).unlink(missing_ok=True)
        if line.check is None:
            locate_check(directory, line.item).unlink(missing_ok=True)
        descriptor = open_private_file(self._path, os.O_RDWR)
        try:
            os.ftruncate(descriptor, self._offset)  # an incomplete line of a dying process
            os.lseek(descriptor, 0, os.SEEK_END)
            try:
                write_fully(descriptor, msgspec.json.encode(line) + b"\n")
            except OSError:
                os.ftruncate(descriptor, self._offset)
                raise
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not self._offset:
            sync_directory(directory)


def decode_lines(data: bytes) -> list[ResultLine]:
    """Decode result lines; others are logged and skipped."""
    found: list[ResultLine] = []
    for each in data.splitlines():
        try:
            found.append(msgspec.json.decode(each, type=ResultLine))
        except msgspec.DecodeError as error:
            if each.strip():
                log.warning("a line of results.jsonl is not a result: %s", error)
    return found


def count_statuses(statuses: Iterable[ItemStatus]) -> dict[str, int]:
    """Count the items of each status, zeros included."""
    counts: dict[str, int] = {status.value: 0 for status in ItemStatus}
    for status in statuses:
        counts[status.value] += 1
    return counts
