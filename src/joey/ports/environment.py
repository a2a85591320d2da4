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

    def expect_listing(self, limit: int) -> None:
        """It will be asked for soon, once: the time until then can be used."""
        ...

    async def workspace_listing(self, limit: int) -> Listing: ...

    async def close(self) -> None:
        """End a listing that nobody has asked for."""
        ...
