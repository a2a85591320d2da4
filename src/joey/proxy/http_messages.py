"""Heads and framing of HTTP/1.1 messages that are passed on as they are.

The parser of `providers` reads responses and drops what a client does not need. A pass-through
needs requests too, header fields with their spelling and order, and the end of the body; the
framing itself is passed on.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from joey.core.text import compile_regex
from joey.proxy.exchange import Header

MAX_HEAD_BYTES = 256 * 1024
_MAX_LINE_BYTES = 64 * 1024
_REQUEST_LINE_RE = compile_regex(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([^\s\x00-\x1f]+) (HTTP/1\.[01])"
)
_STATUS_LINE_RE = compile_regex(rb"HTTP/1\.[01] ([1-9]\d\d)(?: [^\r\n]*)?")
_FIELD_RE = compile_regex(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\r\n\x00]*?)[ \t]*")
_CHUNK_SIZE_RE = compile_regex(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?")
_BODILESS_STATUSES = frozenset({204, 304})


class MessageError(Exception):
    """The bytes are not an HTTP/1.1 message; the text says why."""


class _Head(Struct, frozen=True, kw_only=True):
    headers: tuple[Header, ...]

    def get_all(self, name: str) -> list[str]:
        return [value for each, value in self.headers if each.lower() == name]


class RequestHead(_Head, frozen=True):
    method: str
    target: bytes
    version: bytes
    lines: tuple[bytes, ...]
    """Header fields as received, without line endings."""


class ResponseStart(_Head, frozen=True):
    status: int


def parse_request_head(data: bytes) -> RequestHead:
    """Parse a head; `data` is without the empty line at its end. Raises MessageError."""
    first, *lines = data.split(b"\r\n")
    line = _REQUEST_LINE_RE.fullmatch(first)
    if line is None:
        raise MessageError("the first line is not one of an HTTP/1.1 request")
    return RequestHead(
        line[1].decode("ascii"), line[2], line[3], tuple(lines), headers=_parse_fields(lines)
    )


def parse_response_head(data: bytes) -> ResponseStart:
    """Parse a head; `data` is without the empty line at its end. Raises MessageError."""
    first, *lines = data.split(b"\r\n")
    line = _STATUS_LINE_RE.fullmatch(first)
    if line is None:
        raise MessageError("the first line is not one of an HTTP/1.1 response")
    return ResponseStart(int(line[1]), headers=_parse_fields(lines))


def _parse_fields(lines: list[bytes]) -> tuple[Header, ...]:
    fields = []
    for line in lines:
        field = _FIELD_RE.fullmatch(line)
        if field is None:
            raise MessageError("a header line is malformed")
        fields.append((field[1].decode("ascii"), field[2].decode("latin-1")))
    return tuple(fields)


class _FramingKind(Enum):
    LENGTH = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILERS = auto()
    UNTIL_CLOSE = auto()


class BodyFraming:
    """Finds the end of one body, in pieces of any size."""

    def __init__(self, kind: _FramingKind, length: int = 0) -> None:
        self._kind = kind
        self._left = length
        self._line = b""
        """The start of a line whose end has not arrived."""
        self.is_complete = kind is _FramingKind.LENGTH and not length

    @property
    def ends_with_connection(self) -> bool:
        return self._kind is _FramingKind.UNTIL_CLOSE

    def feed(self, data: bytes, content: list[bytes] | None = None) -> int:
        """Return how many bytes of `data` belong to the body. Its content, without chunk framing,
        is added to `content`. Raises MessageError."""
        at = 0
        while at < len(data) and not self.is_complete:
            match self._kind:
                case _FramingKind.UNTIL_CLOSE:
                    if content is not None:
                        content.append(data)
                    return len(data)
                case _FramingKind.LENGTH | _FramingKind.CHUNK_DATA:
                    at = self._take_counted(data, at, content)
                case _FramingKind.CHUNK_SIZE if not self._line:
                    at = self._take_chunks(data, at, content)
                case _:
                    at = self._take_line(data, at)
        return at

    def _take_counted(self, data: bytes, at: int, content: list[bytes] | None) -> int:
        end = min(at + self._left, len(data))
        if content is not None:
            content.append(data[at:end])
        self._left -= end - at
        if not self._left:
            if self._kind is _FramingKind.LENGTH:
                self.is_complete = True
            else:
                self._kind = _FramingKind.CHUNK_END
        return end

    def _take_chunks(self, data: bytes, at: int, content: list[bytes] | None) -> int:
        """Handle the common case, many small complete chunks, without a step for each part."""
        while (start := data.find(b"\r\n", at) + 2) >= 2:
            size = _CHUNK_SIZE_RE.fullmatch(data, at, start - 2)
            if size is None:
                break
            end = start + int(size[1], 16)
            if end == start or data[end : end + 2] != b"\r\n":
                break
            if content is not None:
                content.append(data[start:end])
            at = end + 2
        return self._take_line(data, at) if at < len(data) else at

    def _take_line(self, data: bytes, at: int) -> int:
        """Read the rest of a chunk framing line, as far as it has arrived."""
        found = data.find(b"\n", at)
        end = found + 1 or len(data)
        self._line += data[at:end]
        if len(self._line) > _MAX_LINE_BYTES:
            raise MessageError("a line between chunks is too long")
        if self._line.endswith(b"\n"):
            line, self._line = self._line, b""
            if not line.endswith(b"\r\n"):
                raise MessageError("a line between chunks ends without a carriage return")
            self._apply_line(line[:-2])
        return end

    def _apply_line(self, line: bytes) -> None:
        match self._kind:
            case _FramingKind.CHUNK_END:
                if line:
                    raise MessageError("a chunk is longer than its size")
                self._kind = _FramingKind.CHUNK_SIZE
            case _FramingKind.TRAILERS:
                self.is_complete = not line
            case _:
                size = _CHUNK_SIZE_RE.fullmatch(line)
                if size is None:
                    raise MessageError("the size of a chunk is not a number")
                self._left = int(size[1], 16)
                self._kind = _FramingKind.CHUNK_DATA if self._left else _FramingKind.TRAILERS


def find_request_framing(head: RequestHead) -> BodyFraming:
    """Find the framing. Raises MessageError if the end of the body is ambiguous."""
    codings = head.get_all("transfer-encoding")
    lengths = head.get_all("content-length")
    if codings:
        if lengths or [coding.strip().lower() for coding in codings] != ["chunked"]:
            raise MessageError("its body has an unknown transfer encoding, or two lengths")
        return BodyFraming(_FramingKind.CHUNK_SIZE)
    return BodyFraming(_FramingKind.LENGTH, _parse_length(lengths) if lengths else 0)


def find_response_framing(start: ResponseStart, method: str) -> BodyFraming:
    """Raises MessageError."""
    if method == "HEAD" or start.status in _BODILESS_STATUSES or start.status < 200:
        return BodyFraming(_FramingKind.LENGTH)
    codings = ",".join(start.get_all("transfer-encoding")).lower()
    if codings:
        is_chunked = codings.rpartition(",")[2].strip() == "chunked"
        return BodyFraming(_FramingKind.CHUNK_SIZE if is_chunked else _FramingKind.UNTIL_CLOSE)
    if lengths := start.get_all("content-length"):
        return BodyFraming(_FramingKind.LENGTH, _parse_length(lengths))
    return BodyFraming(_FramingKind.UNTIL_CLOSE)


def _parse_length(values: list[str]) -> int:
    lengths = {part.strip() for value in values for part in value.split(",")}
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit() and len(length) < 19):
        raise MessageError("its content length is not a number")
    return int(length)
