"""The kinds of question a task puts to a person, and what may answer them."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct


class AskKind(StrEnum):
    FOLLOWUP = "followup"
    COMMAND = "command"
    TOOL = "tool"
    USE_MCP_SERVER = "use_mcp_server"
    BROWSER_ACTION_LAUNCH = "browser_action_launch"
    COMPLETION_RESULT = "completion_result"
    API_REQ_FAILED = "api_req_failed"
    RESUME_TASK = "resume_task"
    RESUME_COMPLETED_TASK = "resume_completed_task"
    MISTAKE_LIMIT_REACHED = "mistake_limit_reached"
    LIMIT_REACHED = "auto_approval_max_req_reached"


class Response(StrEnum):
    YES = "yesButtonClicked"
    NO = "noButtonClicked"
    MESSAGE = "messageResponse"


class Answer(Struct, frozen=True, omit_defaults=True):
    response: Response
    text: str = ""
    images: tuple[str, ...] = ()
    """Data URIs."""
    by: str = "person"
    """Or the name of the policy that answered in their place."""
    always: bool = False
    """With a yes: add the rule that was offered with the question."""

    @property
    def approves(self) -> bool:
        return self.response is Response.YES

    @property
    def has_words(self) -> bool:
        return bool(self.text or self.images)


class Suggestion(Struct, frozen=True, omit_defaults=True):
    answer: str
    mode: str | None = None


class FollowUp(Struct, frozen=True):
    """`text` of a `followup` ask."""

    question: str = ""
    suggest: tuple[Suggestion, ...] = ()


def first_suggestion(text: str) -> str | None:
    """What a follow-up question suggests first, if it suggests anything."""
    suggestions = msgspec.json.decode(text, type=FollowUp).suggest
    return suggestions[0].answer if suggestions else None


APPROVALS = frozenset(
    {AskKind.COMMAND, AskKind.TOOL, AskKind.USE_MCP_SERVER, AskKind.BROWSER_ACTION_LAUNCH}
)
"""Asks where anything but *yes* means: do not run it."""

INTERACTIVE = APPROVALS | {AskKind.FOLLOWUP}
RESUMABLE = frozenset({AskKind.RESUME_TASK})
