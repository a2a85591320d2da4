"""A task that is made with all of its records at once.

It is put together in a folder whose name no task can have, and gets its own name when everything
in it is safe on disk: whatever dies before that leaves nothing that looks like a task. Whoever puts
one together holds a lock on the folder, by which the next one knows what was left behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from joey.core.events import Record
from joey.stores.journal import encode_record
from joey.stores.layout import COMMAND_OUTPUT, JOURNAL
from joey.system.files import FILE_MODE, make_folder, replace_files, storage_error, sync_folder

_STAGE = ".fork-"
_YOUNG = 60.0
"""Seconds within which a folder may not be locked yet."""


def plant_folder(folder: Path, records: Sequence[Record], source: Path) -> None:
    """Raises StoreError."""
    tasks = folder.parent
    try:
        make_folder(tasks)
        for left in abandoned_stages(tasks):
            shutil.rmtree(left, ignore_errors=True)
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=tasks))
    except OSError as error:
        raise storage_error(f"could not make {folder.name}", tasks, error) from error
    try:
        with _held(stage):
            _copy_output(source / COMMAND_OUTPUT, stage / COMMAND_OUTPUT)
            replace_files(stage, {JOURNAL: b"".join(map(encode_record, records))})
            stage.rename(folder)
            sync_folder(tasks)
    except OSError as error:
        raise storage_error(f"could not make {folder.name}", tasks, error) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def abandoned_stages(tasks: Path) -> list[Path]:
    """Folders of tasks that were never finished, whose makers are gone."""
    return [path for path in tasks.glob(f"{_STAGE}*") if _is_abandoned(path)]


def _is_abandoned(path: Path) -> bool:
    try:
        if time.time() - path.stat().st_mtime < _YOUNG:
            return False
        with _held(path):
            return True
    except OSError:
        return False  # somebody has it, or it is gone


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Raises BlockingIOError when another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _copy_output(source: Path, target: Path) -> None:
    make_folder(target)
    for path in sorted(source.glob("*.txt")):
        if path.is_file() and not path.is_symlink():
            shutil.copyfile(path, target / path.name)
            (target / path.name).chmod(FILE_MODE)
