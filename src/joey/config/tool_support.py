"""Models that take no tools at an address, remembered from task to task."""

from __future__ import annotations

import logging
from pathlib import Path

from msgspec import Struct

from joey.config.json_documents import convert_document, read_document, write_document
from joey.errors import ConfigError
from joey.ports.model import Provider
from joey.system.locks import lock_for_update

TOOL_SUPPORT_FILE = "tool-support.json"

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
