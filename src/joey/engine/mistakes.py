"""How often in a row things went wrong, and when that is enough to ask a person."""

from __future__ import annotations

from joey.core.repetition import Repetition, Rounds


class Mistakes:
    """Counters of one run. A limit of 0 never asks."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.replies_without_tool = 0
        self.repetition = Repetition(limit)
        self.rounds = Rounds(limit)

    @property
    def too_many(self) -> bool:
        return 0 < self.limit <= self.count

    def made_one(self) -> None:
        self.count += 1

    def forgive(self) -> None:
        self.count = 0

    def used_a_tool(self) -> None:
        self.replies_without_tool = 0

    def used_no_tool(self) -> bool:
        """Whether this is worth telling: the first time is passed over in silence."""
        self.replies_without_tool += 1
        if self.replies_without_tool < 2:
            return False
        self.made_one()
        return True
