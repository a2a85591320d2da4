"""Questions of a task, put to the user by the editor or answered by policy.

| question | handling |
|---|---|
| may this call be made? | `session/request_permission` |
| a follow-up question, too many mistakes | the turn ends with it; the next prompt answers |
| a limit of the settings is reached | the turn ends with it; the next prompt continues |
| is this the result? | yes: the turn ends, and the next prompt continues from there |
| should the task be resumed? | yes: a prompt implies it |
| try the failed request again? | no: the turn ends with the error; the next prompt tries again |
"""

from __future__ import annotations

from acp import schema
from joey.acp.tool_calls import ToolCallView, build_text_content
from joey.core.events import AskOpened
from joey.core.task_types import APPROVAL_ASKS, Answer, AnsweredBy, AskKind, Response
from joey.presentation.questions import build_ask_view, parse_answer
from joey.presentation.text import to_one_line

_OPTIONS: dict[str, tuple[str, schema.PermissionOptionKind]] = {
    "yes": ("allow", "allow_once"),
    "always": ("always", "allow_always"),
    "no": ("reject", "reject_once"),
}
"""The id and kind of an option, by the word of the choice."""
MAX_OPTION_CHARS = 140

TURN_ENDING_ASKS: dict[AskKind, schema.StopReason] = {
    AskKind.FOLLOWUP: "end_turn",
    AskKind.MISTAKE_LIMIT_REACHED: "end_turn",
    AskKind.LIMIT_REACHED: "max_turn_requests",
}
"""Questions that the next prompt answers."""


class AutoAnswerPolicy:
    """Answers what no user is to be asked."""

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
    return [
        schema.PermissionOption(
            option_id=_OPTIONS[choice.word][0],
            name=to_one_line(choice.full_label, MAX_OPTION_CHARS),
            kind=_OPTIONS[choice.word][1],
        )
        for choice in build_ask_view(ask).choices
    ]


def build_permission_tool_call(
    ask: AskOpened, call_id: str, view: ToolCallView
) -> schema.ToolCallUpdate:
    """What the user decides about."""
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


def parse_permission_response(response: schema.RequestPermissionResponse) -> Answer | None:
    """None when the user has cancelled the turn. Anything but a plain yes is a no."""
    match response.outcome:
        case schema.AllowedOutcome(option_id="allow" | "always" as chosen):
            return Answer(Response.YES, always=chosen == "always")
        case schema.AllowedOutcome():
            return Answer(Response.NO)
        case _:
            return None


def parse_prompt_answer(ask: AskOpened, text: str, images: tuple[str, ...]) -> Answer:
    """What a prompt means as the answer to the question that the turn before has ended with."""
    if ask.ask is AskKind.LIMIT_REACHED:
        parsed = parse_answer(ask, text)
        return parsed or Answer(Response.YES, text=text, images=images)
    parsed = None if images else parse_answer(ask, text)
    return parsed or Answer(Response.MESSAGE, text=text, images=images)
