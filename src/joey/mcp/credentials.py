"""What a login at a server gave us: one private file per address."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from joey.mcp.files import Stamp, stamp
from joey.mcp.json_file import replace_json

FOLDER = "mcp-auth"


class Credentials:
    """Tokens, the registration they belong to, and where they are renewed."""

    def __init__(self, home: Path, url: str) -> None:
        self.url = url
        digest = hashlib.sha256(url.encode()).hexdigest()[:24]
        self.path = home / FOLDER / f"{digest}.json"
        self.renewed: Stamp = None
        """Of the file as we have written it ourselves: no news for us."""

    def load(self) -> dict[str, Any]:
        """Empty when there was no login, or what it left cannot be read."""
        try:
            value = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) and value.get("url") == self.url else {}

    def update(self, **values: Any) -> None:
        """Raises ConfigError."""
        replace_json(self.path, {**self.load(), **values, "url": self.url})
        self.renewed = stamp(self.path)

    def forget(self) -> bool:
        """Whether there was anything to forget."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True
