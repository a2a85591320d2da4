"""Whose commands are confined, and what the person has said about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class Session(Struct, frozen=True):
    """What a person's session says about a task's commands; nothing in it comes from a model."""

    workspace: Path
    joey_home: Path
    env: Mapping[str, str]
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    added: tuple[Path, ...] = ()
    """Directories that count as part of the workspace, resolved."""

    @property
    def home(self) -> Path | None:
        named = self.env.get("HOME", "")
        found = Path(os.path.realpath(named)) if named else None
        return None if found in (None, Path("/")) else found
