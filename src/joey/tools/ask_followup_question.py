"""The `ask_followup_question` tool: asks the user a question, with suggested answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct

from joey.core.models import ToolProtocol
from joey.core.modes import ToolGroup
from joey.core.prompts.messages_to_model import render_answer, render_unattended_question
from joey.core.task_types import Answer, AnsweredBy, AskKind, get_first_suggestion
from joey.core.text import compile_regex
from joey.errors import ToolError
from joey.ports.tool_context import ToolContext
from joey.tools.base import (
    Access,
    AvailabilityContext,
    ChangeMode,
    Claim,
    Outcome,
    PreparedToolCall,
    Tool,
)
from joey.tools.parameters import try_decode_json

_OPENING_TAG_RE = compile_regex(r"<suggest(\s[^<>]*+)?>")
_CLOSING_TAG = "</suggest>"
_MODE_ATTRIBUTE_RE = compile_regex(r"""\smode\s*=\s*["']([^"']*)["']""")


class SuggestedAnswer(Struct, frozen=True):
    text: Annotated[str, Meta(description="A complete answer.")]
    mode: Annotated[
        str | None, Meta(description="Slug of the mode to switch to with this answer.")
    ] = None


class AskFollowupQuestionParams(Struct, frozen=True):
    question: Annotated[str, Meta(description="One clear question, with its context.")]
    follow_up: Annotated[
        tuple[SuggestedAnswer, ...],
        Meta(description="Suggested answers, the best first."),
    ]


class PreparedQuestion(PreparedToolCall, frozen=True, kw_only=True):
    modes_by_answer: dict[str, str]
    """Modes to go on in, by the suggested answers that lead there."""


class AskFollowupQuestion(Tool[AskFollowupQuestionParams, PreparedQuestion]):
    name: ClassVar[str] = "ask_followup_question"
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    params: ClassVar[type[Struct]] = AskFollowupQuestionParams
    required_texts: ClassVar[tuple[str, ...]] = ("question",)

    def is_offered(self, context: AvailabilityContext) -> bool:
        return not context.is_unattended

    def parse(self, arguments: dict[str, Any]) -> AskFollowupQuestionParams:
        suggestions = _normalize_suggestions(arguments.get("follow_up"))
        return super().parse({**arguments, "follow_up": suggestions})

    async def prepare(
        self, params: AskFollowupQuestionParams, ctx: ToolContext
    ) -> PreparedQuestion:
        known = {mode.slug for mode in ctx.modes}
        suggest = [
            {"answer": item.text} | ({"mode": item.mode} if item.mode in known else {})
            for item in params.follow_up
        ]
        question = {"question": params.question, "suggest": suggest}
        return PreparedQuestion(
            claims=(Claim(Access.QUESTION),),
            row={},
            row_text=msgspec.json.encode(question).decode(),
            ask_kind=AskKind.FOLLOWUP,
            modes_by_answer={item["answer"]: item["mode"] for item in suggest if "mode" in item},
        )

    async def run_prepared(
        self, prepared: PreparedQuestion, ctx: ToolContext, answer: Answer | None
    ) -> Outcome:
        if answer is None:
            raise ToolError("Nobody answered the question; go on with what you know.")
        if answer.by == AnsweredBy.UNATTENDED:
            return Outcome(
                render_unattended_question(get_first_suggestion(prepared.row_text or ""))
            )
        tag = "answer" if ctx.protocol is ToolProtocol.XML else "user_message"
        # A policy that picks an answer without a user does not pick a mode with it.
        mode = prepared.modes_by_answer.get(answer.text) if answer.is_by_user else None
        return Outcome(
            render_answer(tag, answer.text, len(answer.images)),
            images=answer.images,
            directive=ChangeMode(mode) if mode and mode != ctx.mode.slug else None,
        )


def _normalize_suggestions(given: object) -> object:
    """Normalize suggestions in any form that models use to a list of objects."""
    match given:
        case None:
            return []
        case str() if isinstance(decoded := try_decode_json(given), list | dict):
            return _normalize_suggestions(decoded)
        case str() if "<suggest" in given:
            return list(_parse_suggest_tags(given))
        case str():
            return [{"text": line.strip()} for line in given.splitlines() if line.strip()]
        case {"suggest": inner}:
            return _normalize_suggestions(inner if isinstance(inner, list) else [inner])
        case list():
            return [_normalize_suggestion(item) for item in given]
        case _:
            return given


def _normalize_suggestion(item: object) -> object:
    match item:
        case str():
            return {"text": item}
        case {"answer": text, **others}:
            return {"text": text, **others}
    return item


def _parse_suggest_tags(given: str) -> Iterator[dict[str, str]]:
    end = 0
    while opening := _OPENING_TAG_RE.search(given, end):
        stop = given.find(_CLOSING_TAG, opening.end())
        if stop < 0:
            return
        end = stop + len(_CLOSING_TAG)
        text = {"text": given[opening.end() : stop].strip()}
        mode = _MODE_ATTRIBUTE_RE.search(opening[1] or "")
        yield {**text, "mode": mode[1]} if mode and mode[1] else text
