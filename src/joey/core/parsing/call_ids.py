"""Ids of calls: legal for every provider, and unique within the task (decision D16)."""

from __future__ import annotations

from collections.abc import Callable

from joey.core.regex import regex

_LEGAL = regex(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL = regex(r"[^A-Za-z0-9_-]")


class CallIds:
    def __init__(self, taken: Callable[[str], bool], make_id: Callable[[], str]) -> None:
        self._taken = taken
        self._make_id = make_id
        self._given: set[str] = set()

    def claim(self, wanted: str | None) -> str:
        """`wanted` if nothing speaks against it, else a new id."""
        if wanted is None or not _LEGAL.fullmatch(wanted) or self._is_taken(wanted):
            wanted = self._fresh()
        self._given.add(wanted)
        return wanted

    def _fresh(self) -> str:
        base = _ILLEGAL.sub("_", self._make_id())[:48] or "call"
        call_id, number = base, 1
        while self._is_taken(call_id):
            number += 1
            call_id = f"{base}_{number}"
        return call_id

    def _is_taken(self, call_id: str) -> bool:
        return call_id in self._given or self._taken(call_id)
