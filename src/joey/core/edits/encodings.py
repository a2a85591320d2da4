"""Encodings of text files, lossless for everything that is not edited.

UTF-8 is assumed; invalid bytes are represented as lone surrogates and become the same bytes again.
UTF-16 is recognised by its byte order mark. A file with a NUL character is not text.
"""

from __future__ import annotations

from msgspec import Struct

_SNIFF_LENGTH = 8192


class Encoding(Struct, frozen=True):
    name: str
    byte_order_mark: bytes = b""
    errors: str = "strict"

    def decode(self, data: bytes) -> str:
        return data[len(self.byte_order_mark) :].decode(self.name, self.errors)

    def encode(self, text: str) -> bytes:
        """Encode text. Raises UnicodeEncodeError if the encoding cannot represent it."""
        return self.byte_order_mark + text.encode(self.name, self.errors)


UTF_8 = Encoding("utf-8", errors="surrogateescape")
_UTF_8_WITH_BOM = Encoding("utf-8", b"\xef\xbb\xbf", "surrogateescape")
_UTF_16_ENCODINGS = (Encoding("utf-16-le", b"\xff\xfe"), Encoding("utf-16-be", b"\xfe\xff"))


def detect_encoding(data: bytes) -> Encoding | None:
    """Detect the encoding of a file; None if it is not text."""
    for encoding in _UTF_16_ENCODINGS:
        if data.startswith(encoding.byte_order_mark):
            try:
                return None if "\0" in encoding.decode(data)[:_SNIFF_LENGTH] else encoding
            except UnicodeDecodeError:
                return None
    if b"\0" in data[:_SNIFF_LENGTH]:
        return None
    return _UTF_8_WITH_BOM if data.startswith(_UTF_8_WITH_BOM.byte_order_mark) else UTF_8
