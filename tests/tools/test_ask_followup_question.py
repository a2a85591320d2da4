from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.core.models import ToolProtocol
from joey.core.task_types import Answer, AskKind, Response
from joey.errors import ArgumentError, ToolError
from joey.tools.ask_followup_question import AskFollowupQuestion
from joey.tools.base import Access, ChangeMode
from tests.harness.bounded import run_bounded
from tests.harness.tools.tool_context import make_context

tool = AskFollowupQuestion()

XML = '<suggest>Yes, & do it</suggest>\n<suggest mode="code">No <b>never</b></suggest>'
BOTH = [{"answer": "Yes, & do it"}, {"answer": "No <b>never</b>", "mode": "code"}]


async def asked(root: Path, arguments: dict[str, Any]) -> Any:
    prepared = await tool.prepare(tool.parse(arguments), make_context(root))
    assert prepared.ask_kind is AskKind.FOLLOWUP
    assert [claim.access for claim in prepared.claims] == [Access.QUESTION]
    assert prepared.row_text is not None
    return msgspec.json.decode(prepared.row_text)


@pytest.mark.contract("tool:ask_followup_question:success")
@pytest.mark.parametrize(
    "follow_up",
    [
        [{"text": "Yes, & do it", "mode": None}, {"text": "No <b>never</b>", "mode": "code"}],
        '[{"text": "Yes, & do it"}, {"text": "No <b>never</b>", "mode": "code"}]',
        XML,
        f"\n{XML}\n",
        BOTH,
        msgspec.json.encode(BOTH).decode(),
        f"{XML}<suggest>never closed",
    ],
)
async def test_suggestions_are_understood_in_every_form(tmp_path: Path, follow_up: Any) -> None:
    row = await asked(tmp_path, {"question": "Shall I?", "follow_up": follow_up})
    assert row == {"question": "Shall I?", "suggest": BOTH}


@pytest.mark.parametrize(
    ("follow_up", "answers"),
    [
        (["a", "b"], ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ('{"suggest": [{"answer": "a"}]}', ["a"]),
        ("[a] one\n[b] two", ["[a] one", "[b] two"]),
        ({"suggest": ["a", "b"]}, ["a", "b"]),
        ({"suggest": "a"}, ["a"]),
        ("first\n\n second ", ["first", "second"]),
        ("<suggest mode=''>a</suggest><suggest>\nb\n</suggest>", ["a", "b"]),
        (None, []),
        ("", []),
        ([], []),
    ],
)
async def test_looser_forms_are_taken_for_what_they_mean(
    tmp_path: Path, follow_up: Any, answers: list[str]
) -> None:
    row = await asked(tmp_path, {"question": "Which?", "follow_up": follow_up})
    assert row["suggest"] == [{"answer": answer} for answer in answers]


def test_suggestions_that_are_never_closed_are_read_in_no_time() -> None:
    run_bounded(
        "from joey.tools.ask_followup_question import AskFollowupQuestion\n"
        "for text in ('<suggest>', '<suggest ', '<suggest a'):\n"
        "    AskFollowupQuestion().parse({'question': 'q', 'follow_up': text * 60_000})"
    )


@pytest.mark.parametrize("arguments", [{}, {"question": " "}, {"follow_up": []}])
def test_a_missing_question_is_an_argument_error(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        tool.parse(arguments)
    assert caught.value.parameter == "question"


def test_suggestions_of_the_wrong_kind_are_an_argument_error() -> None:
    with pytest.raises(ArgumentError, match="follow_up"):
        tool.parse({"question": "Which?", "follow_up": [{"answer": 1}]})


@pytest.mark.contract("tool:ask_followup_question:success")
@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        (ToolProtocol.NATIVE, "<user_message>\nthe second\n</user_message>"),
        (ToolProtocol.XML, "<answer>\nthe second\n</answer>"),
    ],
)
async def test_the_answer_becomes_the_result_with_its_images(
    tmp_path: Path, protocol: ToolProtocol, text: str
) -> None:
    ctx = make_context(tmp_path, protocol=protocol)
    prepared = await tool.prepare(tool.parse({"question": "Which?", "follow_up": []}), ctx)
    image = "data:image/png;base64,AA=="
    answer = Answer(Response.MESSAGE, text="the second", images=(image,))
    outcome = await tool.run_prepared(prepared, ctx, answer)
    assert (outcome.text, outcome.images, outcome.is_error) == (text, (image,), False)


@pytest.mark.contract("tool:ask_followup_question:failure:nobody")
async def test_without_an_answer_there_is_no_result(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    prepared = await tool.prepare(tool.parse({"question": "Which?", "follow_up": []}), ctx)
    with pytest.raises(ToolError, match="Nobody answered"):
        await tool.run_prepared(prepared, ctx, None)


@pytest.mark.contract("modes:fields")
async def test_a_picked_answer_goes_on_in_its_mode_if_the_task_has_it(tmp_path: Path) -> None:
    follow_up = [
        {"text": "plan it", "mode": "architect"},
        {"text": "stay", "mode": "code"},
        {"text": "sing", "mode": "opera"},
    ]
    ctx = make_context(tmp_path)
    prepared = await tool.prepare(tool.parse({"question": "How?", "follow_up": follow_up}), ctx)
    assert '"opera"' not in (prepared.row_text or "")

    async def directive(text: str, by: str = "person") -> object:
        answer = Answer(Response.MESSAGE, text=text, by=by)
        return (await tool.run_prepared(prepared, ctx, answer)).directive

    assert await directive("plan it") == ChangeMode("architect")
    assert await directive("plan it", by="timeout") is None
    assert [await directive(text) for text in ("stay", "sing", "else")] == [None] * 3
