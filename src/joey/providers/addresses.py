"""Where a request goes: the parts of its URL, and the proxy that the environment names for it.

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` are read in either case. Loopback is
never sent to a proxy: a model server on this machine is not reachable from another one.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping

from msgspec import Struct

from joey.core.regex import regex
from joey.errors import ConfigError

_URL = regex(
    r"(?P<scheme>https?)://(?:(?P<user>[^@/?#]*)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/?#\[\]@]+)(?::(?P<port>\d{1,5}))?(?P<path>[/?][^\s#]*)?",
    re.IGNORECASE,
)
_PERCENT = regex(rb"%([0-9A-Fa-f]{2})")
_LOOPBACK = regex(r"localhost|.*\.localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)


class Address(Struct, frozen=True):
    """One side of a connection."""

    host: str
    port: int
    secure: bool
    path: str = "/"
    credentials: str | None = None
    """`user:password` of a proxy, decoded."""

    @property
    def shown(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def authority(self) -> str:
        """The value of the `Host` header: the port only where it is not the usual one."""
        usual = 443 if self.secure else 80
        return self.shown.removesuffix(f":{usual}") if self.port == usual else self.shown

    @property
    def is_loopback(self) -> bool:
        return _LOOPBACK.fullmatch(self.host) is not None

    @property
    def proxy_authorization(self) -> str | None:
        if self.credentials is None:
            return None
        return "Basic " + b64encode(self.credentials.encode()).decode("ascii")


def parse_url(url: str, what: str = "base URL") -> Address:
    """Raises ConfigError naming the setting when this is not an `http` or `https` URL."""
    match = _URL.fullmatch(url.strip())
    port = int(match["port"]) if match and match["port"] else None
    if match is None or not url.isascii() or (port is not None and not 0 < port < 65536):
        if "@" in url:  # what stands before it is a login, be it ever so badly written
            raise ConfigError(
                f"The {what} is not an http:// or https:// address; in its password, write / as %2F"
                " and @ as %40."
            )
        raise ConfigError(f"The {what} {url!r} is not an http:// or https:// address.")
    secure = match["scheme"].lower() == "https"
    path = match["path"] or "/"
    return Address(
        host=match["host"].strip("[]"),
        port=port or (443 if secure else 80),
        secure=secure,
        path=path if path.startswith("/") else f"/{path}",
        credentials=_unquote(match["user"]) if match["user"] else None,
    )


def proxy_for(target: Address, environ: Mapping[str, str]) -> Address | None:
    """The proxy to go through, or None to go straight."""
    if target.is_loopback:
        return None
    scheme = "https" if target.secure else "http"
    url = _variable(environ, f"{scheme}_proxy") or _variable(environ, "all_proxy")
    if not url or _is_exempt(target, _variable(environ, "no_proxy")):
        return None
    proxy = parse_url(url if "://" in url else f"http://{url}", f"proxy ({scheme.upper()}_PROXY)")
    if proxy.secure:
        raise ConfigError(
            f"The proxy ({scheme.upper()}_PROXY) is reached over https, which is not supported:"
            " give its http:// address."
        )
    return proxy


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_exempt(target: Address, no_proxy: str) -> bool:
    host = target.host.lower()
    for entry in no_proxy.lower().replace(",", " ").split():
        if entry == "*":
            return True
        name = entry
        if name.count(":") == 1:
            name, _, port = name.partition(":")
            if port != str(target.port):
                continue
        name = name.strip("[]").removeprefix("*").removeprefix(".")
        if host == name or host.endswith(f".{name}") or _in_network(host, name):
            return True
    return False


def _in_network(host: str, network: str) -> bool:
    if "/" not in network:
        return False
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False  # a name is in no network, and a malformed entry exempts nobody


def _unquote(text: str) -> str:
    data = _PERCENT.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode())
    return data.decode("utf-8", "replace")
