"""What is remembered about models at an address: refused tools, and what local servers said."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from joey.config.json_documents import convert_document, read_document, write_document
from joey.core.models import ServedModel
from joey.errors import ConfigError
from joey.ports.model import Provider
from joey.system.locks import lock_for_update

TOOL_SUPPORT_FILE = "tool-support.json"
SERVED_MODELS_FILE = "served-models.json"
MAX_SERVED_AGE_S = 24 * 3600

log = logging.getLogger(__name__)


class _ToolSupportDocument(Struct, frozen=True):
    refused: dict[str, list[str]] = {}
    """Ids of models by the address of the service."""


class ToolSupportStore:
    """What cannot be read or written is not remembered: the service will say it again."""

    def __init__(self, home: Path) -> None:
        self.path = home / TOOL_SUPPORT_FILE

    def is_refused(self, provider: Provider) -> bool:
        try:
            return provider.model.id in self._load().get(provider.address, ())
        except ConfigError as error:
            log.warning("%s", error)
            return False

    def record_refusal(self, provider: Provider) -> None:
        self._update(provider, is_refused=True)

    def forget_refusal(self, provider: Provider) -> None:
        if self.is_refused(provider):
            self._update(provider, is_refused=False)

    def _update(self, provider: Provider, *, is_refused: bool) -> None:
        address, model = provider.address, provider.model.id
        try:
            with lock_for_update(self.path):
                refused = self._load()
                others = [each for each in refused.get(address, ()) if each != model]
                refused[address] = [*others, model] if is_refused else others
                write_document(self.path, {"refused": refused})
        except ConfigError as error:
            log.warning("%s", error)

    def _load(self) -> dict[str, list[str]]:
        document = read_document(self.path) or {}
        return dict(convert_document(document, _ToolSupportDocument, self.path).refused)


class _Entry(Struct, frozen=True):
    asked: float
    """Seconds since 1970."""
    said: ServedModel


class _ServedModelsDocument(Struct, frozen=True):
    models: dict[str, dict[str, _Entry]] = {}
    """By the address of the server and the id of the model."""


class ServedModelStore:
    """What cannot be read or written is not remembered: the server is asked again."""

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
        document = read_document(self.path) or {}
        return dict(convert_document(document, _ServedModelsDocument, self.path).models)
