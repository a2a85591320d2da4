"""A list widget with one marked line: arrow keys move, Enter, a digit or a click selects."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

MOVE_STEPS_BY_KEY = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1, "pageup": -8, "pagedown": 8}
CURSOR_MARK = "› "
COLUMN_GAP = 2
LEFT_BUTTON = 1
MAX_LABEL_SHARE = 0.6
"""Of the width, where something stands beside the labels."""


class ChoiceLine(Struct, frozen=True):
    label: str
    about: str = ""
    is_current: bool = False
    number: int | None = None
    """The digit that takes it, when that is not its place in the list."""


class ChoiceList(Widget):
    """Costs as much as the lines that are seen, however many there are.

    It is never in focus: whoever shows it hands on the keys that are meant for it.
    """

    DEFAULT_CSS = """
    ChoiceList { height: auto; }
    """
    at: reactive[int] = reactive(0)

    class Taken(Message):
        def __init__(
            self, sender: ChoiceList, number: int, pressed_at: float | None = None
        ) -> None:
            super().__init__()
            self.sender = sender
            self.number = number
            self.pressed_at = pressed_at
            """When the mouse button went down, by the monotonic clock; None for a key."""

        @property
        def control(self) -> ChoiceList:
            return self.sender

    def __init__(
        self, lines: Sequence[ChoiceLine] = (), *, numbered: bool = False, most: int = 12
    ) -> None:
        super().__init__()
        self._lines = list(lines)
        self._numbered = numbered
        self._most = most
        self._top = 0
        self._pressed: tuple[int, float] | None = None
        """The row on which the mouse button went down, and when."""

    @property
    def lines(self) -> Sequence[ChoiceLine]:
        return self._lines

    def show(self, lines: Sequence[ChoiceLine], at: int = 0) -> None:
        before = len(self._lines)
        self._lines = list(lines)
        self.at = max(0, min(at, len(lines) - 1))
        self._scroll()
        self.refresh(layout=before != len(lines))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(self._room(viewport), max(1, len(self._lines)))

    def _room(self, viewport: Size) -> int:
        """Most of a small terminal belongs to the conversation still."""
        return max(3, min(self._most, viewport.height // 2 - 2))

    def move(self, by: int) -> None:
        if not self._lines:
            return
        step = self.at + by
        if abs(by) == 1:
            step %= len(self._lines)
        self.at = max(0, min(step, len(self._lines) - 1))

    def watch_at(self) -> None:
        self._scroll()

    def _scroll(self) -> None:
        room = max(1, self._seen or min(self._most, len(self._lines)))
        self._top = min(self._top, max(0, len(self._lines) - room))
        if self.at < self._top:
            self._top = self.at
        elif self.at >= self._top + room:
            self._top = self.at - room + 1

    def on_resize(self) -> None:
        self._scroll()
        self.refresh()

    def take(self) -> None:
        if self._lines:
            self.post_message(self.Taken(self, self.at))

    def knows(self, key: str) -> bool:
        """Whether it is a digit that takes one of the lines."""
        return self._row_of(key) is not None

    def process_key(self, key: str) -> bool:
        """Whether the key was one for lists."""
        if key in MOVE_STEPS_BY_KEY:
            self.move(MOVE_STEPS_BY_KEY[key])
        elif key == "enter":
            self.take()
        elif (row := self._row_of(key)) is not None:
            self.at = row
            self.take()
        else:
            return False
        return True

    def _row_of(self, key: str) -> int | None:
        if not self._numbered or not key.isdecimal():
            return None
        rows = range(len(self._lines))
        return next((row for row in rows if self._number(row) == int(key)), None)

    def _number(self, row: int) -> int:
        return self._lines[row].number or row + 1

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed = self._row_under(event), event.time

    def on_click(self, event: events.Click) -> None:
        """Take the row, unless the mouse was dragged there from another: that selects text."""
        row = self._row_under(event)
        if self._pressed is None or event.button != LEFT_BUTTON or row >= len(self._lines):
            return
        pressed_row, pressed_at = self._pressed
        if row == pressed_row:
            self.post_message(self.Taken(self, row, pressed_at))

    def _row_under(self, event: events.MouseEvent) -> int:
        return self._row_at(event.get_content_offset_capture(self).y)

    def _row_at(self, y: int) -> int:
        return self._top + y if y < self._seen else len(self._lines)

    def render(self) -> Text:
        if not self._lines:
            return Text("nothing fits", "dim")
        width = max(10, self.size.width)
        shown = range(self._top, min(len(self._lines), self._top + max(1, self._seen)))
        lead = self._label_width(shown, width)
        drawn = [self._drawn(row, lead, width) for row in shown]
        if self._seen < self.size.height:
            drawn.append(Text(left_out(shown, len(self._lines))[:width], "dim"))
        return Text("\n", no_wrap=True).join(drawn)

    @property
    def _seen(self) -> int:
        """Lines there is room for: where not for all, the last line tells of the others."""
        height = self.size.height
        return height if len(self._lines) <= height or height < 2 else height - 1

    def _label_width(self, shown: range, width: int) -> int:
        """Of the column of labels, so that what stands beside them is aligned."""
        widest = max(cell_len(self._label(row)) for row in shown)
        if not any(self._lines[row].about for row in shown):
            return widest
        return min(widest, int(width * MAX_LABEL_SHARE))

    def _label(self, row: int) -> str:
        number = f"{self._number(row)} " if self._numbered else ""
        current = " ✓" if self._lines[row].is_current else ""
        return f"{number}{self._lines[row].label}{current}"

    def _drawn(self, row: int, lead: int, width: int) -> Text:
        is_marked = row == self.at
        about = self._lines[row].about
        label = _fit(self._label(row), lead if about else width - len(CURSOR_MARK))
        style = "bold cyan" if is_marked else ""
        text = Text(no_wrap=True)
        text.append(CURSOR_MARK if is_marked else " " * len(CURSOR_MARK), style).append(
            label, style
        )
        room = width - len(CURSOR_MARK) - lead - COLUMN_GAP
        if about and room > 8:
            text.append(" " * (lead - cell_len(label) + COLUMN_GAP))
            text.append(_fit(about, room), "dim")
        return text


def left_out(shown: range, count: int) -> str:
    """Which of the lines are not among those in sight."""
    above, below = shown.start, count - shown.stop
    parts = (f"{above} more above" if above else "", f"{below} more below" if below else "")
    return f"{' ' * len(CURSOR_MARK)}… {', '.join(filter(None, parts))}"


def _fit(text: str, width: int) -> str:
    """At most `width` cells of it."""
    if cell_len(text) <= width:
        return text
    return f"{set_cell_size(text, max(1, width - 1)).rstrip()}…"
