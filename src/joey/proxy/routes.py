"""Routes of requests to services: by path and headers, or by a name in the path."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from joey.core.redaction import strip_url_credentials
from joey.core.text import compile_regex
from joey.errors import ConfigError
from joey.providers.http_connection import HttpAddress, parse_url
from joey.proxy.exchange import Wire
from joey.proxy.http_messages import RequestHead

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
_NAMED_UPSTREAM_RE = compile_regex(rb"/@([\w.-]+)(?=[/?]|\Z)")
_MESSAGES_RE = compile_regex(rb"/messages(?:[/?]|\Z)")
_THREADS_RE = compile_regex(rb"/threads/")
_VERSION_SEGMENT = b"/v1"
_KEY_HEADERS = frozenset({"authorization", "x-api-key"})


class Upstream(Struct, frozen=True):
    """A service that requests are passed on to."""

    url: str
    """The URL as recorded, without credentials."""
    address: HttpAddress
    key_header: tuple[str, str] | None = None
    """Sent in place of the client's own key."""

    def join(self, target: bytes) -> bytes:
        """Return the target for this service: the client's target appended to the path of the URL.
        If one ends and the other begins with `/v1`, it is included once."""
        base = self.address.path.rstrip("/").encode("ascii")
        path = target.partition(b"?")[0]
        if base.endswith(_VERSION_SEGMENT) and (path + b"/").startswith(_VERSION_SEGMENT + b"/"):
            base = base.removesuffix(_VERSION_SEGMENT)
        return base + target

    def build_head(
        self,
        head: RequestHead,
        target: bytes,
        *,
        keeps_encoding: bool,
        proxy: HttpAddress | None = None,
    ) -> bytes:
        """Build the head to send: the client's, with the given header fields changed. For a plain
        HTTP `proxy`, it has the whole address."""
        authority = self.address.authority.encode("ascii")
        is_absolute = proxy is not None and not self.address.is_secure
        whole = (b"http://" + authority if is_absolute else b"") + self.join(target)
        lines = [b"%s %s %s" % (head.method.encode("ascii"), whole, head.version)]
        for line, (name, _) in zip(head.lines, head.headers, strict=True):
            match name.lower():
                case "host":
                    lines.append(line[: len(name)] + b": " + authority)
                case "accept-encoding" if not keeps_encoding:
                    lines.append(line[: len(name)] + b": identity")
                case "x-joey-token":
                    pass
                case lower if self.key_header is not None and lower in _KEY_HEADERS:
                    pass
                case _:
                    lines.append(line)
        if self.key_header is not None:
            lines.append(": ".join(self.key_header).encode("latin-1"))
        if is_absolute and proxy is not None and proxy.proxy_authorization:
            lines.append(f"Proxy-Authorization: {proxy.proxy_authorization}".encode("ascii"))
        return b"\r\n".join((*lines, b"", b""))


def make_upstream(url: str, option: str, key_header: tuple[str, str] | None = None) -> Upstream:
    """Make an upstream. Raises ConfigError, which names the option, if `url` is not the address of
    a service."""
    address = parse_url(url, option)
    if "?" in address.path:
        raise ConfigError(f"The {option} is a base URL and cannot have a query (?…).")
    return Upstream(strip_url_credentials(url) or "", address, key_header)


class Route(Struct, frozen=True):
    wire: Wire
    upstream: Upstream
    target: bytes
    """The client's target, without the name of an upstream."""


class Routes(Struct, frozen=True):
    by_wire: Mapping[Wire, Upstream]
    by_name: Mapping[str, Upstream] = {}
    """Reached as `/@NAME/…`."""

    def find(self, head: RequestHead, target: bytes) -> Route | None:
        """Find the upstream of a request; None if there is none of that name."""
        named = _NAMED_UPSTREAM_RE.match(target)
        if named is None:
            wire = _find_wire(head, target)
            return Route(wire, self.by_wire[wire], target)
        upstream = self.by_name.get(named[1].decode("ascii", "replace"))
        if upstream is None:
            return None
        rest = target[named.end() :]
        rest = rest if rest.startswith(b"/") else b"/" + rest
        return Route(_find_wire(head, rest), upstream, rest)


def _find_wire(head: RequestHead, target: bytes) -> Wire:
    path = target.partition(b"?")[0]
    is_messages = _MESSAGES_RE.search(path) and not _THREADS_RE.search(path)
    if is_messages or head.get_all("anthropic-version"):
        return Wire.ANTHROPIC
    return Wire.OPENAI
