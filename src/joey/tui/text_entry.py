"""The composer's text: a text area with readline's keys, in which marks are one thing each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import ClassVar

from msgspec import Struct
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.document._document import EditResult, Location
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from joey.tui import drafts

_BLANK_WORD = re.compile(r"\S+\s*$")


class Mark(Struct, frozen=True):
    """Where one stands."""

    row: int
    start: int
    end: int
    text: str


class TextEntry(TextArea, inherit_bindings=False):
    DEFAULT_CSS = """
    TextEntry {
        width: 1fr;
        height: auto;
        max-height: 33vh;
        border: none;
        padding: 0;
        background: transparent;
        scrollbar-size-vertical: 1;
        &:focus { border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "cursor_left", show=False),
        Binding("right,ctrl+f", "cursor_right", show=False),
        Binding("ctrl+left,alt+left,alt+b", "cursor_word_left", show=False),
        Binding("ctrl+right,alt+right,alt+f", "cursor_word_right", show=False),
        Binding("home,ctrl+a", "cursor_line_start", show=False),
        Binding("end,ctrl+e", "cursor_line_end", show=False),
        Binding("shift+left", "cursor_left(True)", show=False),
        Binding("shift+right", "cursor_right(True)", show=False),
        Binding("shift+up", "cursor_up(True)", show=False),
        Binding("shift+down", "cursor_down(True)", show=False),
        Binding("shift+home", "cursor_line_start(True)", show=False),
        Binding("shift+end", "cursor_line_end(True)", show=False),
        Binding("ctrl+shift+left", "cursor_word_left(True)", show=False),
        Binding("ctrl+shift+right", "cursor_word_right(True)", show=False),
        Binding("backspace,ctrl+h,shift+backspace", "delete_left", show=False),
        Binding("delete", "delete_right", show=False),
        Binding("ctrl+w", "kill_blank_word", show=False),
        Binding("alt+backspace,ctrl+backspace", "kill_word_left", show=False),
        Binding("alt+d,ctrl+delete,alt+delete", "kill_word_right", show=False),
        Binding("ctrl+k", "kill_to_end", show=False),
        Binding("ctrl+u", "kill_to_start", show=False),
        Binding("ctrl+y", "yank", show=False),
        Binding("ctrl+underscore,ctrl+shift+minus,ctrl+slash,super+z", "undo", show=False),
        Binding("alt+underscore,super+shift+z", "redo", show=False),
        Binding("ctrl+shift+c,super+c", "copy", show=False),
        Binding("ctrl+j,shift+enter,alt+enter,ctrl+enter", "new_line", show=False),
    ]

    KEYS = frozenset(
        key
        for binding in BINDINGS
        if isinstance(binding, Binding)
        for key in binding.key.split(",")
    )

    class Pasted(Message):
        """Something came from the terminal or its clipboard."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, intercept: Callable[[str, str | None], bool]) -> None:
        """`intercept` is asked first about every key; True: it is done with it."""
        super().__init__(highlight_cursor_line=False)
        self._intercept = intercept
        self.cursor_blink = False
        self.match_cursor_bracket = False
        self._killed = ""

    # What is in it

    @property
    def is_empty(self) -> bool:
        return self.document.line_count == 1 and not self.document[0]

    @property
    def before(self) -> str:
        """What stands before the cursor in its line."""
        row, column = self.cursor_location
        return self.document[row][:column]

    def write(self, text: str) -> None:
        """As if it had been typed, or pasted."""
        result = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def rewrite(self, text: str, *, to_first_line: bool = False) -> None:
        """Put something else into the place of all; undoing brings it back."""
        self.history.checkpoint()
        self.replace(text, self.document.start, self.document.end)
        self.history.checkpoint()
        self.move_cursor((0, len(self.document[0])) if to_first_line else self.document.end)

    def marks(self) -> Iterator[Mark]:
        for row, line in enumerate(self.document.lines):
            yield from (Mark(row, *span, line[slice(*span)]) for span in drafts.marks(line))

    def mark_before(self) -> Mark | None:
        """The one that ends at the cursor."""
        row, column = self.cursor_location
        line = self.document[row]
        spans = (span for span in drafts.marks(line) if span[1] == column)
        return next((Mark(row, *span, line[slice(*span)]) for span in spans), None)

    def write_over(self, mark: Mark, text: str) -> None:
        result = self.replace(text, (mark.row, mark.start), (mark.row, mark.end))
        self.move_cursor(result.end_location)

    def is_at_first_line(self) -> bool:
        return self.navigator.is_first_wrapped_line(self.cursor_location)

    def is_at_last_line(self) -> bool:
        return self.navigator.is_last_wrapped_line(self.cursor_location)

    # Marks are one thing each: the cursor jumps over them, and they are deleted whole

    def validate_selection(self, selection: Selection) -> Selection:
        was = self.selection.end
        start, end = (self._outside(place, place < was) for place in selection)
        return Selection(start, end)

    def _outside(self, place: Location, leftwards: bool) -> Location:
        row, column = place
        for start, end in drafts.marks(self.document[row]):
            if start < column < end:
                return row, start if leftwards else end
        return place

    def replace(
        self,
        insert: str,
        start: Location,
        end: Location,
        *,
        maintain_selection_offset: bool = True,
    ) -> EditResult:
        top, bottom = self._whole_marks(start, end)
        return super().replace(
            insert, top, bottom, maintain_selection_offset=maintain_selection_offset
        )

    def delete(
        self, start: Location, end: Location, *, maintain_selection_offset: bool = True
    ) -> EditResult:
        top, bottom = self._whole_marks(start, end)
        return super().delete(top, bottom, maintain_selection_offset=maintain_selection_offset)

    def _whole_marks(self, start: Location, end: Location) -> tuple[Location, Location]:
        top, bottom = sorted((start, end))
        return self._outside(top, leftwards=True), self._outside(bottom, leftwards=False)

    def get_line(self, line_index: int) -> Text:
        line = self.document.get_line(line_index)
        if line.isprintable():
            return Text(line, end="", no_wrap=True)
        text = Text(drafts.visible(line), end="", no_wrap=True)
        for start, end in drafts.marks(line):
            text.stylize(Style(italic=True, bold=True), start, end)
        for place in drafts.unseen_places(line):
            text.stylize(Style(reverse=True), place, place + 1)
        return text

    # Keys

    async def on_key(self, event: events.Key) -> None:
        if self._intercept(event.key, event.character):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self.post_message(self.Pasted(event.text))

    def action_new_line(self) -> None:
        self.write("\n")

    def action_copy(self) -> None:
        if self.selected_text:
            self.app.copy_to_clipboard(drafts.released(drafts.visible(self.selected_text)))

    def action_kill_to_end(self) -> None:
        row, column = self.cursor_location
        at_end = column == len(self.document[row])
        self._kill((row + 1, 0) if at_end else (row, len(self.document[row])))

    def action_kill_to_start(self) -> None:
        row, column = self.cursor_location
        joins = column == 0 and row > 0
        self._kill((row - 1, len(self.document[row - 1])) if joins else (row, 0))

    def action_kill_word_left(self) -> None:
        self._kill(self.get_cursor_word_left_location())

    def action_kill_word_right(self) -> None:
        self._kill(self.get_cursor_word_right_location())

    def action_kill_blank_word(self) -> None:
        row, column = self.cursor_location
        if self.mark_before() is not None:
            self._kill((row, column - 1))
        elif match := _BLANK_WORD.search(self.before):
            self._kill((row, match.start()))
        elif self.before:
            self._kill((row, 0))
        else:
            self._kill(self.get_cursor_left_location())

    def action_yank(self) -> None:
        if self._killed:
            self.write(self._killed)

    def _kill(self, to: Location) -> None:
        """Delete up to there, or what is selected, and keep it for Ctrl+Y."""
        start, end = self.selection
        if start == end:
            end = to
        result = self.delete(start, end, maintain_selection_offset=False)
        if result.replaced_text:
            self._killed = result.replaced_text
