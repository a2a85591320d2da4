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
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from joey.core.events import AskOpened
from joey.core.task_types import Answer, AskChoice, AskKind, AskView, Response
from joey.core.text import reveal
from joey.core.tool_calls import get_summary
from joey.errors import ProviderFailureKind
from joey.presentation.questions import build_ask_view
from joey.presentation.text import find_line_breaks, to_one_line
from joey.presentation.tool_calls import render_call_card
from joey.tui.task_controller import PendingQuestion
from joey.tui.widgets.choice_list import CURSOR_MARK, ChoiceLine, ChoiceList

ANSWER_GUARD_S = 0.3
"""So long a question must have been seen before a key can answer it."""
CLICK_GUARD_S = 0.5
"""The same for a click: the second one of a double click is meant for what was there before."""
MAX_SHORT_CHARS = 160
"""The program of a longer command is named: it may not all be in view."""
MAX_SHORT_PIPELINE_CHARS = 36
"""The same for a command of several programs, which must be in view on a small screen."""
KEY_SETTLE_S = 0.25
"""So long a digit or letter must stay alone: it may be the beginning of a message."""


class RemedyAction(StrEnum):
    """A possible remedy for a failed request; the value is its label."""

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
    QuestionPanel Static, QuestionPanel CallText { height: auto; }
    QuestionPanel #programs { max-height: 3; }
    QuestionPanel Input { margin-left: 2; display: none; }
    QuestionPanel.speaking Input { display: block; }
    """

    @dataclass
    class Answered(Message):
        panel: QuestionPanel
        answer: Answer

    @dataclass
    class ActionChosen(Message):
        """An action other than an answer, after which the request can succeed."""

        panel: QuestionPanel
        action: RemedyAction

    def __init__(self, pending_question: PendingQuestion, heading_suffix: str = "") -> None:
        super().__init__()
        self.pending_question = pending_question
        self.ask_view = build_ask_view(pending_question.ask)
        self._rows = list_rows(self.ask_view, list_remedy_actions(pending_question.ask))
        self._heading_suffix = heading_suffix
        self._displayed_at = monotonic()
        self._place = Region()
        self._placed_at = monotonic()
        """When the answers came to where they are."""
        self._settling: tuple[str, Timer] | None = None
        """The character whose answer is about to be given."""

    def compose(self) -> ComposeResult:
        view = self.ask_view
        summary = render_summary(self.pending_question.ask, view)
        yield Static(self._render_heading("" if view.is_approval else view.hint), id="heading")
        # Above possibly long content, so that they stay visible on a small screen.
        for warning in view.warnings:
            yield Static(Text(f"! {warning}", "bold red"), markup=False)
        max_chars = MAX_SHORT_PIPELINE_CHARS if len(view.programs) > 1 else MAX_SHORT_CHARS
        if view.programs and len(view.text) > max_chars:
            runs = Text(f"runs {reveal(', '.join(view.programs))}", "bold")
            yield Static(runs, markup=False, id="programs")
        if summary:
            yield CallText(summary)
        if view.reason:
            yield Static(Text(f"because {view.reason}", "dim"), classes="why", markup=False)
        if view.confinement:
            yield Static(Text(view.confinement, "dim"), markup=False)
        texts = bool(summary) + bool(view.confinement) + len(view.warnings)
        yield AnswerList([ChoiceLine(format_row(row)) for row in self._rows], texts)
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
        if RemedyAction.ENTER_KEY in self._rows:
            self.query_one(ChoiceList).cursor_index = self._rows.index(RemedyAction.ENTER_KEY)
        self.screen.screen_layout_refresh_signal.subscribe(self, self._note_place)
        self.call_after_refresh(self._start_guard)

    def _start_guard(self) -> None:
        self._displayed_at = monotonic()

    def _note_place(self, _: Screen[object]) -> None:
        """A click just after the answers have moved is meant for what was there before."""
        place = self.query_one(ChoiceList).region
        if place != self._place:
            self._place, self._placed_at = place, monotonic()

    def _is_guarded_against(self, event: events.Key) -> bool:
        """Whether the question had only just appeared when the key was pressed, or not yet, so that
        the key may have been meant for something else."""
        return self.ask_view.is_approval and event.time - self._displayed_at < ANSWER_GUARD_S

    def can_handle_key(self, event: events.Key) -> bool:
        """Whether a key is meant for the question; all others are typed text."""
        if self._is_guarded_against(event):
            return False
        return (
            event.key in ("escape", "enter", "up", "down")
            or self._find_choice_by_letter(event.character) is not None
            or self.query_one(ChoiceList).find_row_by_digit(event.key) is not None
        )

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self.pending_question.ask.ask is not AskKind.COMPLETION_RESULT:
            event.stop()  # a result needs no answer: there the key is that of the whole screen
            self._handle_escape(event)
        elif not self.has_focus:
            return
        elif (chosen := self._find_choice_by_letter(event.character)) is not None:
            event.stop()
            self._answer_when_settled(event, self._rows.index(chosen))
        elif (row := self.query_one(ChoiceList).find_row_by_digit(event.key)) is not None:
            event.stop()
            self._answer_when_settled(event, row)
        elif self.can_handle_key(event) and self.query_one(ChoiceList).process_key(event.key):
            event.stop()

    def _answer_when_settled(self, event: events.Key, row: int) -> None:
        answers = self.query_one(ChoiceList)
        answers.cursor_index = row
        if not self.ask_view.is_approval or not KEY_SETTLE_S:
            answers.select_current()
            return
        timer = self.set_timer(KEY_SETTLE_S, self._answer_settled)
        self._settling = (event.character or event.key, timer)

    def _answer_settled(self) -> None:
        self._settling = None
        self.query_one(ChoiceList).select_current()

    def take_settling_character(self) -> str:
        """Take back a character that turns out to begin a message instead of answering."""
        if self._settling is None:
            return ""
        character, timer = self._settling
        self._settling = None
        timer.stop()
        return character

    def _find_choice_by_letter(self, character: str | None) -> AskChoice | None:
        """Find a choice by its letter. Only `y` and `n` decide about a call: anything else may
        begin a sentence."""
        if not self.ask_view.is_approval or character not in ("y", "n"):
            return None
        word = "yes" if character == "y" else "no"
        return next((one for one in self.ask_view.choices if one.word == word), None)

    def on_choice_list_selected(self, event: ChoiceList.Selected) -> None:
        event.stop()
        guard_s = max(ANSWER_GUARD_S, CLICK_GUARD_S)
        seen_at = max(self._displayed_at, self._placed_at)
        if event.pressed_at is not None and event.pressed_at - seen_at < guard_s:
            return
        event.sender.cursor_index = event.index
        match self._rows[event.index]:
            case AskChoice(answer=answer):
                self.post_message(self.Answered(self, answer))
            case RemedyAction() as action:
                self.post_message(self.ActionChosen(self, action))
            case None:
                self.add_class("speaking")
                self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if text := event.value.strip():
            self.post_message(self.Answered(self, Answer(Response.MESSAGE, text=text)))

    def _handle_escape(self, event: events.Key) -> None:
        if self.has_class("speaking"):
            self.remove_class("speaking")
            self.focus()
            return
        choice = next((one for one in self.ask_view.choices if one.word == "no"), None)
        if choice is not None and not self._is_guarded_against(event):
            self.post_message(self.Answered(self, choice.answer))


SMALL_TERMINAL_ANSWER_LINES = 5
"""So that a no stands beside the yes."""
SMALL_TERMINAL_RESERVED_LINES = 5
"""Not for answers; each text above them takes two more."""
CONTINUATION_INDENT = 2
"""Of the lines behind the first: they stand under its words, not under its number."""


class AnswerList(ChoiceList):
    def __init__(self, lines: Sequence[ChoiceLine], texts: int = 0) -> None:
        """`texts` are shown between the heading and the answers."""
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


MAX_SUMMARY_LINES = 7
"""The whole of what would be done is in the conversation."""
MAX_ANSWER_LABEL_CHARS = 2000
"""A user has to see what they say."""
INSTEAD_LABEL = "Reject, and say what to do instead"
_INSTEAD_INDEX = 2
"""After the yes and the no: what else may be answered does not change their digits."""

AnswerRow = AskChoice | RemedyAction | None
"""None: reject with a message."""


def list_rows(view: AskView, actions: Sequence[RemedyAction]) -> list[AnswerRow]:
    rows: list[AnswerRow] = [*view.choices, *actions]
    if view.is_approval:
        rows.insert(_INSTEAD_INDEX, None)
    return rows


def format_row(row: AnswerRow) -> str:
    match row:
        case AskChoice(full_label=label):
            return to_one_line(label, MAX_ANSWER_LABEL_CHARS)
        case RemedyAction(value=label):
            return label
        case None:
            return INSTEAD_LABEL


def render_summary(ask: AskOpened, view: AskView) -> Text:
    """Render what would be done, or the question; empty if the title or the conversation shows
    it."""
    if ask.ask in (AskKind.MISTAKE_LIMIT_REACHED, AskKind.LIMIT_REACHED):
        return Text(view.text)
    if not view.is_approval or (ask.ask is AskKind.TOOL and not get_summary(ask).arguments):
        return Text()
    return Text.assemble(*render_call_card(ask, is_ask=False))


class CallText(Widget):
    """What would be done, as far as there is room; it says how much more of it there is."""

    def __init__(self, text: Text) -> None:
        super().__init__()
        self._text = text

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        max_height = max(2, min(MAX_SUMMARY_LINES, viewport.height // 4))
        return min(max_height, len(self._wrap(width)))

    def render(self) -> Text:
        lines, height = self._wrap(self.size.width), max(1, self.size.height)
        if len(lines) > height:
            hidden_count = len(lines) - height + 1
            lines[height - 1 :] = [Text(f"  … {hidden_count} more lines above", "bold yellow")]
        return Text("\n", no_wrap=True).join(lines)

    def _wrap(self, width: int) -> list[Text]:
        return list(self._text.wrap(self.app.console, max(8, width)))
