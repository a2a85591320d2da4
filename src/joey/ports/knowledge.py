"""What can be found out about files beyond their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from joey.core.places import Place
from joey.core.problems import Problem


class Definition(Struct, frozen=True):
    """A class, a function, a heading: where it is and how it begins."""

    start: int
    end: int
    text: str
    """Its first line."""


class Outlines(Protocol):
    def supports(self, name: str) -> bool:
        """Whether files of this name are in a language that is known."""
        ...

    async def outline(self, name: str, data: bytes) -> Sequence[Definition]: ...


class Documents(Protocol):
    """Text inside of files that are not text: PDF, DOCX, XLSX, notebooks."""

    def supports(self, name: str) -> bool: ...

    async def text(self, place: Place) -> str:
        """Raises ToolError when the file is damaged, locked or too big."""
        ...


class CodeHit(Struct, frozen=True):
    """Lines `start` to `end` of a file, counted from 1."""

    path: str
    score: float
    """0 to 1."""
    start: int
    end: int
    text: str


class CodeAnswer(Struct, frozen=True):
    hits: tuple[CodeHit, ...]
    note: str = ""
    """What the reader should know: changes not taken in yet, no search by meaning."""


class IndexState(Struct, frozen=True):
    ready: bool
    """It answers; it may still be taking in what changed."""
    done: int = 0
    total: int = 0
    """Files of the round that is going on, or of the latest."""
    problem: str = ""


class Embedder(Protocol):
    """A model that turns texts into vectors, alike where the meaning is."""

    @property
    def model(self) -> str:
        """Which one, and where: vectors of different models cannot be compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text.

        Raises:
            ProviderError: the service failed, several times where trying again could help.
        """
        ...

    async def close(self) -> None: ...


class CodeIndex(Protocol):
    """A search by meaning or words over the whole workspace."""

    @property
    def state(self) -> IndexState: ...

    async def search(self, query: str, folder: Place | None, limit: int) -> CodeAnswer:
        """Best first; what changed since the last search is taken in before, unless it is much.

        Raises:
            ToolError: there is no index yet, or it is broken; the text says how far it is.
        """
        ...

    async def close(self) -> None: ...


class Problems(Protocol):
    async def of(self, places: Sequence[Place]) -> Sequence[Problem]:
        """What the checkers that are there say about these files now; bounded in time."""
        ...

    async def all(self, limit: int) -> Sequence[Problem]:
        """What they say about the workspace."""
        ...
