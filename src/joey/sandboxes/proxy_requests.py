"""What a program asks of a proxy, read strictly: what could mean two things is refused."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus

from msgspec import Struct

from joey.core.network_hosts import WEB_PORTS, plain_host, split_port

_REQUEST = re.compile(rb"([A-Z]{1,20}) (\S{1,16384}) HTTP/1\.[01]")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
_ABSOLUTE = re.compile(r"http://([^/?#]+)([/?]?[^#]*)", re.IGNORECASE)
_DROPPED = (b"host:", b"connection:", b"keep-alive:", b"proxy-")


class BadRequest(Exception):
    """Says what about it is not understood."""


class Request(Struct, frozen=True):
    host: str
    port: int
    is_tunnel: bool
    head: bytes = b""
    """What is sent to the host in place of what was sent to us."""

    @property
    def shown(self) -> str:
        return shown(self.host, self.port)


def shown(host: str, port: int) -> str:
    """As it is written in a list of hosts, too."""
    name = f"[{host}]" if ":" in host else host
    return name if port in WEB_PORTS else f"{name}:{port}"


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Raises BadRequest, OSError or IncompleteReadError."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise BadRequest("the head of the request is too long") from error
    return parse_request(head)


def parse_request(head: bytes) -> Request:
    """Raises BadRequest."""
    first, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None or not all(_HEADER.fullmatch(each) for each in headers):
        raise BadRequest("this is not a request for a proxy")
    method, target = found[1], found[2].decode("latin-1")
    if method == b"CONNECT":
        return Request(*_authority(target, None), is_tunnel=True)
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise BadRequest("only CONNECT and requests for http:// addresses are understood")
    host, port = _authority(absolute[1], 80)
    path = absolute[2] if absolute[2].startswith("/") else f"/{absolute[2]}"
    kept = [each for each in headers if not each.lower().startswith(_DROPPED)]
    name = f"[{host}]" if ":" in host else host
    named = name if port == 80 else f"{name}:{port}"
    rest = b"\r\n".join((b"Host: " + named.encode(), b"Connection: close", *kept, b"\r\n"))
    line = b"%s %s HTTP/1.1\r\n" % (method, path.encode("latin-1"))
    return Request(host, port, is_tunnel=False, head=line + rest)


def _authority(text: str, usual: int | None) -> tuple[str, int]:
    name, port = split_port(text)
    host = plain_host(name) if text.isascii() and (":" not in name or name[0] == "[") else None
    number = usual if port is None else port
    if host is None or number is None or not 0 < number < 65536:
        raise BadRequest(f"{text[:200]!r} is not a host and a port")
    return host, number


def answer_of(status: int, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
