"""The code index of a task: shared by the tasks of an engine that have the same workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from joey.app.secrecy import http_client
from joey.config.profiles import choose_profile, load_profiles
from joey.content.code_index import Indexes
from joey.core.settings import Settings
from joey.errors import ConfigError
from joey.ports import CodeIndex, Embedder
from joey.providers.registry import KINDS
from joey.workspace.files import LocalFiles
from joey.workspace.listing import every_file


class CodeIndexes:
    def __init__(self, home: Path, env: Mapping[str, str], *, kept: bool = True) -> None:
        self._home = home
        self._env = env
        self._indexes = Indexes(home, kept=kept)

    def lease(self, files: LocalFiles, settings: Settings) -> CodeIndex | None:
        if not settings.codebase_index_enabled:
            return None
        embedder = self._embedder(settings.embedding_profile)
        return self._indexes.open(files, lambda stop: every_file(files, stop), embedder)

    def _embedder(self, name: str) -> Embedder | None:
        """A profile that cannot be used is no reason not to work: searches go by words, and say
        why."""
        if not name:
            return None
        from joey.providers.embeddings import Embeddings

        try:
            profiles = load_profiles(self._home)
            chosen = choose_profile(profiles=profiles, env=self._env, kinds=KINDS, profile=name)
            # A provider's usual model is one for chatting.
            chosen = structs.replace(chosen, model=profiles.profiles[name].model)
            return Embeddings(chosen, http_client(chosen, self._env))
        except ConfigError as error:
            return _NoEmbedder(name, error)


class _NoEmbedder:
    """Stands where a model should, and says what is wrong with its profile."""

    def __init__(self, profile: str, error: ConfigError) -> None:
        self._error = error
        self.model = f"the profile {profile!r}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise ConfigError(f"The setting `embeddingProfile` cannot be followed. {self._error}")

    async def close(self) -> None:
        """Nothing was opened."""


_fits: type[Embedder] = _NoEmbedder
