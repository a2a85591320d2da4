"""What the status line says of a folder and of settings, in a few words."""

from __future__ import annotations

from pathlib import Path

from joey.core.settings import Settings
from joey.ports import Level

LONGEST_HEAD = 1000


def shown_folder(folder: Path) -> str:
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


def branch_of(folder: Path) -> str:
    """The branch that is checked out, read from git's own files; nothing outside a repository."""
    for place in (folder, *folder.parents):
        if (head := _head(place / ".git")) is not None:
            reference = head.removeprefix("ref: ").removeprefix("refs/heads/")
            return reference if head.startswith("ref: ") else reference[:8]
    return ""


def _head(git: Path) -> str | None:
    try:
        if git.is_file():  # a worktree, or a submodule
            target = git.read_text(encoding="utf-8")[:LONGEST_HEAD].partition("gitdir: ")[2]
            git = git.parent / target.strip()
        return (git / "HEAD").read_text(encoding="utf-8")[:LONGEST_HEAD].strip()
    except (OSError, UnicodeDecodeError):
        return None


def permissions_of(settings: Settings, *, edits_granted: bool = False) -> str:
    """What joey may do without asking."""
    if not settings.auto_approval_enabled:
        return "asks for everything"
    if settings.always_allow_execute and "*" in settings.allowed_commands:
        return "allows everything"
    allowed = []
    if settings.always_allow_write or edits_granted:
        allowed.append("edits")
    if settings.always_allow_execute and settings.allowed_commands:
        allowed.append("some commands")
    return f"allows {', '.join(allowed)}" if allowed else "asks"


def sandbox_of(settings: Settings, level: Level | None) -> str:
    """Whether commands are held; nothing as long as that is being tried."""
    if settings.sandbox == "off" or level is Level.NONE:
        return "no sandbox"
    return "" if level is None else "sandboxed"
