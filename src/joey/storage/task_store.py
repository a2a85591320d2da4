"""Task store on disk: a directory of JSON files for each task.

A task that is created with all of its records at once (`create_task_directory`) is written to a
directory whose name no task can have, and renamed when everything in it is safe on disk: a process
that dies before leaves nothing that looks like a task. Its creator holds a lock on the directory,
by which other processes recognize abandoned directories.

Keys and addresses of single tasks are in `$JOEY_HOME/task-secrets/task_<id>.secret.json`, 0600.
Task directories can be copied between machines; these files are not: each belongs to one task on
this machine, and is deleted with it.
"""

from __future__ import annotations

import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from joey.core.events import Record
from joey.core.settings import TaskSecrets
from joey.errors import StoreError, TaskNotFoundError, TaskStateError
from joey.ports.storage import Store, TaskLog, TaskMetadata
from joey.storage import task_directory as td
from joey.storage.journal import Journal, encode_record
from joey.storage.task_list import list_task_ids, list_tasks
from joey.system.files import (
    PRIVATE_FILE_MODE,
    ensure_directory_private,
    make_private_directory,
    read_regular_file,
    remove_temp_files,
    replace_files,
    sync_directory,
    translate_storage_errors,
)
from joey.system.locks import lock_directory


class JsonFileLog:
    """One task's folder, locked for this process until `close`."""

    is_shared = False
    has_failed = False

    def __init__(self, directory: Path, journal: Journal | Record, lock: td.TaskLock) -> None:
        """`journal` is the first record of a task that has none yet: another program's directory is
        unchanged until something is recorded."""
        self.directory = directory
        self._journal_or_first_record = journal
        self._lock = lock
        self._write_lock = threading.Lock()
        """Held by the thread that replaces the snapshot files."""
        self._last_requested_snapshot_number = 0
        self._last_written_snapshot_number = 0
        """Snapshots are counted, so that none replaces one that was asked for later."""
        self._closed = False

    def append(self, record: Record) -> None:
        if isinstance(self._journal_or_first_record, Record):
            self._check_open()
            _prepare_directory(self.directory)
            from joey.storage.roo_task_directory import adopt_task  # only for tasks of others

            first = self._journal_or_first_record
            self._journal_or_first_record = adopt_task(self.directory, first)
        self._journal_or_first_record.append(record)

    def read_records(self) -> Sequence[Record]:
        if isinstance(self._journal_or_first_record, Record):
            return [self._journal_or_first_record]
        return Journal.read_records(self.directory)

    @property
    def safe_seq(self) -> int:
        journal = self._journal_or_first_record
        return journal.seq if isinstance(journal, Record) else journal.last_seq

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Do nothing: `safe_seq` is always current here."""

    async def confirm(self) -> None:
        """Do nothing: the directory's lock lasts as long as the process."""

    async def sync(self) -> None:
        if isinstance(self._journal_or_first_record, Journal):
            await self._journal_or_first_record.sync()

    async def write_snapshot(
        self, ui: Iterable[bytes], api: Iterable[bytes], metadata: TaskMetadata
    ) -> None:
        if isinstance(self._journal_or_first_record, Record):
            return
        self._last_requested_snapshot_number += 1
        from asyncio import to_thread

        await to_thread(
            self._replace_snapshot_files,
            self._last_requested_snapshot_number,
            _freeze_elements(ui),
            _freeze_elements(api),
            metadata,
        )

    def close(self) -> None:
        with self._write_lock:
            if self._closed:
                return
            self._closed = True
            if isinstance(self._journal_or_first_record, Journal):
                self._journal_or_first_record.close()
            self._lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise TaskStateError(f"the task in {self.directory} is closed")

    def _replace_snapshot_files(
        self, number: int, ui: Iterable[bytes], api: Iterable[bytes], metadata: TaskMetadata
    ) -> None:
        with self._write_lock:
            self._check_open()
            if number < self._last_written_snapshot_number:
                return
            files: dict[str, bytes | Iterable[bytes]] = {
                td.UI_HISTORY_FILE: _join_json_array(ui),
                td.API_HISTORY_FILE: _join_json_array(api),
                td.METADATA_FILE: msgspec.json.encode(metadata),
            }
            replace_files(self.directory, files)
            self._last_written_snapshot_number = number
            if _has_index(self.directory.parent):
                # SQLite is slow to load, and most runs do not need it.
                from joey.storage.task_index import update_indexed_task

                update_indexed_task(self.directory.parent.parent, self.directory.name, metadata)


_EPHEMERAL_PREFIX = "joey-ephemeral-"


class JsonFileStore:
    """All tasks under `<home>/tasks`."""

    is_shared = False

    def __init__(self, home: Path) -> None:
        self.tasks_directory = home / "tasks"
        self._secret_files = TaskSecretFiles(home)

    def create(self, task_id: str) -> JsonFileLog:
        if (bare := td.normalize_task_id(task_id)) is None:
            raise StoreError(
                f"{task_id!r} cannot be the id of a task: use up to 128 letters, digits, - and _"
            )
        directory = td.build_task_directory_path(self.tasks_directory, bare)
        found = self._find_directory(bare)
        # Without a record, a process died while creating a task there.
        if found is not None and (
            found != directory
            or td.has_history_snapshots(directory)
            or Journal.read_records(directory)
        ):
            raise StoreError(f"task {bare} exists already. Resume it, or choose another id.")
        with translate_storage_errors(f"could not start task {bare}", directory):
            make_private_directory(directory)
        lock = td.TaskLock.acquire(directory, bare)
        try:
            _prepare_directory(directory)
            journal = Journal.create(directory) if found is None else Journal.open(directory)[0]
            return JsonFileLog(directory, journal, lock)
        except BaseException:
            lock.release()
            raise

    def create_with_records(self, task_id: str, records: Sequence[Record], source_id: str) -> None:
        directory = td.build_task_directory_path(self.tasks_directory, task_id)
        if td.normalize_task_id(task_id) != task_id or directory.exists():
            raise StoreError(f"task {task_id} exists already, or cannot have this id.")
        bare, source = self._require_task_directory(source_id)
        if (secrets := self._secret_files.load(bare)) is not None:
            self._secret_files.save(task_id, secrets)
        create_task_directory(directory, records, source)

    def load_secrets(self, task_id: str) -> TaskSecrets | None:
        return self._secret_files.load(task_id)

    def save_secrets(self, task_id: str, secrets: TaskSecrets) -> None:
        if secrets != self._secret_files.load(task_id):
            self._secret_files.save(task_id, secrets)

    def open(self, task_id: str) -> tuple[JsonFileLog, Sequence[Record]]:
        bare, directory = self._require_task_directory(task_id)
        lock = td.TaskLock.acquire(directory, bare)
        try:
            remove_temp_files(directory)
            journal, records = _open_journal(directory, bare)
        except BaseException:
            lock.release()
            raise
        return JsonFileLog(directory, journal, lock), records

    def read_records(self, task_id: str) -> Sequence[Record]:
        bare, directory = self._require_task_directory(task_id)
        return Journal.read_records(directory) or [_read_adoption_record(directory, bare)]

    def read_rows_json(self, task_id: str, limit: int) -> bytes:
        bare, directory = self._require_task_directory(task_id)
        with translate_storage_errors(f"could not read task {bare}", directory):
            data = read_regular_file(directory / td.UI_HISTORY_FILE, limit + 1) or b""
        return data if len(data) <= limit else b""

    def list_tasks(self) -> Sequence[TaskMetadata]:
        return list_tasks(self.tasks_directory)

    def list_ids(self) -> Sequence[str]:
        return list_task_ids(self.tasks_directory)

    def is_locked(self, task_id: str) -> bool:
        return td.is_locked(self._require_task_directory(task_id)[1])

    def delete(self, task_id: str) -> None:
        bare, directory = self._require_task_directory(task_id)
        marks = (td.JOURNAL_FILE, td.IMPORT_MARKER_FILE)
        ours = any((directory / name).exists() for name in marks)
        if directory != td.build_task_directory_path(self.tasks_directory, bare) or not ours:
            raise StoreError(f"{directory} was not written by joey and was not changed.")
        lock = td.TaskLock.acquire(directory, bare)
        try:
            with translate_storage_errors(f"could not delete task {bare}", directory):
                self._secret_files.delete(bare)
                # The journal goes first: without it nothing of the folder counts as a task.
                snapshots = (td.UI_HISTORY_FILE, td.API_HISTORY_FILE, td.METADATA_FILE)
                for name in (td.JOURNAL_FILE, *snapshots):
                    (directory / name).unlink(missing_ok=True)
                shutil.rmtree(directory)
        finally:
            lock.release()
        if _has_index(self.tasks_directory):
            from joey.storage.task_index import remove_indexed_task

            remove_indexed_task(self.tasks_directory.parent, directory.name)

    def _require_task_directory(self, task_id: str) -> tuple[str, Path]:
        bare = td.normalize_task_id(task_id)
        directory = None if bare is None else self._find_directory(bare)
        if bare is None or directory is None:
            raise TaskNotFoundError(f"there is no task {task_id!r} in {self.tasks_directory}")
        return bare, directory

    def _find_directory(self, task_id: str) -> Path | None:
        with translate_storage_errors(f"could not look for task {task_id}", self.tasks_directory):
            return td.find_task_directory(self.tasks_directory, task_id)


def _prepare_directory(directory: Path) -> None:
    """Prepare a directory for tasks."""
    with translate_storage_errors("could not use the folder of a task", directory):
        ensure_directory_private(directory)
        make_private_directory(directory / td.COMMAND_OUTPUT_DIRECTORY)


def _open_journal(directory: Path, task_id: str) -> tuple[Journal | Record, list[Record]]:
    """Open the journal with its records; without usable ones, return those that it would begin
    with."""
    if (directory / td.JOURNAL_FILE).exists():
        _prepare_directory(directory)
        journal, records = Journal.open(directory)
        if records:
            return journal, records
        journal.close()
        if not td.has_history_snapshots(directory):
            raise TaskNotFoundError(
                f"task {task_id} has nothing to resume: no record in {directory / td.JOURNAL_FILE} "
                "can be read. Its content is kept next to it."
            )
    record = _read_adoption_record(directory, task_id)
    return record, [record]


def _read_adoption_record(directory: Path, task_id: str) -> Record:
    """Read the first record of another program's task; loaded late because that is rare."""
    from joey.storage.roo_task_directory import read_adoption_record

    return read_adoption_record(directory, task_id)


def _has_index(tasks: Path) -> bool:
    return (tasks.parent / td.INDEX_FILE).is_file()


def _freeze_elements(elements: Iterable[bytes]) -> Iterable[bytes]:
    """Freeze a list that the caller may extend while the thread reads it."""
    return elements if isinstance(elements, Iterator) else tuple(elements)


def _join_json_array(elements: Iterable[bytes]) -> Iterator[bytes]:
    """Join elements into a JSON array, a line each."""
    before = b"["
    for element in elements:
        yield before
        yield element
        before = b",\n"
    yield b"[]\n" if before == b"[" else b"]\n"


_log_protocol_check: type[TaskLog] = JsonFileLog
_store_protocol_check: type[Store] = JsonFileStore


_STAGING_PREFIX = ".fork-"
_MIN_ABANDONED_AGE_S = 60.0
"""A younger folder may not be locked yet."""


def create_task_directory(directory: Path, records: Sequence[Record], source: Path) -> None:
    """Raises StoreError."""
    from tempfile import mkdtemp

    tasks = directory.parent
    with translate_storage_errors(f"could not create {directory.name}", tasks):
        make_private_directory(tasks)
        for left in find_abandoned_staging_directories(tasks):
            shutil.rmtree(left, ignore_errors=True)
        stage = Path(mkdtemp(prefix=_STAGING_PREFIX, dir=tasks))
        try:
            with lock_directory(stage, timeout_s=0):
                output = stage / td.COMMAND_OUTPUT_DIRECTORY
                make_private_directory(output)
                for path in sorted((source / td.COMMAND_OUTPUT_DIRECTORY).glob("*.txt")):
                    if path.is_file() and not path.is_symlink():
                        shutil.copyfile(path, output / path.name)
                        (output / path.name).chmod(PRIVATE_FILE_MODE)
                replace_files(stage, {td.JOURNAL_FILE: b"".join(map(encode_record, records))})
                stage.rename(directory)
                sync_directory(tasks)
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def find_abandoned_staging_directories(tasks: Path) -> list[Path]:
    """Find directories of tasks that were never completed, whose creators are gone."""
    return [path for path in tasks.glob(f"{_STAGING_PREFIX}*") if _is_abandoned(path)]


def _is_abandoned(path: Path) -> bool:
    try:
        if time.time() - path.stat().st_mtime < _MIN_ABANDONED_AGE_S:
            return False
        with lock_directory(path, timeout_s=0):
            return True
    except OSError:
        return False  # another process has it, or it is gone


SECRETS_DIRECTORY = "task-secrets"
_SECRET_FILE_SUFFIX = ".secret.json"
_NEW_TASK_GRACE_S = 60.0
"""Until then the folder of a new task may still be missing."""
_secrets_decoder = msgspec.json.Decoder(TaskSecrets)


class TaskSecretFiles:
    """Secrets of all tasks under `<home>/tasks`. Methods raise StoreError."""

    def __init__(self, home: Path) -> None:
        self._directory = home / SECRETS_DIRECTORY
        self._tasks_directory = home / "tasks"

    def load(self, task_id: str) -> TaskSecrets | None:
        path = self._build_path(task_id)
        with translate_storage_errors(f"could not read {path.name}", self._directory):
            data = read_regular_file(path)
        try:
            return None if data is None else _secrets_decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path} is damaged, so the profile key of task {task_id} is unknown. Delete the "
                f"file, then name the model with --profile, --provider or --base-url."
            ) from error

    def load_all(self) -> Iterator[TaskSecrets]:
        """Load the secrets of all tasks, as far as readable."""
        for path in self._list_files():
            with suppress(StoreError):
                if (secrets := self.load(_parse_task_id(path))) is not None:
                    yield secrets

    def save(self, task_id: str, secrets: TaskSecrets) -> None:
        path = self._build_path(task_id)
        with translate_storage_errors(f"could not write {path.name}", self._directory):
            make_private_directory(self._directory)
            for other in self._list_files():
                if self._is_abandoned(other):
                    other.unlink(missing_ok=True)
        replace_files(self._directory, {path.name: msgspec.json.encode(secrets)})

    def delete(self, task_id: str) -> None:
        path = self._build_path(task_id)
        with translate_storage_errors(f"could not delete {path.name}", self._directory):
            path.unlink(missing_ok=True)

    def _is_abandoned(self, path: Path) -> bool:
        """Whether the task was removed by hand, or never created."""
        is_old = time.time() - path.stat().st_mtime > _NEW_TASK_GRACE_S
        return is_old and (
            td.find_task_directory(self._tasks_directory, _parse_task_id(path)) is None
        )

    def _build_path(self, task_id: str) -> Path:
        bare = td.normalize_task_id(task_id)
        return self._directory / f"{td.TASK_DIRECTORY_PREFIX}{bare}{_SECRET_FILE_SUFFIX}"

    def _list_files(self) -> Iterator[Path]:
        return self._directory.glob(f"{td.TASK_DIRECTORY_PREFIX}*{_SECRET_FILE_SUFFIX}")


def _parse_task_id(path: Path) -> str:
    return path.name.removeprefix(td.TASK_DIRECTORY_PREFIX).removesuffix(_SECRET_FILE_SUFFIX)


class EphemeralStore(JsonFileStore):
    """Tasks in a private temporary directory that is removed with the store.

    Their secrets stay in memory. A process that is killed leaves the directory; the next such store
    in `parent` removes it.
    """

    def __init__(self, parent: Path) -> None:
        """Raises StoreError."""
        from tempfile import mkdtemp

        for left in parent.glob(f"{_EPHEMERAL_PREFIX}*"):
            if _is_abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
        with translate_storage_errors("could not create a temporary directory", parent):
            home = Path(mkdtemp(prefix=_EPHEMERAL_PREFIX, dir=parent))
        super().__init__(home)
        self._secret_files = _SecretsInMemory(home)
        self._lock = ExitStack()
        self._lock.enter_context(lock_directory(home, timeout_s=0))
        weakref.finalize(self, shutil.rmtree, home, ignore_errors=True)


class _SecretsInMemory(TaskSecretFiles):
    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._secrets: dict[str, TaskSecrets] = {}

    def load(self, task_id: str) -> TaskSecrets | None:
        return self._secrets.get(task_id.removeprefix(td.TASK_DIRECTORY_PREFIX))

    def save(self, task_id: str, secrets: TaskSecrets) -> None:
        self._secrets[task_id.removeprefix(td.TASK_DIRECTORY_PREFIX)] = secrets

    def delete(self, task_id: str) -> None:
        self._secrets.pop(task_id.removeprefix(td.TASK_DIRECTORY_PREFIX), None)
