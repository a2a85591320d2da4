"""Tools that the user or the project brings along."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct


class CustomToolInfo(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str
    schema: dict[str, Any]
    """JSON Schema of the arguments."""
    path: str
    """The file that it is in, as people know it."""
    source: Literal["project", "global"] = "project"


class CustomTools(Protocol):
    @property
    def tools(self) -> tuple[CustomToolInfo, ...]:
        """The very same tuple until files change; empty before they have been looked at."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with files that are no tools, for people."""
        ...

    async def refresh(self) -> None:
        """Look at the files again, where they have changed."""
        ...

    async def run(self, name: str, arguments: dict[str, Any], mode: str) -> str:
        """Raises ToolError: the tool failed, took too long or said too much."""
        ...
