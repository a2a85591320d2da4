"""The rule that lets a person be asked about something once, and not again.

It is made from what the call claims, never from anybody's words, it is the narrowest there is, and
it is offered only where adding it allows what it says and nothing else. Of files it is the leave to
change those of the workspace, and that ends with the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, structs

from joey.core.permissions.agreement import SecondReading
from joey.core.permissions.claims import Access, Claim
from joey.core.permissions.decisions import ANYTHING, Allow
from joey.core.permissions.policy import EDITS_HERE, decide
from joey.core.settings import Settings


class StandingRule(Struct, frozen=True):
    setting: Literal["allowedCommands", "allowedMcpTools"]
    text: str


class TaskRule(Struct, frozen=True):
    """It counts for a task and its subtasks, and is written down nowhere."""

    text: str


EDITS = TaskRule(EDITS_HERE)


def task_rule(claims: Sequence[Claim], settings: Settings) -> TaskRule | None:
    """The leave to offer with a question about these claims; None unless they are edits, and all
    of them are covered by it."""
    kinds = {claim.access for claim in claims}
    if Access.WRITE not in kinds or not kinds <= {Access.READ, Access.WRITE}:
        return None
    return EDITS if isinstance(decide(claims, settings, edits_granted=True), Allow) else None


def standing_rule(
    claims: Sequence[Claim], settings: Settings, read: SecondReading | None
) -> StandingRule | None:
    """The rule to offer with a question about these claims; None when there is none."""
    rule = _rule_for(claims, settings.denied_commands)
    if rule is None or not adds_nothing_else(rule, settings):
        return None
    spared = isinstance(decide(claims, with_rule(settings, rule), read), Allow)
    return rule if spared else None


def adds_nothing_else(rule: StandingRule, settings: Settings) -> bool:
    """A rule needs its switch on, which must not wake up others that slept."""
    if not settings.auto_approval_enabled:
        return False
    if rule.setting == "allowedCommands":
        return settings.always_allow_execute or not settings.allowed_commands
    return settings.always_allow_mcp or not settings.allowed_mcp_tools


def with_rule(settings: Settings, rule: StandingRule) -> Settings:
    if rule.setting == "allowedCommands":
        rules = tuple(dict.fromkeys((*settings.allowed_commands, rule.text)))
        return structs.replace(settings, always_allow_execute=True, allowed_commands=rules)
    tools = tuple(dict.fromkeys((*settings.allowed_mcp_tools, rule.text)))
    return structs.replace(settings, always_allow_mcp=True, allowed_mcp_tools=tools)


def _rule_for(claims: Sequence[Claim], denied: Sequence[str]) -> StandingRule | None:
    match claims:
        case [Claim(access=Access.MCP, listed=False, changed=False, subject=subject)]:
            # A server may give its tools any name, also one that would stand for others.
            return None if ANYTHING in subject else StandingRule("allowedMcpTools", subject)
    commands = {claim.command for claim in claims if claim.access is Access.EXECUTE}
    if len(commands) != 1 or (command := commands.pop()) is None:
        return None
    # As in `policy`: loaded when there is a command to judge.
    from joey.core.permissions.commands import judge_command
    from joey.core.permissions.narrowest import narrowest_rule

    if not isinstance(judge_command(command, (ANYTHING,), denied), Allow):
        return None  # a longer rule must not get around one that refuses
    text = narrowest_rule(command)
    return None if text is None else StandingRule("allowedCommands", text)
