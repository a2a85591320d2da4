"""Login at an MCP server: stored credentials, and the page that the browser returns to.

Credentials are one private file per address. The page is served on this machine, for one visit.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joey.errors import UserError
from joey.mcp.config_files import write_json_atomically
from joey.system.files import FileFingerprint, read_fingerprint

CREDENTIALS_DIRECTORY = "mcp-auth"


class Credentials:
    """Tokens, the registration they belong to, and where they are renewed."""

    def __init__(self, home: Path, url: str) -> None:
        self.url = url
        digest = hashlib.sha256(url.encode()).hexdigest()[:24]
        self.path = home / CREDENTIALS_DIRECTORY / f"{digest}.json"
        self.own_write_fingerprint: FileFingerprint = None
        """Of the file as we have written it ourselves: no news for us."""

    def load(self) -> dict[str, Any]:
        """Load credentials; empty if there was no login, or the file cannot be read."""
        try:
            value = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) and value.get("url") == self.url else {}

    def update(self, **values: Any) -> None:
        """Raises ConfigError."""
        write_json_atomically(self.path, {**self.load(), **values, "url": self.url})
        self.own_write_fingerprint = read_fingerprint(self.path)

    def discard(self) -> bool:
        """Discard the credentials; False if there were none."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True


CALLBACK_PATH = "/callback"
_MAX_REQUEST_BYTES = 16 * 1024
_REQUEST_TIMEOUT_S = 10.0
_PAGE_HTML_TEMPLATE = "<!doctype html><meta charset=utf-8><title>joey</title><p>{text}</p>"
_LOGGED_IN_TEXT = "Logged in. You can close this page and go back to joey."
_REFUSED_TEXT = "The login was refused. See joey for details."
_UNEXPECTED_VISIT_TEXT = "This page only works for a login started by joey."


class LoginCallback:
    """Receives the login service's answer through the browser."""

    def __init__(self, port: int) -> None:
        self.redirect_url = f"http://127.0.0.1:{port}{CALLBACK_PATH}"
        self.expected_state = ""
        """Only an answer that carries it is ours."""
        self._parameters_future: asyncio.Future[dict[str, str]] = (
            asyncio.get_running_loop().create_future()
        )

    async def wait_for_parameters(self) -> dict[str, str]:
        """Return the parameters: `code`, `expected_state` and perhaps `iss`. Raises UserError if
        the login was rejected."""
        parameters = await self._parameters_future
        if "code" not in parameters:
            reason = parameters.get("error_description") or parameters.get("error")
            raise UserError(f"The login was refused: {reason or 'no reason was given'}.")
        return parameters

    def handle_request(self, target: str) -> tuple[int, str]:
        """Answer a request for `target` with a status and a text."""
        parts = urlsplit(target)
        parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
        is_expected = (
            parts.path == CALLBACK_PATH
            and self.expected_state
            and parameters.get("state") == self.expected_state
        )
        if not is_expected or self._parameters_future.done():
            return 404, _UNEXPECTED_VISIT_TEXT
        self._parameters_future.set_result(parameters)
        return 200, _LOGGED_IN_TEXT if "code" in parameters else _REFUSED_TEXT


@asynccontextmanager
async def open_callback_server() -> AsyncIterator[LoginCallback]:
    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
            method, _, rest = request.decode("latin-1").partition(" ")
            status, text = (
                callback.handle_request(rest.partition(" ")[0]) if method == "GET" else (405, "")
            )
            page = _PAGE_HTML_TEMPLATE.format(text=text).encode()
            head = (
                f"HTTP/1.1 {status} OK\r\nContent-Type: text/html; charset=utf-8\r\n"
                f"Content-Length: {len(page)}\r\nCache-Control: no-store\r\nConnection: close\r\n"
                "Referrer-Policy: no-referrer\r\n\r\n"
            )
            writer.write(head.encode() + page)
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # Not a browser, or one that left; the user can try again.
        finally:
            writer.close()

    server = await asyncio.start_server(visit, "127.0.0.1", 0, limit=_MAX_REQUEST_BYTES)
    callback = LoginCallback(server.sockets[0].getsockname()[1])
    try:
        yield callback
    finally:
        server.close()
