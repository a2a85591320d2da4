"""What programs and servers print: all of it at hand, the beginning and the end in sight."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from joey.presentation.text import sanitise
from joey.presentation.tool_calls import OUTPUT_HEAD, OUTPUT_TAIL
from joey.tui.blocks.pieces import CHUNK, Line, Piece, Verbatim, in_chunks
from joey.tui.blocks.spans import TAB, Spans

LONGEST_LINE = 4_000
KEPT = 5_000
"""Lines of the beginning and of the end that are at hand."""
MARGIN: Spans = (("  │ ", "muted"),)


def folded(lines: int, what: str = "more lines") -> Piece:
    noun = what.removesuffix("s") if lines == 1 else what
    return Line([(f"    … {lines} {noun} (Ctrl+O)", "muted")], 4)


def ended(text: str) -> str:
    """A text whose last line is whole."""
    return text if not text or text.endswith("\n") else f"{text}\n"


class Output:
    """Lines as they come; the first ones stay, of the rest the last ones are kept."""

    def __init__(self, text: str = "") -> None:
        self._unfinished = ""
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=KEPT)
        self._lost = 0
        self._chunks: list[Piece] = []
        if text:
            self.feed(text)

    @property
    def is_empty(self) -> bool:
        return not self._first and not self._unfinished

    def feed(self, text: str) -> None:
        rest, at = self._unfinished + text, 0
        while True:
            end = rest.find("\n", at, at + LONGEST_LINE + 1)
            if end >= 0:
                self._put(rest[at:end])
                at = end + 1
            elif len(rest) - at > LONGEST_LINE:
                self._put(rest[at : at + LONGEST_LINE])
                at += LONGEST_LINE
            else:
                self._unfinished = rest[at:]
                return

    def settled(self, *, whole: bool) -> Sequence[Piece]:
        if not whole:
            return [Verbatim([line], MARGIN) for line in self._first[:OUTPUT_HEAD]]
        full = len(self._first) // CHUNK
        while len(self._chunks) < full:
            start = len(self._chunks) * CHUNK
            self._chunks.append(Verbatim(self._first[start : start + CHUNK], MARGIN))
        return self._chunks

    def open(self, *, whole: bool) -> list[Piece]:
        last = [_clean(self._unfinished)] if self._unfinished else []
        if not whole:
            return self._folded(last)
        pieces = in_chunks(self._first[len(self._chunks) * CHUNK :], MARGIN)
        if self._lost:
            pieces.append(Line([(f"  … {self._lost} lines are left out …", "muted")], 4))
        return [*pieces, *in_chunks([*self._last, *last], MARGIN)]

    def _folded(self, last: list[str]) -> list[Piece]:
        rest = len(self._first) - OUTPUT_HEAD + self._lost + len(self._last) + len(last)
        if rest <= 0:
            return []
        tail = [*islice(reversed(self._last), OUTPUT_TAIL)][::-1]
        tail = [*self._first[max(OUTPUT_HEAD, len(self._first) - OUTPUT_TAIL) :], *tail, *last][
            -OUTPUT_TAIL:
        ]
        if len(self._first) < OUTPUT_HEAD:
            tail = last
        hidden = rest - len(tail)
        return [*([folded(hidden)] if hidden > 0 else []), Verbatim(tail, MARGIN)]

    def _put(self, line: str) -> None:
        line = _clean(line)
        if len(self._first) < KEPT:
            self._first.append(line)
            return
        self._lost += len(self._last) == KEPT
        self._last.append(line)


def _clean(line: str) -> str:
    return sanitise(line).expandtabs(TAB)
