"""Options of an approval besides a plain yes, and their effect.

An `Offer` is built from the claims of the call, never from any message; `apply_answer` applies the
user's choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from joey.core.permissions import policy
from joey.core.permissions.granted_rules import GrantedRule
from joey.core.permissions.hosts import CommandNetwork
from joey.core.task_types import Answer, RowKind, RuleScope
from joey.errors import ConfigError

if TYPE_CHECKING:
    from joey.engine.task import Task


class Offer(Struct, frozen=True):
    """What an answer may add to a plain yes."""

    rule: policy.PersistentRule | policy.TaskRule | None = None
    scopes: tuple[RuleScope, ...] = ()
    network: CommandNetwork | None = None


async def build_offer(
    task: Task, claims: Sequence[policy.Claim], read: policy.GrammarParser | None
) -> Offer:
    """Build the offer; only options that allow exactly this call."""
    command = next((claim for claim in claims if claim.command is not None), None)
    network = None
    if command is not None and command.sandbox in policy.CONFINING_LEVELS:
        from joey.engine.network_access import describe_network  # only commands need it

        network = await describe_network(task, command.command or "", command.sandbox)
    if (grant := policy.propose_task_rule(claims, task.settings)) is not None:
        return Offer(grant, (RuleScope.TASK,), network)
    store = task.runtime.capabilities.rule_store
    rule = None if store is None else policy.propose_persistent_rule(claims, task.settings, read)
    if store is None or rule is None or _would_wake_mcp_tools(task, rule):
        return Offer(network=network)
    scopes = [RuleScope.DIRECTORY, RuleScope.TASK]
    if await asyncio.to_thread(store.would_enable_only, rule):
        scopes.append(RuleScope.EVERYWHERE)
    return Offer(rule, tuple(scopes), network)


def _would_wake_mcp_tools(task: Task, rule: policy.PersistentRule) -> bool:
    """Whether tools that servers allow-list would run without approval too."""
    mcp = task.runtime.capabilities.mcp
    if rule.setting != "allowedMcpTools" or mcp is None or task.settings.always_allow_mcp:
        return False
    return any(tool.always_allowed for server in mcp.servers for tool in server.tools)


def select_offered(answer: Answer, offer: Offer) -> Answer:
    """Drop everything from the answer that was not offered."""
    network = offer.network or CommandNetwork()
    has_rule = answer.always and answer.approves and offer.rule is not None
    scope = answer.scope if answer.scope in offer.scopes else None
    return structs.replace(
        answer,
        always=has_rule and (scope is not None or answer.scope is None),
        scope=(scope or offer.scopes[0]) if has_rule and offer.scopes else None,
        network=answer.network and answer.approves and network.can_open,
        hosts=answer.hosts and answer.approves and bool(network.offered_hosts),
    )


async def apply_answer(task: Task, offer: Offer, answer: Answer, ask_ts: int) -> None:
    """Apply the user's choice at once, and store it if it outlives the task."""
    if answer.always and offer.rule is not None:
        await _add_rule(task, offer.rule, answer, ask_ts)
    store = task.runtime.capabilities.rule_store
    if answer.hosts and offer.network is not None and store is not None:
        for host in offer.network.offered_hosts:
            try:
                await asyncio.to_thread(store.add_host, host, by=answer.by, task_id=task.id)
            except ConfigError as error:
                task.add_row(RowKind.ERROR, f"`{host}` could not be allowed: {error}")


async def _add_rule(
    task: Task, rule: policy.PersistentRule | policy.TaskRule, answer: Answer, ask_ts: int
) -> None:
    if isinstance(rule, policy.TaskRule):
        task.grants.grant_edits(task.id, ask_ts, answer.by)
        return
    store = task.runtime.capabilities.rule_store
    error: ConfigError | None = None
    if store is not None and answer.scope in (RuleScope.DIRECTORY, RuleScope.EVERYWHERE):
        try:
            await asyncio.to_thread(store.add, rule, answer.scope, by=answer.by, task_id=task.id)
        except ConfigError as problem:
            error = problem
    scope = RuleScope.TASK if error is not None or answer.scope is None else answer.scope
    if scope is not RuleScope.DIRECTORY or store is None:
        # A stored rule also counts for this task, whose settings were read before.
        now = task.runtime.clock.now()
        task.grants.add_rule(GrantedRule(rule.setting, rule.text, scope, answer.by, task.id, now))
    if error is not None:
        text = f"`{rule.text}` is allowed for this task, but could not be kept: {error}"
        task.add_row(RowKind.ERROR, text)
