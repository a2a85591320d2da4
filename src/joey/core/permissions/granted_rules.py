"""Rules that users added with their answers: their scope, who added them, what they allow.

They are added to a task's settings but never activate rules of the settings that are switched off:
if `alwaysAllowExecute` is off, only the added rules for commands apply.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct, structs

from joey.core.permissions.policy import PersistentRule, allow_everything
from joey.core.settings import Settings
from joey.core.task_types import ApprovalLevel, RuleScope

RuleSetting = Literal["allowedCommands", "allowedMcpTools", "sandboxNetwork", "alwaysAllowWrite"]


class GrantedRule(Struct, frozen=True, rename="camel", omit_defaults=True):
    setting: RuleSetting
    """The list that it belongs to; `sandboxNetwork` for a host, `alwaysAllowWrite` for edits."""
    text: str
    """The words of a command, `server/tool`, a host; of edits, what they are."""
    scope: RuleScope
    by: str = ""
    """Whose answer added it: `person`, or the name of a hook or policy; empty: not known."""
    task_id: str = ""
    """In which task."""
    added_at: int = 0
    """When, in milliseconds since 1970."""

    @property
    def key(self) -> tuple[str, str, RuleScope]:
        return self.setting, self.text, self.scope


def select_persistent_rules(rules: Sequence[GrantedRule]) -> list[PersistentRule]:
    """Select the rules about commands and MCP tools."""
    return [
        PersistentRule(rule.setting, rule.text)
        for rule in rules
        if rule.setting in ("allowedCommands", "allowedMcpTools")
    ]


def remove_rules(settings: Settings, revoked: Collection[tuple[RuleSetting, str]]) -> Settings:
    """Return the settings without these rules."""
    if not revoked:
        return settings
    return structs.replace(
        settings,
        allowed_commands=_drop(settings.allowed_commands, "allowedCommands", revoked),
        allowed_mcp_tools=_drop(settings.allowed_mcp_tools, "allowedMcpTools", revoked),
        always_allow_write=settings.always_allow_write
        and all(setting != "alwaysAllowWrite" for setting, _ in revoked),
    )


def _drop(
    texts: tuple[str, ...], setting: RuleSetting, revoked: Collection[tuple[RuleSetting, str]]
) -> tuple[str, ...]:
    return tuple(text for text in texts if (setting, text) not in revoked)


def apply_level(settings: Settings, level: ApprovalLevel) -> Settings:
    """Apply the permissions that a user grants for a session. If everything needs approval
    (`autoApprovalEnabled` is off, `-a`), it still does. Edits are not part of the settings."""
    return allow_everything(settings) if level is ApprovalLevel.ALL else settings
