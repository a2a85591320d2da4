"""Parser of server-sent events: bytes in, events out, no I/O.

Model services send `data: {json}` blocks separated by a blank line, with plain line feeds. That
case is split a whole block at a time. At the first carriage return, the reader switches to reading
line by line for the rest of the stream, which supports every line ending of the format. Data stays
bytes: its consumer is a JSON decoder, and a character split over two reads is complete once its
event is.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from joey.core.text import compile_regex

_UTF_8_BOM = b"\xef\xbb\xbf"
_LINE_END_RE = compile_regex(rb"\r\n|\r|\n")


class ServerSentEvent(Struct, frozen=True):
    event: str
    """Empty when the server did not name it."""
    data: bytes


class EventReader(Protocol):
    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Add bytes and return the completed events."""


class NdjsonReader:
    """Reads lines of JSON, each as the data of an event."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [ServerSentEvent("", line) for line in lines if line.strip()]


class SseReader:
    def __init__(self) -> None:
        self._possible_bom: bytes | None = b""
        """Bytes that may still turn out to be a byte order mark."""
        self._buffer = bytearray()
        self._scanned_bytes = 0
        self._line_reader: _SseLineReader | None = None

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        if self._possible_bom is not None:
            data = self._skip_bom(data)
        if self._line_reader is not None:
            return self._line_reader.feed(data)
        if b"\r" in data:
            self._line_reader = _SseLineReader()
            return self._line_reader.feed(bytes(self._buffer) + data)
        return self._split_blocks(data)

    def _skip_bom(self, data: bytes) -> bytes:
        data = (self._possible_bom or b"") + data
        if len(data) < len(_UTF_8_BOM) and _UTF_8_BOM.startswith(data):
            self._possible_bom = data
            return b""
        self._possible_bom = None
        return data.removeprefix(_UTF_8_BOM)

    def _split_blocks(self, data: bytes) -> list[ServerSentEvent]:
        self._buffer += data
        end = self._buffer.rfind(b"\n\n", self._scanned_bytes)
        blocks = bytes(self._buffer[:end]).split(b"\n\n") if end >= 0 else []
        if end >= 0:
            del self._buffer[: end + 2]
        self._scanned_bytes = max(0, len(self._buffer) - 1)
        return [event for block in blocks if (event := _parse_block(block)) is not None]


def _parse_block(block: bytes) -> ServerSentEvent | None:
    """Parse one block between blank lines; the two usual forms need no loop."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return ServerSentEvent("", block[6:])
    if block.startswith(b"event: "):
        name, _, rest = block.partition(b"\n")
        if rest.startswith(b"data: ") and b"\n" not in rest:
            return ServerSentEvent(name[7:].decode("utf-8", "replace"), rest[6:])
    fields = _EventBuilder()
    for line in block.split(b"\n"):
        fields.add_line(line)
    return fields.take_event()


class _EventBuilder:
    """Collects the lines of one event."""

    def __init__(self) -> None:
        self._event_name = ""
        self._data_lines: list[bytes] = []

    def add_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data_lines.append(value)
        elif name == b"event":
            self._event_name = value.decode("utf-8", "replace")

    def take_event(self) -> ServerSentEvent | None:
        name, lines = self._event_name, self._data_lines
        self._event_name, self._data_lines = "", []
        return ServerSentEvent(name, b"\n".join(lines)) if lines else None


class _SseLineReader:
    """Reads any mixture of line endings, with a loop over the lines."""

    def __init__(self) -> None:
        self._partial_line: list[bytes] = []
        self._is_after_cr = False
        self._event_builder = _EventBuilder()

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        if not data:
            return []
        if self._is_after_cr:
            data = data.removeprefix(b"\n")
            self._is_after_cr = False
            if not data:
                return []
        self._is_after_cr = data.endswith(b"\r")
        *lines, rest = _LINE_END_RE.split(data)
        events = []
        for piece in lines:
            self._partial_line.append(piece)
            line = b"".join(self._partial_line)
            self._partial_line = []
            if line:
                self._event_builder.add_line(line)
            elif event := self._event_builder.take_event():
                events.append(event)
        if rest:
            self._partial_line.append(rest)
        return events
