"""Facts remembered about models at an address: tool support, and what local servers reported."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.config.json_documents import load_document, write_document
from joey.core.models import ServedModel
from joey.errors import ConfigError
from joey.ports.model import Provider
from joey.system.locks import lock_for_update

TOOL_SUPPORT_FILE = "tool-support.json"
SERVED_MODELS_FILE = "served-models.json"
MODELS_FILE = "models.json"
REFRESHED_MODELS_FILE = "models-refreshed.json"
MAX_SERVED_AGE_S = 24 * 3600

log = logging.getLogger(__name__)


class _ToolSupportDocument(Struct, frozen=True, omit_defaults=True):
    refused: dict[str, list[str]] = {}
    """Ids of models by the address of the service."""
    parameters: dict[str, dict[str, list[str]]] = {}
    """What was refused in requests, by address and model."""


class ToolSupportStore:
    """Remembers tool support. On read or write errors, nothing is remembered: the service will
    report it again."""

    def __init__(self, home: Path) -> None:
        self.path = home / TOOL_SUPPORT_FILE

    def is_refused(self, provider: Provider) -> bool:
        return provider.model.id in self._load_or_default().refused.get(provider.address, ())

    def record_refusal(self, provider: Provider) -> None:
        self._update_models(provider, is_refused=True)

    def forget_refusal(self, provider: Provider) -> None:
        if self.is_refused(provider):
            self._update_models(provider, is_refused=False)

    def load_refused(self, provider: Provider) -> frozenset[str]:
        by_model = self._load_or_default().parameters.get(provider.address, {})
        return frozenset(by_model.get(provider.model.id, ()))

    def record_refused(self, provider: Provider, name: str) -> None:
        def add(document: _ToolSupportDocument) -> None:
            by_model = document.parameters.setdefault(provider.address, {})
            names = by_model.setdefault(provider.model.id, [])
            if name not in names:
                names.append(name)

        self._update(add)

    def _update_models(self, provider: Provider, *, is_refused: bool) -> None:
        def change(document: _ToolSupportDocument) -> None:
            models = document.refused.get(provider.address, [])
            others = [each for each in models if each != provider.model.id]
            document.refused[provider.address] = (
                [*others, provider.model.id] if is_refused else others
            )

        self._update(change)

    def _update(self, change: Callable[[_ToolSupportDocument], None]) -> None:
        try:
            with lock_for_update(self.path):
                document = self._load()
                change(document)
                write_document(self.path, msgspec.to_builtins(document))
        except ConfigError as error:
            log.warning("%s", error)

    def _load_or_default(self) -> _ToolSupportDocument:
        try:
            return self._load()
        except ConfigError as error:
            log.warning("%s", error)
            return _ToolSupportDocument()

    def _load(self) -> _ToolSupportDocument:
        return load_document(self.path, _ToolSupportDocument)


class _Entry(Struct, frozen=True):
    asked: float
    """Seconds since 1970."""
    said: ServedModel


class _ServedModelsDocument(Struct, frozen=True):
    models: dict[str, dict[str, _Entry]] = {}
    """By the address of the server and the id of the model."""


class ServedModelStore:
    """Remembers served models. On read or write errors, nothing is remembered: the server is asked
    again."""

    def __init__(self, home: Path) -> None:
        self.path = home / SERVED_MODELS_FILE

    def find(self, address: str, model: str) -> ServedModel | None:
        try:
            entry = self._load().get(address, {}).get(model)
        except ConfigError as error:
            log.warning("%s", error)
            return None
        return None if entry is None or time.time() - entry.asked > MAX_SERVED_AGE_S else entry.said

    def record(self, address: str, model: str, served: ServedModel) -> None:
        try:
            with lock_for_update(self.path):
                models = self._load()
                models.setdefault(address, {})[model] = _Entry(time.time(), served)
                write_document(self.path, {"models": msgspec.to_builtins(models)})
        except ConfigError as error:
            log.warning("%s", error)

    def _load(self) -> dict[str, dict[str, _Entry]]:
        return dict(load_document(self.path, _ServedModelsDocument).models)
