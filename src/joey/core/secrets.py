"""What goes into a configuration and never comes out of it again."""

from __future__ import annotations

import re
from typing import Any

_SECRET = re.compile(r"(key|token|credentials|secret|password)$", re.IGNORECASE)
_HEADERS = re.compile(r"headers$", re.IGNORECASE)
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]*@")


def without_secrets(value: Any) -> Any:
    """The same value without keys, tokens and passwords, at any depth."""
    match value:
        case dict():
            return {
                name: _header_names(inner) if _HEADERS.search(name) else without_secrets(inner)
                for name, inner in value.items()
                if not _SECRET.search(name)
            }
        case list() | tuple():
            return [without_secrets(inner) for inner in value]
        case str():
            return _USER_IN_ADDRESS.sub("", value)
        case _:
            return value


def _header_names(headers: Any) -> list[str]:
    """Any header may carry a key; which ones there are may be known."""
    return sorted(headers) if isinstance(headers, dict) else []
