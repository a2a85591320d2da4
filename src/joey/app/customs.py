"""What files say to the agent, put together for one workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from joey.app.servers import is_trusted
from joey.config.customizations import LocalCustoms, Places, read_modes, scopes_of, trusted_parts
from joey.config.home import joey_home, person_home
from joey.config.settings import load_settings, read_tightening, tightened
from joey.config.untrusted_files import Scopes, Sightings
from joey.core.modes import Mode, find_mode
from joey.core.settings import Settings
from joey.core.suggest import nearest
from joey.errors import ConfigError, ToolError
from joey.ports.extensions import Wanted
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
    files: LocalFiles,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    trusted_as: Path | None = None,
) -> LocalCustoms:
    """`trusted_as` is the workspace whose trust counts, where that is not the folder itself."""
    return LocalCustoms(_places(files, home, env, trusted_as), settings)


def scopes_for(files: LocalFiles, home: Path, env: Mapping[str, str]) -> Scopes:
    return scopes_of(_places(files, home, env))


def settings_within(
    files: LocalFiles, home: Path, env: Mapping[str, str], settings: Settings
) -> Settings:
    """As strict as the project wants them."""
    return tightened(settings, read_tightening(scopes_for(files, home, env), Sightings()))


def modes_to_trust(files: LocalFiles, home: Path, env: Mapping[str, str]) -> tuple[Wanted, ...]:
    return trusted_parts(_places(files, home, env))


def modes_for(
    workspace: Path, home: Path, env: Mapping[str, str], settings: Settings
) -> tuple[Mode, ...]:
    """Raises WorkspaceError."""
    return read_modes(_places(LocalFiles(workspace), home, env), settings)


def check_mode(slug: str | None, modes: Callable[[], tuple[Mode, ...]]) -> None:
    """Raises ConfigError, which suggests the mode that was probably meant."""
    if slug is None or find_mode(slug, known_modes := modes()) is not None:
        return
    known = [mode.slug for mode in known_modes]
    near = nearest(slug, known)
    meant = f" Did you mean {near!r}?" if near else ""
    raise ConfigError(f"There is no mode {slug!r}.{meant} Known ones: {', '.join(known)}.")


def _places(
    files: LocalFiles, home: Path, env: Mapping[str, str], trusted_as: Path | None = None
) -> Places:
    def hides(path: Path) -> bool:
        try:
            return files.resolve(str(path)).ignored
        except ToolError:
            return True

    trusts = partial(is_trusted, home, trusted_as or files.root)
    return Places(files.root, home, person_home(env), hides, trusts)
