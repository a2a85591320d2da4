"""What tools looked like when the person allowed them.

A tool runs without a question only while the server describes it as it did when it was first
seen. A description that changed is asked about once more; using the tool after that accepts the
new one. A server that invents tools without end has those beyond the limit asked about.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

import msgspec

from joey.core.mcp import McpTool
from joey.errors import ConfigError
from joey.mcp.config import ServerConfig
from joey.mcp.json_file import replace_json

FILE = "mcp-pins.json"
MOST_TOOLS = 2000
"""Of one server, over time."""
_MOST_SERVERS = 500

log = logging.getLogger(__name__)


class Pins:
    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def changed(self, config: ServerConfig, tools: list[McpTool]) -> set[str]:
        """Names of tools that are not what they were; those seen for the first time are noted."""
        known = self._load()
        pinned = known.get(_key(config), {})
        seen = {tool.name: _digest(tool) for tool in tools}
        new = [name for name in seen if name not in pinned][: max(MOST_TOOLS - len(pinned), 0)]
        if new:
            pinned = {**pinned, **{name: seen[name] for name in new}}
            self._save({**known, _key(config): pinned})
        return {name for name, digest in seen.items() if pinned.get(name) != digest}

    def accept(self, config: ServerConfig, tool: McpTool) -> None:
        known = self._load()
        pinned = {**known.get(_key(config), {}), tool.name: _digest(tool)}
        self._save({**known, _key(config): pinned})

    def _load(self) -> dict[str, dict[str, str]]:
        try:
            return msgspec.convert(json.loads(self._path.read_bytes()), dict[str, dict[str, str]])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read and is begun anew: %s", self._path, error)
            return {}

    def _save(self, pins: dict[str, dict[str, str]]) -> None:
        """Those that were added last are kept."""
        kept = dict(list(pins.items())[-_MOST_SERVERS:])
        try:
            replace_json(self._path, kept)
        except ConfigError as error:
            log.warning("%s", error)


def _key(config: ServerConfig) -> str:
    digest = hashlib.sha256(config.name.encode() + b"\0" + config.content)
    return digest.hexdigest()[:32]


def _digest(tool: McpTool) -> str:
    seen = msgspec.json.encode((tool.name, tool.description, tool.schema), order="sorted")
    return hashlib.sha256(seen).hexdigest()
