"""What the composer may offer to complete; the app knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from joey.presentation.slash_commands import LISTED


class Offer(Struct, frozen=True):
    name: str
    about: str = ""


def own_offers() -> list[Offer]:
    """joey's own commands."""
    return [Offer(command.name, command.about) for command in LISTED]


class Offers(Protocol):
    def commands(self) -> Sequence[Offer]:
        """What may stand behind a slash at the beginning, without it."""
        ...

    async def files(self, typed: str) -> Sequence[str]:
        """Paths of the workspace that fit what follows `@`, best first; folders end with `/`."""
        ...
