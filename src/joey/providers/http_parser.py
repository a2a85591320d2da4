"""Parser of HTTP/1.1 responses: bytes in, events out, no I/O.

A response is a `ResponseHead`, then body bytes, then an `ResponseEnd`. The body is framed in one of
three ways, in this order of precedence: chunked, by length, or until the connection closes. Bytes
that do not follow the protocol raise `ProtocolError`, and nothing else is ever raised.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from joey.core.text import compile_regex

MAX_HEAD_BYTES = 64 * 1024
MAX_CHUNK_SIZE_LINE_BYTES = 1024

_STATUS_LINE_RE = compile_regex(rb"HTTP/(1)\.([01]) ([1-9]\d\d)(?: ([^\r\n]*))?")
_HEADER_FIELD_RE = compile_regex(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*")
_CHUNK_SIZE_RE = compile_regex(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")


class ProtocolError(Exception):
    """The bytes are not an HTTP/1.1 response."""


class TruncatedResponseError(ProtocolError):
    """A valid response ended early."""


class ResponseHead(Struct, frozen=True):
    status: int
    reason: str
    headers: dict[str, str]
    """Names in lower case; values of a repeated name are joined with commas."""
    can_keep_alive: bool
    """The peer is willing to answer another request on this connection."""


class ResponseEnd(Struct, frozen=True):
    """The response is complete."""


class _ParserState(Enum):
    HEAD = auto()
    FIXED_LENGTH = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILERS = auto()
    UNTIL_CLOSE = auto()
    DONE = auto()


HttpEvent = ResponseHead | bytes | ResponseEnd
_RESPONSE_END = ResponseEnd()
_BODILESS_STATUSES = frozenset({204, 304})


class ResponseReader:
    """One response on one connection; a new reader for the next one."""

    def __init__(self) -> None:
        self._state = _ParserState.HEAD
        self._buffer = b""
        self._remaining_bytes = 0

    @property
    def has_started(self) -> bool:
        """Whether at least one byte of the response has arrived."""
        return self._state is not _ParserState.HEAD or bool(self._buffer)

    def feed(self, data: bytes) -> list[HttpEvent]:
        """Add bytes and return the completed events."""
        events: list[HttpEvent] = []
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        position = 0
        while position < len(data):
            if self._state is _ParserState.DONE:
                raise ProtocolError("bytes after the end of the response")
            taken = self._parse_step(data, position, events)
            if taken == position:
                self._buffer = data[position:]
                break
            position = taken
        return events

    def close(self) -> list[HttpEvent]:
        """Handle the end of the connection, which ends the response only if it announced that."""
        match self._state:
            case _ParserState.UNTIL_CLOSE:
                self._state = _ParserState.DONE
                return [_RESPONSE_END]
            case _ParserState.DONE:
                return []
            case _ParserState.HEAD:
                raise TruncatedResponseError("the connection ended before a response")
            case _:
                raise TruncatedResponseError("the connection ended in the middle of the response")

    def _parse_step(self, data: bytes, position: int, events: list[HttpEvent]) -> int:
        """Parse one element at `position` and return where to continue (the same position: wait for
        more)."""
        match self._state:
            case _ParserState.CHUNK_SIZE:
                return self._parse_complete_chunks(data, position, events)
            case _ParserState.CHUNK_DATA | _ParserState.FIXED_LENGTH:
                return self._parse_counted_body(data, position, events)
            case _ParserState.CHUNK_END:
                return self._parse_chunk_end(data, position)
            case _ParserState.UNTIL_CLOSE:
                events.append(data[position:])
                return len(data)
            case _ParserState.TRAILERS:
                return self._parse_trailers(data, position, events)
            case _:
                return self._parse_response_head(data, position, events)

    def _parse_complete_chunks(self, data: bytes, position: int, events: list[HttpEvent]) -> int:
        """Parse the common case, many small complete chunks, without a step for each part."""
        size_at = position
        while True:
            start = data.find(b"\r\n", size_at) + 2
            match = _CHUNK_SIZE_RE.fullmatch(data, size_at, start - 2) if start >= 2 else None
            if match is None:
                break
            end = start + int(match[1], 16)
            if end == start or data[end : end + 2] != b"\r\n":
                break
            events.append(data[start:end])
            size_at = end + 2
        return self._parse_chunk_size(data, size_at) if size_at < len(data) else size_at

    def _parse_chunk_size(self, data: bytes, position: int) -> int:
        end = data.find(b"\r\n", position)
        if end < 0:
            if len(data) - position > MAX_CHUNK_SIZE_LINE_BYTES:
                raise ProtocolError("the size of a chunk is too long")
            return position
        match = _CHUNK_SIZE_RE.fullmatch(data, position, end)
        if match is None:
            raise ProtocolError(f"not the size of a chunk: {data[position:end][:40]!r}")
        self._remaining_bytes = int(match[1], 16)
        self._state = _ParserState.CHUNK_DATA if self._remaining_bytes else _ParserState.TRAILERS
        return end + 2

    def _parse_counted_body(self, data: bytes, position: int, events: list[HttpEvent]) -> int:
        piece = data[position : position + self._remaining_bytes]
        events.append(piece)
        self._remaining_bytes -= len(piece)
        if not self._remaining_bytes:
            if self._state is _ParserState.CHUNK_DATA:
                self._state = _ParserState.CHUNK_END
            else:
                self._finish(events)
        return position + len(piece)

    def _parse_chunk_end(self, data: bytes, position: int) -> int:
        if data.startswith(b"\r\n", position):
            self._state = _ParserState.CHUNK_SIZE
            return position + 2
        if len(data) - position >= 2 or data[position] != 0x0D:
            raise ProtocolError("a chunk is longer than its size")
        return position

    def _parse_trailers(self, data: bytes, position: int, events: list[HttpEvent]) -> int:
        if data.startswith(b"\r\n", position):
            self._finish(events)
            return position + 2
        end = data.find(b"\r\n\r\n", position)
        if end >= 0:
            self._finish(events)
            return end + 4
        if len(data) - position > MAX_HEAD_BYTES:
            raise ProtocolError("the trailers are too long")
        return position

    def _finish(self, events: list[HttpEvent]) -> None:
        self._state = _ParserState.DONE
        events.append(_RESPONSE_END)

    def _parse_response_head(self, data: bytes, position: int, events: list[HttpEvent]) -> int:
        end = data.find(b"\r\n\r\n", position)
        if (end if end >= 0 else len(data)) - position > MAX_HEAD_BYTES:
            raise ProtocolError("the head of the response is too long")
        if end < 0:
            opening = data[position : position + 5]
            if not b"HTTP/".startswith(opening):  # early, instead of at the end of a head
                raise ProtocolError(f"not an HTTP response: {opening!r}")
            return position
        head = _parse_head(data[position:end].split(b"\r\n"))
        if head.status >= 200:
            events.append(head)
            self._choose_body_framing(head, events)
        elif head.status == 101:
            raise ProtocolError("the server switched to another protocol")
        return end + 4

    def _choose_body_framing(self, head: ResponseHead, events: list[HttpEvent]) -> None:
        if head.status in _BODILESS_STATUSES:
            self._finish(events)
            return
        coding = head.headers.get("transfer-encoding", "").lower()
        if coding == "chunked":
            self._state = _ParserState.CHUNK_SIZE
        elif coding:
            raise ProtocolError(f"unknown transfer encoding: {coding[:40]}")
        elif (length := head.headers.get("content-length")) is not None:
            self._remaining_bytes = _parse_content_length(length)
            self._state = _ParserState.FIXED_LENGTH
            if not self._remaining_bytes:
                self._finish(events)
        else:
            self._state = _ParserState.UNTIL_CLOSE


def _parse_head(lines: list[bytes]) -> ResponseHead:
    status_line = _STATUS_LINE_RE.fullmatch(lines[0])
    if status_line is None:
        raise ProtocolError(f"not an HTTP/1.1 status line: {lines[0][:60]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        field = _HEADER_FIELD_RE.fullmatch(line)
        if field is None:
            raise ProtocolError(f"not a header field: {line[:60]!r}")
        name = field[1].decode("ascii").lower()
        value = field[2].decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    tokens = {token.strip() for token in headers.get("connection", "").lower().split(",")}
    framed = "content-length" in headers or "transfer-encoding" in headers
    is_current = status_line[2] == b"1"
    return ResponseHead(
        status=int(status_line[3]),
        reason=(status_line[4] or b"").decode("latin-1"),
        headers=headers,
        can_keep_alive=framed
        and ("keep-alive" in tokens if not is_current else "close" not in tokens),
    )


def _parse_content_length(value: str) -> int:
    lengths = {length.strip() for length in value.split(",")}
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit() and len(length) < 19):
        raise ProtocolError(f"not a content length: {value[:40]}")
    return int(length)
