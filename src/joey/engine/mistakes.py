"""How often in a row the model went wrong, and when that is enough to warn it or to stop."""

from __future__ import annotations

from collections.abc import Sequence

from joey.core.repetition import Repetition, Rounds

UNATTENDED_LIMIT = 10
"""Mistakes in a row that are allowed at least where no user can help the model."""


class Mistakes:
    """Counters of one run. A mistake is a reply that achieved nothing; a limit of 0 allows any
    number of them."""

    def __init__(self, limit: int, *, is_unattended: bool) -> None:
        raised = is_unattended and limit > 0
        self.limit = max(limit, UNATTENDED_LIMIT) if raised else limit
        self.count = 0
        self.errors: tuple[str, ...] = ()
        """What went wrong in the latest of them."""
        self.plain_replies: list[str] = []
        """The texts of the latest replies in a row that made no call."""
        self.repetition = Repetition(limit)
        self.rounds = Rounds(limit)
        self._warns = raised

    @property
    def too_many(self) -> bool:
        return 0 < self.limit <= self.count

    @property
    def warning_due(self) -> bool:
        """Half way to the limit, and once more before the last mistake that is allowed."""
        return self._warns and self.count in (self.limit // 2, self.limit - 1)

    def made_one(self, errors: Sequence[str]) -> None:
        self.count += 1
        self.errors = tuple(errors)

    def forgive(self) -> None:
        self.count = 0
