"""The same call, or the same round of calls, again and again: a model that is stuck, stopped
before it wastes more."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

import msgspec

_MOST_IN_ROUND = 50
"""Calls of a round that are compared."""


class Verdict(Enum):
    """Whether a call may be made."""

    GO = auto()
    STOP = auto()
    """The same call had the same result too often."""
    STOP_AGAIN = auto()
    """It was stopped before, with that result."""


class Repetition:
    """Counts identical calls in a row that had the same result.

    With a limit of 3 the fourth one is stopped; then the count starts over. A limit of 0 or less
    allows everything.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unsettled: deque[tuple[str, bytes]] = deque()
        """Calls whose results are not known yet: their ids and fingerprints."""
        self._latest: tuple[bytes, bytes] | None = None
        """Fingerprints of the latest call with a result, and of that result."""
        self._count = 0
        """How often in a row it had that result."""
        self._stopped: set[tuple[bytes, bytes]] = set()

    def check(
        self, call_id: str, name: str, arguments: Mapping[str, Any], *, is_busy: bool
    ) -> Verdict:
        """Judge a call that is about to be made; `is_busy`: a background command is running."""
        if self._limit <= 0:
            return Verdict.GO
        call = _fingerprint(name, arguments)
        latest = self._latest
        if is_busy or latest is None or latest[0] != call or self._count < self._limit:
            self._unsettled.append((call_id, call))
            return Verdict.GO
        verdict = Verdict.STOP_AGAIN if latest in self._stopped else Verdict.STOP
        self._stopped.add(latest)
        self._count = 0
        return verdict

    def settle(self, result_of: Callable[[str], object | None], *, is_busy: bool) -> None:
        """Compare the results that are known by now, in the order of their calls."""
        while self._unsettled:
            call_id, call = self._unsettled[0]
            result = result_of(call_id)
            if result is None:
                return
            self._unsettled.popleft()
            latest = (call, _digest(result))
            if latest != self._latest:
                self._latest, self._count = latest, 1
            elif not is_busy:
                self._count += 1

    def forget_unsettled(self) -> None:
        """Drop the calls of a finished reply that never got a result."""
        self._unsettled.clear()


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
    return _digest((name, arguments))


def _digest(value: object) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=16).digest()
