"""The panel with a task's open question and its possible answers.

Permission is given only by a key that was meant to give it. Keys typed at the moment a question
appears belong to the message that was being typed: see `QuestionPanel.can_handle_key`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from joey.core.events import AskOpened
from joey.core.task_types import Answer, AskChoice, AskKind, AskView, Response
from joey.core.tool_calls import get_summary
from joey.errors import ProviderFailureKind
from joey.presentation.questions import build_ask_view
from joey.presentation.text import find_line_breaks, to_one_line
from joey.presentation.tool_calls import render_call_card
from joey.tui.task_controller import PendingQuestion
from joey.tui.widgets.choice_list import CURSOR_MARK, ChoiceLine, ChoiceList

ANSWER_GUARD_S = 0.3
"""So long a question must have been seen before a key or a click can answer it."""


class RemedyAction(StrEnum):
    """What may help a failed request; the value is its label."""

    ENTER_KEY = "Enter another key"
    CHOOSE_MODEL = "Choose another model"


def list_remedy_actions(ask: AskOpened) -> tuple[RemedyAction, ...]:
    if ask.ask is not AskKind.API_REQ_FAILED:
        return ()
    return (
        tuple(RemedyAction)
        if ask.failure == ProviderFailureKind.AUTH
        else (RemedyAction.CHOOSE_MODEL,)
    )


class QuestionPanel(Widget, can_focus=True):
    FOCUS_ON_CLICK = False
    DEFAULT_CSS = """
    QuestionPanel { height: auto; padding: 0 1; border-top: solid ansi_yellow; }
    QuestionPanel Static { height: auto; }
    QuestionPanel #about { max-height: 8; }
    QuestionPanel Input { margin-left: 2; display: none; }
    QuestionPanel.speaking Input { display: block; }
    """

    @dataclass
    class Answered(Message):
        panel: QuestionPanel
        answer: Answer

    @dataclass
    class ActionChosen(Message):
        """Something other than an answer, after which the request can succeed."""

        panel: QuestionPanel
        action: RemedyAction

    def __init__(self, pending_question: PendingQuestion, heading_suffix: str = "") -> None:
        super().__init__()
        self.pending_question = pending_question
        self.ask_view = build_ask_view(pending_question.ask)
        self._actions = list_remedy_actions(pending_question.ask)
        self._heading_suffix = heading_suffix
        self._displayed_at = monotonic()

    def compose(self) -> ComposeResult:
        view = self.ask_view
        summary = render_summary(self.pending_question.ask, view)
        yield Static(self._render_heading("" if view.is_approval else view.hint), id="heading")
        if summary:
            yield Static(summary, markup=False, id="about")
        if view.reason:
            yield Static(Text(f"because {view.reason}", "dim"), classes="why", markup=False)
        if view.confinement:
            yield Static(Text(view.confinement, "dim"), markup=False)
        for warning in view.warnings:
            yield Static(Text(f"! {warning}", "bold red"), markup=False)
        texts = bool(summary) + bool(view.confinement) + len(view.warnings)
        actions = [ChoiceLine(action.value) for action in self._actions]
        yield AnswerList([*build_lines(view), *actions], texts)
        yield Input(
            placeholder="What should joey do instead? (Enter sends, Esc cancels)", compact=True
        )

    def show_hint(self, text: str) -> None:
        self.query_one("#heading", Static).update(self._render_heading(text))

    def _render_heading(self, hint: str) -> Text:
        heading = Text().append(self.ask_view.title, "bold yellow")
        for text in filter(None, (self._heading_suffix, hint)):
            heading.append(f"  {text}", "dim")
        return heading

    def on_mount(self) -> None:
        if RemedyAction.ENTER_KEY in self._actions:
            self.query_one(ChoiceList).cursor_index = len(self.ask_view.choices)
        self.call_after_refresh(self._start_guard)

    def _start_guard(self) -> None:
        self._displayed_at = monotonic()

    @property
    def is_guarded(self) -> bool:
        """It has only just appeared: keys may have been meant for something else."""
        return self.ask_view.is_approval and monotonic() - self._displayed_at < ANSWER_GUARD_S

    def can_handle_key(self, event: events.Key) -> bool:
        """Whether a key is meant for the question; all others are words that are being typed."""
        if self.is_guarded:
            return False
        return (
            event.key in ("escape", "enter", "up", "down")
            or self._find_choice_by_letter(event.character) is not None
            or self.query_one(ChoiceList).find_row_by_digit(event.key) is not None
        )

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self.pending_question.ask.ask is not AskKind.COMPLETION_RESULT:
            event.stop()  # a result needs no answer: there the key is that of the whole screen
            self._handle_escape()
        elif not self.has_focus:
            return
        elif (chosen := self._find_choice_by_letter(event.character)) is not None:
            event.stop()
            self.post_message(self.Answered(self, chosen.answer))
        elif self.can_handle_key(event) and self.query_one(ChoiceList).process_key(event.key):
            event.stop()

    def _find_choice_by_letter(self, character: str | None) -> AskChoice | None:
        """Letters decide about a call alone: anything else may be answered with a sentence."""
        if not self.ask_view.is_approval or not character:
            return None
        return next((one for one in self.ask_view.choices if one.word[:1] == character), None)

    def on_choice_list_selected(self, event: ChoiceList.Selected) -> None:
        event.stop()
        if event.pressed_at is not None and event.pressed_at - self._displayed_at < ANSWER_GUARD_S:
            return
        event.sender.cursor_index = event.index
        if event.index < len(self.ask_view.choices):
            self.post_message(self.Answered(self, self.ask_view.choices[event.index].answer))
            return
        if self._actions:
            action = self._actions[event.index - len(self.ask_view.choices)]
            self.post_message(self.ActionChosen(self, action))
            return
        self.add_class("speaking")
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if text := event.value.strip():
            self.post_message(self.Answered(self, Answer(Response.MESSAGE, text=text)))

    def _handle_escape(self) -> None:
        if self.has_class("speaking"):
            self.remove_class("speaking")
            self.focus()
            return
        choice = next((one for one in self.ask_view.choices if one.word == "no"), None)
        if choice is not None and not self.is_guarded:
            self.post_message(self.Answered(self, choice.answer))


SMALL_TERMINAL_ANSWER_LINES = 5
"""So that a no stands beside the yes."""
SMALL_TERMINAL_RESERVED_LINES = 5
"""Not for answers; each text above them takes two more."""
CONTINUATION_INDENT = 2
"""Of the lines behind the first: they stand under its words, not under its number."""


class AnswerList(ChoiceList):
    def __init__(self, lines: Sequence[ChoiceLine], texts: int = 0) -> None:
        """`texts` stand between the heading and the answers."""
        super().__init__(lines, numbered=True)
        self._text_count_above = texts

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        needed = sum(len(self._wrap_label(row, width)) for row in range(len(self.lines)))
        left = viewport.height - SMALL_TERMINAL_RESERVED_LINES - 2 * self._text_count_above
        max_height = max(3, min(SMALL_TERMINAL_ANSWER_LINES, left), viewport.height // 2 - 2)
        return min(max_height, max(1, needed))

    def _scroll_to_cursor(self) -> None:
        height, width = self.size.height, self.size.width
        self._first_visible_row = min(self._first_visible_row, self.cursor_index)
        if not height:
            return
        while self._first_visible_row < self.cursor_index:
            rows = range(self._first_visible_row, self.cursor_index + 1)
            if sum(len(self._wrap_label(row, width)) for row in rows) <= height:
                return
            self._first_visible_row += 1

    def _find_row_at(self, y: int) -> int:
        for row in range(self._first_visible_row, len(self.lines)):
            y -= len(self._wrap_label(row, self.size.width))
            if y < 0:
                return row
        return len(self.lines)

    def render(self) -> Text:
        drawn = [
            Text(
                f"{CURSOR_MARK if row == self.cursor_index and not number else '  '}{piece}",
                "bold cyan" if row == self.cursor_index else "",
            )
            for row in range(self._first_visible_row, len(self.lines))
            for number, piece in enumerate(self._wrap_label(row, self.size.width))
        ]
        return Text("\n", no_wrap=True).join(drawn[: max(1, self.size.height)])

    def _wrap_label(self, row: int, width: int) -> list[str]:
        label = self._format_label(row)
        _, piece_spans = find_line_breaks(
            label, max(8, width - len(CURSOR_MARK)), CONTINUATION_INDENT
        )
        first, *more = (label[start:end] for start, end in piece_spans)
        return [first, *(f"{' ' * CONTINUATION_INDENT}{piece}" for piece in more)]


MAX_SUMMARY_LINES = 6
"""The whole of what would be done is in the conversation."""
MAX_ANSWER_LABEL_CHARS = 2000
"""A user has to see what they say."""
INSTEAD_LABEL = "Reject, and say what to do instead"
_DIGITS_BY_WORD = {"yes": 1, "always": 2, "no": 3}
"""Of approvals: the same, whatever else may be answered."""


def build_lines(view: AskView) -> list[ChoiceLine]:
    lines = [
        ChoiceLine(
            to_one_line(choice.full_label, MAX_ANSWER_LABEL_CHARS),
            digit=_DIGITS_BY_WORD.get(choice.word) if view.is_approval else None,
        )
        for choice in view.choices
    ]
    return [*lines, ChoiceLine(INSTEAD_LABEL, digit=4)] if view.is_approval else lines


def render_summary(ask: AskOpened, view: AskView) -> Text:
    """What would be done, or what is asked; nothing if the title or the conversation says it."""
    if ask.ask in (AskKind.MISTAKE_LIMIT_REACHED, AskKind.LIMIT_REACHED):
        return Text(view.text)
    if not view.is_approval or (ask.ask is AskKind.TOOL and not get_summary(ask).arguments):
        return Text()
    lines = Text.assemble(*render_call_card(ask, is_ask=False)).split("\n", allow_blank=True)
    shown = Text("\n").join(lines[:MAX_SUMMARY_LINES])
    if len(lines) > MAX_SUMMARY_LINES:
        shown.append(f"\n  … {len(lines) - MAX_SUMMARY_LINES} more lines above", "dim")
    return shown
