"""Customizations of a workspace: modes, rules, commands, skills, hooks, restrictions.

Project files count only as far as the user trusts them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from joey.config.customizations import (
    CustomizationPaths,
    FileCustomizations,
    list_mode_trust_items,
    load_available_modes,
    resolve_scopes,
)
from joey.config.home import resolve_home_and_env, resolve_joey_home, resolve_user_home
from joey.config.hooks import read_project_hooks
from joey.config.settings import (
    ProjectRestrictions,
    load_settings,
    read_restrictions,
    restrict_settings,
)
from joey.config.trust import Trusted, TrustStore
from joey.config.untrusted_files import ConfigScopes, UntrustedFileReader
from joey.core.hooks import Hook
from joey.core.modes import Mode, find_mode
from joey.core.settings import Settings
from joey.core.suggest import find_closest_name
from joey.errors import ConfigError, ToolError
from joey.ports.extensions import ProjectHooks, TrustItem
from joey.workspace.files import LocalFiles


def open_customizations(
    workspace: Path, home: Path | None = None, env: Mapping[str, str] | None = None
) -> FileCustomizations:
    """Load the modes, rules, commands and skills of a workspace, for read-only use. Raises
    ConfigError, WorkspaceError."""
    home, env = resolve_home_and_env(home, env)
    return load_customizations(LocalFiles(workspace), home, env, load_settings(home))


def load_customizations(
    files: LocalFiles,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    trust_root: Path | None = None,
) -> FileCustomizations:
    """Load customizations. `trust_root` is the workspace whose trust counts, if it is not the
    directory itself."""
    return FileCustomizations(_build_customization_paths(files, home, env, trust_root), settings)


def build_config_scopes(files: LocalFiles, home: Path, env: Mapping[str, str]) -> ConfigScopes:
    return resolve_scopes(_build_customization_paths(files, home, env))


def apply_project_restrictions(
    files: LocalFiles, home: Path, env: Mapping[str, str], settings: Settings
) -> Settings:
    """Tighten the settings to the project's restrictions."""
    return restrict_settings(settings, read_project_restrictions(files, home, env))


def read_project_restrictions(
    files: LocalFiles, home: Path, env: Mapping[str, str]
) -> ProjectRestrictions:
    return read_restrictions(build_config_scopes(files, home, env), UntrustedFileReader())


def list_modes_to_trust(
    files: LocalFiles, home: Path, env: Mapping[str, str]
) -> tuple[TrustItem, ...]:
    return list_mode_trust_items(_build_customization_paths(files, home, env))


def load_modes(
    workspace: Path, home: Path, env: Mapping[str, str], settings: Settings
) -> tuple[Mode, ...]:
    """Raises WorkspaceError."""
    return load_available_modes(
        _build_customization_paths(LocalFiles(workspace), home, env), settings
    )


def check_mode(
    slug: str | None,
    modes: Callable[[], tuple[Mode, ...]],
    warnings: Callable[[], Sequence[str]] = tuple,
) -> None:
    """Check a mode slug. Raises ConfigError, which suggests the closest match; `warnings` name
    files with modes that could not be used."""
    if slug is None or find_mode(slug, known_modes := modes()) is not None:
        return
    known = [mode.slug for mode in known_modes]
    closest = find_closest_name(slug, known)
    suggestion = f" Did you mean {closest!r}?" if closest else ""
    message = f"There is no mode {slug!r}.{suggestion} Known ones: {', '.join(known)}."
    message = " ".join([message, *(each for each in warnings() if "modes" in each)])
    raise ConfigError(message, field="mode", value=slug)


def _build_customization_paths(
    files: LocalFiles, home: Path, env: Mapping[str, str], trust_root: Path | None = None
) -> CustomizationPaths:
    def hides(path: Path) -> bool:
        try:
            return files.resolve(str(path)).is_ignored
        except ToolError:
            return True

    trusts = partial(is_trusted, home, trust_root or files.root)
    return CustomizationPaths(files.root, home, resolve_user_home(env), hides, trusts)


def list_active_hooks(workspace: Path) -> tuple[tuple[Hook, ...], int]:
    """List the hooks that are active in a directory, and count its own hooks that are not trusted.
    Raises ConfigError, WorkspaceError."""
    env = os.environ
    home = resolve_joey_home(env)
    files = LocalFiles(workspace)
    own = load_settings(home).hooks
    found = load_project_hooks(files, home, env)
    contents = {item.name: item.content for item in found.trust_items}
    if is_trusted(home, files.root, contents):
        return (*own, *found.hooks), 0
    return own, len(found.hooks)


def load_project_hooks(files: LocalFiles, home: Path, env: Mapping[str, str]) -> ProjectHooks:
    """Load the hooks that a project defines, trusted or not."""
    return read_project_hooks(build_config_scopes(files, home, env))


def is_trusted(home: Path, workspace: Path, contents: Mapping[str, bytes]) -> bool:
    """Whether the user trusts all of these items; False if the trust file cannot be read."""
    try:
        return isinstance(TrustStore(home).check(workspace, contents), Trusted)
    except ConfigError:
        return False
