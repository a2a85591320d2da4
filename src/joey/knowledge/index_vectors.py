"""Vectors of passages, compared without a numerical library.

Multiplying twenty thousand vectors of 1,536 numbers takes Python more than a second. So the first
choice is made by the signs of the numbers alone, as one long integer for each vector: how many
signs two vectors share is the number of zero bits in an exclusive or, which takes a tenth of a
microsecond. Only the few hundred that share most are multiplied.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from operator import mul

CHOSEN = 250
"""Vectors that are compared number by number."""
_FLOAT = "f"

# Python 3.12 has it in C, and five times as fast.
_dot: Callable[[Iterable[float], Iterable[float]], float] = getattr(
    math, "sumprod", lambda left, right: sum(map(mul, left, right))
)


def pack(values: Sequence[float]) -> tuple[bytes, bytes]:
    """A vector of length 1 in the direction of `values`: its signs, and its numbers as float32.

    One without a direction is like nothing: all zero.
    """
    length = math.sqrt(_dot(values, values))
    if not math.isfinite(length) or length == 0:
        values, length = [0.0] * len(values), 1.0
    bits = "".join("1" if value > 0 else "0" for value in values)
    signs = int(bits, 2).to_bytes((len(bits) + 7) // 8, "big")
    return signs, array(_FLOAT, (value / length for value in values)).tobytes()


def most_alike(signs: bytes, others: Iterable[tuple[int, bytes]]) -> list[int]:
    """The keys of those `others` that share the most signs."""
    wanted = int.from_bytes(signs, "big")
    apart = (((int.from_bytes(bits, "big") ^ wanted).bit_count(), key) for key, bits in others)
    return [key for _, key in nsmallest(CHOSEN, apart)]


def cosines(vector: bytes, others: Iterable[tuple[int, bytes]]) -> dict[int, float]:
    """How alike they are, by key: 1 for the same direction, 0 for nothing in common or less.

    Those of another dimension cannot be compared, and are left out.
    """
    wanted = array(_FLOAT, vector)
    return {
        key: min(1.0, max(0.0, _dot(wanted, array(_FLOAT, values))))
        for key, values in others
        if len(values) == len(vector)
    }
