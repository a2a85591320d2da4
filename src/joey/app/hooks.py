"""Hooks, put together: whose they are, whose trust counts, and what they run with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from joey.app.customs import scopes_for
from joey.app.servers import is_trusted
from joey.config.home import joey_home
from joey.config.hooks import read_project_hooks
from joey.config.settings import load_settings
from joey.core.hooks import Hook
from joey.core.settings import Settings
from joey.execution.hooks import LocalHooks, Surroundings
from joey.execution.processes import MARK, end_marked
from joey.execution.terminal import command_environment, find_shell
from joey.ports import ProjectHooks
from joey.workspace.files import LocalFiles


def hooks_for(
    files: LocalFiles,
    home: Path,
    env: Mapping[str, str],
    settings: Settings,
    trusted_as: Path | None = None,
) -> LocalHooks:
    environment = command_environment(env)
    return LocalHooks(
        settings.hooks,
        partial(project_hooks, files, home, env),
        partial(is_trusted, home, trusted_as or files.root),
        Surroundings(
            workspace=files.root,
            shell=find_shell(environment.get("PATH")),
            environment=environment,
            end_marked=end_marked,
            outer_marks=env.get(MARK, ""),
        ),
    )


def hooks_here(workspace: Path) -> tuple[tuple[Hook, ...], int]:
    """The hooks that count in a folder, and how many of its own are not trusted.

    Raises:
        ConfigError, WorkspaceError
    """
    env = os.environ
    home = joey_home(env)
    files = LocalFiles(workspace)
    own = load_settings(home).hooks
    found = project_hooks(files, home, env)
    contents = {item.name: item.content for item in found.wanted}
    if is_trusted(home, files.root, contents):
        return (*own, *found.hooks), 0
    return own, len(found.hooks)


def project_hooks(files: LocalFiles, home: Path, env: Mapping[str, str]) -> ProjectHooks:
    """Those that a project wants, trusted or not."""
    return read_project_hooks(scopes_for(files, home, env))
