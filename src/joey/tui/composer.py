"""Where the person writes: the text, what completes it, and the prompts of earlier days.

What is typed is never lost: the draft comes back behind the history, after a refused sending
(`put_back`), and while a question has taken the composer's place.
"""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static, TextArea

from joey.display.sanitise import one_line
from joey.tui.choices import Choices
from joey.tui.completion import (
    Kind,
    Wanted,
    command_choices,
    mention_choices,
    searched_path,
    wanted,
)
from joey.tui.drafts import Attachments, Draft, accepted, is_long, released
from joey.tui.offers import Offers
from joey.tui.prompt_history import PromptHistory, Walk
from joey.tui.text_entry import TextEntry

LONGEST_SHOWN = 100_000
"""Characters of a paste that is shown whole."""


class Composer(Widget):
    DEFAULT_CSS = """
    Composer {
        height: auto;
        border-top: solid $border-blurred;
        border-bottom: solid $border-blurred;
        & > Horizontal { height: auto; }
        & .composer--mark { width: 2; color: $primary; text-style: bold; }
        & .composer--hint { height: auto; display: none; color: $text-muted; padding: 0 2; }
        & .composer--hint.-said { display: block; }
    }
    Composer.-shell {
        border-top: solid $warning;
        border-bottom: solid $warning;
        & .composer--mark { color: $warning; }
    }
    """

    class Submitted(Message):
        def __init__(self, text: str, images: tuple[str, ...]) -> None:
            super().__init__()
            self.text = text
            self.images = images

    class ShellWanted(Message):
        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    class Emptied(Message):
        """Ctrl+D, and nothing was written."""

    class KeysWanted(Message):
        """`?`, and nothing was written."""

    placeholder: reactive[str] = reactive("")
    shell: reactive[bool] = reactive(False)

    def __init__(self, offers: Offers, past: PromptHistory, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._offers = offers
        self._past = past
        self._walk = Walk(past)
        self._attached = Attachments()
        self._sent: Draft | None = None
        self._choices = Choices()
        self._mark = Static("›", classes="composer--mark", markup=False)
        self._entry = TextEntry()
        self._hint = Static("", classes="composer--hint", markup=False)
        self._wanted: Wanted | None = None
        self._settled: str | None = None
        """A text for which nothing is offered: it came as a whole."""

    def compose(self) -> ComposeResult:
        yield self._choices
        with Horizontal():
            yield self._mark
            yield self._entry
        yield self._hint

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
        self._load(Draft(accepted(text)))

    def clear(self) -> None:
        self._load(Draft(""))

    def put_back(self) -> None:
        """What was sent last could not be: it returns, before what was written since."""
        if self._sent is None:
            return
        since, text = self.draft, self._attached.adopt(self._sent)
        self._show(f"{text}\n{since.text}" if since.text else text, shell=self._sent.shell)
        self._sent = None

    def _load(self, draft: Draft) -> None:
        self._show(self._attached.adopt(draft), shell=draft.shell)

    def _show(self, text: str, *, shell: bool) -> None:
        self.shell = shell
        self._settled = text
        self._entry.rewrite(text)
        self._close()

    def _send(self) -> None:
        draft = self.draft
        text = released(self._attached.unfold(draft.text))
        if not text.strip():
            return
        self._past.add(draft)
        self._sent = draft
        pictures = self._attached.pictures(draft.text)
        self._attached, self._walk = Attachments(), Walk(self._past)
        self._entry.load_text("")
        self.shell = False
        self._close()
        self.say(self._past.trouble)
        self.post_message(self.ShellWanted(text) if draft.shell else self.Submitted(text, pictures))

    def say(self, hint: str) -> None:
        """A word below the text, until the next key."""
        self._hint.update(one_line(hint, 400))
        self._hint.set_class(bool(hint), "-said")

    def watch_placeholder(self, placeholder: str) -> None:
        from textual.content import Content

        self._entry.placeholder = Content(placeholder)

    def watch_shell(self, shell: bool) -> None:
        self.set_class(shell, "-shell")
        self._mark.update("!" if shell else "›")

    # Keys

    async def on_key(self, event: events.Key) -> None:
        handled = self._handle(event.key)
        if handled:
            event.stop()
            event.prevent_default()

    def _handle(self, key: str) -> bool:
        if self._choices.is_open and self._handle_choosing(key):
            return True
        match key:
            case "enter":
                self._enter()
            case "up" | "ctrl+p":
                self._up()
            case "down" | "ctrl+n":
                self._down()
            case "ctrl+d" if self.is_empty:
                self.post_message(self.Emptied())
            case "ctrl+d":
                self._entry.action_delete_right()
            case "tab":
                pass
            case _:
                return False
        return True

    def _handle_choosing(self, key: str) -> bool:
        match key:
            case "up" | "ctrl+p":
                self._choices.move(-1)
            case "down" | "ctrl+n":
                self._choices.move(1)
            case "escape":
                self._close()
            case "tab":
                self._take()
            case "enter" if not self._is_complete():
                self._take()
            case _:
                return False
        return True

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
            self._load(older)

    def _down(self) -> None:
        if not self._entry.is_at_last_line():
            self._entry.action_cursor_down()
        elif (newer := self._walk.newer(self.draft)) is not None:
            self._load(newer)

    # Pasting

    def on_text_entry_pasted(self, event: TextEntry.Pasted) -> None:
        text = accepted(event.text)
        self._entry.write(self._attached.fold(text) if is_long(text) else text)

    # Completing

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._offer()

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._offer()

    def _offer(self) -> None:
        row, _ = self._entry.cursor_location
        now = None if self.shell else wanted(row, self._entry.before)
        if self._settled is not None and self._settled == self._entry.text:
            now = None
        if now == self._wanted:
            return
        self._wanted = now
        match now:
            case None:
                self._choices.close()
            case Wanted(kind=Kind.COMMAND):
                self._choices.open(command_choices(now.typed, self._offers.commands()))
            case _:
                self.run_worker(self._find_files(now), group="files", exclusive=True)

    async def _find_files(self, sought: Wanted) -> None:
        paths = await self._offers.files(searched_path(sought.typed))
        if sought == self._wanted:
            self._choices.open(mention_choices(sought.typed, paths))

    def _is_complete(self) -> bool:
        """Whether a command's whole name is there, which Enter sends."""
        chosen, sought = self._choices.chosen, self._wanted
        return (
            sought is not None
            and sought.kind is Kind.COMMAND
            and chosen is not None
            and chosen.written == f"/{sought.typed}"
        )

    def _take(self) -> None:
        chosen, sought = self._choices.chosen, self._wanted
        if chosen is None or sought is None:
            return
        row, column = self._entry.cursor_location
        written = chosen.written if chosen.goes_on else f"{chosen.written} "
        self._entry.replace(written, (row, sought.start), (row, column))
        self._entry.move_cursor((row, sought.start + len(written)))
        self._choices.close()

    def _close(self) -> None:
        """Nothing is offered until something else is typed."""
        row, _ = self._entry.cursor_location
        self._wanted = wanted(row, self._entry.before)
        self._choices.close()
