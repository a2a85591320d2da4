"""Stores of batches: where the queue, the tables, the journals and the results of a batch are."""

from __future__ import annotations

import os
import re
import secrets
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from joey.app import open_store
from joey.batch.database import open_database
from joey.batch.results import ResultsFile, locate_check, locate_patch
from joey.batch.tables import BatchRow, Tables
from joey.core.text import compile_regex
from joey.errors import ConfigError, UserError
from joey.ports.storage import SharedStore, Store
from joey.system.files import make_private_directory

if TYPE_CHECKING:
    from joey.batch.queue import QueueClient

_SAFE_ID_RE = compile_regex(r"[A-Za-z0-9_-]{1,80}", re.ASCII)
_UNSAFE_RE = compile_regex(r"[^A-Za-z0-9_-]", re.ASCII)
_MAX_NAME_CHARS = 80


class BatchNotFoundError(UserError):
    """There is no batch in a directory."""


class OutputDirectory:
    """The files of a batch (`OUT`)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.database = root / "batch.sqlite"
        self.description = root / "batch.json"
        self.reference = root / "store.json"
        self.results = root / "results.jsonl"
        self.home = root / "home"
        self.workspaces = root / "work"
        self.workers = root / "workers"

    def get_patch(self, item_id: str) -> Path:
        return locate_patch(self.root, item_id)

    def get_check(self, item_id: str) -> Path:
        return locate_check(self.root, item_id)


class BatchStore:
    """Everything that processes of one batch share."""

    def __init__(
        self,
        out: OutputDirectory,
        engine: sa.Engine,
        results: ResultsFile,
        tasks: Store,
        *,
        batch_id: str | None = None,
    ) -> None:
        """With `batch_id`, only this batch counts, although the database has others."""
        self.out = out
        self.engine = engine
        self.tables = Tables(engine)
        self._queue: QueueClient | None = None
        self.results = results
        self.tasks = tasks
        self.locator, self.work = str(out.root), ""
        """The location from which another process opens this store with `open_located_store`."""
        self.environment: dict[str, str] = {}
        """Environment variables that process needs."""
        self.shared_tasks: SharedStore | None = None
        """The task store, if other hosts share it."""
        self._batch_id = batch_id

    @property
    def queue(self) -> QueueClient:
        """The queue; loaded late, because readers of results do not need its library."""
        if self._queue is None:
            from joey.batch.queue import QueueClient

            self._queue = QueueClient(self.engine)
        return self._queue

    def locate_files(self, batch_id: str) -> OutputDirectory:
        """Return the directory of a batch's workspaces, patches and checks on this host."""
        return self.out

    def find_batch_id(self) -> str | None:
        """Return the id of this directory's batch, which may have no row yet."""
        if self._batch_id is not None:
            return self._batch_id
        rows = self.tables.query("select id from joey.batch")
        return rows[0][0] if rows else None

    def list_batch_ids(self) -> list[str]:
        """The batches that a worker drives."""
        batch_id = self.find_batch_id()
        return [] if batch_id is None else [batch_id]

    def load_batch(self) -> BatchRow:
        """The batch of this directory. Raises BatchNotFoundError."""
        batch_id = self.find_batch_id()
        batch = self.tables.load_batch(batch_id) if batch_id else None
        if batch is None:
            raise BatchNotFoundError(f"{self.out.root} has no batch yet.")
        return batch

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()
        self.engine.dispose()


def open_batch_store(
    out: Path, *, create: bool = False, url: str | None = None, work: Path | None = None
) -> BatchStore:
    """Open the store of an output directory; `url` names the database of a new batch if it is
    outside the directory, and `work` the directory of its workspaces then. Raises
    BatchNotFoundError, ConfigError, StoreError."""
    paths = OutputDirectory(out.expanduser().absolute())
    if paths.reference.exists() or (create and url is not None):
        from joey.batch.cluster_store import open_output_store

        return open_output_store(paths, url, work, create=create)
    if create:
        try:
            for directory in (paths.root, paths.home, paths.workers):
                make_private_directory(directory)
        except OSError as error:
            raise ConfigError(f"{paths.root} cannot be used: {error.strerror}.") from error
    elif not paths.database.exists():
        raise BatchNotFoundError(
            f"{out} is not the output directory of a batch: it has no batch.sqlite."
        )
    engine = open_database(f"sqlite:///{paths.database}")
    if create:
        from joey.batch.queue import migrate_queue

        Tables(engine).create()  # first, because it explains why a database cannot be used
        migrate_queue(engine)
    else:
        Tables(engine).check_version()
    return BatchStore(paths, engine, ResultsFile(paths.results), open_store(paths.home, {}))


def open_located_store(locator: str, work: str) -> BatchStore:
    """Open the store that another process located."""
    directory = Path(work) if work else None
    if locator:
        return open_batch_store(Path(locator), work=directory)
    from joey.app.engine_factory import STORE_VARIABLE
    from joey.batch.cluster_store import open_worker_store

    return open_worker_store(os.environ[STORE_VARIABLE], directory)


def generate_batch_id() -> str:
    return secrets.token_hex(4)


def build_task_id(batch_id: str, item_id: str, attempt: int) -> str:
    """Build the id of an attempt's task, which allows fewer characters than an item's id."""
    name = item_id
    if _SAFE_ID_RE.fullmatch(item_id) is None:
        plain = _UNSAFE_RE.sub("_", item_id)[:_MAX_NAME_CHARS]
        name = f"{plain}-{sha256(item_id.encode()).hexdigest()[:6]}"
    return f"batch-{batch_id}-{name}-{attempt}"
