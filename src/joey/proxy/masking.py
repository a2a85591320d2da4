"""Masking of secrets in headers, request targets and request bodies, before they are recorded.

The name of a header, parameter or field marks its value as a secret. Each byte of it becomes `*`,
so sizes and offsets stay. Bodies are masked while streaming, at any split, and no byte is held
back: the name of a field is known before its value begins.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Protocol
from urllib.parse import unquote_to_bytes

from joey.core.text import compile_regex
from joey.proxy.exchange import Header

_MASK = b"*"
_SECRET_NAMES = frozenset(
    """
    authorization proxyauthorization cookie setcookie key apikey xapikey xgoogapikey accesskey
    secretkey privatekey token authtoken accesstoken refreshtoken idtoken secret clientsecret
    password passwd
    """.split()  # noqa: SIM905 (easier to read than a literal)
)
"""Names of headers, parameters and fields that hold secrets, in lower case and without `-` and
`_`."""
_SECRET_HEADER_RE = compile_regex(r"(key|token|secret|password|authorization|cookie)$")
_PUBLIC_HEADERS = frozenset({"idempotencykey", "xidempotencykey", "secwebsocketkey"})
_MAX_NAME_BYTES = 600
_FIELD_RE = compile_regex(
    rb'(?<!\\)"((?:[A-Za-z_-]|\\u00[0-9A-Fa-f]{2}){3,100})"[ \t\r\n]*+:[ \t\r\n]*+"'
)
"""The name of a field, up to the quote that opens its value. In JSON, a quote that is not escaped
and is followed by a letter opens a string, so this matches names of fields and nothing else."""
_UNFINISHED_FIELD_RE = compile_regex(
    rb'(?<!\\)"(?:[A-Za-z_-]|\\u[0-9A-Fa-f]{0,4}|\\\Z)*+(?:"[ \t\r\n]*+(?::[ \t\r\n]*+)?)?\Z'
)
_STRING_REST_RE = compile_regex(rb'(?:[^"\\]|\\.)*+', re.DOTALL)
_ESCAPE_RE = compile_regex(r"\\u00([0-9A-Fa-f]{2})")
_MULTIPART_RE = compile_regex(
    r"\s*multipart/[\w.+-]+\s*;.*?\bboundary=\"?([^\";,]{1,200})", re.IGNORECASE
)
_PART_NAME_RE = compile_regex(rb"content-disposition:.*?\bname=\"?([^\";\r\n]*)", re.IGNORECASE)
_LINE_RE = compile_regex(rb"[^\n]*\n|[^\n]+")
_VALUE_RE = compile_regex(rb"[^\r\n]")
_SPACE_RE = compile_regex(rb"[ \t\r\n]+")


class BodyMasker(Protocol):
    """Masks one body, piece after piece."""

    def feed(self, data: bytes) -> bytes:
        """Return `data` with the bytes of secrets masked, at the same length."""


def is_secret_name(name: str) -> bool:
    return name.lower().replace("-", "").replace("_", "") in _SECRET_NAMES


def mask_headers(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    return tuple(
        (name, "*" * len(value) if _is_secret_header(name) else value) for name, value in headers
    )


def _is_secret_header(name: str) -> bool:
    bare = name.lower().replace("-", "").replace("_", "")
    return _SECRET_HEADER_RE.search(bare) is not None and bare not in _PUBLIC_HEADERS


def mask_target(target: bytes) -> bytes:
    """Mask the secret query parameters of a request target."""
    path, mark, query = target.partition(b"?")
    return path + mark + FormMasker().feed(query)


def make_body_masker(content_type: str) -> BodyMasker:
    """For a body of this type, or of JSON whatever its type: `curl -d` declares it a form."""
    if multipart := _MULTIPART_RE.match(content_type):
        return MultipartMasker(multipart[1].rstrip().encode("latin-1"))
    return JsonMasker(FormMasker() if "x-www-form-urlencoded" in content_type.lower() else None)


class FormMasker:
    """Masks values of `name=value&…`."""

    def __init__(self) -> None:
        self._name = b""
        self._is_value = False

    def feed(self, data: bytes) -> bytes:
        found = bytearray()
        for token in re.split(rb"([&;=])", data):
            if token in (b"&", b";"):
                self._name, self._is_value = b"", False
                found += token
            elif token == b"=" and not self._is_value:
                self._is_value = True
                found += token
            elif self._is_value:
                name = unquote_to_bytes(self._name).decode("latin-1").strip()
                found += _MASK * len(token) if is_secret_name(name) else token
            else:
                self._name = (self._name + token)[:_MAX_NAME_BYTES]
                found += token
        return bytes(found)


class MultipartMasker:
    """Parts of a body: lines of `--BOUNDARY`, header fields, an empty one, the content. The values
    of a form's secrets are masked, and those of secrets in JSON."""

    def __init__(self, boundary: bytes) -> None:
        self._ends = (b"--" + boundary, b"--" + boundary + b"--")
        self._line = b""
        """The start of the line whose end has not arrived."""
        self._field = b""
        """The part's header field before that line."""
        self._is_head = self._is_secret = False
        self._json = JsonMasker()

    def feed(self, data: bytes) -> bytes:
        return b"".join(map(self._feed_line, _LINE_RE.findall(data)))

    def _feed_line(self, piece: bytes) -> bytes:
        """Process the rest of a line, or a part of it."""
        line = self._line + piece
        is_whole = piece.endswith(b"\n")
        self._line = b"" if is_whole else line[:_MAX_NAME_BYTES]
        bare = line.rstrip()
        if is_whole and bare in self._ends:
            self._is_head, self._is_secret = True, False
            self._field, self._json = b"", JsonMasker()
        elif self._is_head:
            if is_whole:
                self._apply_head_line(bare)
        elif not bare or not any(end.startswith(bare) for end in self._ends):
            return _VALUE_RE.sub(_MASK, piece) if self._is_secret else self._json.feed(piece)
        return piece

    def _apply_head_line(self, line: bytes) -> None:
        """`line` may continue the field before it."""
        self._is_head = bool(line)
        self._field = self._field + line if line[:1].isspace() else line
        if name := _PART_NAME_RE.match(self._field):
            self._is_secret = is_secret_name(name[1].decode("latin-1"))


class _JsonState(Enum):
    START = auto()
    OUTSIDE = auto()
    """True while inside a secret value."""
    VALUE = auto()
    VALUE_ESCAPE = auto()
    """True after a backslash in a secret value."""
    NOT_JSON = auto()


class JsonMasker:
    """String values of fields at any depth of an object or array."""

    def __init__(self, other: BodyMasker | None = None) -> None:
        """`other` masks bodies that are not JSON; without it they stay as they are."""
        self._other = other
        self._state = _JsonState.START
        self._context = b""
        """The end of the input so far: a field's name whose value may begin in the next piece."""

    def feed(self, data: bytes) -> bytes:
        if self._state is _JsonState.START:
            opening = data.lstrip(b" \t\r\n\xef\xbb\xbf")[:1]
            if not opening:
                return data
            is_json = opening in b"{["
            self._state = _JsonState.OUTSIDE if is_json else _JsonState.NOT_JSON
        if self._state is _JsonState.NOT_JSON:
            return self._other.feed(data) if self._other is not None else data
        found: list[bytes] = []
        at = 0
        while at < len(data):
            if self._state is _JsonState.OUTSIDE:
                end = self._find_secret(data, at)
                found.append(data[at:end])
            else:
                end = self._find_value_end(data, at)
                found.append(_MASK * (end - at))
            at = end
        return b"".join(found)

    def _find_secret(self, data: bytes, at: int) -> int:
        """Find where the next secret value begins in `data`."""
        before = len(self._context)
        text = self._context + data[at:] if before or at else data
        for field in _FIELD_RE.finditer(text):
            name = _ESCAPE_RE.sub(lambda code: chr(int(code[1], 16)), field[1].decode("ascii"))
            if is_secret_name(name) and field.end() > before:
                self._state = _JsonState.VALUE
                self._context = b""
                return at + field.end() - before
        unfinished = _UNFINISHED_FIELD_RE.search(text)
        self._context = self._keep_context(text, unfinished.start() if unfinished else len(text))
        return len(data)

    def _keep_context(self, text: bytes, start: int) -> bytes:
        """Keep the text that decides whether a later value is a secret: from `start` on, it may be
        a name."""
        kept = text[max(start - 1, 0) :]
        if len(kept) > _MAX_NAME_BYTES:
            kept = _SPACE_RE.sub(b"", kept)
        if start < len(text) and len(kept) <= 2 * _MAX_NAME_BYTES:
            return kept
        # Longer than any name of a secret, or none: only a backslash, which escapes a quote after
        # it, still counts. A quote at the end is an escaped one, and must not seem to open a name.
        return b"\\" if text.endswith(b"\\") else b"x"

    def _find_value_end(self, data: bytes, at: int) -> int:
        """Find where the bytes of a secret value end in `data`."""
        if self._state is _JsonState.VALUE_ESCAPE:
            at += 1
        rest = _STRING_REST_RE.match(data, at)
        end = rest.end() if rest else at
        if end == len(data):
            self._state = _JsonState.VALUE
        elif data[end] == 0x5C:
            self._state = _JsonState.VALUE_ESCAPE
            end += 1
        else:
            self._state = _JsonState.OUTSIDE
        return end
