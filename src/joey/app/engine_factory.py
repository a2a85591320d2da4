"""Engines, and the storage of tasks under the home directory: store and index.

A separate module, which `joey.app` imports on first use. `open_engine` imports everything that only
an engine needs, so lists of tasks do not load it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from joey.config.home import resolve_home_and_env
from joey.errors import ConfigError
from joey.ports.storage import IndexProgressCallback, Store, TaskIndex
from joey.storage.task_store import EphemeralStore, JsonFileStore

if TYPE_CHECKING:
    from joey.engine.engine import Engine, StoredTaskState, TaskOptions
    from joey.engine.runtime import TaskRuntime
    from joey.storage.postgres.schema import SchemaState
    from joey.storage.postgres.store import PostgresStore

STORE_VARIABLE = "JOEY_STORE"


def open_engine(
    *,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    ephemeral: bool = False,
    store: Store | None = None,
) -> Engine:
    """An engine that keeps its tasks under `home` (`JOEY_HOME`, else `~/.roo`).

    With `ephemeral`, tasks are in a private temporary directory and gone with the process. `store`
    keeps them elsewhere; settings and profiles still come from `home`.
    """
    from joey.app.options import resolve_options
    from joey.app.task_runtime_factory import CapabilityFactory, build_runtime
    from joey.engine.engine import Engine
    from joey.tools.registry import Registry, build_default_tools
    from joey.workspace.environment import SystemClock

    home, env = resolve_home_and_env(home, env)
    if store is None:
        store = _open_ephemeral_store(env) if ephemeral else open_store(home, env)
    registry = Registry(build_default_tools())
    capabilities = CapabilityFactory(home, env, persistent=not ephemeral)

    def runtime(options: TaskOptions, stored: StoredTaskState) -> TaskRuntime:
        resolved = resolve_options(options, stored, home, env)
        return build_runtime(resolved, registry, capabilities, home, env)

    return Engine(store, SystemClock(), runtime, capabilities.close)


def _open_ephemeral_store(env: Mapping[str, str]) -> Store:
    """Open a store in `XDG_RUNTIME_DIR` if it is set: it is in memory, and emptied at logout."""
    import tempfile

    runtime = env.get("XDG_RUNTIME_DIR")
    is_usable = runtime and os.access(runtime, os.R_OK | os.W_OK | os.X_OK)
    return EphemeralStore(Path(runtime if runtime and is_usable else tempfile.gettempdir()))


def open_store(home: Path | None = None, env: Mapping[str, str] | None = None) -> Store:
    """Open the task store on disk, or in the database that `JOEY_STORE` names. Raises
    ConfigError."""
    home, env = resolve_home_and_env(home, env)
    if url := env.get(STORE_VARIABLE):
        return open_shared_store(url, home)
    return JsonFileStore(home)


def open_shared_store(url: str, home: Path | None = None) -> PostgresStore:
    """Open the task store in a database. Raises ConfigError if the extra for it is not
    installed."""
    _require_psycopg()
    from joey.storage.postgres.store import PostgresStore

    return PostgresStore(url, resolve_home_and_env(home)[0])


def create_shared_store(url: str) -> None:
    """Create the tables of a store. Raises ConfigError, StoreError."""
    _require_psycopg()
    from joey.storage.postgres.connection import check_url
    from joey.storage.postgres.schema import create_tables

    create_tables(check_url(url))


def read_shared_store_state(url: str) -> SchemaState:
    """Return the state of a store in a database. Raises ConfigError, StoreError."""
    _require_psycopg()
    from joey.storage.postgres.connection import check_url
    from joey.storage.postgres.schema import read_state

    return read_state(check_url(url))


def _require_psycopg() -> None:
    from importlib.util import find_spec

    if find_spec("psycopg") is None:
        raise ConfigError("Stores in Postgres need the extra `fleet`: pip install 'joey[fleet]'.")


def open_task_index(
    progress: IndexProgressCallback | None = None,
) -> TaskIndex:
    """The index of the tasks that `open_store` opens."""
    home, env = resolve_home_and_env()
    if url := env.get(STORE_VARIABLE):
        _require_psycopg()
        from joey.storage.postgres.index import PostgresTaskIndex

        return PostgresTaskIndex(url)
    # SQLite is slow to load, and only task lookups need it.
    from joey.storage.task_index import SqliteTaskIndex

    return SqliteTaskIndex(home, progress)
