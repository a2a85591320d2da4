"""Keys and addresses of single tasks: `$JOEY_HOME/task-secrets/task_<id>.secret.json`, 0600.

A task folder can be copied to other machines and come from them. What is in these files does
neither: it belongs to one task on this machine, and is deleted with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from joey.core.settings import TaskSecrets
from joey.errors import StoreError
from joey.stores.layout import PREFIX, clean_id, find_folder
from joey.system.files import make_folder, read_regular, replace_files, storage_error

SECRETS = "task-secrets"
_SUFFIX = ".secret.json"
_YOUNG = 60.0
"""Seconds within which the folder of a new task may still be missing."""
_decoder = msgspec.json.Decoder(TaskSecrets)


class TaskSecretFiles:
    """Those of all tasks under `<home>/tasks`. Raises StoreError."""

    def __init__(self, home: Path) -> None:
        self._folder = home / SECRETS
        self._tasks = home / "tasks"

    def load(self, task_id: str) -> TaskSecrets | None:
        path = self._path(task_id)
        try:
            data = read_regular(path)
            return None if data is None else _decoder.decode(data)
        except OSError as error:
            raise storage_error(f"could not read {path.name}", self._folder, error) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path} is damaged, so that the key of task {task_id} is not known. Delete the"
                " file, and name the model with --profile, --provider or --base-url."
            ) from error

    def all(self) -> Iterator[TaskSecrets]:
        """Those of all tasks, as far as they can be read."""
        for path in self._files():
            with suppress(StoreError):
                if (secrets := self.load(_task_id(path))) is not None:
                    yield secrets

    def save(self, task_id: str, secrets: TaskSecrets) -> None:
        path = self._path(task_id)
        try:
            make_folder(self._folder)
            self._remove_orphans()
        except OSError as error:
            raise storage_error(f"could not write {path.name}", self._folder, error) from error
        replace_files(self._folder, {path.name: msgspec.json.encode(secrets)})

    def delete(self, task_id: str) -> None:
        path = self._path(task_id)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(f"could not delete {path.name}", self._folder, error) from error

    def _path(self, task_id: str) -> Path:
        return self._folder / f"{PREFIX}{clean_id(task_id)}{_SUFFIX}"

    def _remove_orphans(self) -> None:
        """Files of tasks whose folders were removed by hand, or never made."""
        for path in self._files():
            age = time.time() - path.stat().st_mtime
            if age > _YOUNG and find_folder(self._tasks, _task_id(path)) is None:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[Path]:
        return self._folder.glob(f"{PREFIX}*{_SUFFIX}")


def _task_id(path: Path) -> str:
    return path.name.removeprefix(PREFIX).removesuffix(_SUFFIX)
