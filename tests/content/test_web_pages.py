"""Pages that a real server gives out, some of them with bad intentions."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Iterator

import psutil
import pytest

from joey.content.isolated_workers import WebPageFetcher
from joey.content.web_page_worker import convert_html_to_markdown
from joey.errors import ToolError


class _Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        match self.path.split("/")[1:]:
            case ["to", *rest]:
                self._head(302, Location="/".join(rest))
            case ["packed"]:
                self._head(200, **{"Content-Encoding": "gzip"})
            case ["charset", name]:
                self._head(200, **{"Content-Type": f"text/html; charset={name}"})
                self.wfile.write(b"<p>words")
            case ["endless"]:
                self._head(200, **{"Content-Type": "text/plain"})
                self._write_without_end()
            case ["%C3%BC"]:
                self._head(200, **{"Content-Type": "text/plain"})
                self.wfile.write(b"umlaut")
            case ["nothing"]:
                self.server.waiting.set()  # type: ignore[attr-defined]
                self.server.done.wait(30)  # type: ignore[attr-defined]
            case _:
                self.send_error(404, "not\x1b[31m here")

    def _head(self, code: int, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _write_without_end(self) -> None:
        try:
            while True:
                self.wfile.write(b"a" * 65536)
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        server.waiting, server.done = threading.Event(), threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.done.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


@pytest.fixture
def site(server: http.server.ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/to/ftp://127.0.0.1/x", "no page of the web"),
        ("/to/file:///etc/passwd", "302"),
        ("/packed", "not text|compressed"),
        ("/missing", r"404 not \[31m here$"),
    ],
)
async def test_what_is_no_page_is_refused_with_the_reason(
    site: str, path: str, reason: str
) -> None:
    with pytest.raises(ToolError, match=reason):
        await WebPageFetcher().fetch_text(site + path)


@pytest.mark.parametrize("url", ["http://127.0.0.1:port/", "http://[::1", "http://a:b@127.0.0.1/"])
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ToolError, match="cannot be fetched"):
        await WebPageFetcher().fetch_text(url)


@pytest.mark.parametrize("name", ["undefined", "idna", "punycode", "hex", "no-such"])
async def test_a_character_set_that_is_none_does_no_harm(site: str, name: str) -> None:
    assert await WebPageFetcher().fetch_text(f"{site}/charset/{name}") == "words"


async def test_an_address_may_have_letters_of_any_language(site: str) -> None:
    assert await WebPageFetcher().fetch_text(f"{site}/ü") == "umlaut"


async def test_of_a_page_without_end_the_beginning_is_taken(site: str) -> None:
    text = await WebPageFetcher().fetch_text(f"{site}/endless")
    assert text.endswith("left out...]")
    assert len(text) < 210_000


async def test_a_cancelled_fetch_leaves_nothing_behind(
    server: http.server.ThreadingHTTPServer, site: str
) -> None:
    before = set(psutil.Process().children())
    fetching = asyncio.create_task(WebPageFetcher().fetch_text(f"{site}/nothing"))
    await asyncio.to_thread(server.waiting.wait, 10)  # type: ignore[attr-defined]
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert set(psutil.Process().children()) <= before


def test_a_page_need_not_close_its_head() -> None:
    assert convert_html_to_markdown("<html><head><title>T</title><p>hello") == "hello"
