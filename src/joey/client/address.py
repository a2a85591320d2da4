"""Where a server is, and the token that it asks for."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

from msgspec import Struct

from joey.errors import UserError

DEFAULT_URL = "ws://127.0.0.1:7800/ws"
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


class Address(Struct, frozen=True):
    url: str
    token: str | None
    is_local: bool
    """The server is on this machine."""


def find_server(url: str | None, token: str | None, env: Mapping[str, str]) -> Address:
    """The server at `url`, which may also be the link that `joey serve` prints.

    The token is the argument, else that of the link, else `JOEY_TOKEN`; a server on this
    machine left one in `$JOEY_HOME/server.token`, which is sent nowhere else.

    Raises:
        UserError: the address is none.
    """
    parts = urlsplit(url or DEFAULT_URL)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise UserError(f"{url!r} is not the address of a server; one looks like {DEFAULT_URL}")
    path = parts.path if parts.path not in ("", "/") else "/ws"
    is_local = _is_loopback(parts.hostname)
    linked = parse_qs(parts.fragment).get("token", [""])[0]
    token = token or linked or env.get("JOEY_TOKEN") or (_kept_token(env) if is_local else None)
    plain = urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, parts.query, ""))
    return Address(plain, token, is_local)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _kept_token(env: Mapping[str, str]) -> str | None:
    home = Path(env["JOEY_HOME"]) if env.get("JOEY_HOME") else Path.home() / ".roo"
    try:
        return home.expanduser().joinpath("server.token").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the token in {home}/server.token cannot be read: {error}") from error
