"""A proxy that the person's own programs have to use: the way out leads through it.

Hosts are judged by their names then, for it is the other proxy that looks them up. Its password, if
it has one, stays in joey.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from joey.sandboxes.proxy_requests import Request

_NAMES = ("https_proxy", "all_proxy", "http_proxy")
_LARGEST_HEAD = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Upstream(Struct, frozen=True):
    host: str
    port: int
    login: str = ""

    async def connect(self, request: Request) -> Streams:
        """A way to the host.

        Raises:
            OSError: the other proxy does not let us through.
        """
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=_LARGEST_HEAD)
        host = f"[{request.host}]" if ":" in request.host else request.host
        place = f"{host}:{request.port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if self.login:
            lines.append(f"Proxy-Authorization: Basic {b64encode(self.login.encode()).decode()}")
        writer.write("\r\n".join((*lines, "", "")).encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise OSError("your own proxy gave no answer") from error
        status = head.split(b" ", 2)[1:2]
        if status != [b"200"]:
            writer.close()
            said = head.split(b"\r\n", 1)[0].decode("latin-1")[:100]
            raise OSError(f"your own proxy says {said!r}")
        return reader, writer


def upstream_of(env: Mapping[str, str]) -> Upstream | None:
    """The proxy that an environment names, if we can speak with it."""
    found = next((value for name in _NAMES if (value := _value(env, name))), "")
    try:
        parts = urlsplit(found if "//" in found else f"http://{found}")
        if parts.scheme != "http" or not parts.hostname:
            return None
        login = (
            f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        )
        return Upstream(parts.hostname, parts.port or 80, login)
    except ValueError:
        return None


def _value(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""
