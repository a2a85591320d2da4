"""Models that the user's files describe: `models.json`, and the catalogue of the last refresh.

`models.json` is the user's own and wins over the refreshed catalogue, which only
`joey models --refresh` writes. Both are read when a model is first looked up, and decoded only as
far as that needs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Raw

from joey.config.json_documents import decode_raw_value, read_raw_document
from joey.config.model_memory import MODELS_FILE, REFRESHED_MODELS_FILE
from joey.config.models_dev import MODELS_DEV_NAMES, ModelEntry, ProviderEntry
from joey.core.models import ModelOverride
from joey.errors import ConfigError

log = logging.getLogger(__name__)


class ModelCatalog:
    """Looks up models in the user's files."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def find(self, provider: str, names: Sequence[str]) -> ModelOverride | None:
        """Find a model by the first of these names that has an entry. Raises ConfigError if
        `models.json` is invalid."""
        try:
            refreshed = self._refreshed.find(provider, names)
        except ConfigError as error:
            log.warning("%s", error)  # joey wrote it, so the user need not fix it
            refreshed = None
        own = self._own.find(provider, names)
        if own is None:
            return refreshed
        return ModelOverride.merge(refreshed or ModelOverride(), own)

    def list_ids(self, provider: str) -> tuple[str, ...]:
        """List models to offer, those of `models.json` first. Raises ConfigError."""
        own, refreshed = self._own.list_ids(provider), self._refreshed.list_ids(provider)
        return tuple(dict.fromkeys((*own, *refreshed)))

    @cached_property
    def _own(self) -> _ModelDocument:
        path = self._home / MODELS_FILE
        document = read_raw_document(path)
        if document is None:
            return _ModelDocument(path)
        written = time.localtime(path.stat().st_mtime)
        return _ModelDocument(path, document, time.strftime("%Y-%m-%d", written), by_user=True)

    @cached_property
    def _refreshed(self) -> _ModelDocument:
        path = self._home / REFRESHED_MODELS_FILE
        try:
            document = read_raw_document(path) or {}
            read = decode_raw_value(document.get("read", Raw(b'""')), str, path, "read")
            stored = document.get("providers", Raw(b"{}"))
            providers = decode_raw_value(stored, dict[str, Raw], path, "providers")
        except ConfigError as error:
            log.warning("%s joey models --refresh writes it again.", error)
            return _ModelDocument(path)
        return _ModelDocument(path, providers, read)


class _ModelDocument:
    def __init__(
        self,
        path: Path,
        providers: Mapping[str, Raw] | None = None,
        as_of: str = "",
        *,
        by_user: bool = False,
    ) -> None:
        self._path = path
        self._providers = providers or {}
        self._as_of = as_of
        self._by_user = by_user
        self._models: dict[str, dict[str, Raw]] = {}

    def find(self, provider: str, names: Sequence[str]) -> ModelOverride | None:
        models = self._load_models(provider)
        name = next((each for each in names if each in models), None)
        if name is None:
            return None
        entry = self._decode(provider, name, models[name])
        return entry.to_override(self._as_of, by_user=self._by_user)

    def list_ids(self, provider: str) -> Iterator[str]:
        for name, value in self._load_models(provider).items():
            if self._decode(provider, name, value).is_offered:
                yield name

    def _load_models(self, provider: str) -> dict[str, Raw]:
        """Load models by joey's provider name and models.dev's; the former takes precedence."""
        if provider not in self._models:
            models: dict[str, Raw] = {}
            self._models[provider] = models
            for name in (MODELS_DEV_NAMES.get(provider), provider):
                if name is not None and name in self._providers:
                    raw = self._providers[name]
                    models |= decode_raw_value(raw, ProviderEntry, self._path, name).models
        return self._models[provider]

    def _decode(self, provider: str, name: str, value: Raw) -> ModelEntry:
        return decode_raw_value(value, ModelEntry, self._path, f"{provider}.models.{name}")
