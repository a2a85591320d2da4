"""Questions of a task, put to the user by the editor or answered by policy.

| question | handling |
|---|---|
| may this call be made? | `session/request_permission` |
| a follow-up question, too many mistakes | the turn ends with it; the next prompt answers |
| a limit of the settings is reached | the turn ends with it; the next prompt continues |
| is this the result? | yes: the turn ends, and the next prompt continues from there |
| should the task be resumed? | yes: a prompt implies it |
| retry the failed request? | no: the turn ends with the error; the next prompt tries again |
"""

from __future__ import annotations

from acp import schema
from joey.acp.tool_calls import ToolCallView, build_text_content
from joey.core.events import AskOpened
from joey.core.task_types import APPROVAL_ASKS, Answer, AnsweredBy, AskChoice, AskKind, Response
from joey.presentation.questions import build_ask_view, parse_answer
from joey.presentation.text import to_one_line

_OPTION_IDS = {"yes": "allow", "no": "reject"}
"""Of choices whose word is not the id of their option."""
MAX_OPTION_CHARS = 140
MAX_HOSTS_CHARS = 2000
"""Whoever allows hosts must see each of them."""
_REJECT_LABEL = "Reject"
"""An editor has its own way to stop a turn: here the model is told, and continues."""

TURN_ENDING_ASKS: dict[AskKind, schema.StopReason] = {
    AskKind.FOLLOWUP: "end_turn",
    AskKind.MISTAKE_LIMIT_REACHED: "end_turn",
    AskKind.LIMIT_REACHED: "max_turn_requests",
}
"""Questions that the next prompt answers."""


class AutoAnswerPolicy:
    """Answers questions that no user should be asked."""

    name: str = AnsweredBy.EDITOR

    def answer(self, ask: AskOpened) -> Answer | None:
        match ask.ask:
            case AskKind.COMPLETION_RESULT | AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
                return Answer(Response.YES)
            case kind if kind in APPROVAL_ASKS or kind in TURN_ENDING_ASKS:
                return None
            case _:
                return Answer(Response.NO)


def build_permission_options(ask: AskOpened) -> list[schema.PermissionOption]:
    return [_build_option(choice) for choice in build_ask_view(ask).choices]


def _build_option(choice: AskChoice) -> schema.PermissionOption:
    option_id, answer = _OPTION_IDS.get(choice.word, choice.word), choice.answer
    if not answer.approves:
        return schema.PermissionOption(option_id=option_id, name=_REJECT_LABEL, kind="reject_once")
    return schema.PermissionOption(
        option_id=option_id,
        name=to_one_line(choice.full_label, MAX_HOSTS_CHARS if answer.hosts else MAX_OPTION_CHARS),
        kind="allow_always" if answer.always or answer.hosts else "allow_once",
    )


def build_permission_tool_call(
    ask: AskOpened, call_id: str, view: ToolCallView
) -> schema.ToolCallUpdate:
    """Build the view of the call that the user decides about."""
    asked = build_ask_view(ask)
    why = "; ".join(filter(None, (asked.reason, *asked.warnings, asked.confinement)))
    return schema.ToolCallUpdate(
        tool_call_id=call_id,
        title=view.title,
        kind=view.kind,
        status="pending",
        content=[
            *view.content,
            *([build_text_content(f"*{to_one_line(why, 400)}*")] if why else []),
        ],
        locations=list(view.locations),
        raw_input=view.raw_input,
    )


def parse_permission_response(
    ask: AskOpened, response: schema.RequestPermissionResponse
) -> Answer | None:
    """Parse the user's decision; None if they cancelled the turn. Only an option that allows counts
    as a yes."""
    if not isinstance(response.outcome, schema.AllowedOutcome):
        return None
    for choice in build_ask_view(ask).choices:
        if choice.answer.approves and _build_option(choice).option_id == response.outcome.option_id:
            return choice.answer
    return Answer(Response.NO)


def parse_prompt_answer(ask: AskOpened, text: str, images: tuple[str, ...]) -> Answer:
    """Parse a prompt as the answer to the question that ended the previous turn."""
    if ask.ask is AskKind.LIMIT_REACHED:
        parsed = parse_answer(ask, text)
        return parsed or Answer(Response.YES, text=text, images=images)
    parsed = None if images else parse_answer(ask, text)
    return parsed or Answer(Response.MESSAGE, text=text, images=images)
