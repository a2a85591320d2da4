"""The files that pages in the browser may show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from joey.errors import ToolError
from joey.ports import Files


def page_files(files: Files) -> Callable[[str, bool], Awaitable[bytes | None]]:
    """Read through the workspace like everything else: the browser itself opens none."""

    async def give(path: str, is_approved: bool) -> bytes | None:
        """Files of the workspace that the model may see, and no list of them; and the one that
        was asked for, unless something else has its name by now."""
        try:
            place = files.resolve(path)
            if is_approved:
                return await files.read(place) if place.path == Path(path) else None
            return await files.read(place) if place.inside and not place.ignored else None
        except ToolError:
            return None

    return give
