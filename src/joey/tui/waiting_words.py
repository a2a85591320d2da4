"""Words that were sent while joey works: they wait for its next step, and can be taken back."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widget import Widget

from joey.presentation.text import one_line
from joey.tui.host import Waiting

MOST = 3
SOME = 10
"""Columns of the words beside which the hint has to fit."""
READ = "  (Up takes it back)"
SENT_BY_HAND = "  (Enter sends, Up takes it back)"


class WaitingWords(Widget):
    DEFAULT_CSS = """
    WaitingWords { height: auto; padding: 0 1; display: none; }
    WaitingWords.wanted { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._words: tuple[Waiting, ...] = ()
        self._is_read = True

    def tell(self, words: Sequence[Waiting], *, is_read: bool) -> None:
        """`is_read`: joey is at work, and will come to them by itself."""
        if (tuple(words), is_read) != (self._words, self._is_read):
            self._words, self._is_read = tuple(words), is_read
            self.set_class(bool(words), "wanted")
            self.refresh(layout=True)

    @property
    def last(self) -> Waiting | None:
        return self._words[-1] if self._words else None

    def render(self) -> Text:
        hint = READ if self._is_read else SENT_BY_HAND
        lines = [Text(f"↳ {one_line(each.text, 300)}") for each in self._words[-MOST:]]
        if lines:
            lines[-1].truncate(max(SOME, self.size.width - len(hint)), overflow="ellipsis")
            lines[-1].append(hint)
        if len(self._words) > MOST:
            lines.insert(0, Text(f"… {len(self._words) - MOST} more wait"))
        text = Text("\n", "dim", no_wrap=True, overflow="ellipsis")
        return text.join(lines)
