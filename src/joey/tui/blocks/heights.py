"""Heights of many things that stand one below the other: a Fenwick tree.

Growing the last, correcting any and finding what stands at a line all take logarithmic time.
"""

from __future__ import annotations

from collections.abc import Iterable


class Heights:
    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._each = list(heights)
        self._sums = [0, *self._each]
        """At each number, the sum of as many heights before it as its lowest bit says."""
        for number in range(1, len(self._sums)):
            above = number + (number & -number)
            if above < len(self._sums):
                self._sums[above] += self._sums[number]

    def __len__(self) -> int:
        return len(self._each)

    def __getitem__(self, place: int) -> int:
        return self._each[place]

    @property
    def total(self) -> int:
        return self.top(len(self._each))

    def append(self, height: int) -> None:
        number = len(self._sums)
        low = number & -number
        covered, part = height, 1
        while part < low:
            covered += self._sums[number - part]
            part <<= 1
        self._each.append(height)
        self._sums.append(covered)

    def put(self, place: int, height: int) -> None:
        more = height - self._each[place]
        if not more:
            return
        self._each[place] = height
        number = place + 1
        while number < len(self._sums):
            self._sums[number] += more
            number += number & -number

    def top(self, place: int) -> int:
        """The line in which it begins."""
        total = 0
        while place:
            total += self._sums[place]
            place &= place - 1
        return total

    def find(self, line: int) -> tuple[int, int]:
        """What stands at a line, and how far below its top the line is."""
        place, step = 0, 1 << len(self._sums).bit_length()
        while step:
            if place + step < len(self._sums) and self._sums[place + step] <= line:
                place += step
                line -= self._sums[place]
            step >>= 1
        return place, line
