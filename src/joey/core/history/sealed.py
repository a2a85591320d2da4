"""The part of a history that a summary has closed: kept, but packed small.

A task of thousands of turns is read in its last few and saved as a whole. What lies before the
latest summary cannot change any more, so it is held as compressed JSON until somebody looks.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
_LEVEL = 1


class Sealed(Generic[T]):
    """Elements of one type, in the order in which they were put in."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._chunks: list[bytes] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        """What is there now, whatever is added while it is read."""
        chunks = tuple(self._chunks)
        decode = self._decoder.decode
        return (element for chunk in chunks for element in decode(zlib.decompress(chunk)))

    def seal(self, elements: Sequence[T]) -> None:
        if elements:
            self._chunks.append(zlib.compress(msgspec.json.encode(elements), _LEVEL))
            self._count += len(elements)
