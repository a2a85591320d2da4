"""Endless repetition at the end of a text that streams in.

Small models can get stuck repeating the same lines. That is told apart from legitimate repetition
(a table, a matrix of zeros, encoded data) only by its amount, with a higher limit for code blocks.
The cost of a piece depends on its own length.
"""

from __future__ import annotations

_MAX_PERIOD_CHARS = 800
_MIN_REPEATED_CHARS = 8_000
_MIN_REPEATED_CODE_CHARS = 32_000
_CHARS_PER_CHECK = 500
"""Checks depend on the text, not on the pieces that it arrives in."""
_FENCE = "```"


class RepetitionDetector:
    def __init__(self) -> None:
        self.period = 0
        """Characters after which the end of the text repeats itself; 0 if it does not."""
        self._tail = ""
        self._unchecked = ""
        self._has_open_fence = False

    def feed(self, text: str) -> None:
        text, start = self._unchecked + text, 0
        while len(checked := text[start : start + _CHARS_PER_CHECK]) == _CHARS_PER_CHECK:
            start += _CHARS_PER_CHECK
            fences = (self._tail[1 - len(_FENCE) :] + checked).count(_FENCE)
            self._has_open_fence ^= fences % 2 == 1
            self._tail = (self._tail + checked)[-_MIN_REPEATED_CODE_CHARS:]
            self.period = self._find_period()
        self._unchecked = text[start:]

    def _find_period(self) -> int:
        size = _MIN_REPEATED_CODE_CHARS if self._has_open_fence else _MIN_REPEATED_CHARS
        if len(self._tail) < size:
            return 0
        tail = self._tail[-size:]
        # The end of a periodic text last occurs one period earlier, if it is twice as long as the
        # period.
        end = tail[-2 * _MAX_PERIOD_CHARS :]
        found = tail.rfind(end, -len(end) - _MAX_PERIOD_CHARS, -1)
        period = size - len(end) - found
        return period if found >= 0 and tail[period:] == tail[:-period] else 0


def cut_repetition(text: str, period: int) -> str:
    """Cut repetitions at the end of a text, except for the first."""
    start = len(text) - period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return text[: start + period]
