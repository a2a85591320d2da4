"""The composer's text area, with readline keys and marks that behave like one character.

Keys act at once and not through bindings: Textual looks bindings up only when a key has bubbled
up to the app, and the letters that follow would be inserted before. `CachedTextDocument` and
`CachedHeightDocument` cache what Textual would compute again for every painted line.

Many terminals send escape and return for Shift+Enter. Textual would take that for two keys when
more input follows, and the second would send half a message: see `register_new_line_sequences`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct
from rich.style import Style
from rich.text import Text
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.geometry import Offset
from textual.keys import Keys
from textual.widgets import TextArea
from textual.widgets.text_area import (
    Document,
    DocumentNavigator,
    EditResult,
    Location,
    Selection,
    WrappedDocument,
)

from joey.tui.widgets import draft

_LAST_WORD_RE = re.compile(r"\S+\s*$")


MOVE_ACTIONS = {
    "left": "cursor_left",
    "right": "cursor_right",
    "ctrl+f": "cursor_right",
    "ctrl+left": "cursor_word_left",
    "alt+left": "cursor_word_left",
    "alt+b": "cursor_word_left",
    "ctrl+right": "cursor_word_right",
    "alt+right": "cursor_word_right",
    "alt+f": "cursor_word_right",
    "home": "cursor_line_start",
    "ctrl+a": "cursor_line_start",
    "end": "cursor_line_end",
    "ctrl+e": "cursor_line_end",
}
LINE_EDGE_KEYS = ("home", "end")
"""Left to whoever is around while nothing is written: there is nowhere to go in it."""
SELECT_ACTIONS = {
    "shift+left": "cursor_left",
    "shift+right": "cursor_right",
    "shift+up": "cursor_up",
    "shift+down": "cursor_down",
    "shift+home": "cursor_line_start",
    "shift+end": "cursor_line_end",
    "ctrl+shift+left": "cursor_word_left",
    "ctrl+shift+right": "cursor_word_right",
}
EDIT_ACTIONS = {
    "backspace": "delete_left",
    "shift+backspace": "delete_left",
    "ctrl+h": "delete_left",
    "delete": "delete_right",
    "ctrl+w": "kill_back_to_whitespace",
    "alt+backspace": "kill_word_left",
    "ctrl+backspace": "kill_word_left",
    "alt+d": "kill_word_right",
    "alt+delete": "kill_word_right",
    "ctrl+delete": "kill_word_right",
    "ctrl+k": "kill_to_end",
    "ctrl+u": "kill_to_start",
    "ctrl+y": "yank",
    "ctrl+underscore": "undo",
    "ctrl+slash": "undo",
    "super+z": "undo",
    "alt+underscore": "redo",
    "super+shift+z": "redo",
    "super+c": "copy",
    "ctrl+shift+c": "copy",
    "ctrl+j": "new_line",
    "shift+enter": "new_line",
    "alt+enter": "new_line",
    "ctrl+enter": "new_line",
}


class DraftMark(Struct, frozen=True):
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

    def __init__(
        self, intercept_key: Callable[[str, str | None], bool], handle_paste: Callable[[str], None]
    ) -> None:
        """`intercept_key` is called first for every key; True means that it is consumed."""
        super().__init__(highlight_cursor_line=False)
        self._key_interceptor = intercept_key
        self._paste_handler = handle_paste
        self.cursor_blink = False
        self._killed_text = ""

    def _set_document(self, text: str, language: str | None) -> None:
        super()._set_document("", language)
        self.document = CachedTextDocument(text)
        self.wrapped_document = CachedHeightDocument(self.document, tab_width=self.indent_width)
        self.navigator = DocumentNavigator(self.wrapped_document)
        self._rewrap_and_refresh_virtual_size()

    def find_matching_bracket(self, bracket: str, search_from: Location) -> None:
        """Do nothing: brackets are not highlighted, and searching for them takes time."""

    # Content

    @property
    def is_empty(self) -> bool:
        return self.document.line_count == 1 and not self.document[0]

    @property
    def text_before_cursor(self) -> str:
        """The text before the cursor in its line."""
        row, column = self.cursor_location
        return self.document[row][:column]

    def insert_text(self, text: str) -> None:
        """Insert text as if it had been typed or pasted."""
        result = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def replace_all_text(self, text: str, *, to_first_line: bool = False) -> None:
        """Replace all text; undo restores it."""
        self.history.checkpoint()
        self.replace(text, self.document.start, self.document.end)
        self.history.checkpoint()
        self.move_cursor((0, len(self.document[0])) if to_first_line else self.document.end)

    def iter_marks(self) -> Iterator[DraftMark]:
        for row, line in enumerate(self.document.lines):
            for start, end in draft.find_mark_spans(line):
                yield DraftMark(row, start, end, line[start:end])

    def find_mark_before_cursor(self) -> DraftMark | None:
        """Find the mark that ends at the cursor."""
        at = self.cursor_location
        return next((mark for mark in self.iter_marks() if (mark.row, mark.end) == at), None)

    def replace_mark(self, mark: DraftMark, text: str) -> None:
        result = self.replace(text, (mark.row, mark.start), (mark.row, mark.end))
        self.move_cursor(result.end_location)

    def is_at_first_line(self) -> bool:
        return self.navigator.is_first_wrapped_line(self.cursor_location)

    def is_at_last_line(self) -> bool:
        return self.navigator.is_last_wrapped_line(self.cursor_location)

    # Marks are one thing each: the cursor jumps over them, and they are deleted whole

    def validate_selection(self, selection: Selection) -> Selection:
        was = self.selection.end
        start, end = (self._move_outside_mark(location, location < was) for location in selection)
        return Selection(start, end)

    def _move_outside_mark(self, location: Location, leftwards: bool) -> Location:
        row, column = location
        for start, end in draft.find_mark_spans(self.document[row]):
            if start < column < end:
                return row, start if leftwards else end
        return location

    def replace(
        self,
        insert: str,
        start: Location,
        end: Location,
        *,
        maintain_selection_offset: bool = True,
    ) -> EditResult:
        span = self._expand_to_marks(start, end)
        return super().replace(insert, *span, maintain_selection_offset=maintain_selection_offset)

    def delete(
        self, start: Location, end: Location, *, maintain_selection_offset: bool = True
    ) -> EditResult:
        span = self._expand_to_marks(start, end)
        return super().delete(*span, maintain_selection_offset=maintain_selection_offset)

    def _expand_to_marks(self, start: Location, end: Location) -> tuple[Location, Location]:
        top, bottom = sorted((start, end))
        return self._move_outside_mark(top, leftwards=True), self._move_outside_mark(
            bottom, leftwards=False
        )

    def get_line(self, line_index: int) -> Text:
        line = self.document.get_line(line_index)
        if line.isprintable():
            return Text(line, end="", no_wrap=True)
        text = Text(draft.to_visible_text(line), end="", no_wrap=True)
        for start, end in draft.find_mark_spans(line):
            text.stylize(Style(italic=True, bold=True), start, end)
        for offset in draft.find_invisible_character_offsets(line):
            text.stylize(Style(reverse=True), offset, offset + 1)
        return text

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        # An undo changes the text first: the cursor may still be in a deleted line.
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center, animate)

    # Keys

    async def on_key(self, event: events.Key) -> None:
        # So textual names Enter with another key where xterm's protocol spells it.
        key = "ctrl+j" if event.key.endswith("\r") else event.key
        if self._key_interceptor(key, event.character):
            pass
        elif key in MOVE_ACTIONS and not (self.is_empty and key in LINE_EDGE_KEYS):
            getattr(self, f"action_{MOVE_ACTIONS[key]}")()
        elif key in SELECT_ACTIONS:
            getattr(self, f"action_{SELECT_ACTIONS[key]}")(select=True)
        elif key in EDIT_ACTIONS:
            getattr(self, f"action_{EDIT_ACTIONS[key]}")()
        else:
            if key.startswith(("ctrl+", "super+")):
                event.prevent_default()  # some terminals tell the letter too; it is not typed
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self._paste_handler(event.text)

    def action_new_line(self) -> None:
        self.insert_text("\n")

    def action_copy(self) -> None:
        if self.selected_text:
            self.app.copy_to_clipboard(
                draft.decode_draft_text(draft.to_visible_text(self.selected_text))
            )

    def action_kill_to_end(self) -> None:
        row, column = self.cursor_location
        end = len(self.document[row])
        joins = column == end and row + 1 < self.document.line_count
        self._kill_to((row + 1, 0) if joins else (row, end))

    def action_kill_to_start(self) -> None:
        row, column = self.cursor_location
        joins = column == 0 and row > 0
        self._kill_to((row - 1, len(self.document[row - 1])) if joins else (row, 0))

    def action_kill_word_left(self) -> None:
        self._kill_to(self.get_cursor_word_left_location())

    def action_kill_word_right(self) -> None:
        self._kill_to(self.get_cursor_word_right_location())

    def action_kill_back_to_whitespace(self) -> None:
        row, column = self.cursor_location
        if self.find_mark_before_cursor() is not None:
            self._kill_to((row, column - 1))
        elif match := _LAST_WORD_RE.search(self.text_before_cursor):
            self._kill_to((row, match.start()))
        elif self.text_before_cursor:
            self._kill_to((row, 0))
        else:
            self._kill_to(self.get_cursor_left_location())

    def action_yank(self) -> None:
        if self._killed_text:
            self.insert_text(self._killed_text)

    def _kill_to(self, to: Location) -> None:
        """Delete up to there, or the selection, and keep it for Ctrl+Y."""
        start, end = self.selection
        if start == end:
            end = to
        result = self.delete(start, end, maintain_selection_offset=False)
        if result.replaced_text:
            self._killed_text = result.replaced_text


class CachedTextDocument(Document):
    """Builds the whole text once per change."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._cached_text: str | None = None

    @property
    def text(self) -> str:
        if self._cached_text is None:
            self._cached_text = super().text
        return self._cached_text

    def replace_range(self, start: Location, end: Location, text: str) -> EditResult:
        self._cached_text = None
        return super().replace_range(start, end, text)


class CachedHeightDocument(WrappedDocument):
    @property
    def height(self) -> int:
        return len(self._offset_to_line_info)


_NEW_LINE_SEQUENCES = ("\x1b\r", "\x1b\n")


def register_new_line_sequences() -> None:
    """Register each of them as a single key, Ctrl+J."""
    assert isinstance(ANSI_SEQUENCES_KEYS, dict)
    ANSI_SEQUENCES_KEYS.update(dict.fromkeys(_NEW_LINE_SEQUENCES, (Keys.ControlJ,)))
