"""The durable records of a task: the latest in memory, all of them in its journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from joey.core.events import Record

KEPT = 1024
"""Records that are at hand; twice as many before the older half is let go."""


class Records:
    """A task that has worked for days weighs no more than one that has just begun: whoever wants
    to know of long ago has it read again."""

    def __init__(
        self, read: Callable[[], Sequence[Record]], records: Sequence[Record] = ()
    ) -> None:
        """`read` gives all records that were ever appended."""
        self._read = read
        self._latest = list(records[-KEPT:])
        self._all: Sequence[Record] | None = None
        """What was read, until there is more: who goes back asks more than once."""

    @property
    def seq(self) -> int:
        """The number of the last one."""
        return self._latest[-1].seq if self._latest else 0

    def append(self, record: Record) -> None:
        self._all = None
        self._latest.append(record)
        if len(self._latest) > 2 * KEPT:
            del self._latest[:-KEPT]

    def after(self, seq: int) -> Sequence[Record]:
        """Those with a higher number than `seq`."""
        first = self._latest[0].seq if self._latest else 1
        if seq + 1 >= first:
            return self._latest[seq + 1 - first :]
        if self._all is None:
            self._all = self._read()
        return [record for record in self._all if record.seq > seq]
