"""What stands above the composer: an open question, or a list to choose from.

The composer makes room where the person has to decide, and comes back with what was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TypeVar

from textual import events
from textual.containers import Vertical
from textual.widgets import Input, TextArea

from joey.tui.choices import Choices
from joey.tui.composer import Composer
from joey.tui.dialogue import Asked
from joey.tui.host import Entry
from joey.tui.pickers.line import LinePicker
from joey.tui.pickers.picker import Picker
from joey.tui.questions.panel import GUARD, QuestionPanel
from joey.tui.questions.question import question_from

T = TypeVar("T")


class Front(Vertical):
    DEFAULT_CSS = """
    Front { height: auto; }
    """

    def __init__(self, composer: Composer) -> None:
        super().__init__()
        self._composer = composer
        self.panel: QuestionPanel | None = None
        self._picker: Picker | LinePicker | None = None
        self._wants_words = False
        """The person went from the question to the words: all keys are meant for them."""
        self._written_at = 0.0

    @property
    def is_picking(self) -> bool:
        return self._picker is not None

    @property
    def approves(self) -> bool:
        """The open question is whether something may be done."""
        return self.panel is not None and self.panel.question.is_approval

    @property
    def is_silent(self) -> bool:
        """Nothing is written here: no filter of a list, nothing to do instead."""
        focused = self.screen.focused
        return not (isinstance(focused, Input) and focused.value)

    def show(self, asked: Asked | None, who: str) -> bool:
        """Whether another question stands there now."""
        if asked is not None and self.panel is not None and self.panel.asked.key == asked.key:
            return False
        if self.panel is not None:
            self.panel.remove()
            self.panel = None
        if asked is None:
            self.settle_focus()
            return False
        self.panel = QuestionPanel(asked, question_from(asked.ask), who)
        self.mount(self.panel)
        self.call_after_refresh(self.settle_focus)
        return True

    def settle_focus(self) -> None:
        """Words that are being written are never interrupted."""
        if self._picker is not None:
            return
        self._wants_words = False
        if self.panel is None or not self._composer.is_empty:
            self._composer.display = True
            self._composer.focus()
            if self.panel is not None:
                self.panel.hint("Tab answers it; your words stay")
        else:
            self.screen.set_focus(self.panel)
            self._composer.display = not self.approves

    def change_focus(self) -> None:
        """Between the question and the words."""
        if self.panel is not None and not self.is_asking:
            self.screen.set_focus(self.panel)
            self._wants_words = False
        else:
            self._write()
            self._wants_words = True

    def _write(self) -> None:
        self._composer.display = True
        self.screen.set_focus(self._composer.query_one(TextArea))

    @property
    def is_asking(self) -> bool:
        """Keys go to the question."""
        return self.panel is not None and self.screen.focused is self.panel

    def route(self, event: events.Key) -> None:
        """Before a key goes anywhere: words that are typed over a question go on in the composer,
        all of them and in their order, whatever of them the question could have been meant by.
        Where nothing is written, and was not a moment ago, its keys are the question's again."""
        if self.panel is None:
            return
        if not self.is_asking:
            if self._may_ask and self.panel.wants(event):
                self.screen.set_focus(self.panel)
            else:
                self._written_at = monotonic()
        elif not self.panel.wants(event) and (
            event.is_printable or event.key in ("backspace", "enter", "ctrl+j")
        ):
            self.go_on_writing()

    @property
    def is_unwritten(self) -> bool:
        """Words could be written, and none are."""
        composer = self._composer
        is_open = composer.query_one(Choices).is_open
        return composer.has_focus_within and composer.is_empty and not is_open

    @property
    def _may_ask(self) -> bool:
        was_writing = monotonic() - self._written_at < GUARD
        return self.is_unwritten and not self._wants_words and not was_writing

    def go_on_writing(self) -> None:
        """Keys go to the words, not to the question."""
        if self.is_asking:
            self._write()
            self._written_at = monotonic()

    async def pick(
        self, title: str, entries: Sequence[Entry], hint: str = "", *, takes_any: bool = False
    ) -> Entry | None:
        """What the person chooses from a list; None when they leave it."""
        picker = Picker(title, entries, hint, takes_any=takes_any)
        async with _Shown(self, picker):
            return await picker.chosen()

    async def ask_line(self, title: str, hint: str, *, secret: bool = False) -> str | None:
        picker = LinePicker(title, hint, secret=secret)
        async with _Shown(self, picker):
            return await picker.chosen()

    def leave_picker(self) -> bool:
        """Whether there was one."""
        if self._picker is None:
            return False
        self._picker.action_leave()
        return True

    async def open(self, picker: Picker | LinePicker) -> None:
        self.leave_picker()
        self._picker = picker
        self._composer.display = False
        await self.mount(picker)

    async def close(self, picker: Picker | LinePicker) -> None:
        await picker.remove()
        if self._picker is picker:
            self._picker = None
            self._composer.display = True
            self.settle_focus()


class _Shown:
    def __init__(self, front: Front, picker: Picker | LinePicker) -> None:
        self._front = front
        self._picker = picker

    async def __aenter__(self) -> None:
        await self._front.open(self._picker)

    async def __aexit__(self, *exc: object) -> None:
        await self._front.close(self._picker)
