"""Stores of batches in Postgres: the same tables and queue, journals included, for many hosts.

The output directory only names the database and the batch, and gets copies of the results. A worker
needs no output directory: workspaces are in a directory that the workers of its host share.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from joey.app import create_shared_store, open_shared_store, resolve_joey_home
from joey.app.engine_factory import STORE_VARIABLE
from joey.batch.database import lock_database, open_database
from joey.batch.results import ItemStatus
from joey.batch.shared_results import SharedResults
from joey.batch.store import BatchNotFoundError, BatchStore, OutputDirectory, generate_batch_id
from joey.batch.tables import Tables
from joey.core.redaction import strip_url_password
from joey.errors import ConfigError
from joey.ports.storage import SharedStore
from joey.system.files import make_private_directory, replace_file
from joey.system.locks import lock_directory

_WORK_DIRECTORY = "batch-work"


class StoreReference(Struct, frozen=True):
    """`OUT/store.json`: the location of a batch, without passwords."""

    store: str
    batch: str


class ClusterBatchStore(BatchStore):
    """One batch of a database with its output directory, or all batches for a worker."""

    def __init__(
        self,
        out: OutputDirectory,
        engine: sa.Engine,
        tasks: SharedStore,
        *,
        url: str,
        work: Path,
        batch_id: str | None,
    ) -> None:
        results = SharedResults(Tables(engine), out.root if batch_id else None, batch_id)
        super().__init__(out, engine, results, tasks, batch_id=batch_id)
        self.shared_tasks = tasks
        self._work = work
        self.environment = {STORE_VARIABLE: url}
        self.locator = str(out.root) if batch_id else ""
        self.work = str(work)

    def locate_files(self, batch_id: str) -> OutputDirectory:
        return OutputDirectory(self._work / batch_id)

    def list_batch_ids(self) -> list[str]:
        if self._batch_id is not None:
            return [self._batch_id]
        rows = self.tables.query(
            """select distinct batch_id from joey.item where status in (:waiting, :running)
               order by batch_id""",
            waiting=ItemStatus.WAITING,
            running=ItemStatus.RUNNING,
        )
        return [row[0] for row in rows]

    def close(self) -> None:
        super().close()
        assert self.shared_tasks is not None
        self.shared_tasks.close()


def open_worker_store(url: str, work: Path | None) -> ClusterBatchStore:
    """All batches of a database, for a worker. Raises ConfigError, StoreError."""
    root = work or resolve_joey_home(os.environ) / _WORK_DIRECTORY
    out = OutputDirectory(root)
    _prepare(url, out, root)
    return _open(url, out, root, None)


def open_output_store(
    out: OutputDirectory, url: str | None, work: Path | None, *, create: bool
) -> ClusterBatchStore:
    """Open the batch of an output directory; with `create`, create it if there is none. Raises
    BatchNotFoundError, ConfigError, StoreError."""
    root = work or resolve_joey_home(os.environ) / _WORK_DIRECTORY
    if create and url is not None and not out.reference.exists():
        if out.database.exists():
            raise ConfigError(
                f"{out.root} holds a batch that was created without --store. Use another directory."
            )
        _prepare(url, out, root)  # an address that cannot be used is not written down
        _write_reference(out, url)
        create = False
    reference = read_reference(out)
    url = _find_url(reference, url)
    if create:
        _prepare(url, out, root)
    return _open(url, out, root, reference.batch)


def read_reference(out: OutputDirectory) -> StoreReference:
    """Raises BatchNotFoundError, ConfigError."""
    try:
        return msgspec.json.decode(out.reference.read_bytes(), type=StoreReference)
    except FileNotFoundError as error:
        raise BatchNotFoundError(f"{out.root} is not the output directory of a batch.") from error
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{out.reference} cannot be read: {error}.") from error


def _write_reference(out: OutputDirectory, url: str) -> None:
    """Unless another process has done it meanwhile."""
    with lock_directory(out.root):
        if not out.reference.exists():
            reference = StoreReference(strip_url_password(url), generate_batch_id())
            replace_file(out.reference, msgspec.json.encode(reference) + b"\n")


def _find_url(reference: StoreReference, url: str | None) -> str:
    """Return the address with its password. Raises ConfigError."""
    if url is not None and strip_url_password(url) != reference.store:
        raise ConfigError(f"The batch of this directory is in {reference.store}.")
    given = url or os.environ.get(STORE_VARIABLE)
    if given is not None and strip_url_password(given) == reference.store:
        return given
    return reference.store


def _prepare(url: str, out: OutputDirectory, work: Path) -> None:
    """Make the tables and directories that are missing. Raises ConfigError, StoreError."""
    from joey.batch.queue import migrate_queue

    engine = open_database(url)
    create_shared_store(url)
    with lock_database(engine):
        migrate_queue(engine)
    engine.dispose()
    for directory in (out.root, out.workers, work):
        make_private_directory(directory)


def _open(url: str, out: OutputDirectory, work: Path, batch_id: str | None) -> ClusterBatchStore:
    engine = open_database(url)
    Tables(engine).check_version()
    tasks = open_shared_store(url)
    return ClusterBatchStore(out, engine, tasks, url=url, work=work, batch_id=batch_id)
