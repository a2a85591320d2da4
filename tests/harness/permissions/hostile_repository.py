"""A git repository that makes git run programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

HELPER = "#!/bin/sh\ntouch ran\n"


def make_hostile_repository(directory: Path) -> None:
    """Whose configuration names a program for each thing that git does while it looks."""
    (directory / "a.txt").write_text("one\n")
    (directory / ".gitattributes").write_text("*.txt diff=evil filter=evil\n")
    helper = directory / "helper.sh"
    helper.write_text(HELPER)
    helper.chmod(0o755)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], cwd=directory, check=True)
    for key in ("diff.external", "diff.evil.textconv", "filter.evil.clean", "core.fsmonitor"):
        subprocess.run(["git", "config", key, str(helper)], cwd=directory, check=True)
    (directory / "a.txt").write_text("one\ntwo\n")
