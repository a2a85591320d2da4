"""Answers for runs without a person: each ask gets a stated answer, so the run always ends."""

from __future__ import annotations

from joey.core.events import AskOpened
from joey.core.history.api import COMPLETION
from joey.core.task import Answer, AskKind, Response, first_suggestion

NOBODY = "Nobody is there to answer. Use your best judgement and go on."


class Unattended:
    """Accepts results, resumes, picks the first suggestion; refuses what a person must allow."""

    name = "unattended"
    replaces_user = True
    """Nobody else is there to help the model when it goes wrong."""

    def __init__(self) -> None:
        self.refused: list[AskOpened] = []
        """What would have needed a person."""

    def answer(self, ask: AskOpened) -> Answer | None:
        match ask.ask:
            case AskKind.COMPLETION_RESULT | AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
                return Answer(Response.YES)
            case AskKind.FOLLOWUP:
                return Answer(Response.MESSAGE, text=first_suggestion(ask.text) or NOBODY)
            case AskKind.TOOL if ask.tool == COMPLETION:
                return Answer(Response.YES)
            case AskKind.TOOL | AskKind.COMMAND | AskKind.USE_MCP_SERVER:
                self.refused.append(ask)
                return Answer(Response.NO)
            case _:
                self.refused.append(ask)
                return Answer(Response.NO)
