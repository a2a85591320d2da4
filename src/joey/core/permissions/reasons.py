"""Reasons why a call needs approval or is refused, as values, and the text derived from them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, field

from joey.errors import ToolError


class Access(StrEnum):
    NONE = "none"  # affects only the task itself; never asks
    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    SWITCH_MODE = "switch_mode"
    DELEGATE = "delegate"  # starts a subtask, or ends one
    MCP = "mcp"
    BROWSER = "browser"
    CUSTOM_TOOL = "custom_tool"
    FETCH_INSTRUCTIONS = "guidance"  # loads instructions, or the text of a slash command
    SKILL = "skill"  # follows a skill that the user has installed
    QUESTION = "question"  # the tool *is* a question: a user always answers


class ReasonKind(StrEnum):
    # Approval of any call
    SETTING_OFF = "setting_off"
    QUESTION = "question"
    UNSTATED = "unstated"
    RULES_FAILED = "rules_failed"
    CHANGED_DESCRIPTION = "changed_description"
    UNLISTED_MCP_TOOL = "unlisted_mcp_tool"
    CUSTOM_TOOL = "custom_tool"
    # Asks about a command
    NO_RULE = "no_rule"
    RISKY_ARGUMENTS = "risky_arguments"
    NO_SANDBOX = "no_sandbox"
    OUTSIDE_WORKSPACE = "outside_workspace"
    UNSUPPORTED_SYNTAX = "unsupported_syntax"
    EMPTY_COMMAND = "empty_command"
    LONG_COMMAND = "long_command"
    COMPLEX_COMMAND = "complex_command"
    AMBIGUOUS_COMMAND = "ambiguous_command"
    NO_GRAMMAR = "no_grammar"
    EXECUTES_PIPE = "executes_pipe"
    # Asks about a command because of a deny rule
    MAYBE_DENIED = "maybe_denied"
    BEGINS_LIKE_DENIED = "begins_like_denied"
    LINE_BEGINS_LIKE_DENIED = "line_begins_like_denied"
    MENTIONS_DENIED = "mentions_denied"
    MENTIONS_DENIED_WITH_RUNNER = "mentions_denied_with_runner"
    LINE_MENTIONS_DENIED = "line_mentions_denied"
    NO_COMMAND = "no_command"
    MANY_COMMANDS = "many_commands"
    COMPUTED_PROGRAM = "computed_program"
    COMPUTED_INPUT = "computed_input"
    CREATED_PROGRAM = "created_program"
    EVALUATED_CODE = "evaluated_code"
    HIDDEN_CODE = "hidden_code"
    # Refusals
    DENIED = "denied"
    IGNORED_PATH = "ignored_path"
    UNUSABLE_IGNORE_FILE = "unusable_ignore_file"
    DISABLED_TOOL = "disabled_tool"
    NOT_IN_MODE = "not_in_mode"
    HOOK = "hook"


class Reason(Struct, frozen=True, omit_defaults=True):
    """Why a user has to review a call, or why it is refused."""

    kind: ReasonKind
    access: Access | None = None
    subject: str = ""
    """The path, the command line or the tool that it would do it to."""
    has_changed_description: bool = field(default=False, name="changed")
    """The subject is described otherwise than when it was last used."""
    setting: str = ""
    """The setting that is off, or does not list it."""
    rule: str = ""
    """The rule that allows a part of it, or denies it; the hook that does."""
    excerpt: str = ""
    """The part of the subject that the reason is about."""
    detail: str = ""
    """What is the matter with it, in words."""


class DeniedError(ToolError):
    """A rule, or a hook of the user, forbids the call."""

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason


_ACTIONS = {
    Access.READ: "reading {0.subject}",
    Access.WRITE: "writing {0.subject}",
    Access.EXECUTE: "running `{0.subject}`",
    Access.SWITCH_MODE: "switching the mode",
    Access.DELEGATE: "working with a subtask",
    Access.MCP: "using {0.subject}",
    Access.BROWSER: "opening {0.subject}",
    Access.CUSTOM_TOOL: "running {0.subject}",
    Access.FETCH_INSTRUCTIONS: "following {0.subject}",
    Access.SKILL: "following {0.subject}",
}
_WHOLE_TEXTS = {
    ReasonKind.QUESTION: "the call is a question to you",
    ReasonKind.UNSTATED: "the call does not say {0.detail}",
    ReasonKind.RULES_FAILED: "the rules could not judge it ({0.detail})",
    ReasonKind.DENIED: "rule `{0.rule}` denies `{0.excerpt}`",
    ReasonKind.IGNORED_PATH: "{0.subject} is hidden by .rooignore",
    ReasonKind.UNUSABLE_IGNORE_FILE: "{0.detail}",
}
"""Sentences that stand alone; the others follow the action."""
_TEXTS = _WHOLE_TEXTS | {
    ReasonKind.SETTING_OFF: "{0.setting} is off",
    ReasonKind.CHANGED_DESCRIPTION: "",
    ReasonKind.UNLISTED_MCP_TOOL: "it is not on the alwaysAllow list of its server",
    ReasonKind.CUSTOM_TOOL: "{0.setting} does not hold `*`",
    ReasonKind.NO_RULE: "no rule allows `{0.excerpt}`",
    ReasonKind.RISKY_ARGUMENTS: "rule `{0.rule}` allows the program, but {0.detail}",
    ReasonKind.NO_SANDBOX: "no sandbox works here, so each command is asked (see joey doctor,"
    " or --no-sandbox)",
    ReasonKind.OUTSIDE_WORKSPACE: "{0.excerpt} is outside the workspace",
    ReasonKind.UNSUPPORTED_SYNTAX: "it has {0.detail}, and rules judge plain words only",
    ReasonKind.EMPTY_COMMAND: "the command is empty",
    ReasonKind.LONG_COMMAND: "the command is too long to be judged",
    ReasonKind.COMPLEX_COMMAND: "it is more than the rules can judge",
    ReasonKind.AMBIGUOUS_COMMAND: "its words can be understood in more than one way",
    ReasonKind.NO_GRAMMAR: "there is no grammar of the shell to check it against",
    ReasonKind.EXECUTES_PIPE: "`{0.excerpt}` may carry out what it is given by the pipe",
    ReasonKind.MAYBE_DENIED: "`{0.excerpt}` may be what rule `{0.rule}` denies",
    ReasonKind.BEGINS_LIKE_DENIED: "`{0.excerpt}` begins like rule `{0.rule}`",
    ReasonKind.LINE_BEGINS_LIKE_DENIED: "the line begins like rule `{0.rule}`",
    ReasonKind.MENTIONS_DENIED: "`{0.excerpt}` mentions what rule `{0.rule}` denies",
    ReasonKind.MENTIONS_DENIED_WITH_RUNNER: "`{0.excerpt}` names what rule `{0.rule}` denies"
    " beside what runs it",
    ReasonKind.LINE_MENTIONS_DENIED: "the line mentions what rule `{0.rule}` denies and cannot be"
    " judged",
    ReasonKind.NO_COMMAND: "the line holds no command that could be judged",
    ReasonKind.MANY_COMMANDS: "{0.excerpt} starts more than can be judged",
    ReasonKind.COMPUTED_PROGRAM: "what the line runs is known only when it runs",
    ReasonKind.COMPUTED_INPUT: "what `{0.excerpt}` is given to carry out is known only when it"
    " runs",
    ReasonKind.CREATED_PROGRAM: "what is in `{0.excerpt}` is known only when it runs",
    ReasonKind.EVALUATED_CODE: "`{0.excerpt}` {0.detail}; deny rules cannot see what that runs",
    ReasonKind.HIDDEN_CODE: "{0.detail}",
}


def build_ignored_path_reason(path: str, error: str) -> Reason:
    """Build the reason for an ignored path; `error` says why every path is hidden if the rules
    cannot be used."""
    kind = ReasonKind.UNUSABLE_IGNORE_FILE if error else ReasonKind.IGNORED_PATH
    return Reason(kind, subject=path, rule=".rooignore", detail=error)


def format_reasons(reasons: Iterable[Reason]) -> str:
    """Format all reasons for journals and clients."""
    return "; ".join(dict.fromkeys(map(format_reason, reasons)))


def format_reason(reason: Reason) -> str:
    text = format_cause(reason)
    if reason.access is None or reason.kind in _WHOLE_TEXTS:
        return text
    action = _ACTIONS[reason.access].format(reason)
    if reason.has_changed_description:
        action += " (which its server describes otherwise than before)"
    return f"{action}: {text}" if text else action


def format_cause(reason: Reason) -> str:
    """Format the text of a reason without the action."""
    return _TEXTS[reason.kind].format(reason)
