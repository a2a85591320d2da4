"""Engines, and the storage of tasks under the home directory: store and index.

A module of its own, which `joey.app` imports on first use. Everything that only an engine needs is
imported by `open_engine`: lists of tasks do without.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from joey.config.home import resolve_home_and_env
from joey.ports.storage import IndexProgressCallback, Store, TaskIndex
from joey.storage.task_store import EphemeralStore, JsonFileStore

if TYPE_CHECKING:
    from joey.engine.engine import Engine, StoredTaskState, TaskOptions
    from joey.engine.runtime import TaskRuntime


def open_engine(
    *,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    ephemeral: bool = False,
) -> Engine:
    """An engine that keeps its tasks under `home` (`JOEY_HOME`, else `~/.roo`).

    With `ephemeral`, tasks are in a private temporary directory and gone with the process.
    """
    from joey.app.options import resolve_options
    from joey.app.task_runtime_factory import CapabilityFactory, build_runtime
    from joey.engine.engine import Engine
    from joey.tools.registry import Registry, build_default_tools
    from joey.workspace.environment import SystemClock

    home, env = resolve_home_and_env(home, env)
    store = _open_ephemeral_store(env) if ephemeral else open_store(home, env)
    registry = Registry(build_default_tools())
    capabilities = CapabilityFactory(home, env, persistent=not ephemeral)

    def runtime(options: TaskOptions, stored: StoredTaskState) -> TaskRuntime:
        resolved = resolve_options(options, stored, home, env)
        return build_runtime(resolved, registry, capabilities, home, env)

    return Engine(store, SystemClock(), runtime)


def _open_ephemeral_store(env: Mapping[str, str]) -> Store:
    """In `XDG_RUNTIME_DIR` where there is one: it is in memory, and emptied at logout."""
    import tempfile

    runtime = env.get("XDG_RUNTIME_DIR")
    is_usable = runtime and os.access(runtime, os.R_OK | os.W_OK | os.X_OK)
    return EphemeralStore(Path(runtime if runtime and is_usable else tempfile.gettempdir()))


def open_store(home: Path | None = None, env: Mapping[str, str] | None = None) -> Store:
    """The tasks on disk."""
    return JsonFileStore(resolve_home_and_env(home, env)[0])


def open_task_index(
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    progress: IndexProgressCallback | None = None,
) -> TaskIndex:
    """The index of the tasks on disk."""
    # SQLite takes its time to load, and only those who look for tasks come here.
    from joey.storage.task_index import SqliteTaskIndex

    return SqliteTaskIndex(resolve_home_and_env(home, env)[0], progress)
