"""The composer: the user's text, with completion, prompt history, pastes and images.

Nothing that was typed is lost: the draft comes back after browsing the history, after a message
was refused (`put_back`), after Ctrl+C (by undo), and after a question took the composer's place.
"""

from __future__ import annotations

from pathlib import Path

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static, TextArea

from joey.client.images import MAX_IMAGES, ImageError, load_image
from joey.presentation.text import to_one_line
from joey.tui.host import CompletionSource
from joey.tui.widgets.clipboard import parse_dropped_images, read_clipboard_image
from joey.tui.widgets.completion import Completer, CompletionList, CompletionRequest
from joey.tui.widgets.draft import Attachments, Draft, accepted, can_be_shown, is_long, released
from joey.tui.widgets.external_editor import EditorError, edited
from joey.tui.widgets.prompt_history import HistoryBrowser, HistorySearch, PromptHistory
from joey.tui.widgets.text_area import (
    EDIT_ACTIONS,
    MOVE_ACTIONS,
    DraftMark,
    TextEntry,
    understand_new_lines,
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

    class Submitted(Message):
        """Pasted texts are in their places; images are data URIs."""

        def __init__(self, text: str, images: tuple[str, ...]) -> None:
            super().__init__()
            self.text = text
            self.images = images

    class ShellWanted(Message):
        """A line that began with `!`, without it."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    class Emptied(Message):
        """Ctrl+D, and nothing was written."""

    class KeysWanted(Message):
        """`?`, and nothing was written."""

    placeholder: reactive[str] = reactive("")
    shell: reactive[bool] = reactive(False)

    def __init__(
        self, offers: CompletionSource, past: PromptHistory, *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._past = past
        self._walk = HistoryBrowser(past)
        self._attached = Attachments()
        self._sent: Draft | None = None
        self._is_prefixed = False
        """Ctrl+X was the latest key."""
        self._choices = CompletionList()
        self._mark = Static("›", classes="composer--mark", markup=False)
        self._entry = TextEntry(self._handle, self._paste)
        self._hint = Static("", classes="composer--hint", markup=False)
        self._completer = Completer(offers, self._choices, self._entry, self._find_files)
        self._search = HistorySearch(past, self._choices)

    def compose(self) -> ComposeResult:
        yield self._choices
        with Horizontal():
            yield self._mark
            yield self._entry
        yield self._hint

    def on_mount(self) -> None:
        understand_new_lines()

    def focus(self, scroll_visible: bool = True) -> Composer:
        self._entry.focus(scroll_visible)
        return self

    # What is written

    @property
    def is_empty(self) -> bool:
        return self._entry.is_empty and not self.shell

    @property
    def draft(self) -> Draft:
        return self._attached.draft(self._entry.text, shell=self.shell)

    def put(self, text: str) -> None:
        """Words to go on with, such as those that a rewind took back."""
        self._walk = HistoryBrowser(self._past)
        self._show(self._showable(accepted(text)), shell=False)

    def clear(self) -> None:
        self.put("")

    def put_back(self) -> None:
        """What was sent last could not be: it returns, before what was written since."""
        if self._sent is None:
            return
        sent, since = self._sent, self._entry.text
        text = self._attached.adopt(sent)
        self._show(f"{text}\n{since}" if since else text, shell=sent.shell)
        self._sent = None

    def say(self, hint: str) -> None:
        """A word below the text, until the next key."""
        self._hint.update(to_one_line(hint, 400))
        self._hint.set_class(bool(hint), "-said")

    def _showable(self, text: str) -> str:
        return text if can_be_shown(text) else self._attached.fold(text)

    def _load(self, draft: Draft, *, to_first_line: bool = False) -> None:
        self._show(self._attached.adopt(draft), shell=draft.shell, to_first_line=to_first_line)

    def _show(self, text: str, *, shell: bool, to_first_line: bool = False) -> None:
        self.shell = shell
        self._search.leave()
        self._entry.rewrite(text, to_first_line=to_first_line)
        self._completer.close(whole=True)

    def _send(self) -> None:
        draft = self.draft
        text = released(self._attached.unfold(draft.text))
        if not text.strip():
            return
        images = self._attached.list_images(draft.text)
        self._past.add(draft)
        self._sent = draft
        self._attached, self._walk = Attachments(), HistoryBrowser(self._past)
        self._entry.load_text("")
        self.shell = False
        self._completer.close()
        self.say(self._past.storage_error)
        self.post_message(self.ShellWanted(text) if draft.shell else self.Submitted(text, images))

    def watch_placeholder(self, placeholder: str) -> None:
        self._entry.placeholder = Content(placeholder)

    def watch_shell(self, shell: bool) -> None:
        self.set_class(shell, "-shell")
        self._mark.update("!" if shell else "›")

    # Keys

    def _handle(self, key: str, character: str | None) -> bool:
        """Judge a key before the text does; True when that is all.

        What earlier keys have changed was not told yet, when they come quickly.
        """
        if self._hint.has_class("-said"):
            self.say("")
        if self._is_prefixed:
            self._is_prefixed = False
            if key == "ctrl+e":
                self._edit_outside()
            return True
        if self._search.is_on:
            return self._handle_searching(key, character)
        self._completer.offer(shell=self.shell)
        if self._choices.is_open and self._completer.handle(key):
            return True
        return self._handle_empty(key) or self._handle_writing(key)

    def _handle_empty(self, key: str) -> bool:
        """What some keys mean while nothing is written."""
        if not self._entry.is_empty:
            return False
        match key:
            case "exclamation_mark" if not self.shell:
                self.shell = True
            case "backspace" | "ctrl+h" | "escape" if self.shell:
                self.shell = False
            case "question_mark" if not self.shell:
                self.post_message(self.KeysWanted())
            case "ctrl+d":
                self.post_message(self.Emptied())
            case _:
                return False
        return True

    def _handle_writing(self, key: str) -> bool:
        match key:
            case "enter":
                self._enter()
            case "up" | "ctrl+p":
                self._up()
            case "down" | "ctrl+n":
                self._down()
            case "tab":
                self._unfold_before()
            case "ctrl+d":
                self._entry.action_delete_right()
            case "ctrl+r":
                self._completer.close()
                self._search.begin()
            case "ctrl+v" | "alt+v":
                self._paste_clipboard_image()
            case "ctrl+g":
                self._edit_outside()
            case "ctrl+x":
                self._is_prefixed = True
            case _:
                return False
        return True

    def _handle_searching(self, key: str, character: str | None) -> bool:
        """Keys that move the cursor or change the text take what was found first."""
        if self._search.handle(key, character):
            return True
        match key:
            case "escape" | "ctrl+g":
                self._search.leave()
            case "enter" | "tab":
                self._take_found()
            case _ if key in MOVE_ACTIONS or key in EDIT_ACTIONS:
                self._take_found()
                return False
            case _:
                return False
        return True

    def _take_found(self) -> None:
        if (found := self._search.take()) is not None:
            self._load(found)

    def _enter(self) -> None:
        if self._entry.before.endswith("\\"):
            self._entry.action_delete_left()
            self._entry.action_new_line()
        else:
            self._send()

    def _up(self) -> None:
        if not self._entry.is_at_first_line():
            self._entry.action_cursor_up()
        elif (older := self._walk.older(self.draft)) is not None:
            self._load(older, to_first_line=True)

    def _down(self) -> None:
        if not self._entry.is_at_last_line():
            self._entry.action_cursor_down()
        elif (newer := self._walk.newer(self.draft)) is not None:
            self._load(newer)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._completer.offer(shell=self.shell)

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._completer.offer(shell=self.shell)

    @work(group="files", exclusive=True)
    async def _find_files(self, sought: CompletionRequest) -> None:
        if key := await self._completer.find_files(sought):
            self._handle_writing(key)

    # Pastes

    def _paste(self, pasted: str) -> None:
        self.say("")
        text = accepted(pasted)
        if self._search.is_on:
            self._search.type(text)
        elif paths := parse_dropped_images(pasted):
            self._attach_files(paths, text)
        elif not is_long(text):
            self._entry.write(text)
        elif (mark := self._folded(text)) is not None:
            self._unfold(mark)
        else:
            self._entry.write(self._attached.fold(text))
            self.say(_UNFOLD_HINT)

    def _folded(self, text: str) -> DraftMark | None:
        marks = self._entry.marks()
        return next((mark for mark in marks if self._attached.pasted(mark.text) == text), None)

    def _unfold_before(self) -> None:
        if (mark := self._entry.mark_before()) is not None:
            self._unfold(mark)

    def _unfold(self, mark: DraftMark) -> None:
        text = self._attached.pasted(mark.text)
        if text is None:
            return
        if not can_be_shown(text):
            self.say("this is too long to be shown here; Ctrl+G opens it in your editor")
        else:
            self._entry.write_over(mark, text)

    # Pictures

    def _attach_files(self, paths: list[Path], text: str) -> None:
        """Put pictures in, or the words as they are when one cannot be sent."""
        try:
            images = [load_image(str(path)) for path in paths]
        except ImageError as error:
            self._entry.write(text)
            self.say(str(error))
        else:
            self._put_in(images)

    def _put_in(self, images: list[str]) -> None:
        there = len(self._attached.list_images(self._entry.text))
        if there + len(images) > MAX_IMAGES:
            self.say(f"at most {MAX_IMAGES} images can be sent at once")
            return
        self._entry.write(" ".join(map(self._attached.attach, images)))

    @work(group="clipboard", exclusive=True)
    async def _paste_clipboard_image(self) -> None:
        try:
            self._put_in([await read_clipboard_image()])
        except ImageError as error:
            self.say(str(error))

    # The person's own editor

    @work(group="editor", exclusive=True)
    async def _edit_outside(self) -> None:
        text = self._attached.spread(self._entry.text)
        try:
            changed = await edited(self.app, text)
        except EditorError as error:
            self.say(str(error))
            return
        if not text.endswith("\n"):
            changed = changed.removesuffix("\n")
        gathered = self._attached.gather(changed)
        self._show(self._showable(gathered), shell=self.shell)
