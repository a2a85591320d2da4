"""Questions of a task: content, reasons and possible answers, and the parsing of typed answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct, structs

from joey.core.events import AskOpened
from joey.core.permissions.hosts import CommandNetwork, format_network
from joey.core.permissions.reasons import Access, Reason, format_cause, format_reason
from joey.core.task_types import (
    APPROVAL_ASKS,
    Answer,
    AskChoice,
    AskKind,
    AskView,
    FollowUp,
    Response,
    RuleScope,
)
from joey.core.text import reveal, sanitize, to_one_line
from joey.core.tool_calls import ToolCallSummary, describe_confinement, get_summary

MAX_TITLE_CHARS = 100
_APPROVAL_TITLES = {
    AskKind.COMMAND: "Run this command?",
    AskKind.BROWSER_ACTION_LAUNCH: "Open this page?",
}
_TITLES_BY_TOOL = {
    "use_mcp_tool": "Use the MCP tool {}?",
    "access_mcp_resource": "Read the MCP resource {}?",
    "custom_tool": "Run the custom tool {}?",
    "switch_mode": "Switch to the mode {}?",
    "new_task": "Start a subtask in the mode {}?",
    "finish_task": "Accept the result of the subtask?",
    "skill": "Follow the skill {}?",
    "run_slash_command": "Follow the slash command {}?",
    "fetch_instructions": "Follow the instructions {}?",
    "browser_action": "Let the browser {}?",
}
"""What is allowed, in the words of a user; `{}` is the subject of the call."""
_YES, _NO = Answer(Response.YES), Answer(Response.NO)
_REJECT = AskChoice("Reject and stop", Answer(Response.NO, stop=True), "no")


class _ReachedLimit(Struct, frozen=True):
    count: int | str = 0
    type: str = "requests"


def parse_follow_up(text: str) -> FollowUp:
    """Parse a question with its suggestions; other text is the question itself."""
    try:
        return msgspec.json.decode(text, type=FollowUp)
    except msgspec.DecodeError:
        return FollowUp(question=text)


def build_ask_view(ask: AskOpened) -> AskView:
    """Build a question with its possible answers, for all front ends."""
    if ask.ask in APPROVAL_ASKS:
        return _build_approval_view(ask)
    text = sanitize(ask.text)
    match ask.ask:
        case AskKind.FOLLOWUP:
            follow_up = parse_follow_up(ask.text)
            suggested = tuple(
                AskChoice(sanitize(one.label), Answer(Response.MESSAGE, text=one.answer))
                for one in follow_up.suggestions
            )
            hint = "or write your own answer" if suggested else "Your answer"
            question = sanitize(follow_up.question)
            return AskView("Question", suggested, question, hint, message_label="Answer")
        case AskKind.COMPLETION_RESULT:
            accept = AskChoice("Accept the result", _YES, "yes", is_default=True)
            return AskView("Task completed", (accept,), text, "or say what to change")
        case AskKind.API_REQ_FAILED:
            return AskView(
                "The request failed",
                _build_choices("Retry", "Give up"),
                text,
                "or write a message to retry with",
                message_response=Response.YES,
                message_label="Send and retry",
            )
        case AskKind.MISTAKE_LIMIT_REACHED:
            choices = _build_choices("Try again", "Give up")
            return AskView("joey is stuck", choices, text, "or say how to continue")
        case AskKind.LIMIT_REACHED:
            limit = msgspec.json.decode(ask.text or "{}", type=_ReachedLimit)
            text = f"The limit of {limit.count} {limit.type} is reached."
            choices = _build_choices("Continue", "Stop here")
            return AskView("Limit reached", choices, text, message_response=None)
        case AskKind.RESUME_TASK:
            choices = _build_choices("Resume", "Not now", is_default=True)
            return AskView("Task interrupted", choices, text, "or say what to do")
    return AskView(
        "Task completed", _build_choices("Resume", "Not now"), text, "or say what to do next"
    )


def _build_choices(yes: str, no: str, *, is_default: bool = False) -> tuple[AskChoice, ...]:
    return AskChoice(yes, _YES, "yes", is_default=is_default), AskChoice(no, _NO, "no")


def _build_approval_view(ask: AskOpened) -> AskView:
    summary = get_summary(ask)
    is_handover = summary.tool == "finish_task"
    network = ask.network or CommandNetwork()
    if network.is_retry:
        return _build_retry_view(ask, network)
    allow = AskChoice("Accept" if is_handover else "Allow", _YES, "yes")
    details = summary.arguments or to_one_line(summary.message, 400)
    call = f"{summary.headline} {details}".rstrip()
    return AskView(
        _APPROVAL_TITLES.get(ask.ask) or _build_title(summary),
        # Yes and no always have the same numbers and places.
        (allow, _REJECT, *_build_network_choices(network), *_build_rule_choices(ask)),
        reveal(ask.text).strip() if ask.ask is AskKind.COMMAND else call,
        "or say what is missing" if is_handover else "or say what to do instead",
        message_label="Send feedback" if is_handover else "Reject with message",
        is_approval=True,
        reason=describe_reasons(ask.reasons, ask.reason),
        confinement=_describe_confinement(ask),
        warnings=summary.warnings,
        programs=_list_programs(ask.text) if ask.ask is AskKind.COMMAND else (),
    )


def _list_programs(command: str) -> tuple[str, ...]:
    # The tables of programs are loaded when there is a command.
    from joey.core.permissions.command_programs import list_programs

    return list_programs(command)


def _build_title(summary: ToolCallSummary) -> str:
    pattern = _TITLES_BY_TOOL.get(summary.tool)
    if pattern is None or ("{}" in pattern and not summary.subject):
        return f"{to_one_line(summary.headline, MAX_TITLE_CHARS)}?"
    return pattern.format(to_one_line(summary.subject, MAX_TITLE_CHARS))


def _build_retry_view(ask: AskOpened, network: CommandNetwork) -> AskView:
    choices = _build_network_choices(network, "Run again")
    leave = AskChoice("Leave it", _NO, "no")
    first, *others = (
        structs.replace(each, word="yes") if not n else each for n, each in enumerate(choices)
    )
    return AskView(
        "Run it again with network?",
        (first, leave, *others),
        reveal(ask.text).strip(),
        "or say what to do instead",
        message_label="Leave it, with message",
        is_approval=True,
        reason="the command failed for lack of network",
        confinement=_describe_confinement(ask),
        programs=_list_programs(ask.text),
    )


def _build_network_choices(network: CommandNetwork, verb: str = "Allow") -> Iterator[AskChoice]:
    if network.can_open:
        answer = Answer(Response.YES, network=True)
        yield AskChoice(f"{verb}, with network for this command", answer, "online")
    if network.offered_hosts:
        answer = Answer(Response.YES, hosts=True)
        label = f"{verb}, and in this directory always allow the network to"
        yield AskChoice(label, answer, "hosts", ", ".join(map(sanitize, network.offered_hosts)))


_SCOPE_LABELS = {
    RuleScope.DIRECTORY: ("directory", "Always allow in this directory:"),
    RuleScope.TASK: ("task", "Always allow in this task:"),
    RuleScope.EVERYWHERE: ("everywhere", "Always allow in every directory:"),
}


def _build_rule_choices(ask: AskOpened) -> Iterator[AskChoice]:
    rule = reveal(ask.always_rule or "")
    if not rule:
        return
    if ask.ask is AskKind.TOOL:  # a rule for edits states its own scope
        answer = Answer(Response.YES, always=True, scope=RuleScope.TASK)
        yield AskChoice("Always allow", answer, "always", rule)
        return
    for number, scope in enumerate(ask.always_scopes or (RuleScope.EVERYWHERE,)):
        word, label = _SCOPE_LABELS[scope]
        answer = Answer(Response.YES, always=True, scope=scope)
        yield AskChoice(label, answer, word if number else "always", rule)


def _describe_confinement(ask: AskOpened) -> str:
    if ask.sandbox not in ("full", "landlock", "seatbelt"):
        return ""
    if (network := ask.network) is None:
        return describe_confinement(ask.sandbox)
    reached = sanitize(format_network(network.setting))
    limitation = f" ({sanitize(network.limitation)})" if network.limitation else ""
    return describe_confinement(ask.sandbox, reached + limitation)


def format_question(view: AskView) -> str:
    """Format the text above the hint, with numbered suggestions; empty for a call, which is
    drawn."""
    numbered = (f"  {n}. {each.label}" for n, each in enumerate(view.choices, 1) if not each.word)
    return "" if view.is_approval else "\n".join(filter(None, (view.text, *numbered)))


def format_answer_hint(view: AskView) -> str:
    """Format the possible answers to type."""
    parts = [
        f"[{each.word[0]}]{each.word[1:]}{' (Enter)' if each.is_default else ''}"
        for each in view.choices
        if each.word
    ]
    lead = f"{view.choices[0].label}? " if parts else ""
    if view.choices and not parts:
        parts = ["1" if len(view.choices) == 1 else f"1-{len(view.choices)}"]
    return lead + " / ".join(filter(None, (*parts, view.hint)))


def parse_answer(ask: AskOpened, line: str) -> Answer | None:
    """Parse a typed answer; None if it means nothing here, and the question is repeated.

    Only a plain *yes* gives permission: any other text is a message.
    """
    view, text = build_ask_view(ask), line.strip()
    word = text.lower()
    for number, choice in enumerate(view.choices, 1):
        names = (choice.word, choice.word[0]) if choice.word else (str(number),)
        if word in names or (choice.is_default and not text):
            return choice.answer
    is_unoffered_rule = view.is_approval and word in ("a", "always")
    if not text or view.message_response is None or is_unoffered_rule:
        return None
    return Answer(view.message_response, text=text)


_SETTING_REASONS = {
    "autoApprovalEnabled": "everything requires confirmation",
    "alwaysAllowReadOnly": "reading requires confirmation",
    "alwaysAllowReadOnlyOutsideWorkspace": "it is outside the workspace",
    "alwaysAllowWrite": "edits require confirmation",
    "alwaysAllowWriteOutsideWorkspace": "it is outside the workspace",
    "alwaysAllowWriteProtected": "the file is protected",
    "alwaysAllowExecute": "commands require confirmation",
    "alwaysAllowModeSwitch": "switching the mode requires confirmation",
    "alwaysAllowMcp": "tools of MCP servers require confirmation",
    "alwaysAllowSubtasks": "subtasks require confirmation",
    "alwaysAllowBrowser": "the browser requires confirmation",
}


def describe_reasons(reasons: Iterable[Reason], text: str | None) -> str:
    """Describe why a user has to decide, without what is already shown; `text` replaces reasons in
    old journals."""
    return sanitize("; ".join(dict.fromkeys(map(_describe_reason, reasons))) or text or "")


def _describe_reason(reason: Reason) -> str:
    if meaning := _SETTING_REASONS.get(reason.setting):
        return f"{meaning} ({reason.setting} is off)"
    if reason.access is Access.EXECUTE:
        return format_cause(reason).replace(f"`{reason.subject}`", "it")
    return format_reason(reason)
