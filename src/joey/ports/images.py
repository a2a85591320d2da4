"""Pictures made by a model."""

from __future__ import annotations

from typing import Protocol


class ImageMaker(Protocol):
    async def make(self, prompt: str, image: str | None = None) -> str:
        """A picture as a data URI, made from scratch or from another one.

        Raises:
            ToolError: the provider refused or gave no picture.
        """
        ...
