"""The same call, or the same round of calls, again and again: a model that is stuck, stopped
before it wastes more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

_MOST_IN_ROUND = 50
"""Calls of a round that are compared."""


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


class Rounds:
    """Counts rounds in a row that are alike: the calls between one summary and the next.

    How far a round gets depends on the length of the summary, so rounds are alike when one begins
    like the whole other. A limit of 0 or less allows everything.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._summary: str | None = None
        self._before: list[bytes] | None = None
        self._calls: list[bytes] = []
        self._alike = 0

    @property
    def too_many(self) -> bool:
        return 0 < self._limit <= self._alike

    def forgive(self) -> None:
        self._alike = 0

    def called(self, name: str, arguments: Mapping[str, Any]) -> None:
        if self._limit > 0 and len(self._calls) < _MOST_IN_ROUND:
            self._calls.append(_fingerprint(name, arguments))

    def after(self, summary: str | None) -> None:
        """What comes now is said after this summary; a round ends when it is a new one."""
        if summary == self._summary:
            return
        if self._before is not None:
            common = min(len(self._before), len(self._calls))
            is_alike = self._before[:common] == self._calls[:common]
            self._alike = self._alike + 1 if is_alike else 0
        self._summary, self._before, self._calls = summary, self._calls or self._before, []


def _fingerprint(name: str, arguments: Mapping[str, Any]) -> bytes:
    canonical = msgspec.json.encode((name, arguments), order="sorted")
    return hashlib.blake2b(canonical, digest_size=16).digest()
