"""Files that the model has seen and that somebody else has changed since; each is told once."""

from __future__ import annotations

from joey.core.file_state import FileMemory
from joey.errors import ToolError
from joey.ports import FileKind, Files, Place

_LOOKED_AT = 200
"""Of the files that the model has seen, the latest."""
_LARGEST_COMPARED = 1024 * 1024


async def recently_modified(memory: FileMemory, files: Files) -> list[str]:
    """A look at size and time of each; only one that was written anew is read."""
    places = memory.newest(_LOOKED_AT)
    if not places:
        return []
    told: list[str] = []
    for place, kind in zip(places, await files.stat_all(places), strict=True):
        if not kind.is_file:
            memory.forget(place)
            told.append(f"{place.shown} (deleted)")
        elif memory.needs_look(place, kind.stamp) and await _differs(memory, files, place, kind):
            memory.note_told(place, kind.stamp)
            told.append(place.shown)
    return told


async def _differs(memory: FileMemory, files: Files, place: Place, kind: FileKind) -> bool:
    if not memory.may_be_same(place, kind.stamp) or kind.size > _LARGEST_COMPARED:
        return True
    try:
        data = await files.read(place)
    except ToolError:
        return True
    if memory.is_stale(place, kind.stamp, data):
        return True
    memory.note(place, kind.stamp, data)
    return False
