"""Files of the workspace as the person has them on the screen, saved or not.

What may be read and written has been decided before: the gate is that of the workspace, and so is
everything outside of it, protected, or not text. What goes through the editor names its file by the
resolved path, and only if that still leads to the same place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from acp.exceptions import RequestError
from msgspec import structs

from joey.acp.editor import Editor
from joey.core.edits.encodings import UTF_8, encoding_of
from joey.core.file_memory import Stamp
from joey.errors import ToolError
from joey.ports import FileKind, Files, Place

LARGEST = 1024 * 1024
"""Larger files are read from disk: few people have them open."""

log = logging.getLogger(__name__)


class ClientFiles:
    def __init__(self, files: Files, editor: Editor, session_id: Callable[[], str]) -> None:
        self.root: Path = files.root
        self._files = files
        self._editor = editor
        self._session_id = session_id
        self._looked: tuple[Path, bytes] | None = None
        """What was read last, for whoever reads on, or reads after a look."""
        self._unsaved: dict[Path, tuple[Stamp, int]] = {}
        """The file on disk below each text that is not saved, and how long that text is."""

    def resolve(self, path: str) -> Place:
        return self._files.resolve(path)

    def hides_some(self) -> bool:
        return self._files.hides_some()

    async def stat(self, place: Place) -> FileKind:
        kind = await self._files.stat(place)
        self._looked = None
        if self._is_shared(place, kind):
            with suppress(ToolError):  # whoever reads it is told
                self._looked = (place.path, await self._seen(place, kind))
        return self._as_seen(place, kind)

    async def stat_all(self, places: Sequence[Place]) -> Sequence[FileKind]:
        kinds = await self._files.stat_all(places)
        return [self._as_seen(place, kind) for place, kind in zip(places, kinds, strict=True)]

    async def read(self, place: Place, limit: int | None = None, offset: int = 0) -> bytes:
        looked, self._looked = self._looked, None
        if looked is None or looked[0] != place.path:
            kind = await self._files.stat(place)
            if not self._is_shared(place, kind):
                return await self._files.read(place, limit, offset)
            looked = (place.path, await self._seen(place, kind))
        data = looked[1]
        if limit is not None and offset + limit < len(data):
            self._looked = looked
        return data[offset:] if limit is None else data[offset : offset + limit]

    async def write(self, place: Place, data: bytes, like: Place | None = None) -> None:
        self._looked = None
        text = _plain_text(data)
        through = self._editor.writes_files and place.inside and not place.protected
        if not through or text is None or like is not None:
            await self._files.write(place, data, like)
            return
        if self._files.resolve(str(place.path)).path != place.path:
            raise ToolError(f"{place.shown} leads elsewhere by now, so nothing was written.")
        try:
            await self._editor.write(self._session_id(), str(place.path), text)
        except TimeoutError as error:
            raise ToolError(
                f"The editor did not say whether it has written {place.shown}. Read it again."
            ) from error
        except RequestError as error:
            log.info("the editor did not write %s: %s", place.path, error)
            await self._files.write(place, data, like)
        self._unsaved.pop(place.path, None)

    async def remove(self, place: Place) -> None:
        self._looked = None
        await self._files.remove(place)
        self._unsaved.pop(place.path, None)

    def _is_shared(self, place: Place, kind: FileKind) -> bool:
        """The editor may be asked about this file."""
        mine = place.inside and not place.ignored and kind.is_file and kind.size <= LARGEST
        return mine and self._editor.reads_files

    async def _seen(self, place: Place, kind: FileKind) -> bytes:
        disk = await self._files.read(place)
        self._unsaved.pop(place.path, None)
        encoding = encoding_of(disk)
        if encoding is None:
            return disk
        try:
            text = await self._editor.read(self._session_id(), str(place.path))
        except (RequestError, TimeoutError, ConnectionError) as error:
            log.info("the editor did not read %s: %s", place.path, error)
            return disk
        saved = encoding.decode(disk)
        if _unified(text) == _unified(saved):
            return disk
        if "\r\n" in saved and "\r\n" not in text:
            text = text.replace("\n", "\r\n")
        try:
            data = encoding.encode(text)
        except UnicodeEncodeError:
            return disk
        self._unsaved[place.path] = (kind.stamp, len(data))
        return data

    def _as_seen(self, place: Place, kind: FileKind) -> FileKind:
        """The size of the text that is not saved, as long as nobody has changed the file."""
        stamp, size = self._unsaved.get(place.path, (None, 0))
        return structs.replace(kind, size=size) if stamp == kind.stamp else kind


def _unified(text: str) -> str:
    """Editors keep line ends and the mark at the beginning to themselves."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _plain_text(data: bytes) -> str | None:
    """None for what an editor might write as other bytes."""
    if encoding_of(data) != UTF_8:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


_fits: type[Files] = ClientFiles
