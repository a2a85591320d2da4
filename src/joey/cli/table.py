"""Columns of text that fit a terminal: cells that are too long end with an ellipsis.

Room is taken from the widest columns first, so that short facts stay whole beside long titles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from joey.presentation.text import cells

GAP = "  "
_LEAST = 6
"""Cells below which a column is of no use."""


def table(
    rows: Sequence[Sequence[str]], width: int | None, firm: Collection[int] = ()
) -> list[str]:
    """One line for each row. Columns in `firm` are not cut; None is a width without end."""
    sizes = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        _shrink(sizes, width, firm)
    lines = (_line(row, sizes) for row in rows)
    return [line if width is None else clip(line, width) for line in lines]


def _shrink(sizes: list[int], width: int, firm: Collection[int]) -> None:
    soft = [number for number in range(len(sizes)) if number not in firm]
    while sum(sizes) + len(GAP) * (len(sizes) - 1) > width:
        widest = max(soft, key=lambda number: sizes[number], default=None)
        if widest is None or sizes[widest] <= _LEAST:
            return
        sizes[widest] -= 1


def _line(row: Sequence[str], sizes: Sequence[int]) -> str:
    clipped = [clip(text, size) for text, size in zip(row, sizes, strict=True)]
    padded = (text + " " * (size - cells(text)) for text, size in zip(clipped, sizes, strict=True))
    return GAP.join(padded).rstrip()


def clip(text: str, room: int) -> str:
    """The text within so many cells, with an ellipsis where something is left out."""
    if cells(text) <= room:
        return text
    while text and cells(text) > room - 1:
        text = text[:-1]
    return f"{text}…"
