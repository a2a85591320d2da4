from __future__ import annotations

import json

import pytest

from joey.core.events import AskOpened
from joey.core.task_types import Answer, AskKind, Response
from joey.presentation.questions import (
    build_ask_view,
    format_answer_hint,
    format_question,
    parse_answer,
)

YES, NO = Answer(Response.YES), Answer(Response.NO)
REJECTED = Answer(Response.NO, stop=True)
QUESTION = json.dumps(
    {"question": "Which one?", "suggest": [{"answer": "the first"}, {"answer": "the last"}]}
)


def said(text: str) -> Answer:
    return Answer(Response.MESSAGE, text=text)


TABLE: list[tuple[AskKind, str, Answer | None]] = [
    (AskKind.COMMAND, "y", YES),
    (AskKind.COMMAND, " YES ", YES),
    (AskKind.COMMAND, "n", REJECTED),
    (AskKind.COMMAND, "", None),
    (AskKind.COMMAND, "yes, but with --dry-run", said("yes, but with --dry-run")),
    (AskKind.TOOL, "y", YES),
    (AskKind.TOOL, "yy", said("yy")),
    (AskKind.TOOL, "use tabs", said("use tabs")),
    (AskKind.FOLLOWUP, "1", said("the first")),
    (AskKind.FOLLOWUP, "2", said("the last")),
    (AskKind.FOLLOWUP, "3", said("3")),
    (AskKind.FOLLOWUP, "0", said("0")),
    (AskKind.FOLLOWUP, "none of them", said("none of them")),
    (AskKind.FOLLOWUP, "yes", said("yes")),
    (AskKind.FOLLOWUP, "", None),
    (AskKind.COMPLETION_RESULT, "", YES),
    (AskKind.COMPLETION_RESULT, "y", YES),
    (AskKind.COMPLETION_RESULT, "no", said("no")),
    (AskKind.COMPLETION_RESULT, "also /goodbye", said("also /goodbye")),
    (AskKind.RESUME_TASK, "", YES),
    (AskKind.RESUME_TASK, "n", NO),
    (AskKind.RESUME_COMPLETED_TASK, "", None),
    (AskKind.RESUME_COMPLETED_TASK, "go on", said("go on")),
    (AskKind.MISTAKE_LIMIT_REACHED, "", None),
    (AskKind.MISTAKE_LIMIT_REACHED, "n", NO),
    (AskKind.MISTAKE_LIMIT_REACHED, "look at a.py", said("look at a.py")),
    (AskKind.API_REQ_FAILED, "y", YES),
    (AskKind.API_REQ_FAILED, "", None),
    (AskKind.API_REQ_FAILED, "and be brief", Answer(Response.YES, text="and be brief")),
    (AskKind.LIMIT_REACHED, "n", NO),
    (AskKind.LIMIT_REACHED, "perhaps", None),
    (AskKind.LIMIT_REACHED, "", None),
]


@pytest.mark.parametrize(("kind", "line", "answer"), TABLE)
def test_a_line_means_what_it_says(kind: AskKind, line: str, answer: Answer | None) -> None:
    text = QUESTION if kind is AskKind.FOLLOWUP else ""
    assert parse_answer(AskOpened(ts=1, ask=kind, text=text), line) == answer


@pytest.mark.parametrize("kind", list(AskKind))
def test_every_kind_of_question_says_what_may_be_answered(kind: AskKind) -> None:
    text = '{"count": 3, "type": "requests"}' if kind is AskKind.LIMIT_REACHED else ""
    ask = AskOpened(ts=1, ask=kind, text=text)
    assert format_answer_hint(build_ask_view(ask))
    assert isinstance(format_question(build_ask_view(ask)), str)


def test_suggestions_are_numbered() -> None:
    ask = AskOpened(ts=1, ask=AskKind.FOLLOWUP, text=QUESTION)
    assert format_question(build_ask_view(ask)) == "Which one?\n  1. the first\n  2. the last"
    assert "1-2" in format_answer_hint(build_ask_view(ask))


def test_a_question_cannot_command_the_terminal() -> None:
    ask = AskOpened(ts=1, ask=AskKind.FOLLOWUP, text='{"question": "\\u001b[2Jwell?"}')
    assert format_question(build_ask_view(ask)) == "well?"
