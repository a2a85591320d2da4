"""Messages of a server, kept to a size.

A server may answer with a line of any length. What goes beyond the limit is read and thrown
away; from what was kept a shorter message is made that is valid, answers the same request and
says that it was cut. So memory is bounded, and the model still gets the beginning.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from joey.core.parsing.json_scanner import JsonScanner

LARGEST = 10 * 1024 * 1024
"""Bytes of one message."""
_TAIL = 4096
"""Bytes of the end that are kept: some put the id last."""
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")\s*[,}]')
_TOO_LONG = -32010


class Cut(Struct, frozen=True):
    """A line that was too long."""

    head: bytes
    tail: bytes
    size: int


class Lines:
    """Bytes in, whole lines out, none longer than the limit."""

    def __init__(self, limit: int = LARGEST) -> None:
        self._limit = limit
        self._head = bytearray()
        self._tail = b""
        self._size = 0
        """Of the line that is being read."""

    def feed(self, data: bytes) -> Iterator[bytes | Cut]:
        """Lines without their newline."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._grow(piece)
            yield self._take()
        self._grow(rest)

    def close(self) -> bytes | Cut:
        """What stood behind the last newline."""
        return self._take()

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        room = self._limit - len(self._head)
        self._head += piece[:room]
        if len(piece) > room:
            self._tail = (self._tail + piece[room:][-_TAIL:])[-_TAIL:]

    def _take(self) -> bytes | Cut:
        line, size, tail = bytes(self._head), self._size, self._tail
        self._head, self._tail, self._size = bytearray(), b"", 0
        return line if size <= self._limit else Cut(line, tail, size)


async def message_of(line: bytes | Cut, prefix: bytes = b"") -> bytes:
    """The line, or the shorter message that stands for it; empty when nobody waits for it.

    `prefix` stands before a message in its line (`data: ` in a stream of events).
    """
    if isinstance(line, bytes):
        return line
    # Reading ten megabytes takes a while, and must not stop everything else.
    head = line.head.removeprefix(prefix)
    message = await asyncio.to_thread(clipped, head, line.tail, line.size)
    return b"" if message is None else prefix + message


def clipped(head: bytes, tail: bytes, size: int) -> bytes | None:
    """A message that stands for one of `size` bytes; None when nobody waits for it."""
    scanner = JsonScanner()
    scanner.feed(head.decode("utf-8", "ignore"))
    message = scanner.snapshot()
    if "method" in message:
        return None
    if "id" not in message:
        found = _ID.findall(tail)
        if not found:
            return None
        message["id"] = msgspec.json.decode(found[-1])
    note = f"The answer was cut: it had {size:,} bytes, and at most {len(head):,} are taken."
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    result = _clipped_result(message.get("result"), note)
    if result is not None:
        return msgspec.json.encode(answer | {"result": result})
    return msgspec.json.encode(answer | {"error": {"code": _TOO_LONG, "message": note}})


def _clipped_result(result: Any, note: str) -> dict[str, Any] | None:
    """The result of a tool or of a resource with the texts that came; nothing else can be cut."""
    match result:
        case {"content": list(items)}:
            texts = [item for item in items if _is_text(item) and item.get("type") == "text"]
            content = [*texts, {"type": "text", "text": f"[{note}]"}]
            return {"content": content, "isError": result.get("isError") is True}
        case {"contents": list(items)}:
            texts = [item for item in items if _is_text(item) and isinstance(item.get("uri"), str)]
            if texts:
                texts.append({"uri": texts[-1]["uri"], "text": f"[{note}]"})
                return {"contents": texts}
    return None


def _is_text(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("text"), str)
