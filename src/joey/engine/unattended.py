"""Answers for runs without a person: each ask gets a stated answer, so the run always ends."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from joey.core.asks import Answer, AskKind, Response
from joey.core.events import AskOpened
from joey.core.prompts.replies import unattended_denial


class _Suggestion(Struct):
    answer: str


class _FollowUp(Struct):
    question: str = ""
    suggest: tuple[_Suggestion, ...] = ()


class Unattended:
    """Accepts results, resumes, picks the first suggestion; refuses what a person must allow."""

    name = "unattended"

    def __init__(self) -> None:
        self.refused: list[AskOpened] = []
        """What would have needed a person."""

    def answer(self, ask: AskOpened) -> Answer | None:
        match ask.ask:
            case AskKind.COMPLETION_RESULT | AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
                return Answer(Response.YES)
            case AskKind.FOLLOWUP:
                return Answer(Response.MESSAGE, text=_first_suggestion(ask.text))
            case AskKind.TOOL | AskKind.COMMAND | AskKind.USE_MCP_SERVER:
                self.refused.append(ask)
                return Answer(Response.NO, text=unattended_denial())
            case _:
                self.refused.append(ask)
                return Answer(Response.NO)


def _first_suggestion(text: str) -> str:
    suggestions = msgspec.json.decode(text, type=_FollowUp).suggest
    if suggestions:
        return suggestions[0].answer
    return "Nobody is there to answer. Use your best judgement and go on."
