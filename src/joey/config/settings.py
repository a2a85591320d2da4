"""`settings.json`: what tasks are run with unless they say otherwise."""

from __future__ import annotations

from pathlib import Path

from joey.config.documents import convert_document, read_document
from joey.core.settings import Settings

SETTINGS = "settings.json"


def load_settings(home: Path) -> Settings:
    """The person's settings; the defaults when there is no file.

    Raises:
        ConfigError
    """
    path = home / SETTINGS
    return convert_document(read_document(path) or {}, Settings, path)
