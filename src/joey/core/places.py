"""Where a call wants to go: paths after the workspace has resolved them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


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
