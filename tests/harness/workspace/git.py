"""git, run in a workspace."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "init.defaultBranch=main")
    run = subprocess.run(
        ["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True
    )
    return run.stdout
