"""Denied actions of a run without a user, with the flags that would allow them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from joey.core.events import AskOpened
from joey.core.permissions.commands import judge_command
from joey.core.permissions.policy import (
    Allow,
    BoundarySetting,
    Claim,
    SandboxStatus,
    is_reading_enabled,
    list_protected_subjects,
)
from joey.core.permissions.programs import is_read_only
from joey.core.permissions.reading_commands import find_rules_with_readers
from joey.core.permissions.reasons import Access, ReasonKind
from joey.core.permissions.shell import Words, parse_plain_commands
from joey.core.settings import Settings
from joey.core.text import sanitize
from joey.core.tool_calls import COMMAND_TOOL_NAME
from joey.presentation.tool_calls import describe_call

RuleCheck = Callable[[str, list[str], Settings], bool]
"""Whether the settings and further rules allow a command line."""

_BOUNDARY_ADVICE = {
    BoundarySetting.READ_OUTSIDE: "-y does not read private files outside the workspace: add"
    f" --add-dir DIR, or set {BoundarySetting.READ_OUTSIDE}",
    BoundarySetting.WRITE_OUTSIDE: "-y does not write outside the workspace: add --add-dir DIR, or"
    f" set {BoundarySetting.WRITE_OUTSIDE}",
    BoundarySetting.WRITE_PROTECTED: "-y does not change protected files: set"
    f" {BoundarySetting.WRITE_PROTECTED}",
}


def describe_refusals(
    refused: Sequence[AskOpened],
    settings: Settings,
    *,
    yes: bool = False,
    has_hidden_files: bool = False,
) -> list[str]:
    """Describe refusals for the user; `yes`: everything was allowed, as far as a flag can;
    `has_hidden_files`: commands that read need rules too."""
    calls = (_describe_refused_call(ask) for ask in refused)
    lines = ["joey: not done, because no user was there to allow it:"]
    lines += (f"  {call}" for call in dict.fromkeys(calls))
    if yes:
        return [*lines, f"joey: {_explain_refusal_despite_yes(refused)}"]
    advice = _format_boundary_advice(refused) or "-y allows everything in the workspace"
    advice = f"{advice}; without -p, joey asks"
    if flags := " ".join(suggest_flags(refused, settings, has_hidden_files=has_hidden_files)):
        advice = f"{flags} would have allowed {_describe_coverage(refused, settings)}; {advice}"
    return [*lines, f"joey: {advice}"]


def _describe_refused_call(ask: AskOpened) -> str:
    protected = ", ".join(sanitize(path) for path in list_protected_subjects(ask.reasons))
    return f"{describe_call(ask)} (protected: {protected})" if protected else describe_call(ask)


def _explain_refusal_despite_yes(refused: Sequence[AskOpened]) -> str:
    """Explain a refusal despite `-y`: the target is outside the run's boundary, or the project is
    stricter than the flag, on purpose or because its file is broken."""
    if beyond := _format_boundary_advice(refused):
        return f"{beyond}; without -p, joey asks"
    off = dict.fromkeys(f"{each} is off" for ask in refused for each in _list_settings_off(ask))
    if not off:
        return "-y does not allow this; without -p, joey asks"
    return (
        f"-y was given, but {' and '.join(off)} here: .roo/settings.json of the workspace is"
        " stricter, or cannot be parsed. joey config list shows what it does; correct it, or"
        " leave -p out, and joey asks"
    )


def _format_boundary_advice(refused: Sequence[AskOpened]) -> str:
    """Name what allows a target outside the run's boundary; empty if nothing does."""
    beyond: set[str] = set()
    for ask in refused:
        off = _list_settings_off(ask)
        beyond.update(off)
        if ask.is_protected and BoundarySetting.WRITE_OUTSIDE in off:
            beyond.add(BoundarySetting.WRITE_PROTECTED)
    return "; ".join(advice for setting, advice in _BOUNDARY_ADVICE.items() if setting in beyond)


def suggest_flags(
    refused: Iterable[AskOpened], settings: Settings, *, has_hidden_files: bool = False
) -> list[str]:
    """Suggest the flags that allow exactly these calls, as far as rules can."""
    flags: list[str] = []
    for ask in refused:
        flags += _suggest_flags_for_ask(ask, settings, has_hidden_files=has_hidden_files) or ()
    return list(dict.fromkeys(flags))


def _describe_coverage(refused: Sequence[AskOpened], settings: Settings) -> str:
    helped = [_suggest_flags_for_ask(ask, settings) is not None for ask in refused]
    if not all(helped):
        return "some of it"
    return "it" if len(helped) == 1 else "this"


def _suggest_flags_for_ask(
    ask: AskOpened, settings: Settings, *, has_hidden_files: bool = False
) -> list[str] | None:
    """Suggest flags for one question; None if no flag but `-y` would help."""
    if ask.tool == COMMAND_TOOL_NAME:
        sandbox = None if has_hidden_files else ask.sandbox
        rules = find_missing_rules(ask.text, settings, sandbox)
        is_fixed_by_rule = any(
            reason.kind in (ReasonKind.NO_RULE, ReasonKind.RISKY_ARGUMENTS)
            or reason.setting == "alwaysAllowExecute"
            for reason in ask.reasons
        )
        if rules is None or not is_fixed_by_rule:
            return None
        return [f"--allow {shlex.quote(rule)}" for rule in rules]
    outside = (ask.path or "/").startswith("/")
    if "alwaysAllowWrite" in _list_settings_off(ask) and not ask.is_protected and not outside:
        return ["--allow-writes"]
    return None


def _list_settings_off(ask: AskOpened) -> list[str]:
    return [each.setting for each in ask.reasons if each.kind is ReasonKind.SETTING_OFF]


def find_missing_rules(
    line: str, settings: Settings, sandbox: SandboxStatus | None = None
) -> list[str] | None:
    """Find the rules that would allow a command line; None if no rule would. With a `sandbox` that
    confines it, commands that only read need none in a workspace without hidden files."""
    commands = parse_plain_commands(line)
    if commands is None:
        return None
    claim = Claim(Access.EXECUTE, sandbox=sandbox)
    if is_reading_enabled(claim, settings) and (
        rules := _find_rules(line, commands, settings, _is_allowed_with_readers)
    ):
        return rules
    rules = _find_rules(line, commands, settings, _is_allowed)
    # If rules already allow all of it, commands are switched off altogether.
    return list(dict.fromkeys(shlex.quote(argv[0]) for argv in commands)) if rules == [] else rules


def _find_rules(
    line: str, commands: Sequence[Words], settings: Settings, is_allowed: RuleCheck
) -> list[str] | None:
    rules = [_find_allowing_rule(argv, settings, is_allowed) for argv in dict.fromkeys(commands)]
    found = [rule for rule in dict.fromkeys(rules) if rule]
    return None if None in rules or not is_allowed(line, found, settings) else found


def _find_allowing_rule(argv: Words, settings: Settings, is_allowed: RuleCheck) -> str | None:
    """Find a rule that allows a command: the program alone if it only reads, else all words. "" if
    one exists, None if there can be none."""
    line = shlex.join(argv)
    rules = ["", shlex.quote(argv[0]), line] if is_read_only(argv, 1) else ["", line]
    found = (rule for rule in rules if is_allowed(line, [rule] if rule else [], settings))
    return next(found, None)


def _is_allowed(line: str, rules: list[str], settings: Settings) -> bool:
    allowed = (*settings.allowed_commands, *rules)
    return isinstance(judge_command(line, allowed, settings.denied_commands, frozenset()), Allow)


def _is_allowed_with_readers(line: str, rules: list[str], settings: Settings) -> bool:
    allowed = (*settings.allowed_commands, *rules)
    denied = settings.denied_commands
    found = find_rules_with_readers(line, allowed, denied, frozenset(), has_hidden_files=False)
    return found is not None
