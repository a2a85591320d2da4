"""Worker that fetches a web page and converts it to Markdown.

`python -m joey.content.web_page_worker text` reads the request on stdin and prints the text. The
address may redirect, but only to another page of the web, and never from there into the network
that this machine is in. Headings, lists, links and code of an HTML page are kept.
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
from html.parser import HTMLParser
from typing import IO, Any

import msgspec

from joey.content.isolated_workers import PageRequest
from joey.content.worker_main import serve_request
from joey.errors import ToolError

_SKIPPED_TAGS = frozenset({"script", "style", "noscript", "template", "svg", "title", "iframe"})
_BLOCK_TAGS = frozenset({"p", "div", "section", "article", "table", "tr", "ul", "ol", "main", "hr"})
_BLOCK_TAGS |= {"title", "body", "header", "footer", "nav", "blockquote", "form"}
_BLOCK_TAGS |= {"dl", "dt", "dd", "figure"}
_HEADING_PREFIXES = {f"h{level}": "#" * level for level in range(1, 7)}
_WHITESPACE_RE = re.compile(r"[ \t\r\n]+")
_CODE_FENCE = "```"


def convert_html_to_markdown(html: str) -> str:
    """Convert a page to text, with headings, lists, links and code as Markdown."""
    reader = _HtmlToMarkdownParser()
    reader.feed(html)
    reader.close()
    return reader.markdown


class _HtmlToMarkdownParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._markdown_parts: list[str] = []
        self._skip_depth = 0
        self._pre_depth = 0
        self._open_links: list[str] = []

    @property
    def markdown(self) -> str:
        lines: list[str] = []
        in_code = False
        for line in "".join(self._markdown_parts).split("\n"):
            if line == _CODE_FENCE:
                in_code = not in_code
            kept = line if in_code else line.strip()
            if kept or in_code or (lines and lines[-1]):
                lines.append(kept)
        return "\n".join(lines).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        match tag:
            case _ if tag in _SKIPPED_TAGS:
                self._skip_depth += 1
            case _ if tag in _HEADING_PREFIXES:
                self._markdown_parts.append(f"\n\n{_HEADING_PREFIXES[tag]} ")
            case "li":
                self._markdown_parts.append("\n- ")
            case "br":
                self._markdown_parts.append("\n")
            case "pre":
                self._pre_depth += 1
                self._markdown_parts.append(f"\n\n{_CODE_FENCE}\n")
            case "code" if not self._pre_depth:
                self._markdown_parts.append("`")
            case "a":
                self._open_links.append(dict(attrs).get("href") or "")
                self._markdown_parts.append("[")
            case "td" | "th":
                self._markdown_parts.append(" | ")
            case _ if tag in _BLOCK_TAGS:
                self._markdown_parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case _ if tag in _SKIPPED_TAGS:
                self._skip_depth = max(0, self._skip_depth - 1)
            case "pre" if self._pre_depth:
                self._pre_depth -= 1
                self._markdown_parts.append(f"\n{_CODE_FENCE}\n\n")
            case "code" if not self._pre_depth:
                self._markdown_parts.append("`")
            case "a" if self._open_links:
                target = self._open_links.pop()
                self._markdown_parts.append(f"]({target})" if target else "]")
            case _ if tag in _HEADING_PREFIXES or tag in _BLOCK_TAGS:
                self._markdown_parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._skip_depth:
            self._markdown_parts.append(data if self._pre_depth else _WHITESPACE_RE.sub(" ", data))


_FETCH_TIMEOUT_S = 15
_MAX_PAGE_BYTES = 2 * 1024 * 1024
_MAX_REASON_CHARS = 200
_TEXT_MEDIA_TYPE_RE = re.compile(r"text/|application/(?:json|xml|xhtml\+xml)$")
_REJECTED_CODECS = frozenset({"idna", "punycode", "undefined"})
"""Codecs of Python's that no page is written in, and that are slow or fail."""
_SAFE_URL_CHARS = "%/:=&?~#+!$,;'@()*[]"


def fetch_page_text(data: bytes) -> bytes:
    """Fetch a page. Raises ToolError if the server does not answer, or not with text."""
    asked = msgspec.json.decode(data, type=PageRequest)
    os.environ.update(asked.env)
    try:
        kind, charset, body = _fetch(_encode_url(asked.url))
    except urllib.error.HTTPError as error:
        raise ToolError(
            f"the server answered {error.code} {_to_single_line(error.reason)}"
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ToolError(f"the page cannot be fetched: {_to_single_line(reason)}") from error
    text = body.decode(_resolve_charset(charset), errors="replace")
    return (convert_html_to_markdown(text) if "html" in kind else text).encode(errors="replace")


def _fetch(url: str) -> tuple[str, str, bytes]:
    """Return media type, character set and body."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _SafeRedirectHandler(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(url, headers={"User-Agent": "joey", "Accept": "text/*"})
    with opener.open(request, timeout=_FETCH_TIMEOUT_S) as response:
        kind = response.headers.get_content_type()
        if not _TEXT_MEDIA_TYPE_RE.match(kind):
            raise ToolError(f"the address gives {_to_single_line(kind)}, which is not text")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ToolError("the server sends the page compressed, which was not asked for")
        charset = response.headers.get_content_charset() or "utf-8"
        return kind, charset, response.read(_MAX_PAGE_BYTES)


class _SafeRedirectHandler(urllib.request.HTTPRedirectHandler):
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
            problem = "is no page of the web"
        elif _is_local_address(newurl) and not _is_local_address(req.full_url):
            problem = "is not on the public web"
        else:
            return super().redirect_request(req, fp, code, msg, headers, newurl)
        raise ToolError(f"it leads on to {_to_single_line(newurl)}, which {problem}")


def _is_local_address(url: str) -> bool:
    """Whether an address is on this machine or in its local network."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # a name that only a proxy can resolve, or that does not exist
    addresses = (str(each[4][0]).partition("%")[0] for each in found)
    return any(not ipaddress.ip_address(address).is_global for address in addresses)


def _encode_url(url: str) -> str:
    """Percent-encode the characters of an address that may not be sent."""
    parts = urllib.parse.urlsplit(url)
    netloc = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    return urllib.parse.quote(parts._replace(netloc=netloc).geturl(), safe=_SAFE_URL_CHARS)


def _resolve_charset(charset: str) -> str:
    try:
        codec = codecs.lookup(charset)
        "".encode(charset)
    except (LookupError, ValueError):
        return "utf-8"
    return "utf-8" if codec.name in _REJECTED_CODECS else codec.name


def _to_single_line(value: Any) -> str:
    seen = "".join(char if char.isprintable() else " " for char in str(value))
    return " ".join(seen.split())[:_MAX_REASON_CHARS]


if __name__ == "__main__":
    serve_request(fetch_page_text)
