"""Open an engine, or the tasks on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from joey.app.benches import make_bench
from joey.app.file_offers import FileOffers
from joey.app.indexes import CodeIndexes
from joey.app.servers import Servers
from joey.app.worktrees import worktrees_folder
from joey.config.home import joey_home
from joey.engine.engine import Engine, TaskOptions
from joey.engine.runtime import Workbench
from joey.ports import Store
from joey.ports.storage import Progress, TaskIndex
from joey.storage.memory_store import MemoryStore
from joey.storage.task_store import JsonFileStore
from joey.tools.registry import Registry, default_tools
from joey.workspace.checkpoints.pool import CheckpointStores
from joey.workspace.environment import SystemClock
from joey.workspace.files import LocalFiles


def open_engine(
    *,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    ephemeral: bool = False,
) -> Engine:
    """An engine that keeps its tasks under `home` (`JOEY_HOME`, else `~/.roo`).

    With `ephemeral`, tasks live in memory and are gone with the process.
    """
    env = os.environ if env is None else env
    home = home or joey_home(env)
    store: Store = MemoryStore() if ephemeral else open_store(home, env)
    registry = Registry(default_tools())
    servers = Servers(home, env)
    indexes = CodeIndexes(home, env, kept=not ephemeral)
    checkpoints = CheckpointStores(home, kept=not ephemeral)

    worktrees = None if ephemeral else worktrees_folder(home)

    def bench(options: TaskOptions) -> Workbench:
        return make_bench(options, registry, servers, indexes, checkpoints, worktrees, home, env)

    return Engine(store, SystemClock(), bench)


def open_file_offers(workspace: Path) -> FileOffers:
    """The files of a workspace, for those who type their names."""
    return FileOffers(LocalFiles(workspace))


def open_store(home: Path | None = None, env: Mapping[str, str] | None = None) -> Store:
    """The tasks on disk."""
    return JsonFileStore(home or joey_home(os.environ if env is None else env))


def open_task_index(
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> TaskIndex:
    """The index of the tasks on disk."""
    # SQLite takes its time to load, and only those who look for tasks come here.
    from joey.storage.task_index import SqliteTaskIndex

    return SqliteTaskIndex(home or joey_home(os.environ if env is None else env), progress)
