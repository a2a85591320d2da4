"""Text that is selected with the mouse in a widget that draws lines."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

MARGIN = 1
"""The column left of the text, which is nobody's."""


def highlighted(strip: Strip, span: tuple[int, int] | None, style: Style) -> Strip:
    """The strip with its characters from the first to before the second in this style."""
    if span is None:
        return strip
    start, end = span
    text = strip.text
    left = cell_len(text[:start])
    right = strip.cell_length if end < 0 else cell_len(text[:end])
    if left >= right:
        return strip
    inner = strip.crop(left, right)
    marked = Strip(
        [segment._replace(style=(segment.style or Style.null()) + style) for segment in inner]
    )
    return Strip.join([strip.crop(0, left), marked, strip.crop(right, strip.cell_length)])


def selected_text(selection: Selection, first: int, lines: Iterable[Strip]) -> str:
    """What a selection holds of lines, of which the first has this number."""
    texts: list[str] = []
    for number, line in enumerate(lines, first):
        if (span := selection.get_span(number)) is not None:
            start, end = span
            text = line.text
            texts.append(text[max(start, MARGIN) : len(text) if end < 0 else end].rstrip())
    return "\n".join(texts)
