"""Pages of the web as Markdown: fetched with limits, stripped to their words.

A server may answer a byte a minute or without end, and with text that takes a parser hours. So a
page is fetched and read in a process of its own, which is ended when it takes too long or nobody
waits for it any more.
"""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from joey.errors import ToolError
from joey.knowledge.apart import run_apart
from joey.ports import Pages

_SECONDS = 30
_MOST_CHARACTERS = 200_000
_PASSED_ON = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")


class Asked(Struct, frozen=True):
    """What the process is told."""

    url: str
    env: dict[str, str]
    """Proxies and certificates, as the engine's own environment names them."""


class WebPages:
    """Only `http` and `https`, only text, never more than a few megabytes."""

    async def text(self, url: str) -> str:
        scheme = url.partition(":")[0].lower()
        if scheme not in ("http", "https"):
            raise ToolError(f"only http and https pages can be fetched, not {scheme}")
        env = {name: value for name, value in os.environ.items() if name.lower() in _PASSED_ON}
        asked = msgspec.json.encode(Asked(url, env))
        words = (await run_apart("joey.knowledge.page", "text", asked, _SECONDS)).decode()
        if len(words) > _MOST_CHARACTERS:
            words = f"{words[:_MOST_CHARACTERS]}\n[...the rest of the page is left out...]"
        return words


_fits: type[Pages] = WebPages
