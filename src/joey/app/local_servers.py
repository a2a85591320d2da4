"""Model servers on this machine: found by asking, known by what they answer.

A port alone says nothing: half of all programs that people write listen on 8000 or 8080. A
server counts when it lists its models as its API promises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from joey.app.web_look import Answer, look
from joey.config.profiles import address_of
from joey.errors import UserError
from joey.providers.registry import KINDS, ProviderKind

PLACES = tuple(kind for kind in KINDS if kind.is_local)
PATIENCE = 0.8
"""Seconds for all of them together, since they are asked at once."""
MOST_MODELS = 500


class LocalServer(Struct, frozen=True):
    provider: str
    """As `--provider` and a profile name it."""
    base_url: str
    """Where requests go; what `--base-url` and a profile take."""
    models: tuple[str, ...]
    """What it offers; none when nothing is loaded or pulled yet."""

    @property
    def flags(self) -> tuple[str, ...]:
        """What to write on the command line to use it."""
        return ("--provider", self.provider, "-m", self.models[0] if self.models else "NAME")


async def find_local_servers(env: Mapping[str, str]) -> list[LocalServer]:
    """Those that answer now, in the order of the list of providers. Raises nothing."""
    found = await asyncio.gather(*(_ask(kind, env) for kind in PLACES))
    return [server for server in found if server is not None]


async def _ask(kind: ProviderKind, env: Mapping[str, str]) -> LocalServer | None:
    base = (address_of(kind, env) or kind.base_url).rstrip("/")
    root = base.removesuffix("/v1")
    is_ollama = kind.name == "ollama"
    url = f"{root}/api/tags" if is_ollama else f"{base}/models"
    try:
        answer = await look(url, env, PATIENCE)
    except UserError:
        return None  # nobody is there: the usual case
    names = listed(answer, "models", "name") if is_ollama else listed(answer)
    if names is None:
        return None
    return LocalServer(kind.name, f"{root}/v1" if is_ollama else base, tuple(names))


def listed(answer: Answer, group: str = "data", name: str = "id") -> list[str] | None:
    """Names in an answer such as `{"data": [{"id": "a"}]}`; None for any other."""
    said: Any = answer.json
    entries = said.get(group) if answer.status == 200 and isinstance(said, dict) else None
    if not isinstance(entries, list):
        return None
    named = (entry.get(name) for entry in entries[:MOST_MODELS] if isinstance(entry, dict))
    return [each for each in named if isinstance(each, str) and each and each.isprintable()]
