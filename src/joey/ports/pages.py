"""Pages of the web, as text."""

from __future__ import annotations

from typing import Protocol


class Pages(Protocol):
    async def text(self, url: str) -> str:
        """The page's words as Markdown. Raises ToolError: unreachable, refused, not text."""
        ...
