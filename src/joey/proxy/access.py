"""Access to the proxy: local programs, and others only with the token.

A web page must not use it: a browser says in `Origin` which page asks, or in `Sec-Fetch-Site` that
one from elsewhere loads an image or a script, and after DNS rebinding `Host` is not a name of this
machine. The port in `Host` may be another one, that of a tunnel to the proxy.
"""

from __future__ import annotations

from enum import Enum, auto
from urllib.parse import urlsplit

from msgspec import Struct

from joey.core.text import compile_regex
from joey.proxy.http_messages import RequestHead
from joey.server.auth import LOOPBACK_HOSTS, Token

TOKEN_HEADER = "x-joey-token"
_LOCAL_NAMES = frozenset(name.strip("[]") for name in LOOPBACK_HOSTS)
_OWN_SITES = frozenset({"none", "same-origin"})
_TOKEN_PREFIX_RE = compile_regex(rb"/~([^/?]+)(?=[/?]|\Z)")


class AccessRefusal(Enum):
    FOREIGN = auto()
    """True if a web page sent the request."""
    NO_TOKEN = auto()


class ProxyAccess(Struct, frozen=True):
    token: Token | None = None
    """The token every request must carry, in its path or a header."""
    is_remote: bool = False
    """Clients may connect from other machines, under any host name; the token keeps web pages
    out."""

    def check(self, head: RequestHead) -> bytes | AccessRefusal:
        """Check access; return the request's target without the token, or why the request is
        rejected."""
        if not self._is_expected(head):
            return AccessRefusal.FOREIGN
        if self.token is None:
            return head.target
        if found := _TOKEN_PREFIX_RE.match(head.target):
            if self.token.matches(found[1].decode("latin-1")):
                rest = head.target[found.end() :]
                return rest if rest.startswith(b"/") else b"/" + rest
        elif any(map(self.token.matches, head.get_all(TOKEN_HEADER))):
            return head.target
        return AccessRefusal.NO_TOKEN

    def _is_expected(self, head: RequestHead) -> bool:
        hosts, origins = head.get_all("host"), head.get_all("origin")
        if len(hosts) != 1 or not (self.is_remote or _is_local(f"http://{hosts[0]}")):
            return False
        if not origins:
            sites = {site.strip().lower() for site in head.get_all("sec-fetch-site")}
            return sites <= _OWN_SITES
        own = f"http://{hosts[0]}".lower()
        return all(_is_local(origin) or origin.lower() == own for origin in origins)


def _is_local(url: str) -> bool:
    try:
        return urlsplit(url.strip().lower()).hostname in _LOCAL_NAMES
    except ValueError:
        return False
