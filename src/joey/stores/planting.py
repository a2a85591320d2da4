"""A task that is made with all of its records at once.

It is put together in a folder whose name no task can have, and gets its own name when everything
in it is safe on disk: whatever dies before that leaves nothing that looks like a task.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from joey.core.events import Record
from joey.private_folders import make_folder
from joey.stores.journal import encode_record
from joey.stores.layout import COMMAND_OUTPUT, JOURNAL
from joey.stores.private_files import (
    FILE_MODE,
    replace_files,
    storage_error,
    sync_folder,
)

_STAGE = ".fork-"


def plant_folder(folder: Path, records: Sequence[Record], source: Path) -> None:
    """Raises StoreError."""
    tasks = folder.parent
    try:
        make_folder(tasks)
        stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=tasks))
    except OSError as error:
        raise storage_error(f"could not make {folder.name}", tasks, error) from error
    try:
        _copy_output(source / COMMAND_OUTPUT, stage / COMMAND_OUTPUT)
        replace_files(stage, {JOURNAL: b"".join(map(encode_record, records))})
        stage.rename(folder)
        sync_folder(tasks)
    except OSError as error:
        raise storage_error(f"could not make {folder.name}", tasks, error) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _copy_output(source: Path, target: Path) -> None:
    make_folder(target)
    for path in sorted(source.glob("*.txt")):
        if path.is_file() and not path.is_symlink():
            shutil.copyfile(path, target / path.name)
            (target / path.name).chmod(FILE_MODE)
