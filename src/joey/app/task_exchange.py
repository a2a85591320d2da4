"""Import and export of tasks for the command line, as `storage` does them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from joey.config.home import resolve_home_and_env
from joey.errors import StoreError
from joey.storage.roo_import import (
    ForeignTask,
    ImportCandidate,
    find_foreign_tasks,
    find_task_locations,
    find_task_locations_under,
    import_task,
    inspect_task,
    is_caused_by_full_disk,
)
from joey.storage.roo_task_directory import write_roo_directory
from joey.storage.task_store import JsonFileStore

__all__ = [
    "ForeignTask",
    "ImportCandidate",
    "TaskExchange",
    "is_caused_by_full_disk",
    "write_roo_directory",
]


class TaskExchange:
    """Directories of other programs' tasks, and joey's own store."""

    def __init__(self, home: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        home, self._env = resolve_home_and_env(home, env)
        self._tasks_directory = JsonFileStore(home).tasks_directory

    def find_tasks(self, paths: Sequence[Path], *, everywhere: bool) -> list[ForeignTask]:
        """Find the tasks under these paths, and with `everywhere` all tasks on this machine. Raises
        StoreError if a path does not exist or holds no task."""
        places = []
        for path in paths:
            under = find_task_locations_under(path)
            if not under:
                raise StoreError(
                    f"there is no task in {path}: a folder of a task holds ui_messages.json or"
                    " api_conversation_history.json"
                )
            places += under
        if everywhere:
            home = Path(self._env.get("HOME") or Path.home())
            places += find_task_locations(home, self._env)
        seen = dict.fromkeys(places)
        return find_foreign_tasks(seen, self._tasks_directory)

    def inspect_task(self, task: ForeignTask) -> ImportCandidate:
        return inspect_task(task, self._tasks_directory)

    def import_task(self, task: ForeignTask) -> Path:
        """Raises StoreError."""
        return import_task(task, self._tasks_directory)
