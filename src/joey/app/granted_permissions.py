"""Permissions that users granted with their answers: list and revoke them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from joey.config.config_store import ConfigStore
from joey.config.home import resolve_joey_home
from joey.config.rule_store import UserRuleStore
from joey.core.permissions.granted_rules import GrantedRule, RuleSetting
from joey.core.permissions.hosts import NetworkSetting
from joey.core.task_types import RuleScope
from joey.engine.approval import TaskGrants
from joey.engine.task import Task
from joey.ports.extensions import RuleStore


def open_rule_store(workspace: Path) -> RuleStore:
    return UserRuleStore(resolve_joey_home(os.environ), workspace)


def load_network_setting() -> NetworkSetting:
    """Load the network setting of commands. Raises ConfigError."""
    return ConfigStore(resolve_joey_home(os.environ)).load_settings().sandbox_network


def list_granted_rules(grants: TaskGrants | None, store: RuleStore | None) -> list[GrantedRule]:
    """List the rules of a task, its directory and the settings. Reads files: call it in a thread.
    Raises ConfigError."""
    rules = [] if grants is None else list(grants.rules)
    rules += () if store is None else store.list_rules()
    return list({rule.key: rule for rule in reversed(rules)}.values())[::-1]


def revoke_rule(
    tasks: Iterable[Task],
    store: RuleStore | None,
    setting: RuleSetting,
    text: str,
    scope: RuleScope,
) -> bool:
    """Revoke a rule; False if there is no such rule. It ends at once in open tasks. Raises
    ConfigError."""
    is_revoked = False
    for task in tasks:
        is_revoked |= task.grants.revoke(setting, text, scope)
    if scope is not RuleScope.TASK and store is not None:
        is_revoked |= store.revoke(setting, text, scope)
    return is_revoked
