"""From flags to a task at work: a new one, or one that is to go on."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from joey.app import make_options
from joey.cli.exit_codes import UsageError
from joey.client.local import Engine, Task, TaskOptions, Unattended
from joey.core.protocol import ToolProtocol
from joey.core.settings import Limits
from joey.core.state import TaskState
from joey.errors import TaskNotFoundError
from joey.ports import TaskMetadata


async def launch(
    engine: Engine,
    arguments: Namespace,
    prompt: str,
    images: tuple[str, ...] = (),
    policy: Unattended | None = None,
) -> Task:
    """The task that the flags ask for, at work.

    Raises:
        UserError
    """
    earlier = earlier_task(engine.history(), arguments)
    options = options_for(arguments, earlier, policy)
    if earlier is None:
        return await engine.start(prompt, images=images, options=options)
    if not prompt.strip() and policy is not None and earlier.status == TaskState.COMPLETED:
        raise UsageError(f"task {earlier.id} is done; say what is to be done next")
    return await engine.resume(earlier.id, prompt or None, images=images, options=options)


def earlier_task(tasks: Sequence[TaskMetadata], arguments: Namespace) -> TaskMetadata | None:
    """The task that --continue or --resume means; None without either."""
    if arguments.resume:
        return find_task(tasks, arguments.resume)
    if not arguments.continue_:
        return None
    workspace = workspace_of(arguments)
    for task in tasks:
        if task.workspace and Path(task.workspace) == workspace:
            return task
    raise UsageError(f"there is no earlier task in {workspace}; see joey tasks list --all")


def find_task(tasks: Sequence[TaskMetadata], start: str) -> TaskMetadata:
    """The one task whose id begins like this.

    Raises:
        TaskNotFoundError: there is none, or more than one.
    """
    start = start.removeprefix("task_")
    found = [task for task in tasks if start and task.id.startswith(start)]
    exact = [task for task in found if task.id == start]
    match exact or found:
        case [task]:
            return task
        case []:
            raise TaskNotFoundError(f"there is no task {start!r}; see joey tasks list --all")
        case several:
            ids = ", ".join(task.id for task in several[:5])
            raise TaskNotFoundError(f"{len(several)} tasks begin with {start!r}: {ids}")


def workspace_of(arguments: Namespace) -> Path:
    """Raises UsageError."""
    try:
        return Path(arguments.workspace or Path.cwd()).resolve()
    except FileNotFoundError as error:
        raise UsageError(
            "the current folder is gone; go to another, or name one with -w"
        ) from error


def options_for(
    arguments: Namespace, earlier: TaskMetadata | None, policy: Unattended | None
) -> TaskOptions:
    workspace = workspace_of(arguments)
    if earlier is not None and earlier.workspace and not arguments.workspace:
        workspace = Path(earlier.workspace)
    return make_options(
        workspace=workspace,
        env=os.environ,
        provider=arguments.provider,
        model=arguments.model,
        base_url=arguments.base_url,
        profile=arguments.profile,
        mode=arguments.mode,
        protocol=ToolProtocol(arguments.protocol) if arguments.protocol else None,
        yes=arguments.yes,
        require_approval=arguments.require_approval,
        allow=tuple(arguments.allow),
        deny=tuple(arguments.deny),
        limits=Limits(
            max_turns=arguments.max_turns,
            max_cost=arguments.max_budget_usd,
            max_seconds=arguments.max_wall_time,
        ),
        policy=policy,
        system_prompt=_system_prompt(arguments.system_prompt_file),
    )


def _system_prompt(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"the system prompt file {file} is not UTF-8 text") from error
    except OSError as error:
        raise UsageError(
            f"the system prompt file {file} cannot be read: {error.strerror}"
        ) from error
