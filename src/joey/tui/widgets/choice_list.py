"""A list widget with one marked line: arrow keys move, Enter, a digit or a click selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
"""Of the width, when there are descriptions beside the labels."""


class ChoiceLine(Struct, frozen=True):
    label: str
    description: str = ""
    is_current: bool = False


class ChoiceList(Widget):
    """A list that draws only visible lines, and is never focused: its owner passes keys on to
    it."""

    DEFAULT_CSS = """
    ChoiceList { height: auto; }
    """
    cursor_index: reactive[int] = reactive(0)

    @dataclass
    class Selected(Message):
        sender: ChoiceList
        index: int
        pressed_at: float | None = None
        """When the mouse button went down, by the monotonic clock; None for a key."""

    def __init__(
        self, lines: Sequence[ChoiceLine] = (), *, numbered: bool = False, max_lines: int = 12
    ) -> None:
        super().__init__()
        self.lines = list(lines)
        self._has_digits = numbered
        self._max_lines = max_lines
        self._title: str | None = None
        """A line above the others."""
        self._first_visible_row = 0
        self._mouse_press: tuple[int, float] | None = None
        """The row on which the mouse button went down, and when."""

    def set_lines(self, lines: Sequence[ChoiceLine], title: str | None = None) -> None:
        before = len(self.lines), self._title is None
        self.lines = list(lines)
        self._title = title
        self.cursor_index = 0
        self._scroll_to_cursor()
        self.refresh(layout=before != (len(lines), title is None))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # Most of a small terminal is left to the conversation.
        max_height = max(3, min(self._max_lines, viewport.height // 2 - 2))
        return min(max_height, max(1, self._title_height + len(self.lines)))

    def move_cursor(self, steps: int) -> None:
        if not self.lines:
            return
        step = self.cursor_index + steps
        if abs(steps) == 1:
            step %= len(self.lines)
        self.cursor_index = max(0, min(step, len(self.lines) - 1))

    def watch_cursor_index(self) -> None:
        self._scroll_to_cursor()

    def _scroll_to_cursor(self) -> None:
        visible_count = max(1, self._visible_line_count or min(self._max_lines, len(self.lines)))
        self._first_visible_row = min(
            self._first_visible_row, max(0, len(self.lines) - visible_count)
        )
        if self.cursor_index < self._first_visible_row:
            self._first_visible_row = self.cursor_index
        elif self.cursor_index >= self._first_visible_row + visible_count:
            self._first_visible_row = self.cursor_index - visible_count + 1

    def on_resize(self) -> None:
        self._scroll_to_cursor()
        self.refresh()

    def select_current(self) -> None:
        if self.lines:
            self.post_message(self.Selected(self, self.cursor_index))

    def process_key(self, key: str) -> bool:
        """Process a key; return whether the list uses it."""
        if key in MOVE_STEPS_BY_KEY:
            self.move_cursor(MOVE_STEPS_BY_KEY[key])
        elif key == "enter":
            self.select_current()
        elif (row := self.find_row_by_digit(key)) is not None:
            self.cursor_index = row
            self.select_current()
        else:
            return False
        return True

    def find_row_by_digit(self, key: str) -> int | None:
        if not self._has_digits or not key.isdecimal():
            return None
        row = int(key) - 1
        return row if 0 <= row < len(self.lines) else None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._mouse_press = self._find_row_under_mouse(event), event.time

    def on_click(self, event: events.Click) -> None:
        """Select the row, unless the mouse was dragged there, which selects text."""
        row = self._find_row_under_mouse(event)
        if self._mouse_press is None or event.button != LEFT_BUTTON or row >= len(self.lines):
            return
        pressed_row, pressed_at = self._mouse_press
        if row == pressed_row:
            self.post_message(self.Selected(self, row, pressed_at))

    def _find_row_under_mouse(self, event: events.MouseEvent) -> int:
        y = event.get_content_offset_capture(self).y - self._title_height
        is_on_line = 0 <= y < self._visible_line_count
        return self._first_visible_row + y if is_on_line else len(self.lines)

    def render(self) -> Text:
        width = max(10, self.size.width)
        title = self._title
        rows = [] if title is None else [Text(_truncate_to_width(title, width), "bold dim")]
        rows += self._render_lines(width)
        return Text("\n", no_wrap=True).join(rows)

    def _render_lines(self, width: int) -> list[Text]:
        if not self.lines:
            return [] if self._title_height else [Text("nothing fits", "dim")]
        shown = range(
            self._first_visible_row,
            min(len(self.lines), self._first_visible_row + max(1, self._visible_line_count)),
        )
        lead = max(cell_len(self._format_label(row)) for row in shown)
        if any(self.lines[row].description for row in shown):
            lead = min(lead, int(width * MAX_LABEL_SHARE))
        rows = [self._render_row(row, lead, width) for row in shown]
        if len(shown) < len(self.lines):
            above, below = shown.start, len(self.lines) - shown.stop
            parts = (f"{above} more above" if above else "", f"{below} more below" if below else "")
            hidden = f"{' ' * len(CURSOR_MARK)}… {', '.join(filter(None, parts))}"
            rows.append(Text(hidden[:width], "dim"))
        return rows

    @property
    def _title_height(self) -> int:
        return 0 if self._title is None else 1

    @property
    def _visible_line_count(self) -> int:
        """The number of visible lines; if not all fit, the last line shows how many more there
        are."""
        height = self.size.height - self._title_height
        return height if len(self.lines) <= height or height < 2 else height - 1

    def _format_label(self, row: int) -> str:
        number = f"{row + 1} " if self._has_digits else ""
        current = " ✓" if self.lines[row].is_current else ""
        return f"{number}{self.lines[row].label}{current}"

    def _render_row(self, row: int, lead: int, width: int) -> Text:
        is_marked = row == self.cursor_index
        about = self.lines[row].description
        label = _truncate_to_width(
            self._format_label(row), lead if about else width - len(CURSOR_MARK)
        )
        style = "bold cyan" if is_marked else ""
        text = Text(no_wrap=True)
        text.append(CURSOR_MARK if is_marked else " " * len(CURSOR_MARK), style).append(
            label, style
        )
        description_width = width - len(CURSOR_MARK) - lead - COLUMN_GAP
        if about and description_width > 8:
            text.append(" " * (lead - cell_len(label) + COLUMN_GAP))
            text.append(_truncate_to_width(about, description_width), "dim")
        return text


def _truncate_to_width(text: str, width: int) -> str:
    """At most `width` cells of it."""
    if cell_len(text) <= width:
        return text
    return f"{set_cell_size(text, max(1, width - 1)).rstrip()}…"
