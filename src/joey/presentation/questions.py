"""Questions of a task as text: why it asks, what confines a command, answers typed as lines."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct, field

from joey.core.events import AskOpened
from joey.core.permissions.policy import SandboxStatus
from joey.core.permissions.reasons import Access, Reason, format_cause, format_reason
from joey.core.task_types import APPROVAL_ASKS, Answer, AskKind, Response
from joey.presentation.text import sanitize

_YES_ANSWERS = frozenset({"y", "yes"})
_NO_ANSWERS = frozenset({"n", "no"})
_ALWAYS_ANSWERS = frozenset({"a", "always"})
_ANSWER_HINTS = {
    AskKind.FOLLOWUP: "Your answer",
    AskKind.COMPLETION_RESULT: "Enter accepts, or say what to change",
    AskKind.API_REQ_FAILED: "Try again? [y]es / [n]o / or try again with these words",
    AskKind.MISTAKE_LIMIT_REACHED: "[y] lets it try again / [n]o stops / or say how to go on",
    AskKind.LIMIT_REACHED: "Go on? [y]es / [n]o",
    AskKind.RESUME_TASK: "Enter goes on / [n]o / or say what to do",
    AskKind.RESUME_COMPLETED_TASK: "Say what to do next, or [n]o",
}


class SuggestedAnswer(Struct, frozen=True):
    answer: str
    mode: str | None = None
    """The task goes on in this mode with it."""

    @property
    def label(self) -> str:
        return f"{self.answer} [{self.mode} mode]" if self.mode else self.answer


class FollowUpQuestion(Struct, frozen=True):
    question: str = ""
    suggestions: tuple[SuggestedAnswer, ...] = field(default=(), name="suggest")


class _ReachedLimit(Struct, frozen=True):
    count: int | str = 0
    type: str = "requests"


def parse_follow_up(text: str) -> FollowUpQuestion:
    """A question with its suggestions; text of another shape is the question itself."""
    try:
        return msgspec.json.decode(text, type=FollowUpQuestion)
    except msgspec.DecodeError:
        return FollowUpQuestion(question=text)


def format_question(ask: AskOpened) -> str:
    """The words above the hint; nothing when the row that was shown says it all."""
    match ask.ask:
        case AskKind.FOLLOWUP:
            asked = parse_follow_up(ask.text)
            numbered = (f"  {n}. {one.label}" for n, one in enumerate(asked.suggestions, 1))
            return sanitize("\n".join([asked.question, *numbered]))
        case AskKind.LIMIT_REACHED:
            limit = msgspec.json.decode(ask.text or "{}", type=_ReachedLimit)
            return f"The limit of {limit.count} {limit.type} is reached."
        case kind if kind in APPROVAL_ASKS:
            return ""
        case _:
            return sanitize(ask.text)


def format_answer_hint(ask: AskOpened) -> str:
    """What may be typed."""
    if ask.ask in APPROVAL_ASKS:
        always = "[a]lways / " if ask.always_rule else ""
        return f"Allow? [y]es / [n]o / {always}or say what to do instead"
    if ask.ask is AskKind.FOLLOWUP and (suggested := len(parse_follow_up(ask.text).suggestions)):
        numbers = "1" if suggested == 1 else f"1-{suggested}"
        return f"{numbers}, or your own answer"
    return _ANSWER_HINTS[ask.ask]


def parse_answer(ask: AskOpened, line: str) -> Answer | None:
    """The answer that a line means; None when it means nothing here, and is asked for again.

    Permission is given by a plain *yes* alone: any other words are taken as words.
    """
    text = line.strip()
    word = text.lower()
    match ask.ask:
        case AskKind.FOLLOWUP:
            return Answer(Response.MESSAGE, text=_resolve_suggestion(ask, text)) if text else None
        case AskKind.COMPLETION_RESULT:
            accepted = not text or word in _YES_ANSWERS
            return Answer(Response.YES) if accepted else Answer(Response.MESSAGE, text=text)
        case AskKind.RESUME_TASK if not text:
            return Answer(Response.YES)
    if word in _YES_ANSWERS:
        return Answer(Response.YES)
    if word in _NO_ANSWERS:
        return Answer(Response.NO)
    if word in _ALWAYS_ANSWERS and ask.ask in APPROVAL_ASKS:
        return Answer(Response.YES, always=True) if ask.always_rule else None
    if not text or ask.ask is AskKind.LIMIT_REACHED:
        return None
    if ask.ask is AskKind.API_REQ_FAILED:
        return Answer(Response.YES, text=text)
    return Answer(Response.MESSAGE, text=text)


def _resolve_suggestion(ask: AskOpened, text: str) -> str:
    suggestions = parse_follow_up(ask.text).suggestions
    if text.isdecimal() and 1 <= int(text) <= len(suggestions):
        return suggestions[int(text) - 1].answer
    return text


_SETTING_REASONS = {
    "autoApprovalEnabled": "nothing is allowed without you",
    "alwaysAllowReadOnly": "reading is not allowed without you",
    "alwaysAllowReadOnlyOutsideWorkspace": "it lies outside the workspace",
    "alwaysAllowWrite": "edits are not allowed without you",
    "alwaysAllowWriteOutsideWorkspace": "it lies outside the workspace",
    "alwaysAllowWriteProtected": "the file is protected",
    "alwaysAllowExecute": "commands are not allowed without you",
    "alwaysAllowModeSwitch": "another mode is not allowed without you",
    "alwaysAllowMcp": "tools of MCP servers are not allowed without you",
    "alwaysAllowSubtasks": "subtasks are not allowed without you",
    "alwaysAllowBrowser": "the browser is not allowed without you",
}


def describe_reasons(reasons: Iterable[Reason], text: str | None) -> str:
    """Why a user has to look, without what they already see; `text` is what there is instead in
    journals without reasons."""
    return sanitize("; ".join(dict.fromkeys(map(_describe_reason, reasons))) or text or "")


def _describe_reason(reason: Reason) -> str:
    if meaning := _SETTING_REASONS.get(reason.setting):
        return f"{meaning} ({reason.setting})"
    if reason.access is Access.EXECUTE:
        return format_cause(reason).replace(f"`{reason.subject}`", "it")
    return format_reason(reason)


def describe_confinement(sandbox: SandboxStatus) -> str:
    """What holds a command that is asked about."""
    match sandbox:
        case "none":
            return "runs UNCONFINED: no sandbox works here (see joey doctor)"
        case "off":
            return "runs UNCONFINED: the sandbox is switched off"
    return f"runs confined ({sandbox})"
