"""Journal of a task: one JSON line per record, append-only.

A record is written with one `write`, so it survives the death of the process as soon as `append`
returns, and a power cut as soon as a `sync` begun later returns. A write that is interrupted leaves
at most one line without its end, which was never acknowledged: it is cut when the journal is
opened. Anything else that cannot be read is external damage; it is moved aside with everything
after it and reported. Nothing is deleted in either case.

Loading a task replays its journal from the first record: that is fast enough, and is the only way
to load a task. The snapshots are for users, for Roo and for adoption.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from joey.core.events import Record
from joey.errors import StoreError, TaskStateError
from joey.storage.task_directory import JOURNAL_FILE
from joey.system.files import (
    PRIVATE_FILE_MODE,
    build_storage_error,
    read_regular_file,
    save_under_numbered_name,
    sync_directory,
    translate_storage_errors,
    write_fully,
)

if TYPE_CHECKING:
    from asyncio import Task

_log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


class _EventTag(Struct):
    event_type: str = field(name="event")


class _RecordHeader(Struct):
    """The fields that all versions of a record have."""

    seq: int
    event: _EventTag


def encode_record(record: Record) -> bytes:
    """Encode the line of a record. Raises TaskStateError if its text is not valid Unicode, which no
    file or connection could carry."""
    try:
        return _encoder.encode(record) + b"\n"
    except UnicodeEncodeError as error:
        raise TaskStateError(f"record {record.seq} holds a lone surrogate: {error}") from error


@cache
def _get_decoder() -> msgspec.json.Decoder[Record]:
    """Return the decoder, created on demand: it is slow to create, and a new task reads no
    journal."""
    return msgspec.json.Decoder(Record)


def decode_journal(data: bytes) -> tuple[list[Record], int]:
    """Decode the readable records at the beginning of `data`; return them and their size in bytes.
    Raises StoreError if a complete line is of a kind that this version does not know."""
    records: list[Record] = []
    decoder = _get_decoder()
    start, last = 0, 0
    while (end := data.find(b"\n", start)) >= 0:
        line = memoryview(data)[start:end]
        try:
            record = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _raise_if_newer(line, error)
            break
        if record.seq <= last:
            break
        records.append(record)
        start, last = end + 1, record.seq
    return records, start


def _raise_if_newer(line: memoryview, error: Exception) -> None:
    """Raise if an unknown line is complete: then it is not damage to be cut off."""
    try:
        seen = msgspec.json.decode(line, type=_RecordHeader)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    raise StoreError(
        f"record {seen.seq} ({seen.event.event_type}) of this task was written by a newer joey:"
        f" {error}. Update joey to open it; nothing was changed."
    ) from error


class Journal:
    """An open journal. Its owner holds the task's lock."""

    def __init__(self, path: Path, records: list[Record], size: int, *, create: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
        flags |= os.O_CREAT | os.O_EXCL if create else 0
        self._directory = path.parent
        self._descriptor = os.open(path, flags, PRIVATE_FILE_MODE)
        os.fchmod(self._descriptor, PRIVATE_FILE_MODE)
        self._size_bytes = size
        self.last_seq = records[-1].seq if records else 0
        self._synced_bytes = 0
        new_names = (path.parent.parent.parent, path.parent.parent, path.parent)
        self._unsynced_directories = new_names if create else ()
        self._sync_task: Task[None] | None = None
        self._failure_reason: str | None = None
        self._closed = False

    @classmethod
    def create(cls, directory: Path) -> Journal:
        with translate_storage_errors("could not start a journal", directory):
            return cls(directory / JOURNAL_FILE, [], 0, create=True)

    @classmethod
    def open(cls, directory: Path) -> tuple[Journal, list[Record]]:
        """Open the journal, moving unreadable parts aside."""
        path = directory / JOURNAL_FILE
        with translate_storage_errors("could not open the journal", directory):
            if (data := read_regular_file(path)) is None:
                raise StoreError(f"{path} is not a file. Move it away and try again.")
            records, size = decode_journal(data)
            if size < len(data):
                _save_unreadable_tail(directory, data[size:], len(records))
                os.truncate(path, size)
            return cls(path, records, size, create=False), records

    @classmethod
    def open_with_record(cls, directory: Path, record: Record) -> Journal:
        """Open a journal that is known to contain only this record."""
        path = directory / JOURNAL_FILE
        with translate_storage_errors("could not open the journal", directory):
            return cls(path, [record], path.stat().st_size, create=False)

    @staticmethod
    def read_records(directory: Path) -> list[Record]:
        """Read the readable part of the journal without owning it."""
        with translate_storage_errors("could not read the journal", directory):
            return decode_journal(read_regular_file(directory / JOURNAL_FILE) or b"")[0]

    def append(self, record: Record) -> None:
        """Append one line. Raises StoreError if the disk is full or gone; then the journal is
        unchanged."""
        self._check_usable()
        if record.seq <= self.last_seq:
            raise TaskStateError(f"record {record.seq} cannot follow record {self.last_seq}")
        line = encode_record(record)
        try:
            write_fully(self._descriptor, line)
        except OSError as error:
            try:
                os.ftruncate(self._descriptor, self._size_bytes)
            except OSError as unmended:
                self._failure_reason = str(
                    build_storage_error("could not mend the journal", self._directory, unmended)
                )
            raise build_storage_error(
                "could not write the journal", self._directory, error
            ) from error
        self._size_bytes += len(line)
        self.last_seq = record.seq

    async def sync(self) -> None:
        """Return when everything appended so far is on disk. Concurrent callers share the work."""
        from asyncio import create_task, shield

        target = self._size_bytes
        while self._synced_bytes < target:
            self._check_usable()
            if self._sync_task is None:
                # A copy: closing the journal meanwhile cannot give its number to another file.
                self._sync_task = create_task(self._sync_once(os.dup(self._descriptor)))
            await shield(self._sync_task)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    async def _sync_once(self, copy: int) -> None:
        from asyncio import to_thread

        size = self._size_bytes
        try:
            await to_thread(_sync_to_disk, copy, self._unsynced_directories)
        except OSError as error:
            # The kernel forgets failed writes: a later sync would wrongly succeed.
            self._failure_reason = str(
                build_storage_error("could not save the journal", self._directory, error)
            )
        else:
            self._synced_bytes = size
            self._unsynced_directories = ()
        finally:
            self._sync_task = None

    def _check_usable(self) -> None:
        if self._closed:
            raise TaskStateError(f"the journal in {self._directory} is closed")
        if self._failure_reason is not None:
            raise StoreError(self._failure_reason)


def _sync_to_disk(descriptor: int, directories: tuple[Path, ...]) -> None:
    try:
        # macOS has no fdatasync.
        getattr(os, "fdatasync", os.fsync)(descriptor)
        for directory in directories:
            sync_directory(directory)
    finally:
        os.close(descriptor)


def _save_unreadable_tail(directory: Path, tail: bytes, good: int) -> None:
    if b"\n" not in tail:
        path = save_under_numbered_name(directory, "journal.torn-", tail)
        _log.warning("cut an unfinished line off the journal; kept as %s", path)
        return
    path = save_under_numbered_name(directory, "journal.unreadable-", tail)
    text = "the journal cannot be read after record line %s; the rest (%s bytes) is kept as %s"
    _log.warning(text, good, len(tail), path)
