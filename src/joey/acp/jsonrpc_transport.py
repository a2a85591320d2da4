"""JSON-RPC over lines: one JSON object per line, and an error response to every invalid line.

The ACP library reads frames too, but it skips frames that it cannot read, and an id of the wrong
type ends the connection. So it is given only messages that were checked here.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from joey.acp.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from joey.presentation.text import to_one_line

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Images are sent as text."""


class InvalidMessageError(Exception):
    """A line is not a valid message; the text says why."""

    def __init__(self, code: int, problem: str, id: str | int | None = None) -> None:
        super().__init__(problem)
        self.code = code
        self.id = id


class JsonRpcTransport:
    """The transport passed to the library: messages in, messages out."""

    def __init__(self, chunks: AsyncIterator[bytes], output_fd: int) -> None:
        """`output_fd` is a file descriptor that nothing else writes to."""
        self._lines = _iter_lines(chunks)
        self._output_fd = output_fd
        self._write_lock = asyncio.Lock()
        self.disconnected_event = asyncio.Event()
        """Nobody reads what is written."""
        os.set_blocking(output_fd, False)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end of input."""
        async for line in self._lines:
            try:
                return _parse_message(line)
            except InvalidMessageError as invalid:
                error = {"code": invalid.code, "message": str(invalid)}
                await self.send({"jsonrpc": "2.0", "id": invalid.id, "error": error})
        return None

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message; return when all of it is written, however slowly it is read. Raises
        ConnectionError."""
        data = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        async with self._write_lock:
            while data and not self.disconnected_event.is_set():
                try:
                    data = data[os.write(self._output_fd, data) :]
                except BlockingIOError:
                    await self._wait_until_writable()
                except OSError:
                    self.disconnected_event.set()
        if self.disconnected_event.is_set():
            raise ConnectionError("The editor has disconnected.")

    async def close(self) -> None:
        self.disconnected_event.set()
        with suppress(OSError):  # others may write there too
            os.set_blocking(self._output_fd, True)

    async def _wait_until_writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._output_fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._output_fd)


async def _iter_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes | None]:
    """Iterate over non-blank lines; None for a line that is too long."""
    unfinished = bytearray()
    too_long = False
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            unfinished += line
            if too_long or len(unfinished) > MAX_LINE_BYTES:
                yield None
            elif unfinished.strip():
                yield bytes(unfinished)
            unfinished, too_long = bytearray(), False
        unfinished += rest
        if len(unfinished) > MAX_LINE_BYTES:
            unfinished, too_long = bytearray(), True
    if unfinished.strip():
        yield bytes(unfinished)


def _parse_message(line: bytes | None) -> dict[str, Any]:
    """Raises InvalidMessageError."""
    if line is None:
        raise InvalidMessageError(
            INVALID_REQUEST, f"The line is longer than {MAX_LINE_BYTES // 2**20} MiB."
        )
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        shown = to_one_line(line[:80].decode(errors="replace"), 60)
        why = str(error) if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise InvalidMessageError(PARSE_ERROR, f"The line is not JSON ({why}): {shown}") from error
    if not isinstance(message, dict):
        raise InvalidMessageError(
            INVALID_REQUEST, "A message must be a JSON object; batches are not supported."
        )
    return _validate_message(message)


def _validate_message(message: dict[str, Any]) -> dict[str, Any]:
    id = message.get("id")
    if isinstance(id, bool) or not isinstance(id, str | int | None):
        raise InvalidMessageError(INVALID_REQUEST, "`id` must be text, a whole number or null.")
    if "method" in message:
        if not isinstance(message["method"], str):
            raise InvalidMessageError(INVALID_REQUEST, "`method` must be text.", id)
        if not isinstance(message.get("params"), dict | None):
            raise InvalidMessageError(INVALID_REQUEST, "`params` must be an object.", id)
        return message
    if "result" not in message and "error" not in message:
        raise InvalidMessageError(
            INVALID_REQUEST, "A message needs `method`, `result` or `error`.", id
        )
    error = message.get("error")
    if not isinstance(error, dict | None):
        error = {"code": INTERNAL_ERROR, "message": to_one_line(str(error), 200)}
    # An answer with both is not a clear yes.
    return message if error is None else {"id": id, "error": error}
