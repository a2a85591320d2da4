"""The last line: who works where, how full its window is, what it has cost, what it is doing."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text
from textual.timer import Timer
from textual.widget import Widget

from joey.core.event_base import TokenUsage
from joey.display.sanitise import one_line
from joey.tui.doings import RUNNING
from joey.tui.host import Standing

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
BEAT = 0.12
SEPARATOR = " · "
FULL = 80
"""Per cent of the window from which its share is worth a look."""


class Part(Struct, frozen=True):
    text: str
    style: str = ""
    worth: int = 0
    """Parts of little worth go first when there is no room."""
    short: str = ""
    """What stands for it before it goes altogether."""


class StatusLine(Widget):
    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._standing: Standing | None = None
        self._usage = TokenUsage()
        self._hint = ""
        self._doing = ""
        self._is_timed = True
        self._began = 0.0
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        self._timer = self.set_interval(BEAT, self.refresh, pause=True)

    def tell(self, standing: Standing, usage: TokenUsage) -> None:
        if (standing, usage) != (self._standing, self._usage):
            self._standing, self._usage = standing, usage
            self.refresh()

    def hint(self, text: str) -> None:
        """Something said in place of the usual, until it is taken back with nothing."""
        if text != self._hint:
            self._hint = text
            self.refresh()

    @property
    def doing(self) -> str:
        return self._doing

    @property
    def is_working(self) -> bool:
        return bool(self._doing)

    def work(self, doing: str, *, is_timed: bool = True) -> None:
        """What goes on, from now on; nothing: it rests, or waits for the person. What tells a time
        itself is not timed."""
        self._is_timed = is_timed
        if bool(doing) != bool(self._doing):
            self._began = monotonic()
        self._doing = doing
        if self._timer is not None:
            self._timer.resume() if doing else self._timer.pause()
        self.refresh()

    def render(self) -> Text:
        width = self.size.width
        if self._hint:
            return Text(self._hint, "yellow", no_wrap=True, overflow="ellipsis")
        parts = list(self._parts())
        if self._doing:
            seconds = f" {int(monotonic() - self._began)}s" if self._is_timed else ""
            frame = FRAMES[int(monotonic() / BEAT) % len(FRAMES)]
            working = f"{frame} {self._doing}{seconds}"
            keys = "Esc stops, Ctrl+B leaves it running" if self._doing == RUNNING else "Esc stops"
            parts.insert(0, Part(f"{working}, {keys}", "cyan", 9, short=working))
        return fitted(parts, width)

    def _parts(self) -> Iterator[Part]:
        standing = self._standing
        if standing is None:
            return
        yield Part(one_line(standing.mode, 24), "bold", 7)
        if standing.background:
            count = standing.background
            yield Part(f"{count} in the background", "cyan", 8, short=f"{count} behind")
        model = one_line(standing.model, 40)
        yield Part(model, "", 6, short=model.rpartition("/")[2][:18])
        folder = one_line(standing.folder, 60)
        yield Part(folder, "dim", 1, short=folder.rpartition("/")[2][:20])
        if standing.branch:
            yield Part(f"⎇ {one_line(standing.branch, 30)}", "dim", 2)
        if standing.window and self._usage.context_tokens:
            share = round(100 * self._usage.context_tokens / standing.window)
            style = "yellow" if share >= FULL else "dim"
            yield Part(f"{share}% context", style, 5, short=f"{share}%")
        if self._usage.total_cost:
            yield Part(f"${self._usage.total_cost:.2f}", "dim", 4)
        if standing.permissions:
            style = "yellow" if standing.permissions == "allows everything" else "dim"
            yield Part(standing.permissions, style, 3)
        if standing.sandbox:
            yield Part(standing.sandbox, "dim", 0)


def fitted(parts: list[Part], width: int) -> Text:
    """As many of the parts as there is room for: first some are said shorter, then they go."""
    shown = list(parts)
    while shown and _width(shown) > width:
        least = min(shown, key=lambda part: (not part.short, part.worth))
        at = shown.index(least)
        if least.short and least.short != least.text:
            shown[at] = Part(least.short, least.style, least.worth)
        else:
            least = min(shown, key=lambda part: part.worth)
            shown.remove(least)
    line = Text(no_wrap=True, overflow="ellipsis")
    for number, part in enumerate(shown):
        if number:
            line.append(SEPARATOR, "dim")
        line.append(part.text, part.style)
    return line


def _width(parts: list[Part]) -> int:
    return sum(cell_len(part.text) for part in parts) + len(SEPARATOR) * (len(parts) - 1)
