"""Where a call wants to go: paths after the workspace has resolved them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class Footing(Struct, frozen=True):
    """The folder in which a file is, or the nearest one above it that exists: known again by what
    it is, not by its name."""

    depth: int
    """How many parts of the path lead to it."""
    device: int
    inode: int


class Place(Struct, frozen=True):
    """A path that a model named, resolved once; every reader and writer goes through one."""

    given: str
    """As the model wrote it."""
    path: Path
    """Absolute, links resolved."""
    shown: str
    """For people and results: relative to the workspace with `/`, absolute when outside."""
    inside: bool
    ignored: bool = False
    """Hidden from the model by `.rooignore`."""
    protected: bool = False
    """Configures the agent or its host: writes always need a person."""
    because: str = ""
    """Why it is hidden, when no rule says so but the rules cannot be used."""
    footing: Footing | None = None
    """What is written goes there and nowhere else; None: as far as can be told."""
