"""Task store in Postgres: tasks that any host of a cluster can take over.

Opening a task increments its epoch; everything is written under an epoch, and rejected once that
has ended. Keys of tasks and the output of their commands stay in files of this host.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from joey.core.events import Record
from joey.core.redaction import strip_url_password
from joey.core.settings import TaskSecrets
from joey.errors import StoreError, TaskLockedError, TaskNotFoundError
from joey.ports.storage import SharedStore, Store, TaskLog, TaskMetadata
from joey.storage.index_text import extract_conversation_text
from joey.storage.journal import decode_journal, encode_record
from joey.storage.postgres.connection import SharedConnection, check_url
from joey.storage.postgres.lease import Lease
from joey.storage.postgres.metadata import encode_metadata, fetch_metadata
from joey.storage.postgres.schema import IS_ALIVE
from joey.storage.postgres.writer import PostgresJournal, RecordWriter, build_lost_error
from joey.storage.task_directory import (
    COMMAND_OUTPUT_DIRECTORY,
    build_task_directory_path,
    normalize_task_id,
)
from joey.storage.task_list import sort_newest_first
from joey.storage.task_store import TaskSecretFiles
from joey.system.files import make_private_directory, translate_storage_errors

_MAX_INDEXED_CHARS = 200_000
"""A `tsvector` holds less than 1 MB."""
_CLOSE_TIMEOUT_S = 5.0
LOOP_TIMEOUT_S = 10.0
"""An event loop that does not run for so long lets the lease expire."""
_CAN_TAKE = f"""(t.holder is null or not exists (
    select 1 from joey.worker w where w.id = t.holder and {IS_ALIVE}))"""
_IS_MEMBER = "exists (select 1 from joey.worker where id = %(me)s)"
_TAKE = f"""
    update joey.task t set epoch = t.epoch + 1, holder = %(me)s, held_since = clock_timestamp()
    where t.id = %(id)s and {_CAN_TAKE} and {_IS_MEMBER} returning t.epoch, t.seq
"""
_CREATE = f"""
    insert into joey.task as t (id, epoch, holder, held_since)
    values (%(id)s, 1, %(me)s, clock_timestamp())
    on conflict (id) do update set epoch = t.epoch + 1, holder = %(me)s,
        held_since = clock_timestamp()
    where {_CAN_TAKE} and {_IS_MEMBER}
      and not exists (select 1 from joey.record where task_id = t.id)
    returning t.epoch
"""
_SNAPSHOT = """
    update joey.task set ui = %(ui)s, api = %(api)s, metadata = %(metadata)s, status = %(status)s,
        workspace = %(workspace)s, parent_id = %(parent)s, updated = clock_timestamp(),
        words = to_tsvector('simple', %(words)s)
    where id = %(id)s and epoch = %(epoch)s
"""


class PostgresLog:
    """One task, held by this process until `close`."""

    is_shared = True

    def __init__(self, store: PostgresStore, journal: PostgresJournal, directory: Path) -> None:
        self.directory = directory
        self._store, self._journal = store, journal
        self._snapshot_lock = threading.Lock()
        self._last_requested_snapshot_number = 0
        self._last_written_snapshot_number = 0

    def append(self, record: Record) -> None:
        self._journal.append(record)

    @property
    def safe_seq(self) -> int:
        return self._journal.safe_seq

    @property
    def has_failed(self) -> bool:
        return self._journal.has_failed

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        self._journal.set_change_callback(callback)

    def read_records(self) -> Sequence[Record]:
        return self._store.read_records(self._journal.task_id)

    async def sync(self) -> None:
        await self._journal.sync()

    async def confirm(self) -> None:
        self._journal.check_usable()
        await asyncio.to_thread(self._store.confirm, self._journal.task_id, self._journal.epoch)
        self._journal.check_usable()

    async def write_snapshot(
        self, ui: Iterable[bytes], api: Iterable[bytes], metadata: TaskMetadata
    ) -> None:
        self._journal.check_usable()
        self._last_requested_snapshot_number += 1
        await asyncio.to_thread(
            self._replace_snapshot,
            self._last_requested_snapshot_number,
            ui if isinstance(ui, Iterator) else tuple(ui),
            api if isinstance(api, Iterator) else tuple(api),
            metadata,
        )

    def close(self) -> None:
        self._journal.close()

    def _replace_snapshot(
        self, number: int, ui: Iterable[bytes], api: Iterable[bytes], metadata: TaskMetadata
    ) -> None:
        with self._snapshot_lock:
            if number < self._last_written_snapshot_number:
                return
            task_id, epoch = self._journal.task_id, self._journal.epoch
            self._store.write_snapshot(task_id, epoch, _join(ui), _join(api), metadata)
            self._last_written_snapshot_number = number


class PostgresStore:
    """All tasks of one database."""

    is_shared = True

    def __init__(self, url: str, home: Path) -> None:
        """`home` holds data that stays on this host. Nothing is connected yet. Raises
        ConfigError."""
        self.url = check_url(url)
        self.lease = Lease(url)
        self._tasks_directory = home / "shared-tasks"
        self._secret_files = _LocalSecretFiles(home)
        self._connection = SharedConnection(url, self.lease.check)
        self._writer = RecordWriter(url, self.lease)
        self._finalizer = weakref.finalize(
            self, _close, os.getpid(), self._writer, self._connection, self.lease
        )

    @property
    def process_id(self) -> str:
        return self.lease.id

    @property
    def lost_reason(self) -> str | None:
        return self.lease.lost_reason

    def join(self, width: int) -> None:
        self.lease.width = width
        self.lease.watched_interval_s = LOOP_TIMEOUT_S
        self.lease.acquire()

    def report_alive(self) -> None:
        self.lease.touch()

    def check_lease(self) -> None:
        self.lease.check()

    def remove_dead_processes(self) -> Sequence[str]:
        rows = self._fetch(f"delete from joey.worker w where not {IS_ALIVE} returning w.id")
        return [row[0] for row in rows]

    def close(self) -> None:
        """Commit pending records, and release everything."""
        self._finalizer()

    def create(self, task_id: str) -> PostgresLog:
        bare = normalize_task_id(task_id)
        if bare is None:
            raise StoreError(
                f"{task_id!r} cannot be the id of a task: use up to 128 letters, digits, - and _"
            )
        self._prepare()
        rows = self._fetch(_CREATE, {"id": bare, "me": self.lease.id})
        if not rows:
            self.lease.check()
            if self._is_held(bare) is not None and not self._has_records(bare):
                raise self._build_locked_error(bare)
            raise StoreError(f"task {bare} exists already. Resume it, or choose another id.")
        return self._build_log(bare, rows[0][0], 0)

    def create_with_records(self, task_id: str, records: Sequence[Record], source_id: str) -> None:
        source = self._require(source_id)
        if normalize_task_id(task_id) != task_id:
            raise StoreError(f"task {task_id} cannot have this id.")
        if (secrets := self._secret_files.load(source)) is not None:
            self._secret_files.save(task_id, secrets)
        self._copy_command_output(source, task_id)
        lines = [encode_record(record).removesuffix(b"\n") for record in records]
        numbers = [record.seq for record in records]

        def write(connection: psycopg.Connection[Any]) -> bool:
            with connection.transaction():
                inserted = connection.execute(
                    """insert into joey.task (id, epoch, seq) values (%s, 1, %s)
                       on conflict do nothing""",
                    (task_id, numbers[-1] if numbers else 0),
                ).rowcount
                if inserted:
                    connection.execute(
                        """insert into joey.record (task_id, seq, epoch, line)
                           select %s, r.seq, 1, r.line
                           from unnest(%s::bigint[], %s::bytea[]) as r (seq, line)""",
                        (task_id, numbers, lines),
                    )
            return bool(inserted)

        if not self._connection.run(write) and self._read_lines(task_id) != lines:
            raise StoreError(f"task {task_id} exists already, or cannot have this id.")

    def load_secrets(self, task_id: str) -> TaskSecrets | None:
        return self._secret_files.load(task_id)

    def save_secrets(self, task_id: str, secrets: TaskSecrets) -> None:
        if secrets != self._secret_files.load(task_id):
            self._secret_files.save(task_id, secrets)

    def open(self, task_id: str) -> tuple[PostgresLog, Sequence[Record]]:
        bare = self._require(task_id)
        self._prepare()
        rows = self._fetch(_TAKE, {"id": bare, "me": self.lease.id})
        if not rows:
            self.lease.check()
            raise self._build_locked_error(bare)
        epoch, seq = rows[0]
        try:
            records = self.read_records(bare)
            if not records:
                raise TaskNotFoundError(
                    f"task {bare} has nothing to resume: it has no record in"
                    f" {strip_url_password(self.url)}."
                )
            if records[-1].seq != seq:
                raise StoreError(f"task {bare} cannot be read after record {records[-1].seq}.")
            return self._build_log(bare, epoch, seq), records
        except BaseException:
            release = "update joey.task set holder = null where id = %s and epoch = %s"
            self._fetch(release, (bare, epoch))
            raise

    def read_records(self, task_id: str) -> Sequence[Record]:
        bare = self._require(task_id)
        return decode_journal(b"".join(line + b"\n" for line in self._read_lines(bare)))[0]

    def read_rows_json(self, task_id: str, limit: int) -> bytes:
        bare = self._require(task_id)
        sql = "select ui from joey.task where id = %s and octet_length(ui) <= %s"
        rows = self._fetch(sql, (bare, limit))
        return bytes(rows[0][0]) if rows else b""

    def list_tasks(self) -> Sequence[TaskMetadata]:
        self._writer.drain()
        return sort_newest_first(fetch_metadata(self._connection))

    def list_ids(self) -> Sequence[str]:
        self._writer.drain()
        return [row[0] for row in self._fetch("select id from joey.task order by id")]

    def is_locked(self, task_id: str) -> bool:
        return self._is_held(self._require(task_id)) is not None

    def delete(self, task_id: str) -> None:
        bare = self._require(task_id)
        rows = self._fetch(
            f"delete from joey.task t where t.id = %s and {_CAN_TAKE} returning 1", (bare,)
        )
        if not rows:
            raise self._build_locked_error(bare)
        self._fetch("delete from joey.artifact where task_id = %s", (bare,))
        self._secret_files.delete(bare)
        directory = build_task_directory_path(self._tasks_directory, bare)
        with translate_storage_errors(f"could not delete task {bare}", directory):
            if directory.exists():
                shutil.rmtree(directory)

    # Called by logs

    def confirm(self, task_id: str, epoch: int) -> None:
        """Raises TaskLostError, StoreError."""
        sql = "select 1 from joey.task where id = %s and epoch = %s"
        if not self._fetch(sql, (task_id, epoch)):
            raise build_lost_error(task_id, epoch)

    def write_snapshot(
        self, task_id: str, epoch: int, ui: bytes, api: bytes, metadata: TaskMetadata
    ) -> None:
        """Raises TaskLostError, StoreError."""
        values = {
            "id": task_id,
            "epoch": epoch,
            "ui": ui,
            "api": api,
            "metadata": encode_metadata(metadata),
            "status": metadata.status,
            "workspace": metadata.workspace.replace("\0", "\ufffd"),
            "parent": metadata.parent_id,
            "words": extract_conversation_text(ui)[:_MAX_INDEXED_CHARS].replace("\u200b", " "),
        }
        if self._connection.run(lambda connection: connection.execute(_SNAPSHOT, values).rowcount):
            return
        raise build_lost_error(task_id, epoch)

    # Rows

    def _prepare(self) -> None:
        self.lease.acquire()
        self.lease.check()
        self._writer.drain()

    def _fetch(self, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return self._connection.fetch(sql, values)

    def _require(self, task_id: str) -> str:
        self._writer.drain()
        bare = normalize_task_id(task_id)
        if bare is None or not self._fetch("select 1 from joey.task where id = %s", (bare,)):
            raise TaskNotFoundError(
                f"there is no task {task_id!r} in {strip_url_password(self.url)}"
            )
        return bare

    def _has_records(self, task_id: str) -> bool:
        sql = "select 1 from joey.record where task_id = %s limit 1"
        return bool(self._fetch(sql, (task_id,)))

    def _read_lines(self, task_id: str) -> list[bytes]:
        sql = "select line from joey.record where task_id = %s order by seq"
        return [bytes(row[0]) for row in self._fetch(sql, (task_id,))]

    def _is_held(self, task_id: str) -> tuple[str, str, int, datetime] | None:
        """Return id, host and process of the holder, and since when it holds the task."""
        rows = self._fetch(
            f"""select w.id, w.host, w.pid, t.held_since from joey.task t
                join joey.worker w on w.id = t.holder where t.id = %s and {IS_ALIVE}""",
            (task_id,),
        )
        return rows[0] if rows else None

    def _build_locked_error(self, task_id: str) -> TaskLockedError:
        holder = self._is_held(task_id)
        if holder is None:
            return TaskLockedError(f"task {task_id} was open a moment ago. Try again.")
        since = holder[3].astimezone().isoformat(" ", "seconds")
        if holder[0] == self.lease.id:
            return TaskLockedError(
                f"task {task_id} is already open in this process (since {since})."
            )
        return TaskLockedError(
            f"task {task_id} is open in process {holder[2]} on {holder[1]} since {since}."
            " Close it there, or stop that process, and try again."
        )

    def _build_log(self, task_id: str, epoch: int, seq: int) -> PostgresLog:
        directory = build_task_directory_path(self._tasks_directory, task_id)
        with translate_storage_errors("could not use the folder of a task", directory):
            make_private_directory(directory / COMMAND_OUTPUT_DIRECTORY)
        return PostgresLog(self, PostgresJournal(self._writer, task_id, epoch, seq), directory)

    def _copy_command_output(self, source: str, to: str) -> None:
        directories = (
            build_task_directory_path(self._tasks_directory, each) / COMMAND_OUTPUT_DIRECTORY
            for each in (source, to)
        )
        before, after = directories
        with translate_storage_errors("could not copy the output of commands", after):
            make_private_directory(after)
            for path in sorted(before.glob("*.txt")):
                if path.is_file() and not path.is_symlink():
                    shutil.copyfile(path, after / path.name)


class _LocalSecretFiles(TaskSecretFiles):
    """Keys of tasks whose journals are elsewhere: deleted with their task, not by age."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / "shared-secrets")

    def _is_abandoned(self, path: Path) -> bool:
        return False


def _close(pid: int, writer: RecordWriter, connection: SharedConnection, lease: Lease) -> None:
    if os.getpid() == pid:  # what was forked has none of it
        writer.close(_CLOSE_TIMEOUT_S)
        lease.release()
        connection.close()


def _join(elements: Iterable[bytes]) -> bytes:
    """Join elements into a JSON array, a line each."""
    return b"[" + b",\n".join(elements) + b"]\n"


_log_protocol_check: type[TaskLog] = PostgresLog
_store_protocol_check: type[Store] = PostgresStore
_shared_protocol_check: type[SharedStore] = PostgresStore
