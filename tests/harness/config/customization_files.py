"""Files of a project and of a user, and what is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joey.config.customizations import CustomizationPaths, FileCustomizations
from joey.core.modes import Instructions, Mode, find_mode
from joey.core.settings import Settings


class Disk:
    """`work` is the workspace, `user_home` the home folder with `.roo` in it."""

    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.user_home = root / "person"
        self.home = self.user_home / ".roo"
        for directory in (self.work, self.home):
            directory.mkdir(parents=True)
        self.hidden: set[Path] = set()

    def write(self, files: dict[str, str | bytes]) -> None:
        """Paths of the workspace; those that begin with `~/` are the user's."""
        for name, text in files.items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def path(self, name: str) -> Path:
        return self.user_home / name[2:] if name.startswith("~/") else self.work / name

    def link(self, name: str, target: str | Path) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def load_customizations(self, **settings: Any) -> FileCustomizations:
        places = CustomizationPaths(
            self.work, self.home, self.user_home, lambda path: path in self.hidden
        )
        return FileCustomizations(places, Settings(**settings))


def mode_of(customizations: FileCustomizations, slug: str = "code") -> Mode:
    mode = find_mode(slug, customizations.modes)
    assert mode is not None
    return mode


def rules_of(customizations: FileCustomizations, slug: str = "code") -> Instructions:
    return customizations.get_instructions(mode_of(customizations, slug))
