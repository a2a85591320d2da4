"""The latest tasks by the names of their folders, and their titles: enough for whoever types the
beginning of an id, and quicker than any index."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.stores.layout import METADATA, PREFIX, clean_id

_LARGEST = 64 * 1024


class RecentTask(Struct, frozen=True):
    id: str
    title: str = ""
    workspace: str = ""


class _About(Struct, frozen=True):
    title: str = ""
    workspace: str = ""


def recent_tasks(tasks: Path, start: str, most: int) -> list[RecentTask]:
    """Those whose ids begin like this, the latest first: ids begin with the time."""
    try:
        with os.scandir(tasks) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return []
    wanted = start.removeprefix(PREFIX)
    ids = {bare: name for name in sorted(names) if (bare := clean_id(name)) is not None}
    found = sorted((each for each in ids if each.startswith(wanted)), reverse=True)
    return [_described(tasks / ids[each], each) for each in found[:most]]


def _described(folder: Path, task_id: str) -> RecentTask:
    try:
        with (folder / METADATA).open("rb") as file:
            about = msgspec.json.decode(file.read(_LARGEST), type=_About)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return RecentTask(task_id)  # just begun, or of another program
    return RecentTask(task_id, about.title, about.workspace)
