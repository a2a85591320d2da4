"""Optional features: how each is opened, and what the command line needs to know about it.

The modules of a feature are imported here and nowhere else, when the feature is used
(`tests/test_features.py` lists them). To remove a feature, delete them, their function here, and
the lines with their names in `tools/registry.py` and `app/task_runtime_factory.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from joey.app.customizations import is_trusted
from joey.app.known_secrets import build_http_client
from joey.config.home import resolve_home_and_env
from joey.config.profiles import choose_profile, load_profiles
from joey.core.settings import Settings
from joey.errors import ConfigError, ToolError
from joey.ports.content import Browser
from joey.ports.extensions import CustomTools, TrustItem
from joey.ports.model import Embedder, ImageGenerator
from joey.ports.workspace import Files, Worktrees
from joey.providers.catalog import PROVIDER_SPECS
from joey.storage.task_directory import WORKTREES_DIRECTORY
from joey.system.files import keep_absolute_directories


def find_chromium(env: Mapping[str, str]) -> str | None:
    """Return the browser tool's executable; None without one, or without Playwright."""
    from joey.content.browser import find_chromium

    return find_chromium(env)


def open_browser(files: Files, settings: Settings, env: Mapping[str, str]) -> Browser | None:
    path = keep_absolute_directories(env.get("PATH", ""), outside=(files.root,))
    executable = find_chromium({**env, "PATH": path}) if settings.browser_tool_enabled else None
    if executable is None:
        return None
    from joey.content.browser import Chromium, parse_viewport

    return Chromium(executable, parse_viewport(settings.browser_viewport_size), files)


def open_image_generator(
    settings: Settings, home: Path, env: Mapping[str, str]
) -> ImageGenerator | None:
    if not settings.image_profile:
        return None
    from joey.providers.image_generation import ProfileImageGenerator

    chosen = choose_profile(
        profiles=load_profiles(home), env=env, kinds=PROVIDER_SPECS, profile=settings.image_profile
    )
    return ProfileImageGenerator(chosen, build_http_client(chosen, env))


def open_custom_tools(
    workspace: Path, trust_root: Path, home: Path, env: Mapping[str, str]
) -> CustomTools:
    from joey.execution.custom_tools import LocalCustomTools

    return LocalCustomTools(home, workspace, env, partial(is_trusted, home, trust_root))


def list_tool_trust_items(workspace: Path) -> tuple[TrustItem, ...]:
    from joey.execution.custom_tools import list_tool_trust_items

    return list_tool_trust_items(workspace)


def open_worktrees(workspace: Path, home: Path) -> Worktrees | None:
    from joey.workspace.git.worktrees import GitWorktrees

    return GitWorktrees.open_if_supported(workspace, home.resolve() / WORKTREES_DIRECTORY)


async def remove_worktree(task_id: str, home: Path | None = None) -> None:
    """Remove the worktree and the branch of a deleted task, if it has them."""
    from joey.workspace.git.worktrees import GitWorktrees

    home, _ = resolve_home_and_env(home)
    directory = home.resolve() / WORKTREES_DIRECTORY
    worktree = directory / task_id
    if not worktree.is_dir():
        return
    try:
        # The worktree itself names its repository.
        await GitWorktrees(worktree, directory).remove(task_id)
    except ToolError:
        shutil.rmtree(worktree, ignore_errors=True)  # the repository is gone too


def open_embedder(settings: Settings, home: Path, env: Mapping[str, str]) -> Embedder | None:
    """Open the embedding model. If its profile cannot be used, searches fall back to terms and say
    why."""
    name = settings.embedding_profile
    if not name:
        return None
    from joey.providers.embeddings import EmbeddingClient

    try:
        profiles = load_profiles(home)
        chosen = choose_profile(profiles=profiles, env=env, kinds=PROVIDER_SPECS, profile=name)
        # A provider's default model is a chat model.
        chosen = structs.replace(chosen, model=profiles.profiles[name].model)
        return EmbeddingClient(chosen, build_http_client(chosen, env))
    except ConfigError as error:
        return _UnusableEmbedder(name, error)


class _UnusableEmbedder:
    """Placeholder for an embedding model that reports the problem with its profile."""

    def __init__(self, profile: str, error: ConfigError) -> None:
        self._error = error
        self.model_id = f"the profile {profile!r}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise ConfigError(f"The setting `embeddingProfile` cannot be used. {self._error}")

    async def close(self) -> None:
        """Nothing was opened."""
