"""What files say to the agent, put together for one workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from joey.config.customs import LocalCustoms, Places, read_modes
from joey.config.home import joey_home, person_home
from joey.config.settings import load_settings
from joey.core.modes import Mode, find_mode
from joey.core.settings import Settings
from joey.errors import ConfigError, ToolError
from joey.workspace.files import LocalFiles


def open_customs(
    workspace: Path, home: Path | None = None, env: Mapping[str, str] | None = None
) -> LocalCustoms:
    """Modes, rules, commands and skills that count in a workspace, for those who only look.

    Raises:
        ConfigError, WorkspaceError
    """
    env = os.environ if env is None else env
    home = home or joey_home(env)
    return customs_for(LocalFiles(workspace), home, env, load_settings(home))


def customs_for(
    files: LocalFiles, home: Path, env: Mapping[str, str], settings: Settings
) -> LocalCustoms:
    return LocalCustoms(_places(files, home, env), settings)


def modes_for(
    workspace: Path, home: Path, env: Mapping[str, str], settings: Settings
) -> tuple[Mode, ...]:
    """Raises WorkspaceError."""
    return read_modes(_places(LocalFiles(workspace), home, env), settings)


def check_mode(slug: str | None, modes: Callable[[], tuple[Mode, ...]]) -> None:
    """Raises ConfigError, which suggests the mode that was probably meant."""
    if slug is None or find_mode(slug, known_modes := modes()) is not None:
        return
    import difflib

    known = [mode.slug for mode in known_modes]
    near = difflib.get_close_matches(slug.lower(), known, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"There is no mode {slug!r}.{meant} Known ones: {', '.join(known)}.")


def _places(files: LocalFiles, home: Path, env: Mapping[str, str]) -> Places:
    def hides(path: Path) -> bool:
        try:
            return files.resolve(str(path)).ignored
        except ToolError:
            return True

    return Places(files.root, home, person_home(env), hides)
