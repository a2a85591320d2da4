"""What a language's own checker says about a line of a file."""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, frozen=True):
    path: str
    """Relative to the workspace."""
    line: int
    source: str
    """The checker: `mypy`, `tsc`, `python`."""
    message: str
    code: str = ""
    is_error: bool = True
