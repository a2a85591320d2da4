"""Directories that file tools reach without asking: the workspace, and those added to it."""

from __future__ import annotations

from pathlib import Path

from joey.core.places import Reach
from joey.ports import Boundary


class DirectoryBoundary:
    def __init__(self, roots: tuple[Path, ...]) -> None:
        """`roots` are resolved."""
        self.roots = roots

    def reach(self, path: Path) -> Reach:
        root = next((root for root in self.roots if path_below(path, root) is not None), None)
        is_in = root is not None
        return Reach(base=root, inside=is_in, readable=is_in, writable=is_in)


def path_below(path: Path, folder: Path) -> str | None:
    """A resolved path as seen from a directory; None when it is not in it."""
    # By text, since this is asked often; a path in this form has no `//` and no `.` in it.
    text, above = str(path), str(folder)
    if text == above:
        return "."
    above = above if above.endswith("/") else f"{above}/"
    return text.removeprefix(above) if text.startswith(above) else None


_fits: type[Boundary] = DirectoryBoundary
