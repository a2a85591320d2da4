"""Rows by their `ts`, the old ones packed away."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from joey.core.history.sealed import Sealed

R = TypeVar("R")


class RowShelf(Generic[R]):
    """Rows of one type, and plain objects that were taken over from somebody else's history.

    What has been sealed is brought back as soon as one of its rows is asked for by name: that
    happens when a person looks at something old, and when it does there is no hurry.
    """

    def __init__(self, kind: type[R]) -> None:
        self._kind = kind
        self._at_hand: dict[int, R | dict[str, Any]] = {}
        self._sealed = Sealed(kind)
        self._until = 0

    def get(self, ts: int) -> R | dict[str, Any] | None:
        self._reach(ts)
        return self._at_hand.get(ts)

    def put(self, ts: int, row: R | dict[str, Any]) -> bool:
        """Whether there was one of this name before."""
        self._reach(ts)
        known = ts in self._at_hand
        self._at_hand[ts] = row
        return known

    def __iter__(self) -> Iterator[R | dict[str, Any]]:
        """All of them, in the order of their `ts`, as they are when it is begun."""
        at_hand = [self._at_hand[ts] for ts in sorted(self._at_hand)]
        if not len(self._sealed):
            return iter(at_hand)
        return heapq.merge(iter(self._sealed), at_hand, key=_ts)

    def seal(self, before: int) -> None:
        """Rows older than that are not expected to change."""
        old = [ts for ts, row in self._at_hand.items() if ts < before and self._is_ours(row)]
        self._sealed.seal([self._at_hand.pop(ts) for ts in sorted(old)])  # type: ignore[misc]
        self._until = max(self._until, *old) if old else self._until

    def _is_ours(self, row: R | dict[str, Any]) -> bool:
        return isinstance(row, self._kind)

    def _reach(self, ts: int) -> None:
        if ts > self._until or ts in self._at_hand:
            return
        self._at_hand |= {_ts(row): row for row in self._sealed}
        self._sealed = Sealed(self._kind)
        self._until = 0


def _ts(row: Any) -> int:
    return int(row["ts"] if isinstance(row, dict) else row.ts)
