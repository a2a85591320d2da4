"""One page of the web, fetched and turned into text: `python -m joey.knowledge.page text`.

The address may lead elsewhere, but only to another page of the web, and never from there into the
network that this machine is in.
"""

from __future__ import annotations

import codecs
import http.client
import ipaddress
import os
import re
import socket
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Any

import msgspec

from joey.errors import ToolError
from joey.knowledge.confinement import serve
from joey.knowledge.page_text import markdown_of
from joey.knowledge.web_pages import Asked

_SECONDS = 15
_MOST_BYTES = 2 * 1024 * 1024
_LONGEST_REASON = 200
_READABLE = re.compile(r"text/|application/(?:json|xml|xhtml\+xml)$")
_NO_CHARACTER_SETS = frozenset({"idna", "punycode", "undefined"})
"""Codecs of Python's that no page is written in, and that are slow or fail."""
_KEPT = "%/:=&?~#+!$,;'@()*[]"
"""What an address may hold as it stands."""


def page_text(data: bytes) -> bytes:
    """Raises ToolError: nobody answers, or with something that is not text."""
    asked = msgspec.json.decode(data, type=Asked)
    os.environ.update(asked.env)
    try:
        kind, charset, body = _fetch(_plain(asked.url))
    except urllib.error.HTTPError as error:
        raise ToolError(f"the server answered {error.code} {_one_line(error.reason)}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ToolError(f"the page cannot be fetched: {_one_line(reason)}") from error
    words = body.decode(_known(charset), errors="replace")
    return (markdown_of(words) if "html" in kind else words).encode(errors="replace")


def _fetch(url: str) -> tuple[str, str, bytes]:
    """Media type, character set and body."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(url, headers={"User-Agent": "joey", "Accept": "text/*"})
    with opener.open(request, timeout=_SECONDS) as response:
        kind = response.headers.get_content_type()
        if not _READABLE.match(kind):
            raise ToolError(f"the address gives {_one_line(kind)}, which is not text")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ToolError("the server sends the page compressed, which was not asked for")
        charset = response.headers.get_content_charset() or "utf-8"
        return kind, charset, response.read(_MOST_BYTES)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise ToolError(f"it leads on to {_one_line(newurl)}, which is no page of the web")
        if _is_near(newurl) and not _is_near(req.full_url):
            raise ToolError(f"it leads on to {_one_line(newurl)}, which is not on the public web")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_near(url: str) -> bool:
    """Whether an address is on this machine or in its own network."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # a name that only a proxy knows, or nobody
    addresses = (str(each[4][0]).partition("%")[0] for each in found)
    return any(not ipaddress.ip_address(address).is_global for address in addresses)


def _plain(url: str) -> str:
    """The address in the characters that may be sent."""
    parts = urllib.parse.urlsplit(url)
    place = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    return urllib.parse.quote(parts._replace(netloc=place).geturl(), safe=_KEPT)


def _known(charset: str) -> str:
    try:
        codec = codecs.lookup(charset)
        "".encode(charset)
    except (LookupError, ValueError):
        return "utf-8"
    return "utf-8" if codec.name in _NO_CHARACTER_SETS else codec.name


def _one_line(words: Any) -> str:
    seen = "".join(char if char.isprintable() else " " for char in str(words))
    return " ".join(seen.split())[:_LONGEST_REASON]


if __name__ == "__main__":
    serve(page_text)
