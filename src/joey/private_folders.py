"""Folders for their owner alone. `mkdir` with a mode obeys the umask, and with `parents` it makes
those above as open as the umask lets them be."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

FOLDER_MODE = 0o700


def make_folder(path: Path) -> None:
    """Make `path` and whatever is missing above it, each 0700 whatever the umask says."""
    missing = list(itertools.takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        folder.chmod(FOLDER_MODE)


def workspace_folder(parent: Path, workspace: Path) -> Path:
    """Where something about a workspace is kept; nothing is made."""
    # Imported on need: it is slow to load, and most tasks never come here.
    from hashlib import sha256

    return parent / sha256(os.fsencode(workspace)).hexdigest()[:16]
