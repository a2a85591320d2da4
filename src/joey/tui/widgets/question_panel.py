"""The panel with a task's open question and its possible answers.

Permission is given only by a key that was meant to give it. Keys typed at the moment a question
appears belong to the message that was being typed: see `QuestionPanel.can_handle_key`.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from joey.core.events import AskOpened
from joey.core.task_types import APPROVAL_ASKS, Answer, AskKind, Response
from joey.presentation.phrases import COMMAND_TOOL_NAME
from joey.presentation.questions import (
    describe_confinement,
    describe_reasons,
    format_question,
    parse_follow_up,
)
from joey.presentation.text import find_line_breaks, to_one_line
from joey.presentation.tool_calls import format_write_question, is_no_change, render_call_card
from joey.tui.task_controller import PendingQuestion
from joey.tui.widgets.choice_list import CURSOR_MARK, ChoiceLine, ChoiceList

ANSWER_GUARD_S = 0.3
"""So long a question must have been seen before a key or a click can answer it."""


class QuestionPanel(Widget, can_focus=True):
    FOCUS_ON_CLICK = False
    DEFAULT_CSS = """
    QuestionPanel { height: auto; padding: 0 1; border-top: solid ansi_yellow; }
    QuestionPanel Static { height: auto; }
    QuestionPanel #about { max-height: 8; }
    QuestionPanel Input {
        margin-left: 2; display: none;
    }
    QuestionPanel.speaking Input { display: block; }
    """

    class Answered(Message):
        def __init__(self, panel: QuestionPanel, answer: Answer) -> None:
            super().__init__()
            self.panel = panel
            self.answer = answer

    def __init__(
        self,
        pending_question: PendingQuestion,
        question_view: QuestionView,
        heading_suffix: str = "",
    ) -> None:
        super().__init__()
        self.pending_question = pending_question
        self.question_view = question_view
        self._heading_suffix = heading_suffix
        self._displayed_at = monotonic()

    def compose(self) -> ComposeResult:
        question = self.question_view
        yield Static(self._render_heading(question.hint), markup=False, id="heading")
        if question.summary:
            yield Static(question.summary, markup=False, id="about")
        if question.reason:
            yield Static(Text(f"because {question.reason}", "dim"), classes="why", markup=False)
        if question.sandbox_text:
            is_confined = self.pending_question.ask.sandbox in ("full", "landlock")
            yield Static(
                Text(question.sandbox_text, "dim" if is_confined else "yellow"), markup=False
            )
        if question.warning:
            yield Static(Text(f"! {question.warning}", "bold red"), markup=False)
        texts = sum(map(bool, (question.summary, question.sandbox_text, question.warning)))
        yield AnswerList(
            [ChoiceLine(one.label, digit=one.digit) for one in question.choices], texts
        )
        yield Input(
            placeholder="what shall it do instead? (Enter sends, Esc goes back)", compact=True
        )

    def show_hint(self, text: str) -> None:
        self.query_one("#heading", Static).update(self._render_heading(text))

    def _render_heading(self, hint: str) -> Text:
        heading = Text().append(self.question_view.title, "bold yellow")
        if self._heading_suffix:
            heading.append(f"  {self._heading_suffix}", "dim")
        if hint:
            heading.append(f"  {hint}", "dim")
        return heading

    def on_mount(self) -> None:
        self.call_after_refresh(self._start_guard)

    def _start_guard(self) -> None:
        self._displayed_at = monotonic()

    @property
    def is_guarded(self) -> bool:
        """It has only just appeared: keys may have been meant for something else."""
        return self.question_view.is_approval and monotonic() - self._displayed_at < ANSWER_GUARD_S

    def can_handle_key(self, event: events.Key) -> bool:
        """Whether a key is meant for the question; all others are words that are being typed."""
        if self.is_guarded:
            return False
        return (
            event.key in ("escape", "enter", "up", "down")
            or self._find_choice_by_letter(event.character) is not None
            or self.query_one(ChoiceList).is_selection_digit(event.key)
        )

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self.pending_question.ask.ask is not AskKind.COMPLETION_RESULT:
            event.stop()  # a result needs no answer: there the key is that of the whole screen
            self._handle_escape()
        elif not self.has_focus:
            return
        elif (chosen := self._find_choice_by_letter(event.character)) is not None:
            event.stop()
            self._select_choice(chosen)
        elif self.can_handle_key(event) and self.query_one(ChoiceList).process_key(event.key):
            event.stop()

    def _find_choice_by_letter(self, character: str | None) -> AnswerChoice | None:
        """Letters decide about a call alone: anything else may be answered with a sentence."""
        if not self.question_view.is_approval or not character:
            return None
        return next((one for one in self.question_view.choices if character in one.letters), None)

    def on_choice_list_selected(self, event: ChoiceList.Selected) -> None:
        event.stop()
        if event.pressed_at is not None and event.pressed_at - self._displayed_at < ANSWER_GUARD_S:
            return
        event.sender.cursor_index = event.index
        self._select_choice(self.question_view.choices[event.index])

    def _select_choice(self, choice: AnswerChoice) -> None:
        if choice.answer is not None:
            self.post_message(self.Answered(self, choice.answer))
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
        choice = next((one for one in self.question_view.choices if one.is_escape_choice), None)
        if choice is not None and choice.answer is not None and not self.is_guarded:
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
"""The whole of what would be done stands in the conversation."""
MAX_ANSWER_LABEL_CHARS = 2000
"""A user has to see what they say."""
YES_ANSWER = Answer(Response.YES)
NO_ANSWER = Answer(Response.NO)


class AnswerChoice(Struct, frozen=True):
    label: str
    answer: Answer | None
    """None: the user says it in words."""
    letters: str = ""
    """Letters that choose it, beside its number."""
    digit: int | None = None
    """Where it is always the same, whatever else may be answered; else its place."""
    is_escape_choice: bool = False


class QuestionView(Struct, frozen=True):
    title: str
    choices: tuple[AnswerChoice, ...]
    summary: Text
    """What would be done, or what is asked."""
    reason: str = ""
    sandbox_text: str = ""
    """How far the operating system would hold a command."""
    warning: str = ""
    hint: str = ""
    is_approval: bool = False
    """A yes lets something happen: it is never given by keys that were meant for something else."""


def build_question_view(ask: AskOpened) -> QuestionView:
    if ask.ask in APPROVAL_ASKS:
        return _build_approval_view(ask)
    match ask.ask:
        case AskKind.FOLLOWUP:
            follow_up = parse_follow_up(ask.text)
            suggested = tuple(
                AnswerChoice(
                    to_one_line(one.label, MAX_ANSWER_LABEL_CHARS),
                    Answer(Response.MESSAGE, text=one.answer),
                )
                for one in follow_up.suggestions
            )
            return QuestionView("Your answer", suggested, Text(), hint="or write your own below")
        case AskKind.COMPLETION_RESULT:
            accept = AnswerChoice("accept the result", YES_ANSWER, "y")
            return QuestionView("Done?", (accept,), Text(), hint="or say below what to change")
        case AskKind.API_REQ_FAILED:
            choices = (
                AnswerChoice("try again", YES_ANSWER, "y"),
                AnswerChoice("stop", NO_ANSWER, "n", is_escape_choice=True),
            )
            return QuestionView(
                "The request failed", choices, Text(), hint="words go along with it"
            )
        case AskKind.MISTAKE_LIMIT_REACHED:
            choices = (
                AnswerChoice("let it try again", YES_ANSWER, "y"),
                AnswerChoice("stop", NO_ANSWER, "n", is_escape_choice=True),
            )
            return QuestionView(
                "It keeps going wrong",
                choices,
                Text(format_question(ask)),
                hint="or say how to go on",
            )
        case AskKind.LIMIT_REACHED:
            choices = (
                AnswerChoice("go on", YES_ANSWER, "y"),
                AnswerChoice("stop here", NO_ANSWER, "n", is_escape_choice=True),
            )
            return QuestionView("A limit is reached", choices, Text(format_question(ask)))
        case AskKind.RESUME_TASK:
            choices = (
                AnswerChoice("go on", YES_ANSWER, "y"),
                AnswerChoice("not now", NO_ANSWER, "n", is_escape_choice=True),
            )
            return QuestionView("Go on with this task?", choices, Text(), hint="or say what to do")
        case _:
            leave = AnswerChoice("leave it as it is", NO_ANSWER, "n", is_escape_choice=True)
            return QuestionView("The task is done", (leave,), Text(), hint="or say what to do next")


def _build_approval_view(ask: AskOpened) -> QuestionView:
    choices = [AnswerChoice("yes", YES_ANSWER, "y", digit=1)]
    if ask.always_rule:
        rule = to_one_line(ask.always_rule, MAX_ANSWER_LABEL_CHARS)
        choices.append(AnswerChoice(f"always: {rule}", Answer(Response.YES, always=True), "a", 2))
    choices.append(AnswerChoice("no", NO_ANSWER, "n", digit=3, is_escape_choice=True))
    choices.append(AnswerChoice("no, and say what to do instead", None, digit=4))
    sandbox_text = "" if ask.sandbox is None else describe_confinement(ask.sandbox)
    return QuestionView(
        _format_approval_title(ask),
        tuple(choices),
        _render_summary(ask),
        reason=describe_reasons(ask.reasons, ask.reason),
        sandbox_text=sandbox_text,
        warning="this file is protected: it tells joey itself what to do"
        if ask.is_protected
        else "",
        is_approval=True,
    )


def _format_approval_title(ask: AskOpened) -> str:
    match ask.ask:
        case AskKind.COMMAND:
            return "Run this command?"
        case AskKind.USE_MCP_SERVER:
            return "Ask this MCP server?"
        case AskKind.BROWSER_ACTION_LAUNCH:
            return "Use the browser?"
        case _:
            if ask.path and (ask.diff or is_no_change(ask.text)):
                return format_write_question(ask.text, ask.path)
            return "Allow this?"


def _render_summary(ask: AskOpened) -> Text:
    if ask.diff and ask.path:
        return Text()  # the change stands above
    tool = COMMAND_TOOL_NAME if ask.ask is AskKind.COMMAND else ask.tool or ""
    whole = render_call_card(tool, ask.text, ask.path, None, is_ask=False)
    lines = whole.split("\n", allow_blank=True)
    if ask.ask is AskKind.TOOL:
        return lines[0]
    shown = Text("\n").join(lines[:MAX_SUMMARY_LINES])
    if len(lines) > MAX_SUMMARY_LINES:
        shown.append(f"\n  … {len(lines) - MAX_SUMMARY_LINES} more lines above", "dim")
    return shown
