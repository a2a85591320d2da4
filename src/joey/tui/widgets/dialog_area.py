"""The area above the composer that holds an open question, a list picker or a line input.

The composer is hidden while the user has to decide, and comes back with its draft. Keys typed
over a question are routed to the question or to the draft: see `DialogArea.route_key`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from joey.presentation.text import to_one_line
from joey.tui.app_services import PickerEntry
from joey.tui.task_controller import PendingQuestion
from joey.tui.widgets.choice_list import MOVE_STEPS_BY_KEY, ChoiceLine, ChoiceList
from joey.tui.widgets.completion import CompletionList
from joey.tui.widgets.composer import Composer
from joey.tui.widgets.question_panel import ANSWER_GUARD_S, QuestionPanel

T = TypeVar("T")
REPEAT_GUARD_S = 1.0
"""So long after a key, the same one does not answer a question for which that was not meant."""
WRITING_PAUSE_S = 0.7
"""After such a pause, a message is not being written any more."""


class DialogArea(Vertical):
    DEFAULT_CSS = """
    DialogArea { height: auto; }
    """

    def __init__(self, composer: Composer) -> None:
        super().__init__()
        self._composer = composer
        self.question_panel: QuestionPanel | None = None
        self._picker: Picker[Any] | None = None
        self._is_composer_chosen = False
        """The user went from the question to the words: all keys are meant for them."""
        self._last_typed_at = 0.0
        self._last_composer_key_at = 0.0
        self._last_key: tuple[str, tuple[str, int] | None, float] = ("", None, 0.0)
        """The last key, the question that it answered, and when it was last pressed."""

    @property
    def is_asking_approval(self) -> bool:
        """Whether the open question asks for approval."""
        return self.question_panel is not None and self.question_panel.ask_view.is_approval

    @property
    def is_input_empty(self) -> bool:
        """Whether nothing is written here: no filter of a list, no message instead of an answer."""
        focused = self.screen.focused
        return not (isinstance(focused, Input) and focused.value)

    def show_question(self, question: PendingQuestion | None, heading_suffix: str) -> bool:
        """Show the question; return whether it is a new one."""
        if (
            question is not None
            and self.question_panel is not None
            and self.question_panel.pending_question.key == question.key
        ):
            return False
        closed, self.question_panel = self.question_panel, None
        if question is None:
            self.update_focus()
        if closed is not None:  # the focus has moved on, so no key is lost meanwhile
            closed.remove()
        if question is None:
            return False
        self.question_panel = QuestionPanel(question, heading_suffix)
        self.mount(self.question_panel)
        self.call_after_refresh(self.update_focus)
        return True

    def update_focus(self) -> None:
        """Update the focus without interrupting a message being typed."""
        if self._picker is not None:
            return
        self._is_composer_chosen = False
        if self.question_panel is None or not self._composer.is_empty:
            self._focus_composer()
            if self.question_panel is not None:
                self.question_panel.show_hint("Tab: answer · your draft is kept")
        else:
            self.screen.set_focus(self.question_panel)
            self._composer.display = not self.is_asking_approval

    def toggle_focus(self) -> None:
        """Toggle the focus between the question and the composer."""
        if self.question_panel is not None and not self.is_question_focused:
            self.screen.set_focus(self.question_panel)
            self._is_composer_chosen = False
        else:
            self._focus_composer()
            self._is_composer_chosen = True

    def _focus_composer(self) -> None:
        fields = self._composer.query(TextArea)
        if not self.is_attached or not fields:  # the screen is closing
            return
        self._composer.display = True
        self.screen.set_focus(fields.first())

    @property
    def is_question_focused(self) -> bool:
        """Whether keys go to the question."""
        return self.question_panel is not None and self.screen.focused is self.question_panel

    def route_key(self, event: events.Key) -> bool:
        """Route text typed while a question appears to the composer, in order, even if some keys
        would answer it. An empty composer leaves its keys to the question after a moment. True for
        a key that is dropped."""
        if self._composer.has_focus_within:
            self._last_composer_key_at = monotonic()
        if self._is_repeated(event):
            return True
        if self.question_panel is None:
            return False
        begun = self.question_panel.take_settling_character()
        if begun and event.is_printable:
            self._composer.set_text(begun)
            self.return_to_composer()
        elif not self.is_question_focused:
            was_writing = monotonic() - self._last_typed_at < ANSWER_GUARD_S
            can_focus = self.is_composer_idle and not self._is_composer_chosen and not was_writing
            if can_focus and self.question_panel.can_handle_key(event):
                self.screen.set_focus(self.question_panel)
            else:
                self._last_typed_at = monotonic()
        elif not self.question_panel.can_handle_key(event) and (
            event.is_printable or event.key in ("backspace", "enter", "ctrl+j")
        ):
            self.return_to_composer()
        return False

    def _is_repeated(self, event: events.Key) -> bool:
        """Whether a key repeats the answer to the question before: held down, pressed twice, or
        Enter after a letter; or an Enter that repeats one in the composer or a list."""
        panel = self.question_panel
        question = None if panel is None else panel.pending_question.key
        is_answer = self._is_answer(event)
        last_key, last_question, pressed_at = self._last_key
        is_repeated = (
            event.key in (last_key, "enter") and last_question != question
            if last_question is not None
            else event.key == last_key == "enter" and is_answer
        )
        if question is not None and is_repeated and event.time - pressed_at < REPEAT_GUARD_S:
            self._last_key = last_key, last_question, event.time
            return True
        if is_answer or last_question is None or event.key == "enter":
            self._last_key = event.key, question if is_answer else None, event.time
        return False

    def _is_answer(self, event: events.Key) -> bool:
        """Whether the key goes to the question."""
        panel = self.question_panel
        is_there = self.is_question_focused or self.is_composer_idle
        return panel is not None and is_there and panel.can_handle_key(event)

    @property
    def is_composer_idle(self) -> bool:
        """Whether the composer is visible and empty."""
        composer = self._composer
        is_open = composer.query_one(CompletionList).is_open
        return composer.has_focus_within and composer.is_empty and not is_open

    def return_to_composer(self) -> None:
        """Return the focus to the composer."""
        if self.is_question_focused:
            self._focus_composer()
            self._last_typed_at = monotonic()

    async def pick(self, picker: Picker[T]) -> T | None:
        """Let the user pick; None if they leave the picker."""
        self.cancel_picker()
        await self._wait_until_written()
        self._picker = picker
        self._composer.display = False
        await self.mount(picker)
        try:
            return await picker.result
        finally:
            if self._picker is picker:
                self._picker = None
                self.update_focus()
            await picker.remove()

    async def _wait_until_written(self) -> None:
        """Wait until pending text is written: it is a message, not a choice."""
        while not self._composer.is_empty:
            left = self._last_composer_key_at + WRITING_PAUSE_S - monotonic()
            if left <= 0:
                return
            await asyncio.sleep(left)

    def cancel_picker(self) -> bool:
        """Cancel the picker; False if there was none."""
        if self._picker is None:
            return False
        self._picker.action_cancel()
        return True


class Picker(Widget, Generic[T]):
    """Asks for one thing; `result` is set when it is given, or the picker is left."""

    DEFAULT_CSS = """
    Picker { height: auto; padding: 0 1; border-top: solid ansi_bright_black; }
    Picker Static { height: auto; max-height: 40vh; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "cancel", show=False)]

    def __init__(self, title: str, hint: str) -> None:
        super().__init__()
        self._heading = Text.assemble((title, "bold"), (f"  {hint}", "dim"))
        self.result: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def action_cancel(self) -> None:
        self._set_result(None)

    def on_unmount(self) -> None:
        self._set_result(None)

    def _set_result(self, result: T | None) -> None:
        if not self.result.done():
            self.result.set_result(result)


class ListPicker(Picker[PickerEntry]):
    def __init__(
        self,
        title: str,
        entries: Sequence[PickerEntry],
        hint: str = "Enter select · Esc cancel",
        *,
        allow_free_text: bool = False,
    ) -> None:
        """With `allow_free_text`, other text than the listed choices can be entered."""
        super().__init__(title, hint)
        self._allows_free_text = allow_free_text
        self._entries = list(entries)
        self._matching_entries = self._entries
        self._filter_terms: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static(self._heading, markup=False)
        yield Input(placeholder="type to filter", compact=True)
        yield ChoiceList(_build_choice_lines(self._entries))

    def on_mount(self) -> None:
        current = (n for n, entry in enumerate(self._entries) if entry.is_current)
        self.query_one(ChoiceList).cursor_index = next(current, 0)

    def on_input_changed(self) -> None:
        self._apply_filter()

    def _apply_filter(self) -> None:
        """Apply the current filter: a key may arrive before the event that the text has changed."""
        terms = self.query_one(Input).value.lower().split()
        if terms == self._filter_terms:
            return
        self._filter_terms = terms
        self._matching_entries = [
            entry
            for entry in self._entries
            if all(term in f"{entry.label} {entry.description}".lower() for term in terms)
        ]
        text = self.query_one(Input).value.strip()
        is_listed = text in {entry.key for entry in self._matching_entries}
        if self._allows_free_text and text and not is_listed:
            self._matching_entries.append(PickerEntry(text, f'use "{text}"'))
        self.query_one(ChoiceList).set_lines(_build_choice_lines(self._matching_entries))

    def on_key(self, event: events.Key) -> None:
        if event.key in MOVE_STEPS_BY_KEY:
            event.stop()
            event.prevent_default()
            self._apply_filter()
            self.query_one(ChoiceList).process_key(event.key)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._apply_filter()
        self.query_one(ChoiceList).select_current()

    def on_choice_list_selected(self, event: ChoiceList.Selected) -> None:
        event.stop()
        self._set_result(self._matching_entries[event.index])


def _build_choice_lines(entries: Sequence[PickerEntry]) -> list[ChoiceLine]:
    return [
        ChoiceLine(
            to_one_line(entry.label, 300), to_one_line(entry.description, 300), entry.is_current
        )
        for entry in entries
    ]


class LinePrompt(Picker[str]):
    def __init__(
        self, title: str, hint: str, *, secret: bool = False, allow_empty: bool = False
    ) -> None:
        super().__init__(title, hint)
        self._is_secret = secret
        self._allows_empty = allow_empty

    def compose(self) -> ComposeResult:
        yield Static(self._heading, markup=False)
        yield Input(password=self._is_secret, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip() or self._allows_empty:
            self._set_result(event.value.strip())
