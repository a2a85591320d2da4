"""Access to the proxy: local programs, and others only with the token.

A web page must not use it: a browser says in `Origin` which page asks, or in `Sec-Fetch-Site` that
one from elsewhere loads an image or a script, and after DNS rebinding `Host` is not a name of this
machine.
"""

from __future__ import annotations

from enum import Enum, auto
from urllib.parse import urlsplit

from msgspec import Struct

from joey.core.text import compile_regex
from joey.proxy.http_messages import RequestHead
from joey.server.auth import LOOPBACK_HOSTS, OriginPolicy, Token

TOKEN_HEADER = "x-joey-token"
_LOCAL_NAMES = frozenset(name.strip("[]") for name in LOOPBACK_HOSTS)
_OWN_SITES = frozenset({"none", "same-origin"})
_TOKEN_PREFIX_RE = compile_regex(rb"/~([^/?]+)(?=[/?]|\Z)")


class AccessRefusal(Enum):
    FOREIGN = auto()
    """The request is that of a web page."""
    NO_TOKEN = auto()


class ProxyAccess(Struct, frozen=True):
    policy: OriginPolicy
    token: Token | None = None
    """What every request must carry, in its path or a header."""

    def check(self, head: RequestHead) -> bytes | AccessRefusal:
        """The request's target without the token, or why the request is refused."""
        fields = [
            (name.lower().encode("ascii"), value.encode("latin-1"))
            for name, value in head.headers
            if not (name.lower() == "origin" and _is_local_origin(value))
        ]
        if self.policy.find_refusal_reason(fields) is not None or _is_foreign_load(head):
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


def _is_foreign_load(head: RequestHead) -> bool:
    """Of a page that a browser names no origin for."""
    sites = {site.strip().lower() for site in head.get_all("sec-fetch-site")}
    return not head.get_all("origin") and not sites <= _OWN_SITES


def _is_local_origin(origin: str) -> bool:
    """A page of a server on this machine."""
    try:
        return urlsplit(origin.strip().lower()).hostname in _LOCAL_NAMES
    except ValueError:
        return False
