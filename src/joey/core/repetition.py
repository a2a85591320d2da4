"""The same call again and again: a model that is stuck, stopped before it wastes more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec


class Repetition:
    """Counts identical calls in a row; after it has said stop it starts anew."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._previous: bytes | None = None
        self._repeats = 0

    def repeats(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether this call, made now, repeats the one before more often than the limit allows.

        With a limit of 3 the fourth identical call is the first that does. A limit of 0 or less
        allows everything.
        """
        if self._limit <= 0:
            return False
        call = _fingerprint(name, arguments)
        self._repeats = self._repeats + 1 if call == self._previous else 0
        self._previous = call
        if self._repeats < self._limit:
            return False
        self._previous, self._repeats = None, 0
        return True


def _fingerprint(name: str, arguments: Mapping[str, Any]) -> bytes:
    canonical = msgspec.json.encode((name, arguments), order="sorted")
    return hashlib.blake2b(canonical, digest_size=16).digest()
