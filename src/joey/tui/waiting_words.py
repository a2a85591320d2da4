"""Words that were sent while joey works: they wait for its next step, and can be taken back."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widget import Widget

from joey.display.sanitise import one_line
from joey.tui.host import Waiting

MOST = 3


class WaitingWords(Widget):
    DEFAULT_CSS = """
    WaitingWords { height: auto; padding: 0 1; display: none; }
    WaitingWords.wanted { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._words: tuple[Waiting, ...] = ()

    def tell(self, words: Sequence[Waiting]) -> None:
        if tuple(words) != self._words:
            self._words = tuple(words)
            self.set_class(bool(words), "wanted")
            self.refresh(layout=True)

    @property
    def last(self) -> Waiting | None:
        return self._words[-1] if self._words else None

    def render(self) -> Text:
        text = Text("", "dim", no_wrap=True, overflow="ellipsis")
        if len(self._words) > MOST:
            text.append(f"… {len(self._words) - MOST} more wait\n")
        lines = [f"↳ {one_line(each.text, 300)}" for each in self._words[-MOST:]]
        text.append("\n".join(lines))
        return text.append("  (Up takes it back)")
