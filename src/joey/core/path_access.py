"""Resolved paths, and the directories that a task may reach.

A path that the model names is resolved once (`ResolvedPath`), and every reader and writer uses it.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class DirectoryIdentity(Struct, frozen=True):
    """The directory of a file, or its nearest existing parent, identified by inode instead of
    name."""

    depth: int
    """How many parts of the path lead to it."""
    device: int
    inode: int


class FileScope(Struct, frozen=True):
    """The directories besides the workspace that the file tools of a run can reach without
    asking."""

    added_directories: tuple[Path, ...] = ()
    """Directories that count as part of the workspace (`--add-dir`), resolved."""
    matches_sandbox: bool = False
    """The tools reach what sandboxed commands can, and no more (`-y`)."""


class PathAccess(Struct, frozen=True):
    """What a run may do with a resolved path before a setting has to allow it."""

    base_directory: Path | None = None
    """The directory of the run that contains the path, from which protected names count; None:
    they count from the root of the file system."""
    is_inside: bool = False
    can_read_without_approval: bool = False
    can_write_without_approval: bool = False


class ResolvedPath(Struct, frozen=True):
    """A path that a model named, resolved once and used by every reader and writer."""

    path_as_given: str
    """As the model wrote it."""
    path: Path
    """Absolute, links resolved."""
    display_path: str
    """For people and results: relative to the workspace with `/`, absolute when outside."""
    is_inside: bool
    """In the workspace or an added directory, and not hidden there from sandboxed commands (`-y`).
    What is found out about any other place is not told before the call is allowed."""
    can_read_without_approval: bool = False
    """Outside, but sandboxed commands can read it, and the run reads what these can (`-y`)."""
    can_write_without_approval: bool = False
    """Outside, but within what the run writes without asking (`-y`)."""
    is_ignored: bool = False
    """Hidden from the model by `.rooignore`."""
    is_protected: bool = False
    """Configures the agent or its host: writes always need a user."""
    ignore_error: str = ""
    """Why it is hidden, when no rule says so but the rules cannot be used."""
    directory_identity: DirectoryIdentity | None = None
    """What is written goes there and nowhere else; None: as far as can be told."""


class DirectoryBoundary:
    def __init__(self, roots: tuple[Path, ...]) -> None:
        """`roots` must be resolved."""
        self.roots = roots

    def get_access(self, path: Path) -> PathAccess:
        containing = (root for root in self.roots if get_relative_path(path, root) is not None)
        root = next(containing, None)
        is_in = root is not None
        return PathAccess(root, is_in, is_in, is_in)


def get_relative_path(path: Path, directory: Path) -> str | None:
    """Return a resolved path relative to a directory; None if it is not in it."""
    # Compared as text, since this is called often; resolved paths have no `//` or `.` in them.
    text, above = str(path), str(directory)
    if text == above:
        return "."
    above = above if above.endswith("/") else f"{above}/"
    return text.removeprefix(above) if text.startswith(above) else None
