"""The area above the composer that holds an open question, a list picker or a line input.

The composer is hidden while the user has to decide, and comes back with its draft. Keys typed
over a question are routed to the question or to the draft: see `DialogArea.route`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import ClassVar, TypeVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from joey.presentation.text import to_one_line
from joey.tui.host import PickerEntry
from joey.tui.task_controller import PendingQuestion
from joey.tui.widgets.choice_list import MOVE_STEPS_BY_KEY, ChoiceLine, ChoiceList
from joey.tui.widgets.completion import CompletionList
from joey.tui.widgets.composer import Composer
from joey.tui.widgets.question_panel import ANSWER_GUARD_S, QuestionPanel, question_from

T = TypeVar("T")


class DialogArea(Vertical):
    DEFAULT_CSS = """
    DialogArea { height: auto; }
    """

    def __init__(self, composer: Composer) -> None:
        super().__init__()
        self._composer = composer
        self.panel: QuestionPanel | None = None
        self._picker: ListPicker | LinePrompt | None = None
        self._is_composer_chosen = False
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

    def show(self, asked: PendingQuestion | None, who: str) -> bool:
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
        self._is_composer_chosen = False
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
            self._is_composer_chosen = False
        else:
            self._write()
            self._is_composer_chosen = True

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
        is_open = composer.query_one(CompletionList).is_open
        return composer.has_focus_within and composer.is_empty and not is_open

    @property
    def _may_ask(self) -> bool:
        was_writing = monotonic() - self._written_at < ANSWER_GUARD_S
        return self.is_unwritten and not self._is_composer_chosen and not was_writing

    def go_on_writing(self) -> None:
        """Keys go to the words, not to the question."""
        if self.is_asking:
            self._write()
            self._written_at = monotonic()

    async def pick(
        self, title: str, entries: Sequence[PickerEntry], hint: str = "", *, takes_any: bool = False
    ) -> PickerEntry | None:
        """What the person chooses from a list; None when they leave it."""
        picker = ListPicker(title, entries, hint, takes_any=takes_any)
        async with _PickerContext(self, picker):
            return await picker.chosen()

    async def ask_line(self, title: str, hint: str, *, secret: bool = False) -> str | None:
        picker = LinePrompt(title, hint, secret=secret)
        async with _PickerContext(self, picker):
            return await picker.chosen()

    def leave_picker(self) -> bool:
        """Whether there was one."""
        if self._picker is None:
            return False
        self._picker.action_leave()
        return True

    async def open(self, picker: ListPicker | LinePrompt) -> None:
        self.leave_picker()
        self._picker = picker
        self._composer.display = False
        await self.mount(picker)

    async def close(self, picker: ListPicker | LinePrompt) -> None:
        await picker.remove()
        if self._picker is picker:
            self._picker = None
            self._composer.display = True
            self.settle_focus()


class _PickerContext:
    def __init__(self, front: DialogArea, picker: ListPicker | LinePrompt) -> None:
        self._front = front
        self._picker = picker

    async def __aenter__(self) -> None:
        await self._front.open(self._picker)

    async def __aexit__(self, *exc: object) -> None:
        await self._front.close(self._picker)


class ListPicker(Widget):
    """Ask with `await picker.chosen()` once it is on the screen."""

    DEFAULT_CSS = """
    ListPicker { height: auto; padding: 0 1; border-top: solid ansi_bright_black; }
    ListPicker Static { height: auto; max-height: 40vh; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "leave", show=False)]

    def __init__(
        self, title: str, entries: Sequence[PickerEntry], hint: str = "", *, takes_any: bool = False
    ) -> None:
        """`takes_any`: what is not in the list can be written instead."""
        super().__init__()
        self._title = title
        self._hint = hint or "Enter takes · Esc leaves"
        self._takes_any = takes_any
        self._entries = list(entries)
        self._fitting = self._entries
        self._filter_terms: list[str] = []
        self._result: asyncio.Future[PickerEntry | None] = (
            asyncio.get_running_loop().create_future()
        )

    def compose(self) -> ComposeResult:
        yield Static(Text.assemble((self._title, "bold"), (f"  {self._hint}", "dim")), markup=False)
        yield Input(placeholder="type to filter", compact=True)
        yield ChoiceList(list(_lines(self._entries)))

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        current = (n for n, entry in enumerate(self._entries) if entry.is_current)
        self.query_one(ChoiceList).at = next(current, 0)

    async def chosen(self) -> PickerEntry | None:
        return await self._result

    def on_input_changed(self) -> None:
        self._narrow()

    def _narrow(self) -> None:
        """By what is written now: a key may be here before the news that the text has changed."""
        terms = self.query_one(Input).value.lower().split()
        if terms == self._filter_terms:
            return
        self._filter_terms = terms
        self._fitting = [entry for entry in self._entries if _fits(entry, terms)]
        written = self.query_one(Input).value.strip()
        if self._takes_any and written and written not in {each.key for each in self._fitting}:
            self._fitting.append(PickerEntry(written, f'use "{written}"'))
        self.query_one(ChoiceList).show(list(_lines(self._fitting)))

    def on_key(self, event: events.Key) -> None:
        if event.key in MOVE_STEPS_BY_KEY:
            event.stop()
            event.prevent_default()
            self._narrow()
            self.query_one(ChoiceList).process_key(event.key)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._narrow()
        self.query_one(ChoiceList).take()

    def on_choice_list_taken(self, event: ChoiceList.Taken) -> None:
        event.stop()
        self._settle(self._fitting[event.number])

    def action_leave(self) -> None:
        self._settle(None)

    def on_unmount(self) -> None:
        self._settle(None)

    def _settle(self, entry: PickerEntry | None) -> None:
        if not self._result.done():
            self._result.set_result(entry)


def _lines(entries: Sequence[PickerEntry]) -> Iterator[ChoiceLine]:
    for entry in entries:
        yield ChoiceLine(
            to_one_line(entry.label, 300), to_one_line(entry.about, 300), entry.is_current
        )


def _fits(entry: PickerEntry, terms: Sequence[str]) -> bool:
    text = f"{entry.label} {entry.about}".lower()
    return all(word in text for word in terms)


class LinePrompt(Widget):
    DEFAULT_CSS = """
    LinePrompt { height: auto; padding: 0 1; border-top: solid ansi_bright_black; }
    LinePrompt Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "leave", show=False)]

    def __init__(self, title: str, hint: str, *, secret: bool = False) -> None:
        super().__init__()
        self._title = title
        self._hint = hint
        self._secret = secret
        self._result: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def compose(self) -> ComposeResult:
        yield Static(Text.assemble((self._title, "bold"), (f"  {self._hint}", "dim")), markup=False)
        yield Input(password=self._secret, compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    async def chosen(self) -> str | None:
        return await self._result

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self._settle(event.value.strip())

    def action_leave(self) -> None:
        self._settle(None)

    def on_unmount(self) -> None:
        self._settle(None)

    def _settle(self, text: str | None) -> None:
        if not self._result.done():
            self._result.set_result(text)
