"""What is told to the model about the machine and the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from joey.ports.files import Listing


class Environment(Protocol):
    """What is told to the model about the machine and the workspace."""

    def system_facts(self) -> Mapping[str, str]:
        """`os`, `shell`, `home`, `workspace`."""
        ...

    def time_zone(self) -> str:
        """`Europe/Berlin, UTC+2:00`."""
        ...

    async def workspace_listing(self, limit: int) -> Listing: ...
