"""What tools looked like when the person allowed them.

A tool runs without a question only while the server describes it as it did when it was first
seen. A description that changed is asked about once more; using the tool after that accepts the
new one. A server that invents tools without end has those beyond the limit asked about.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from joey.core.mcp import McpTool
from joey.errors import ConfigError
from joey.mcp.config import ServerConfig
from joey.mcp.json_file import replace_json
from joey.system.files import changing

FILE = "mcp-pins.json"
MOST_TOOLS = 2000
"""Of one server, over time."""
_MOST_SERVERS = 500

log = logging.getLogger(__name__)

Digests = dict[str, str]
"""By the names of a server's tools."""


class Pins:
    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def changed(self, config: ServerConfig, tools: list[McpTool]) -> set[str]:
        """Names of tools that are not what they were; those seen for the first time are noted."""
        seen = {tool.name: _digest(tool) for tool in tools}
        pinned = self._load().get(_key(config), {})
        if _new(seen, pinned):
            pinned = self._revise(config, lambda pinned: pinned | _new(seen, pinned))
        return {name for name, digest in seen.items() if pinned.get(name) != digest}

    def accept(self, config: ServerConfig, tool: McpTool) -> None:
        self._revise(config, lambda pinned: {**pinned, tool.name: _digest(tool)})

    def _revise(self, config: ServerConfig, change: Callable[[Digests], Digests]) -> Digests:
        """What is known of a server's tools from now on; of others it stays."""
        try:
            with changing(self._path):
                known = self._load()
                pinned = change(known.get(_key(config), {}))
                self._save({**known, _key(config): pinned})
        except ConfigError as error:
            log.warning("%s", error)
            return change(self._load().get(_key(config), {}))
        return pinned

    def _load(self) -> dict[str, Digests]:
        try:
            return msgspec.convert(json.loads(self._path.read_bytes()), dict[str, Digests])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read and is begun anew: %s", self._path, error)
            return {}

    def _save(self, pins: dict[str, Digests]) -> None:
        """Those that were added last are kept."""
        replace_json(self._path, dict(list(pins.items())[-_MOST_SERVERS:]))


def _new(seen: Digests, pinned: Digests) -> Digests:
    names = [name for name in seen if name not in pinned]
    return {name: seen[name] for name in names[: max(MOST_TOOLS - len(pinned), 0)]}


def _key(config: ServerConfig) -> str:
    digest = hashlib.sha256(config.name.encode() + b"\0" + config.content)
    return digest.hexdigest()[:32]


def _digest(tool: McpTool) -> str:
    seen = msgspec.json.encode((tool.name, tool.description, tool.schema), order="sorted")
    return hashlib.sha256(seen).hexdigest()
