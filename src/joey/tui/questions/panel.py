"""The open question of a task, with what may be answered.

Permission is given by a key that was meant to give it. What is typed in the moment in which a
question appears belongs to the words that were being typed: see `wants`.
"""

from __future__ import annotations

from time import monotonic

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from joey.core.task import Answer, AskKind, Response
from joey.tui.choice_list import ChoiceList, Line
from joey.tui.dialogue import Asked
from joey.tui.questions.answer_list import AnswerList
from joey.tui.questions.question import Choice, Question

GUARD = 0.3
"""Seconds for which a question must have been seen before a key or a click can answer it."""


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

    def __init__(self, asked: Asked, question: Question, who: str = "") -> None:
        super().__init__()
        self.asked = asked
        self.question = question
        self._who = who
        self._seen_at = monotonic()

    def compose(self) -> ComposeResult:
        question = self.question
        yield Static(self._heading(question.hint), markup=False, id="heading")
        if question.about:
            yield Static(question.about, markup=False, id="about")
        if question.why:
            yield Static(Text(f"because {question.why}", "dim"), classes="why", markup=False)
        if question.held:
            is_held = self.asked.ask.sandbox in ("full", "landlock")
            yield Static(Text(question.held, "dim" if is_held else "yellow"), markup=False)
        if question.warning:
            yield Static(Text(f"! {question.warning}", "bold red"), markup=False)
        texts = sum(map(bool, (question.about, question.held, question.warning)))
        yield AnswerList([Line(one.label, number=one.number) for one in question.choices], texts)
        yield Input(
            placeholder="what shall it do instead? (Enter sends, Esc goes back)", compact=True
        )

    def hint(self, text: str) -> None:
        self.query_one("#heading", Static).update(self._heading(text))

    def _heading(self, hint: str) -> Text:
        heading = Text().append(self.question.title, "bold yellow")
        if self._who:
            heading.append(f"  {self._who}", "dim")
        if hint:
            heading.append(f"  {hint}", "dim")
        return heading

    def on_mount(self) -> None:
        self.call_after_refresh(self._begin_guard)

    def _begin_guard(self) -> None:
        self._seen_at = monotonic()

    @property
    def is_guarded(self) -> bool:
        """It has only just appeared: keys may have been meant for something else."""
        return self.question.is_approval and monotonic() - self._seen_at < GUARD

    def wants(self, event: events.Key) -> bool:
        """Whether a key is meant for the question; all others are words that are being typed."""
        if self.is_guarded:
            return False
        return (
            event.key in ("escape", "enter", "up", "down")
            or self._meant_by(event.character) is not None
            or self.query_one(ChoiceList).knows(event.key)
        )

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self.asked.ask.ask is not AskKind.COMPLETION_RESULT:
            event.stop()  # a result needs no answer: there the key is that of the whole screen
            self._escape()
        elif not self.has_focus:
            return
        elif (chosen := self._meant_by(event.character)) is not None:
            event.stop()
            self._choose(chosen)
        elif self.wants(event) and self.query_one(ChoiceList).hear(event.key):
            event.stop()

    def _meant_by(self, character: str | None) -> Choice | None:
        """Letters decide about a call alone: anything else may be answered with a sentence."""
        if not self.question.is_approval or not character:
            return None
        return next((one for one in self.question.choices if character in one.keys), None)

    def on_choice_list_taken(self, event: ChoiceList.Taken) -> None:
        event.stop()
        if event.pressed_at is not None and event.pressed_at - self._seen_at < GUARD:
            return
        event.sender.at = event.number
        self._choose(self.question.choices[event.number])

    def _choose(self, choice: Choice) -> None:
        if choice.answer is not None:
            self.post_message(self.Answered(self, choice.answer))
            return
        self.add_class("speaking")
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if words := event.value.strip():
            self.post_message(self.Answered(self, Answer(Response.MESSAGE, text=words)))

    def _escape(self) -> None:
        if self.has_class("speaking"):
            self.remove_class("speaking")
            self.focus()
            return
        choice = next((one for one in self.question.choices if one.on_escape), None)
        if choice is not None and choice.answer is not None and not self.is_guarded:
            self.post_message(self.Answered(self, choice.answer))
