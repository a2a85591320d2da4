"""The composer: the user's text, with completion, prompt history, pastes and images.

Nothing that was typed is lost: the draft comes back after browsing the history, after a message
was refused (`restore_sent`), after Ctrl+C (by undo), and after a question took the composer's
place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static, TextArea

from joey.client.images import MAX_IMAGES, ImageError, load_image_data_uri
from joey.presentation.text import to_one_line
from joey.tui.app_services import CompletionSource
from joey.tui.widgets.completion import Completer, CompletionList, CompletionRequest
from joey.tui.widgets.draft import (
    Attachments,
    Draft,
    can_edit_inline,
    decode_draft_text,
    encode_draft_text,
    should_fold_paste,
)
from joey.tui.widgets.external_editor import EditorError, edit_externally
from joey.tui.widgets.pasted_images import parse_dropped_image_paths, read_clipboard_image
from joey.tui.widgets.prompt_history import HistoryBrowser, HistorySearch, PromptHistory
from joey.tui.widgets.text_area import (
    EDIT_ACTIONS,
    MOVE_ACTIONS,
    DraftMark,
    TextEntry,
    register_new_line_sequences,
)

_UNFOLD_HINT = "Tab behind the mark, or pasting it again, shows it whole"


class Composer(Widget):
    DEFAULT_CSS = """
    Composer {
        height: auto;
        border-top: solid $foreground 30%;
        border-bottom: solid $foreground 30%;
        & > Horizontal { height: auto; }
        & .composer--mark { width: 2; color: $primary; text-style: bold; }
        & .composer--hint { height: auto; display: none; color: $text-muted; padding: 0 0 0 2; }
        & .composer--hint.-said { display: block; }
    }
    Composer.-shell {
        border-top: solid $warning;
        border-bottom: solid $warning;
        & .composer--mark { color: $warning; }
    }
    """

    @dataclass
    class Submitted(Message):
        """A submitted message, with pasted texts in place; images are data URIs."""

        text: str
        images: tuple[str, ...]

    @dataclass
    class ShellSubmitted(Message):
        """A submitted line that began with `!`, without it."""

        command: str

    class ExitRequested(Message):
        """Ctrl+D in an empty composer."""

    class KeyHelpRequested(Message):
        """`?` in an empty composer."""

    placeholder: reactive[str] = reactive("")
    shell_mode: reactive[bool] = reactive(False)

    def __init__(
        self, completion_source: CompletionSource, history: PromptHistory, *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._history = history
        self._history_browser = HistoryBrowser(history)
        self._attachments = Attachments()
        self._last_sent_draft: Draft | None = None
        self._is_ctrl_x_pending = False
        """Ctrl+X was the latest key."""
        self._completion_list = CompletionList()
        self._prompt_mark = Static("›", classes="composer--mark", markup=False)
        self._text_entry = TextEntry(self._intercept_key, self._handle_paste)
        self._hint_label = Static("", classes="composer--hint", markup=False)
        self._completer = Completer(
            completion_source, self._completion_list, self._text_entry, self._find_files
        )
        self._history_search = HistorySearch(history, self._completion_list)

    def compose(self) -> ComposeResult:
        yield self._completion_list
        with Horizontal():
            yield self._prompt_mark
            yield self._text_entry
        yield self._hint_label

    def on_mount(self) -> None:
        register_new_line_sequences()

    def focus(self, scroll_visible: bool = True) -> Composer:
        self._text_entry.focus(scroll_visible)
        return self

    # Text

    @property
    def is_empty(self) -> bool:
        return self._text_entry.is_empty and not self.shell_mode

    @property
    def draft(self) -> Draft:
        return self._attachments.build_draft(self._text_entry.text, shell=self.shell_mode)

    def set_text(self, text: str) -> None:
        """Set the text to continue with, such as a message taken back by a rewind."""
        self._history_browser = HistoryBrowser(self._history)
        self._replace_text(self._fold_if_too_long(encode_draft_text(text)), shell=False)

    def clear(self) -> None:
        self.set_text("")

    def restore_sent(self) -> None:
        """Restore the last message, which could not be sent, before any text typed since."""
        if self._last_sent_draft is None:
            return
        sent, since = self._last_sent_draft, self._text_entry.text
        text = self._attachments.adopt_draft(sent)
        self._replace_text(f"{text}\n{since}" if since else text, shell=sent.is_shell_command)
        self._last_sent_draft = None

    def show_hint(self, hint: str) -> None:
        """Show a hint below the text, until the next key."""
        self._hint_label.update(to_one_line(hint, 400))
        self._hint_label.set_class(bool(hint), "-said")

    def _fold_if_too_long(self, text: str) -> str:
        return text if can_edit_inline(text) else self._attachments.fold_paste(text)

    def _load_draft(self, draft: Draft, *, to_first_line: bool = False) -> None:
        self._replace_text(
            self._attachments.adopt_draft(draft),
            shell=draft.is_shell_command,
            to_first_line=to_first_line,
        )

    def _replace_text(self, text: str, *, shell: bool, to_first_line: bool = False) -> None:
        self.shell_mode = shell
        self._history_search.cancel()
        self._text_entry.replace_all_text(text, to_first_line=to_first_line)
        self._completer.dismiss(is_text_loaded=True)

    def _submit(self) -> None:
        draft = self.draft
        text = decode_draft_text(self._attachments.unfold_pastes(draft.text))
        if not text.strip():
            return
        images = self._attachments.list_images(draft.text)
        self._history.add(draft)
        self._last_sent_draft = draft
        self._attachments, self._history_browser = Attachments(), HistoryBrowser(self._history)
        self._text_entry.load_text("")
        self.shell_mode = False
        self._completer.dismiss()
        self.show_hint(self._history.storage_error)
        self.post_message(
            self.ShellSubmitted(text) if draft.is_shell_command else self.Submitted(text, images)
        )

    def watch_placeholder(self, placeholder: str) -> None:
        self._text_entry.placeholder = Content(placeholder)

    def watch_shell_mode(self, shell: bool) -> None:
        self.set_class(shell, "-shell")
        self._prompt_mark.update("!" if shell else "›")

    # Keys

    def _intercept_key(self, key: str, character: str | None) -> bool:
        """Handle a key before the text does; True if it is consumed."""
        if self._hint_label.has_class("-said"):
            self.show_hint("")
        if self._is_ctrl_x_pending:
            self._is_ctrl_x_pending = False
            if key == "ctrl+e":
                self._edit_externally()
            return True
        if self._history_search.is_active:
            return self._handle_search_key(key, character)
        self._completer.update_choices(shell=self.shell_mode)
        if self._completion_list.is_open and self._completer.handle_key(key):
            return True
        return self._handle_key_while_empty(key) or self._handle_editing_key(key)

    def _handle_key_while_empty(self, key: str) -> bool:
        """Handle keys with a meaning in an empty composer."""
        if not self._text_entry.is_empty:
            return False
        match key:
            case "exclamation_mark" if not self.shell_mode:
                self.shell_mode = True
            case "backspace" | "ctrl+h" | "escape" if self.shell_mode:
                self.shell_mode = False
            case "question_mark" if not self.shell_mode:
                self.post_message(self.KeyHelpRequested())
            case "ctrl+d":
                self.post_message(self.ExitRequested())
            case _:
                return False
        return True

    def _handle_editing_key(self, key: str) -> bool:
        match key:
            case "enter" if self._text_entry.text_before_cursor.endswith("\\"):
                self._text_entry.action_delete_left()
                self._text_entry.action_new_line()
            case "enter":
                self._submit()
            case "up" | "ctrl+p" if not self._text_entry.is_at_first_line():
                self._text_entry.action_cursor_up()
            case "up" | "ctrl+p":
                self._browse_history(1)
            case "down" | "ctrl+n" if not self._text_entry.is_at_last_line():
                self._text_entry.action_cursor_down()
            case "down" | "ctrl+n":
                self._browse_history(-1)
            case "tab":
                if (mark := self._text_entry.find_mark_before_cursor()) is not None:
                    self._unfold_mark(mark)
            case "ctrl+d":
                self._text_entry.action_delete_right()
            case "ctrl+r":
                self._completer.dismiss()
                self._history_search.start()
            case "ctrl+v" | "alt+v":
                self._paste_clipboard_image()
            case "ctrl+g":
                self._edit_externally()
            case "ctrl+x":
                self._is_ctrl_x_pending = True
            case _:
                return False
        return True

    def _handle_search_key(self, key: str, character: str | None) -> bool:
        """Handle a key in the search; keys that move the cursor or change the text first accept the
        match."""
        if self._history_search.handle_key(key, character):
            return True
        match key:
            case "escape" | "ctrl+g":
                self._history_search.cancel()
            case "enter" | "tab":
                self._accept_search_result()
            case _ if key in MOVE_ACTIONS or key in EDIT_ACTIONS:
                self._accept_search_result()
                return False
            case _:
                return False
        return True

    def on_choice_list_selected(self, event: CompletionList.Selected) -> None:
        event.stop()
        self._completion_list.cursor_index = event.index
        if self._history_search.is_active:
            self._accept_search_result()
        else:
            self._completer.handle_key("tab")

    def _browse_history(self, steps: int) -> None:
        if (draft := self._history_browser.move(self.draft, steps)) is not None:
            self._load_draft(draft, to_first_line=steps > 0)

    def _accept_search_result(self) -> None:
        if (found := self._history_search.accept()) is not None:
            self._load_draft(found)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._completer.update_choices(shell=self.shell_mode)

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._completer.update_choices(shell=self.shell_mode)

    @work(group="files", exclusive=True)
    async def _find_files(self, request: CompletionRequest) -> None:
        if key := await self._completer.show_matching_files(request):
            self._handle_editing_key(key)

    # Pastes

    def _handle_paste(self, pasted: str) -> None:
        self.show_hint("")
        text = encode_draft_text(pasted)
        marks = self._text_entry.iter_marks()
        if self._history_search.is_active:
            self._history_search.append_to_query(text)
        elif paths := parse_dropped_image_paths(pasted):
            self._attach_image_files(paths, text)
        elif not should_fold_paste(text):
            self._text_entry.insert_text(text)
        elif known := [mark for mark in marks if self._attachments.find_paste(mark.text) == text]:
            self._unfold_mark(known[0])
        else:
            self._text_entry.insert_text(self._attachments.fold_paste(text))
            self.show_hint(_UNFOLD_HINT)

    def _unfold_mark(self, mark: DraftMark) -> None:
        text = self._attachments.find_paste(mark.text)
        if text is not None and can_edit_inline(text):
            self._text_entry.replace_mark(mark, text)
        elif text is not None:
            self.show_hint("this is too long to be shown here; Ctrl+G opens it in your editor")

    # Images

    def _attach_image_files(self, paths: list[Path], text: str) -> None:
        """Attach images; if one cannot be sent, insert the text instead."""
        try:
            images = [load_image_data_uri(str(path)) for path in paths]
        except ImageError as error:
            self._text_entry.insert_text(text)
            self.show_hint(str(error))
        else:
            self._insert_images(images)

    def _insert_images(self, images: list[str]) -> None:
        there = len(self._attachments.list_images(self._text_entry.text))
        if there + len(images) > MAX_IMAGES:
            self.show_hint(f"at most {MAX_IMAGES} images can be sent at once")
            return
        self._text_entry.insert_text(" ".join(map(self._attachments.attach_image, images)))

    @work(group="clipboard", exclusive=True)
    async def _paste_clipboard_image(self) -> None:
        try:
            self._insert_images([await read_clipboard_image()])
        except ImageError as error:
            self.show_hint(str(error))

    # The user's own editor

    @work(group="editor", exclusive=True)
    async def _edit_externally(self) -> None:
        text = self._attachments.to_editor_text(self._text_entry.text)
        try:
            changed = await edit_externally(self.app, text)
        except EditorError as error:
            self.show_hint(str(error))
            return
        if not text.endswith("\n"):
            changed = changed.removesuffix("\n")
        gathered = self._attachments.from_editor_text(changed)
        self._replace_text(self._fold_if_too_long(gathered), shell=self.shell_mode)
