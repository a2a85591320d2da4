"""What a folder brings along and would run, noticed at the start of a task."""

from __future__ import annotations

from pathlib import Path

FOLDER = ".roo"
MODES = ".roomodes"


def offer(workspace: Path) -> None:
    """Ask the person whether they trust it, if there is anything to trust."""
    if _may_bring(workspace):
        from joey.cli.trust import offer_trust

        offer_trust(workspace)


def note(workspace: Path) -> str:
    """A line that names what is left alone because nobody has trusted it; else empty."""
    if not _may_bring(workspace):
        return ""
    from joey.cli.trust import untrusted_note

    return untrusted_note(workspace)


def _may_bring(workspace: Path) -> bool:
    """Most folders do not, and need not pay for loading what would look."""
    return (workspace / FOLDER).is_dir() or (workspace / MODES).exists()
