"""Task store in memory, for `--ephemeral` and for tests.

Behaves like the store on disk (one holder at a time, rising records, the same errors), and keeps
the same bytes, so that what cannot be written to a file fails here too.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path

from joey.core.events import Record
from joey.core.settings import TaskSecrets
from joey.errors import StoreError, TaskLockedError, TaskNotFoundError, TaskStateError
from joey.ports.storage import Store, TaskLog, TaskMetadata
from joey.storage.journal import decode_journal, encode_record
from joey.storage.task_directory import (
    COMMAND_OUTPUT_DIRECTORY,
    TASK_DIRECTORY_PREFIX,
    normalize_task_id,
)
from joey.storage.task_list import build_metadata_from_records, sort_newest_first
from joey.system.files import make_private_directory


class MemoryTask:
    """What the store remembers of one task."""

    def __init__(self) -> None:
        self.journal = bytearray()
        self.last_seq = 0
        self.ui_history: tuple[bytes, ...] = ()
        self.api_history: tuple[bytes, ...] = ()
        self.metadata: TaskMetadata | None = None
        self.is_locked = False

    @property
    def records(self) -> Sequence[Record]:
        return decode_journal(bytes(self.journal))[0]


class MemoryLog:
    def __init__(self, directory: Path, task: MemoryTask) -> None:
        self.directory = directory
        self._task = task
        self._closed = False
        task.is_locked = True

    def append(self, record: Record) -> None:
        self._check_open()
        if record.seq <= self._task.last_seq:
            raise TaskStateError(f"record {record.seq} cannot follow record {self._task.last_seq}")
        self._task.journal += encode_record(record)
        self._task.last_seq = record.seq

    def read_records(self) -> Sequence[Record]:
        return self._task.records

    async def sync(self) -> None:
        """Nothing in memory survives a power cut, and nobody expects it to."""

    async def write_snapshot(
        self, ui: Iterable[bytes], api: Iterable[bytes], metadata: TaskMetadata
    ) -> None:
        self._check_open()
        self._task.ui_history, self._task.api_history = tuple(ui), tuple(api)
        self._task.metadata = metadata

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._task.is_locked = False

    def _check_open(self) -> None:
        if self._closed:
            raise TaskStateError(f"the task in {self.directory} is closed")


class MemoryStore:
    """`tasks` is there to be looked at. Command output goes to a private temporary folder, which
    is removed with the store."""

    def __init__(self) -> None:
        self.tasks: dict[str, MemoryTask] = {}
        self._secrets: dict[str, TaskSecrets] = {}
        self._temporary_directory: Path | None = None

    def create(self, task_id: str) -> MemoryLog:
        bare = normalize_task_id(task_id)
        if bare is None:
            raise StoreError(
                f"{task_id!r} cannot be the id of a task: use up to 128 letters, digits, - and _"
            )
        if bare in self.tasks:
            raise StoreError(f"task {bare} exists already. Resume it, or choose another id.")
        task = self.tasks[bare] = MemoryTask()
        return MemoryLog(self._ensure_task_directory(bare), task)

    def create_with_records(self, task_id: str, records: Sequence[Record], source_id: str) -> None:
        log = self.create(task_id)
        for record in records:
            log.append(record)
        source, target = self._ensure_task_directory(source_id), log.directory
        shutil.copytree(
            source / COMMAND_OUTPUT_DIRECTORY, target / COMMAND_OUTPUT_DIRECTORY, dirs_exist_ok=True
        )
        if (secrets := self.load_secrets(source_id)) is not None:
            self.save_secrets(task_id, secrets)
        log.close()

    def load_secrets(self, task_id: str) -> TaskSecrets | None:
        return self._secrets.get(task_id.removeprefix(TASK_DIRECTORY_PREFIX))

    def save_secrets(self, task_id: str, secrets: TaskSecrets) -> None:
        self._secrets[task_id.removeprefix(TASK_DIRECTORY_PREFIX)] = secrets

    def open(self, task_id: str) -> tuple[MemoryLog, Sequence[Record]]:
        bare = normalize_task_id(task_id)
        task = None if bare is None else self.tasks.get(bare)
        if bare is None or task is None:
            raise TaskNotFoundError(f"there is no task {task_id!r}")
        if task.is_locked:
            raise TaskLockedError(f"task {bare} is already open in this process.")
        if not task.journal:
            raise StoreError(f"task {bare} has nothing to resume: nothing was recorded.")
        return MemoryLog(self._ensure_task_directory(bare), task), task.records

    def read_records(self, task_id: str) -> Sequence[Record]:
        bare = normalize_task_id(task_id)
        if bare is None or bare not in self.tasks:
            raise TaskNotFoundError(f"there is no task {task_id!r}")
        return self.tasks[bare].records

    def read_rows_json(self, task_id: str, limit: int) -> bytes:
        bare = normalize_task_id(task_id)
        if bare is None or bare not in self.tasks:
            raise TaskNotFoundError(f"there is no task {task_id!r}")
        ui = self.tasks[bare].ui_history
        data = b"[" + b",".join(ui) + b"]" if ui else b""
        return data if len(data) <= limit else b""

    def list_tasks(self) -> Sequence[TaskMetadata]:
        return sort_newest_first(
            task.metadata or build_metadata_from_records(task_id, task.records)
            for task_id, task in self.tasks.items()
        )

    def list_ids(self) -> Sequence[str]:
        return tuple(self.tasks)

    def is_locked(self, task_id: str) -> bool:
        bare = normalize_task_id(task_id)
        if bare is None or bare not in self.tasks:
            raise TaskNotFoundError(f"there is no task {task_id!r}")
        return self.tasks[bare].is_locked

    def delete(self, task_id: str) -> None:
        bare = normalize_task_id(task_id)
        if bare is None or bare not in self.tasks:
            raise TaskNotFoundError(f"there is no task {task_id!r}")
        if self.tasks[bare].is_locked:
            raise TaskLockedError(f"task {bare} is open in this process.")
        del self.tasks[bare]
        self._secrets.pop(bare, None)

    def _ensure_task_directory(self, task_id: str) -> Path:
        if self._temporary_directory is None:
            self._temporary_directory = Path(tempfile.mkdtemp(prefix="joey-"))
            weakref.finalize(self, shutil.rmtree, self._temporary_directory, ignore_errors=True)
        directory = self._temporary_directory / task_id
        make_private_directory(directory / COMMAND_OUTPUT_DIRECTORY)
        return directory


_log_protocol_check: type[TaskLog] = MemoryLog
_store_protocol_check: type[Store] = MemoryStore
