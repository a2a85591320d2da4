"""Commands about permissions: what runs without asking, taking it back, the level of a task.

A separate module because the commands are in modules by subject.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from joey.core.permissions.granted_rules import GrantedRule
from joey.core.task_types import RuleScope
from joey.core.wire import commands as wire
from joey.core.wire.events import PermissionsPayload
from joey.server.commands.call import CommandCall, make_argument_error
from joey.server.commands.messages import require_open_task
from joey.server.commands.tasks import check_task_exists

if TYPE_CHECKING:
    from joey.server.hub import ServerHub


async def get_permissions(
    hub: ServerHub, call: CommandCall[wire.GetPermissions]
) -> wire.Permissions:
    if call.task_id is not None:
        await check_task_exists(hub, call.task_id)
    task = hub.find_open_or_current_task(call)
    services, workspace = hub.services, _parse_path(call.arguments.workspace)
    settings = services.config_store.load_settings() if task is None else task.settings
    directory = workspace or (services.workspace if task is None else task.runtime.workspace)
    return wire.Permissions(
        workspace=str(directory),
        rules=await asyncio.to_thread(services.list_granted_rules, task, workspace),
        network=settings.sandbox_network,
        sandbox=services.find_sandbox() if task is None else task.runtime.find_sandbox(),
        level=None if task is None else task.grants.level,
    )


async def revoke_permission(
    hub: ServerHub, call: CommandCall[wire.RevokePermission]
) -> wire.Revoked:
    arguments = call.arguments
    if call.task_id is not None:
        await check_task_exists(hub, call.task_id)
    task = hub.find_open_or_current_task(call)
    if arguments.scope is RuleScope.TASK and task is None:
        problem = "missing: a rule of a task is revoked in that task, while it is open."
        raise make_argument_error("taskId", problem)
    is_of_task = arguments.scope is RuleScope.TASK and task is not None
    tasks = [task] if is_of_task and task is not None else [feed.task for feed in hub.feeds]
    rule = GrantedRule(arguments.setting, arguments.text, arguments.scope)
    is_revoked = await asyncio.to_thread(
        hub.services.revoke_rule, tasks, task, _parse_path(arguments.workspace), rule
    )
    if is_revoked:
        hub.announce("permissionsChanged", PermissionsPayload())
    return wire.Revoked(revoked=is_revoked)


async def set_approval_level(hub: ServerHub, call: CommandCall[wire.SetApprovalLevel]) -> None:
    task = await require_open_task(hub, call)
    task.grants.level = call.arguments.level
    hub.announce("permissionsChanged", PermissionsPayload(level=task.grants.level), task.id)


def _parse_path(workspace: str | None) -> Path | None:
    return None if workspace is None else Path(workspace)
