"""Text inside of files that are not text: the `Documents` port."""

from __future__ import annotations

import asyncio
from pathlib import PurePath

from joey.errors import ToolError
from joey.knowledge.apart import run_apart
from joey.ports import Documents, Files, Place

_KINDS = {
    ".pdf": "pdf",
    ".docx": "word",
    ".xlsx": "spreadsheet",
    ".ipynb": "notebook",
}
_AT_ONCE = 2


class LocalDocuments:
    """Reads through `files`, as everybody; what is in them is unpacked in another process."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def supports(self, name: str) -> bool:
        return _suffix(name) in _KINDS

    async def text(self, place: Place) -> str:
        kind = _KINDS[_suffix(place.path.name)]
        async with self._turns:
            data = await self._files.read(place)
            try:
                answer = await run_apart("joey.knowledge.document_text", kind, data)
            except ToolError as error:
                raise ToolError(f"Cannot read {place.shown}: {error}") from error
        return answer.decode(errors="replace")


def _suffix(name: str) -> str:
    return PurePath(name).suffix.lower()


_fits: type[Documents] = LocalDocuments
