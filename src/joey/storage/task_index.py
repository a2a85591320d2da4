"""Task index: lists and full-text search among a hundred thousand tasks, from one SQLite file.

The directories are authoritative. The index is brought up to date before every answer (see
`index_database`), and the tasks of a page are compared with their directories before they are
shown.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from joey.errors import StoreError
from joey.ports.storage import (
    FoundTask,
    IndexProgressCallback,
    TaskIndex,
    TaskMetadata,
    TaskPage,
    TaskQuery,
)
from joey.storage.index_database import (
    FINGERPRINT_COLUMNS,
    IndexDatabase,
    IndexedFingerprint,
    IndexEntry,
    IndexSync,
    SchemaMismatchError,
    delete_entries,
    fingerprint_task,
    upsert_entry,
)
from joey.storage.index_text import build_match_expression, build_snippet
from joey.storage.task_directory import TASK_DIRECTORY_PREFIX, WORKTREES_DIRECTORY, is_locked
from joey.storage.task_list import sort_newest_first
from joey.system.sqlite import transaction

SHORT_ID_CHARS = 13
"""Of our ids, those that hold the time."""
_BUSY_TIMEOUT_S = 5.0
_SNAPSHOT_BUSY_TIMEOUT_S = 0.25
"""So much longer the snapshot of a task may take for the index."""
_MAX_REFRESH_ROUNDS = 5
"""Pages are looked at again until nothing on them has changed, but not for ever."""
_MAX_PREFIX_MATCHES = 1_000
_MAX_WORKSPACES = 10_000
"""SQLite takes no more values than three times as many."""
_UNFINISHED_CONDITION = "status IN ('created', 'running', 'waiting', 'delegated')"
_STATUS_CONDITIONS = {
    "interrupted": f"(status = 'aborted' OR {_UNFINISHED_CONDITION} AND NOT held(folder))",
    "running": "(status IN ('created', 'running') AND held(folder))",
    "waiting": "(status = 'waiting' AND held(folder))",
    "delegated": "(status = 'delegated' AND held(folder))",
}
# Where both spellings of a folder exist, the prefixed one is the one that would be opened.
_NOT_DUPLICATE_CONDITION = (
    "NOT (bare AND EXISTS"
    f" (SELECT 1 FROM tasks AS other WHERE other.folder = '{TASK_DIRECTORY_PREFIX}' || tasks.id))"
)
_CONVERSATION_SQL = "SELECT said FROM words WHERE rowid = ?"
_WORKTREES_SQL = """
    WITH RECURSIVE inside (place, parent) AS (
        SELECT place, parent FROM tasks WHERE place >= :trees AND place < :after_trees
        UNION
        SELECT inside.place, tasks.parent FROM inside JOIN tasks ON tasks.id = inside.parent
        WHERE tasks.place >= :trees AND tasks.place < :after_trees
    )
    SELECT DISTINCT inside.place FROM inside JOIN tasks ON tasks.id = inside.parent
    WHERE tasks.place = :workspace AND NOT (:workspace >= :trees AND :workspace < :after_trees)
    LIMIT :most
"""
"""Worktrees of subtasks whose topmost task that is in none works in the workspace."""
_metadata_decoder = msgspec.json.Decoder(TaskMetadata)
_log = logging.getLogger(__name__)
_Row = tuple[int, str, bool, str, str, bytes]
"""Of `FINGERPRINT_COLUMNS` and `about`."""
T = TypeVar("T")


class SqliteTaskIndex:
    """One connection, for one thread at a time."""

    def __init__(self, home: Path, progress: IndexProgressCallback | None = None) -> None:
        self._tasks_directory = home / "tasks"
        self._worktrees_directory = home.resolve() / WORKTREES_DIRECTORY
        self._database = IndexDatabase(home, _BUSY_TIMEOUT_S)
        self._on_progress = progress

    @property
    def warnings(self) -> Sequence[str]:
        return self._database.warnings

    def close(self) -> None:
        self._database.close()

    def search(self, query: TaskQuery, *, refresh: bool = False) -> TaskPage:
        expression = None if query.text is None else build_match_expression(query.text)
        if query.text is not None and expression is None:
            return TaskPage((), 0)
        return self._run_with_recovery(
            lambda connection: self._find_page(connection, query, expression, refresh)
        )

    def find_by_prefix(self, id_prefix: str) -> Sequence[TaskMetadata]:
        id_prefix = id_prefix.removeprefix(TASK_DIRECTORY_PREFIX)
        where = (
            f"id >= ? AND substr(id, 1, ?) = ? AND {_NOT_DUPLICATE_CONDITION} ORDER BY id LIMIT ?"
        )
        values = (id_prefix, len(id_prefix), id_prefix, _MAX_PREFIX_MATCHES)

        def find(connection: sqlite3.Connection) -> list[TaskMetadata]:
            upkeep = self._create_index_sync(connection)
            for refresh in (False, True):  # every folder is looked at before nothing is found
                upkeep.update(refresh=refresh)
                if tasks := _query_tasks(connection, upkeep, where, values):
                    return tasks
            return []

        return self._run_with_recovery(find)

    def list_descendants(self, task_id: str) -> Sequence[TaskMetadata]:
        return self._run_with_recovery(
            lambda connection: self._find_descendants(connection, task_id)
        )

    def shorten_id(self, task_id: str) -> str:
        return self._run_with_recovery(lambda connection: _compute_short_id(connection, task_id))

    def _find_page(
        self, connection: sqlite3.Connection, query: TaskQuery, match: str | None, refresh: bool
    ) -> TaskPage:
        upkeep = self._create_index_sync(connection)
        upkeep.update(refresh=refresh)
        where, values = _build_conditions(
            query, self._find_workspace_and_worktrees(connection, query.workspace)
        )
        source, wanted, bound = "tasks", where, values
        if match is not None:
            source = "words CROSS JOIN tasks ON tasks.number = words.rowid"
            wanted, bound = f"words MATCH ? AND {where}", (match, *values)
        columns = ", ".join(f"tasks.{name}" for name in FINGERPRINT_COLUMNS.split(", "))
        page = (
            f"SELECT {columns}, about FROM {source} WHERE {wanted}"
            " ORDER BY updated DESC, id DESC LIMIT ?"
        )

        def query_page() -> list[_Row]:
            if match is not None:
                upkeep.index_conversations(where, values)
            return connection.execute(page, (*bound, query.limit)).fetchall()

        rows = _query_verified(upkeep, query_page)
        count = f"SELECT count(*) FROM {source} WHERE {wanted}"
        (total,) = connection.execute(count, bound).fetchone()
        found: list[FoundTask] = []
        for row in rows:
            task = _metadata_decoder.decode(row[5])
            snippet = ""
            if query.text is not None:
                (said,) = connection.execute(_CONVERSATION_SQL, (row[0],)).fetchone() or ("",)
                snippet = build_snippet(said, query.text)
            found.append(FoundTask(task, _compute_short_id(connection, task.id), snippet))
        return TaskPage(tuple(found), total)

    def _find_workspace_and_worktrees(
        self, connection: sqlite3.Connection, workspace: str | None
    ) -> list[str]:
        """Find a workspace, and the worktrees of its tasks' subtasks."""
        if workspace is None:
            return []
        values = {
            "trees": f"{self._worktrees_directory}/",
            "after_trees": f"{self._worktrees_directory}0",  # 0 follows /
            "workspace": str(Path(workspace)),
            "most": _MAX_WORKSPACES,
        }
        worktrees = (place for (place,) in connection.execute(_WORKTREES_SQL, values))
        return [str(Path(workspace)), *worktrees]

    def _find_descendants(
        self, connection: sqlite3.Connection, task_id: str
    ) -> Sequence[TaskMetadata]:
        upkeep = self._create_index_sync(connection)
        upkeep.update()
        found: dict[str, TaskMetadata] = {}
        named: dict[str, None] = {task_id: None}
        looked: set[str] = set()
        while wanted := [each for each in named if each not in looked]:
            for each in wanted:
                looked.add(each)
                where = f"(id = ? OR parent = ?) AND {_NOT_DUPLICATE_CONDITION}"
                for task in _query_tasks(connection, upkeep, where, (each, each)):
                    found[task.id] = task
                    named |= dict.fromkeys((task.id, *task.child_ids))
        found.pop(task_id, None)
        return sort_newest_first(found.values())

    def _create_index_sync(self, connection: sqlite3.Connection) -> IndexSync:
        connection.create_function("held", 1, self._is_locked)
        return IndexSync(connection, self._tasks_directory, self._on_progress)

    def _is_locked(self, directory: str) -> bool:
        try:
            return is_locked(self._tasks_directory / directory)
        except StoreError as error:
            _log.warning("%s", error)
            return False

    def _run_with_recovery(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation, again with a new file if this one cannot be used."""
        while True:
            try:
                return work(self._database.connection)
            except (sqlite3.Error, OSError, SchemaMismatchError) as error:
                self._database.recover(error)


def update_indexed_task(home: Path, directory: str, metadata: TaskMetadata) -> None:
    """Report changes to a task. If the index is not writable, it will notice them later."""
    row = IndexEntry(directory, metadata, True, *fingerprint_task(f"{home}/tasks/{directory}"))

    def write(connection: sqlite3.Connection) -> None:
        with transaction(connection):
            upsert_entry(connection, row)

    _write_to_index(home, write)


def remove_indexed_task(home: Path, directory: str) -> None:
    """Remove everything about a deleted task from the index."""

    def write(connection: sqlite3.Connection) -> None:
        sql = "SELECT searched FROM tasks WHERE folder = ?"
        known = connection.execute(sql, (directory,)).fetchone()
        with transaction(connection):
            delete_entries(connection, (directory,))
        if known is not None and known[0] is not None:
            # Deleted words stay in the full-text table until its parts are merged.
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    _write_to_index(home, write, _BUSY_TIMEOUT_S)


def _write_to_index(
    home: Path,
    write: Callable[[sqlite3.Connection], None],
    busy_timeout_s: float = _SNAPSHOT_BUSY_TIMEOUT_S,
) -> None:
    file = IndexDatabase(home, busy_timeout_s)
    try:
        write(file.connection)
    except (sqlite3.Error, OSError, SchemaMismatchError) as error:
        _log.info("the index of tasks was not updated: %s", error)
    finally:
        file.close()


def _query_verified(upkeep: IndexSync, query: Callable[[], list[_Row]]) -> list[_Row]:
    """Run a query until none of the found directories has changed since it was indexed."""
    for _ in range(_MAX_REFRESH_ROUNDS):
        rows = query()
        if not upkeep.refresh_changed(IndexedFingerprint(*row[:5]) for row in rows):
            break
    return rows


def _query_tasks(
    connection: sqlite3.Connection, upkeep: IndexSync, where: str, values: Sequence[object]
) -> list[TaskMetadata]:
    sql = f"SELECT {FINGERPRINT_COLUMNS}, about FROM tasks WHERE {where}"
    rows = _query_verified(upkeep, lambda: connection.execute(sql, values).fetchall())
    return [_metadata_decoder.decode(row[5]) for row in rows]


def _build_conditions(query: TaskQuery, places: Sequence[str]) -> tuple[str, tuple[object, ...]]:
    wanted: list[tuple[str, tuple[object, ...]]] = [(_NOT_DUPLICATE_CONDITION, ())]
    if places:
        wanted.append((f"place IN ({', '.join('?' * len(places))})", tuple(places)))
    if query.status in _STATUS_CONDITIONS:
        wanted.append((_STATUS_CONDITIONS[query.status], ()))
    elif query.status is not None:
        wanted.append(("status = ?", (query.status,)))
    if query.updated_since is not None:
        wanted.append(("updated >= ?", (query.updated_since,)))
    values = tuple(value for _, some in wanted for value in some)
    return " AND ".join(condition for condition, _ in wanted), values


def _compute_short_id(connection: sqlite3.Connection, task_id: str) -> str:
    """Compute a short id: only its neighbours in sort order can share a longer prefix."""
    before = "SELECT id FROM tasks WHERE id < ? ORDER BY id DESC LIMIT 1"
    after = "SELECT id FROM tasks WHERE id > ? ORDER BY id LIMIT 1"
    size = SHORT_ID_CHARS
    for sql in (before, after):
        for (other,) in connection.execute(sql, (task_id,)):
            while size < len(task_id) and other.startswith(task_id[:size]):
                size += 1
    return task_id[:size]


_protocol_check: type[TaskIndex] = SqliteTaskIndex
