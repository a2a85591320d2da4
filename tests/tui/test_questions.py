"""Questions as choices, and keys that are typed over them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult

from joey.client.session import Session
from joey.core.events import AskOpened
from joey.core.permissions.hosts import CommandNetwork
from joey.core.permissions.reasons import Access, Reason, ReasonKind
from joey.core.task_types import Answer, AskKind, Response, RuleScope
from joey.presentation.questions import build_ask_view
from joey.tui.app_services import CompletionItem, PickerEntry
from joey.tui.task_controller import PendingQuestion
from joey.tui.widgets import dialog_area as front_module
from joey.tui.widgets import question_panel
from joey.tui.widgets.composer import Composer
from joey.tui.widgets.dialog_area import DialogArea, ListPicker
from joey.tui.widgets.prompt_history import PromptHistory
from joey.tui.widgets.question_panel import AnswerList, CallText, QuestionPanel

EDIT = AskOpened(ts=1, ask=AskKind.TOOL, tool="write_to_file", path="a.py", diff="+1", text="{}")
COMMAND = AskOpened(
    ts=1,
    ask=AskKind.COMMAND,
    tool="execute_command",
    text="make test",
    always_rule="make test",
    reasons=(Reason(ReasonKind.SETTING_OFF, Access.EXECUTE, setting="alwaysAllowExecute"),),
    sandbox="full",
)
REJECTED = Answer(Response.NO, stop=True)
RESULT = AskOpened(ts=1, ask=AskKind.COMPLETION_RESULT)
JUST_NOW, LONG_AGO = 1000.0, 0.0
"""The moments in which keys are not taken for answers, whatever the clock says."""


class Nothing:
    def list_commands(self) -> list[CompletionItem]:
        return []

    async def find_files(self, typed: str) -> list[str]:
        return []


class Small(App[None]):
    """The composer below a question, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.composer = Composer(Nothing(), PromptHistory(None, Path()))
        self.front = DialogArea(self.composer)
        self.answers: list[Answer] = []
        self.sent: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.front
        yield self.composer

    def on_mount(self) -> None:
        self.composer.focus()

    async def on_event(self, event: Any) -> None:
        if (
            hasattr(event, "is_printable")
            and not event.is_forwarded
            and self.front.route_key(event)
        ):
            return
        await super().on_event(event)

    def on_question_panel_answered(self, event: QuestionPanel.Answered) -> None:
        self.answers.append(event.answer)

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self.sent.append(event.text)


ALWAYS = Answer(Response.YES, always=True, scope=RuleScope.EVERYWHERE)


def guard(patch: pytest.MonkeyPatch, *, seen: float = LONG_AGO, written: float = LONG_AGO) -> None:
    """When the question was seen first, and when words were written last."""
    patch.setattr(question_panel, "ANSWER_GUARD_S", seen)
    patch.setattr(question_panel, "CLICK_GUARD_S", seen)
    patch.setattr(question_panel, "KEY_SETTLE_S", 0)
    patch.setattr(front_module, "ANSWER_GUARD_S", written)


def asked(ask: AskOpened) -> PendingQuestion:
    return PendingQuestion(cast("Session", SimpleNamespace(id="one")), ask)


async def appear(app: Small, ask: AskOpened) -> None:
    """Until it stands there, and the keys go where they are to go."""
    app.front.show_question(asked(ask), "")
    drawn = asyncio.Event()
    app.front.call_after_refresh(drawn.set)
    async with asyncio.timeout(20):
        await drawn.wait()


def labels(ask: AskOpened) -> list[str]:
    rows = question_panel.list_rows(build_ask_view(ask), ())
    return [question_panel.format_row(row) for row in rows]


def test_a_command_can_be_allowed_for_good_only_where_a_rule_is_offered() -> None:
    instead = "Reject, and say what to do instead"
    assert labels(COMMAND) == [
        "Allow",
        "Reject and stop",
        instead,
        "Always allow in every directory: make test",
    ]
    assert labels(EDIT) == ["Allow", "Reject and stop", instead]


def test_a_question_about_a_command_shows_it_and_what_holds_it() -> None:
    view = build_ask_view(COMMAND)
    assert question_panel.render_summary(COMMAND, view).plain == "$ make test"
    assert view.reason == "commands require confirmation (alwaysAllowExecute is off)"
    assert view.confinement == "sandboxed (full): writes only in this directory"


def test_what_a_model_writes_cannot_command_the_terminal() -> None:
    sneaky = AskOpened(
        ts=1, ask=AskKind.COMMAND, text="echo \x1b[2Jhi\u202e", always_rule="a\x1b]0;x\x07"
    )
    summary = question_panel.render_summary(sneaky, build_ask_view(sneaky))
    shown = summary.plain + "".join(labels(sneaky))
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("kind", list(AskKind))
def test_every_kind_of_question_can_be_answered_or_typed_over(kind: AskKind) -> None:
    question = build_ask_view(AskOpened(ts=1, ask=kind))
    assert question.title
    answers = [choice.answer for choice in question.choices]
    if kind is AskKind.FOLLOWUP:
        assert answers == []  # nothing was suggested: the words below are the answer
    else:
        assert answers


@pytest.mark.contract("screen:type-ahead")
@settings(max_examples=15)
@given(st.text("1234yna ,.x", min_size=1, max_size=12))
async def test_keys_that_come_with_the_question_are_text(typed: str) -> None:
    app = Small()
    with pytest.MonkeyPatch.context() as patch:
        guard(patch, seen=JUST_NOW)
        async with app.run_test() as pilot:
            app.front.show_question(asked(COMMAND), "")
            await pilot.pause()
            for char in typed:
                app.post_message(events.Key(_key(char), char))
            async with asyncio.timeout(20):
                while not app.answers and len(app.composer.draft.text) < len(typed):
                    await pilot.pause()
            assert app.answers == []
            assert app.composer.draft.text == typed


async def test_a_question_that_was_seen_is_answered_by_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    for key, expected in (
        ("y", Answer(Response.YES)),
        ("4", ALWAYS),
        ("2", REJECTED),
        ("n", REJECTED),
        ("escape", REJECTED),
        ("enter", Answer(Response.YES)),
    ):
        app = Small()
        async with app.run_test() as pilot:
            await appear(app, COMMAND)
            await pilot.press(key)
            await pilot.pause()
            assert app.answers == [expected], key
            assert app.composer.is_empty


@pytest.mark.contract("screen:type-ahead")
@pytest.mark.parametrize("ask", [COMMAND, RESULT])
async def test_a_click_answers_only_a_question_that_was_seen(
    monkeypatch: pytest.MonkeyPatch, ask: AskOpened
) -> None:
    app = Small()
    async with app.run_test() as pilot:
        guard(monkeypatch, seen=JUST_NOW)
        await appear(app, ask)
        await pilot.click(AnswerList, offset=(4, 0))
        await pilot.pause()
        assert app.answers == []
        guard(monkeypatch)
        await pilot.click(AnswerList, offset=(4, 0))
        await pilot.pause()
        assert app.answers == [Answer(Response.YES)]


async def test_a_click_just_after_the_answers_have_moved_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Small()
    async with app.run_test(size=(80, 30)) as pilot:
        await appear(app, COMMAND)
        await pilot.pause()
        monkeypatch.setattr(question_panel, "CLICK_GUARD_S", JUST_NOW)
        app.query_one(QuestionPanel)._displayed_at -= 2 * JUST_NOW
        app.query_one(QuestionPanel)._placed_at -= 2 * JUST_NOW
        app.screen.styles.padding = (3, 0, 0, 0)
        await pilot.pause()
        await pilot.click(AnswerList, offset=(4, 0))
        await pilot.pause()
        assert app.answers == []
        app.query_one(QuestionPanel)._placed_at -= 2 * JUST_NOW
        await pilot.click(AnswerList, offset=(4, 0))
        await pilot.pause()
        assert app.answers == [Answer(Response.YES)]


async def test_no_has_the_same_number_whether_always_is_offered_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    for always in (None, "git status"):
        ask = AskOpened(ts=1, ask=AskKind.COMMAND, text="git status", always_rule=always)
        app = Small()
        async with app.run_test() as pilot:
            await appear(app, ask)
            assert "2 Reject" in app.query_one(AnswerList).render().plain
            await pilot.press("2")
            await pilot.pause()
            assert app.answers == [REJECTED]


async def test_a_message_over_a_result_is_sent_whole_whatever_it_begins_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    app = Small()
    async with app.run_test() as pilot:
        await appear(app, RESULT)
        await pilot.press(*(_key(char) for char in "yes, but 1 more"), "enter")
        await pilot.pause()
        assert app.answers == []
        assert app.sent == ["yes, but 1 more"]


@pytest.mark.parametrize("size", [(80, 24), (40, 20), (20, 10)])
async def test_a_long_answer_can_be_read_whole(size: tuple[int, int]) -> None:
    expected = [f"word{number}" for number in range(40)]
    suggested = [{"answer": " ".join(expected[:20])}, {"answer": " ".join(expected[20:])}]
    text = json.dumps({"question": "Which?", "suggest": suggested})
    app = Small()
    async with app.run_test(size=size) as pilot:
        await appear(app, AskOpened(ts=1, ask=AskKind.FOLLOWUP, text=text))
        answers = app.query_one(AnswerList)
        seen = answers.render().plain.split()
        await pilot.press("down")
        await pilot.pause()
        seen += answers.render().plain.split()
        assert max(map(len, answers.render().plain.splitlines())) <= size[0]
        if size[1] > 10:
            assert {*expected} <= {*seen}


async def test_a_draft_keeps_the_keys_when_a_question_appears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    app = Small()
    async with app.run_test() as pilot:
        await pilot.press("h", "i")
        await appear(app, COMMAND)
        await pilot.press("y", "1")
        await pilot.pause()
        assert app.answers == []
        assert app.composer.draft.text == "hiy1"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("1", Answer(Response.YES)),
        ("4", ALWAYS),
        ("n", REJECTED),
        ("enter", Answer(Response.YES)),
        ("escape", REJECTED),
    ],
)
async def test_keys_answer_again_once_the_message_was_sent(
    monkeypatch: pytest.MonkeyPatch, key: str, expected: Answer
) -> None:
    guard(monkeypatch, written=JUST_NOW)
    app = Small()
    async with app.run_test() as pilot:
        await pilot.press("h", "i")
        await appear(app, COMMAND)
        await pilot.press("enter", "y")
        await pilot.pause()
        assert app.answers == [], "what is typed in one go are words, all of it"
        assert app.composer.draft.text == "y"
        await pilot.press("backspace")
        guard(monkeypatch, written=LONG_AGO)
        await pilot.press(key)
        await pilot.pause()
        assert app.answers == [expected]
        assert app.composer.is_empty


async def test_tab_leads_to_a_message_whatever_it_begins_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    app = Small()
    async with app.run_test() as pilot:
        await appear(app, COMMAND)
        app.front.toggle_focus()
        await pilot.pause()
        await pilot.press("n", "o", "t")
        await pilot.pause()
        assert app.answers == []
        assert app.composer.draft.text == "not"


def _key(char: str) -> str:
    return {" ": "space", ",": "comma", ".": "full_stop"}.get(char, char)


OTHER = msgspec.structs.replace(COMMAND, ts=2, text="rm -r build")


async def test_a_key_that_is_held_down_answers_one_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    app = Small()
    async with app.run_test() as pilot:
        await appear(app, COMMAND)
        await pilot.press("enter")
        await pilot.pause()
        await appear(app, OTHER)
        await pilot.press("enter", "enter", "enter")
        await pilot.pause()
        assert len(app.answers) == 1 and app.composer.is_empty
        monkeypatch.setattr(front_module, "REPEAT_GUARD_S", LONG_AGO)
        await pilot.press("enter")
        await pilot.pause()
        assert len(app.answers) == 2


async def test_an_enter_that_sent_a_message_does_not_answer_when_it_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    app = Small()
    async with app.run_test() as pilot:
        await appear(app, COMMAND)
        await pilot.press("h", "i", "enter", "enter", "enter")
        await pilot.pause()
        assert app.sent == ["hi"] and app.answers == []
        monkeypatch.setattr(front_module, "REPEAT_GUARD_S", LONG_AGO)
        await pilot.press("enter")
        await pilot.pause()
        assert app.answers == [Answer(Response.YES)]


async def test_an_enter_that_began_before_the_question_does_not_answer_when_it_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    app = Small()
    async with app.run_test() as pilot:
        await pilot.press("h", "i", "enter")
        await appear(app, COMMAND)
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert app.sent == ["hi"] and app.answers == []


async def test_the_enter_that_takes_from_a_list_does_not_answer_the_question_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard(monkeypatch)
    app = Small()
    async with app.run_test() as pilot:
        await appear(app, COMMAND)
        picker = ListPicker("Mode", [PickerEntry("code", "code")])

        async def pick() -> None:
            await app.front.pick(picker)

        picked = asyncio.create_task(pick())
        await pilot.pause()
        await pilot.press("enter")
        await picked
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert app.answers == []


async def test_a_key_that_was_pressed_before_the_question_was_seen_is_no_answer_when_it_comes_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(question_panel, "KEY_SETTLE_S", 0)
    app = Small()
    async with app.run_test() as pilot:
        early = [events.Key("y", "y"), events.Key("enter", None)]
        await appear(app, COMMAND)
        await pilot.pause(2 * question_panel.ANSWER_GUARD_S)
        for event in early:
            app.post_message(event)
        await pilot.pause()
        await pilot.pause()
        assert app.answers == []


@pytest.mark.parametrize("key", ["y", "1"])
async def test_enter_after_a_letter_or_digit_does_not_answer_the_next_question(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """Some press it after a `y`, which has already answered by itself."""
    guard(monkeypatch)
    app = Small()
    async with app.run_test() as pilot:
        await appear(app, COMMAND)
        await pilot.press(key)
        await pilot.pause()
        await appear(app, OTHER)
        await pilot.press("enter")
        await pilot.pause()
        assert len(app.answers) == 1 and app.composer.is_empty


@pytest.mark.parametrize("typed", ["yes, but only once", "1 more thing", "no idea", "4ever"])
async def test_a_message_is_no_answer_whatever_it_begins_with(
    monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    guard(monkeypatch)
    monkeypatch.setattr(question_panel, "KEY_SETTLE_S", 60)
    app = Small()
    async with app.run_test() as pilot:
        await appear(app, COMMAND)
        await pilot.press(*map(_key, typed))
        await pilot.pause()
        assert app.answers == []
        assert app.composer.draft.text == typed


async def test_a_digit_that_stays_alone_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    guard(monkeypatch)
    monkeypatch.setattr(question_panel, "KEY_SETTLE_S", 0.01)
    app = Small()
    async with app.run_test() as pilot:
        await appear(app, COMMAND)
        await pilot.press("2")
        async with asyncio.timeout(20):
            while not app.answers:
                await pilot.pause(0.01)
        assert app.answers == [REJECTED]


async def test_letters_of_other_choices_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    guard(monkeypatch)
    for letter in "aeotdh":
        app = Small()
        async with app.run_test() as pilot:
            await appear(app, COMMAND)
            await pilot.press(letter)
            await pilot.pause()
            assert app.answers == [] and app.composer.draft.text == letter


async def test_what_is_typed_while_a_list_loads_is_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Small()
    async with app.run_test() as pilot:
        await pilot.press("h", "i")
        entries = [PickerEntry("one", "one"), PickerEntry("two", "two")]
        picker = ListPicker("Model", entries)
        chosen: list[PickerEntry | None] = []

        async def pick() -> None:
            answer = await app.front.pick(picker)
            chosen.append(answer)

        picked = asyncio.create_task(pick())
        await pilot.press("!", "enter")
        await pilot.pause()
        assert app.sent == ["hi!"] and not picked.done()
        async with asyncio.timeout(20):
            while app.focused is None or picker not in app.focused.ancestors_with_self:
                await pilot.pause(0.01)
        await pilot.press("escape")
        await picked
        assert chosen == [None]


@pytest.mark.parametrize("size", [(40, 10), (30, 8), (80, 24)])
async def test_what_is_allowed_and_a_no_are_in_view_on_small_screens(size: tuple[int, int]) -> None:
    scopes = (RuleScope.DIRECTORY, RuleScope.TASK, RuleScope.EVERYWHERE)
    network = CommandNetwork(can_open=True, offered_hosts=("packages.example",))
    ask = msgspec.structs.replace(COMMAND, always_scopes=scopes, network=network)
    app = Small()
    async with app.run_test(size=size) as pilot:
        await appear(app, ask)
        await pilot.pause()
        shown = app.query_one(AnswerList).render().plain
        assert "1 Allow" in shown and "2 Reject" in shown
        about = app.query_one(CallText).region
        assert about.height and about.bottom <= size[1]
