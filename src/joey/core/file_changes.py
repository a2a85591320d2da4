"""How files differ between two moments."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class FileChange(Struct, frozen=True):
    """How one file differs between two moments."""

    path: str
    """Relative to the workspace, with `/`."""
    kind: Literal["added", "changed", "removed"]


class LeftFile(Struct, frozen=True):
    """A file that a task has changed, and that is in no checkpoint: it stays as it is."""

    path: str
    """Relative to the workspace, with `/`; absolute when it is outside."""
    why: Literal["ignored", "outside", "large"]
    """`large`: or not to be read."""


class FileDiff(Struct, frozen=True, rename="camel"):
    """A changed file with both of its texts; None where there was no file, or no text to show."""

    path: str
    kind: Literal["added", "changed", "removed"]
    before: str | None
    after: str | None
