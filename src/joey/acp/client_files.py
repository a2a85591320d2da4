"""Files of the workspace as the person has them on the screen, saved or not.

What may be read and written has been decided before: the gate is that of the workspace, and so is
everything outside of it, protected, or not text. What goes through the editor names its file by the
resolved path, and only if that still leads to the same place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from acp.exceptions import RequestError

from joey.acp.editor import Editor
from joey.core.edits.encodings import UTF_8, encoding_of
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
        """What was read last, for whoever reads on."""

    def resolve(self, path: str) -> Place:
        return self._files.resolve(path)

    def hides_some(self) -> bool:
        return self._files.hides_some()

    async def stat(self, place: Place) -> FileKind:
        """As it is on disk: a version is known by its content wherever that is at hand."""
        return await self._files.stat(place)

    async def stat_all(self, places: Sequence[Place]) -> Sequence[FileKind]:
        return await self._files.stat_all(places)

    async def read(self, place: Place, limit: int | None = None, offset: int = 0) -> bytes:
        looked, self._looked = self._looked, None
        if looked is None or looked[0] != place.path or not offset:
            if not self._is_shared(place, await self._files.stat(place)):
                return await self._files.read(place, limit, offset)
            looked = (place.path, await self._seen(place))
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

    async def remove(self, place: Place) -> None:
        self._looked = None
        await self._files.remove(place)

    def _is_shared(self, place: Place, kind: FileKind) -> bool:
        """The editor may be asked about this file."""
        mine = place.inside and not place.ignored and kind.is_file and kind.size <= LARGEST
        return mine and self._editor.reads_files

    async def _seen(self, place: Place) -> bytes:
        disk = await self._files.read(place)
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
            return encoding.encode(text)
        except UnicodeEncodeError:
            return disk


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
