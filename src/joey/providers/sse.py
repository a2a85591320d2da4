"""Parser of server-sent events: bytes in, events out, no I/O.

Model services send `data: {json}` blocks separated by a blank line, with plain line feeds. That
case is split a whole block at a time. At the first carriage return the reader switches, for the
rest of the stream, to reading line by line, which takes every line ending that the format allows.
Data stays bytes: its consumer is a JSON decoder, and a character split over two reads is whole
again when its event is.
"""

from __future__ import annotations

from msgspec import Struct

from joey.core.text import compile_regex

_UTF_8_BOM = b"\xef\xbb\xbf"
_LINE_END_RE = compile_regex(rb"\r\n|\r|\n")


class ServerSentEvent(Struct, frozen=True):
    event: str
    """Empty when the server did not name it."""
    data: bytes


class SseReader:
    def __init__(self) -> None:
        self._opening: bytes | None = b""
        """Bytes that may still turn out to be a byte order mark."""
        self._buffer = bytearray()
        self._scanned = 0
        self._lines: _SseLineReader | None = None

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that these bytes complete."""
        if self._opening is not None:
            data = self._skip_mark(data)
        if self._lines is not None:
            return self._lines.feed(data)
        if b"\r" in data:
            self._lines = _SseLineReader()
            return self._lines.feed(bytes(self._buffer) + data)
        return self._split(data)

    def _skip_mark(self, data: bytes) -> bytes:
        data = (self._opening or b"") + data
        if len(data) < len(_UTF_8_BOM) and _UTF_8_BOM.startswith(data):
            self._opening = data
            return b""
        self._opening = None
        return data.removeprefix(_UTF_8_BOM)

    def _split(self, data: bytes) -> list[ServerSentEvent]:
        if self._buffer:
            self._buffer += data
            end = self._buffer.rfind(b"\n\n", self._scanned)
            if end < 0:
                self._scanned = max(0, len(self._buffer) - 1)
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        else:
            end = data.rfind(b"\n\n")
        if end < 0:
            self._buffer += data
        else:
            self._buffer += data[end + 2 :]
        self._scanned = max(0, len(self._buffer) - 1)
        if end < 0:
            return []
        events = []
        for block in data[:end].split(b"\n\n"):
            event = _parse_block(block)
            if event is not None:
                events.append(event)
        return events


def _parse_block(block: bytes) -> ServerSentEvent | None:
    """One block between blank lines; the two usual forms are recognised without a loop."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return ServerSentEvent("", block[6:])
    if block.startswith(b"event: "):
        name, _, rest = block.partition(b"\n")
        if rest.startswith(b"data: ") and b"\n" not in rest:
            return ServerSentEvent(name[7:].decode("utf-8", "replace"), rest[6:])
    fields = _EventBuilder()
    for line in block.split(b"\n"):
        fields.add(line)
    return fields.take()


class _EventBuilder:
    """The lines of one event, collected."""

    def __init__(self) -> None:
        self._event = ""
        self._data: list[bytes] = []

    def add(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")

    def take(self) -> ServerSentEvent | None:
        event = ServerSentEvent(self._event, b"\n".join(self._data)) if self._data else None
        self._event = ""
        self._data = []
        return event


class _SseLineReader:
    """Any mixture of line endings, at the price of a loop over the lines."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._after_cr = False
        self._fields = _EventBuilder()

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        if not data:
            return []
        if self._after_cr:
            data = data.removeprefix(b"\n")
            self._after_cr = False
            if not data:
                return []
        self._after_cr = data.endswith(b"\r")
        *lines, rest = _LINE_END_RE.split(data)
        events = []
        for piece in lines:
            self._line.append(piece)
            line = b"".join(self._line)
            self._line = []
            if line:
                self._fields.add(line)
            elif event := self._fields.take():
                events.append(event)
        if rest:
            self._line.append(rest)
        return events
