"""A question of a task as choices: what each says to the engine, and which key means it."""

from __future__ import annotations

from msgspec import Struct
from rich.text import Text

from joey.core.events import AskOpened
from joey.core.task import APPROVALS, Answer, AskKind, Response
from joey.presentation.phrases import COMMAND_TOOL, held_by, why_asked
from joey.presentation.questions import follow_up, question_of
from joey.presentation.text import one_line, sanitise
from joey.presentation.tool_calls import asked_change, card, changes_nothing

MOST_SHOWN = 6
"""Lines of what would be done; the whole of it stands in the conversation."""
LONGEST = 2000
"""Characters of an answer: a person has to see what they say."""
YES = Answer(Response.YES)
NO = Answer(Response.NO)


class Choice(Struct, frozen=True):
    label: str
    answer: Answer | None
    """None: the person says it in words."""
    keys: str = ""
    """Letters that choose it, beside its number."""
    number: int | None = None
    """Where it is always the same, whatever else may be answered; else its place."""
    on_escape: bool = False


class Question(Struct, frozen=True):
    title: str
    choices: tuple[Choice, ...]
    about: Text
    """What would be done, or what is asked."""
    why: str = ""
    held: str = ""
    """How far the operating system would hold a command."""
    warning: str = ""
    hint: str = ""
    is_approval: bool = False
    """A yes lets something happen: it is never given by keys that were meant for something else."""


def question_from(ask: AskOpened) -> Question:
    if ask.ask in APPROVALS:
        return _approval(ask)
    match ask.ask:
        case AskKind.FOLLOWUP:
            asked = follow_up(ask.text)
            suggested = tuple(
                Choice(one_line(one.shown, LONGEST), Answer(Response.MESSAGE, text=one.answer))
                for one in asked.suggest
            )
            return Question("Your answer", suggested, Text(), hint="or write your own below")
        case AskKind.COMPLETION_RESULT:
            accept = Choice("accept the result", YES, "y")
            return Question("Done?", (accept,), Text(), hint="or say below what to change")
        case AskKind.API_REQ_FAILED:
            choices = (Choice("try again", YES, "y"), Choice("stop", NO, "n", on_escape=True))
            return Question("The request failed", choices, Text(), hint="words go along with it")
        case AskKind.MISTAKE_LIMIT_REACHED:
            choices = (
                Choice("let it try again", YES, "y"),
                Choice("stop", NO, "n", on_escape=True),
            )
            return Question(
                "It keeps going wrong", choices, Text(question_of(ask)), hint="or say how to go on"
            )
        case AskKind.LIMIT_REACHED:
            choices = (Choice("go on", YES, "y"), Choice("stop here", NO, "n", on_escape=True))
            return Question("A limit is reached", choices, Text(question_of(ask)))
        case AskKind.RESUME_TASK:
            choices = (Choice("go on", YES, "y"), Choice("not now", NO, "n", on_escape=True))
            return Question("Go on with this task?", choices, Text(), hint="or say what to do")
        case _:
            leave = Choice("leave it as it is", NO, "n", on_escape=True)
            return Question("The task is done", (leave,), Text(), hint="or say what to do next")


def _approval(ask: AskOpened) -> Question:
    choices = [Choice("yes", YES, "y", number=1)]
    if ask.always:
        rule = one_line(ask.always, LONGEST)
        choices.append(Choice(f"always: {rule}", Answer(Response.YES, always=True), "a", 2))
    choices.append(Choice("no", NO, "n", number=3, on_escape=True))
    choices.append(Choice("no, and say what to do instead", None, number=4))
    is_command = ask.ask is AskKind.COMMAND
    reason = why_asked(sanitise(ask.reason or ""), ask.text if is_command else "")
    held = "" if ask.sandbox is None else held_by(ask.sandbox)
    return Question(
        _title(ask),
        tuple(choices),
        _brief(ask),
        why=reason,
        held=held,
        warning="this file is protected: it tells joey itself what to do" if ask.protected else "",
        is_approval=True,
    )


def _title(ask: AskOpened) -> str:
    match ask.ask:
        case AskKind.COMMAND:
            return "Run this command?"
        case AskKind.USE_MCP_SERVER:
            return "Ask this MCP server?"
        case AskKind.BROWSER_ACTION_LAUNCH:
            return "Use the browser?"
        case _:
            if ask.path and (ask.diff or changes_nothing(ask.text)):
                return asked_change(ask.text, ask.path)
            return "Allow this?"


def _brief(ask: AskOpened) -> Text:
    if ask.diff and ask.path:
        return Text()  # the change stands above
    tool = COMMAND_TOOL if ask.ask is AskKind.COMMAND else ask.tool or ""
    whole = card(tool, ask.text, ask.path, None, asked=False)
    lines = whole.split("\n", allow_blank=True)
    if ask.ask is AskKind.TOOL:
        return lines[0]
    shown = Text("\n").join(lines[:MOST_SHOWN])
    if len(lines) > MOST_SHOWN:
        shown.append(f"\n  … {len(lines) - MOST_SHOWN} more lines above", "dim")
    return shown
