"""The start of a run: its kind, its first content, and the customizations it works with.

A run starts a new task, continues one with a message, or resumes it. Customizations (modes, rules,
hooks, custom tools) are reloaded when a run starts and stay as they are until it ends: the system
prompt keeps its bytes from request to request, and a mode does not disappear during a run.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from joey.core.events import ModeSwitched, UserMessage
from joey.core.messages import TextBlock, UserBlock, build_image_block
from joey.core.modes import choose_fallback_mode, find_mode
from joey.core.prompts import messages_to_model
from joey.core.prompts.conditions import WorkingConditions
from joey.core.task_types import AskKind, Response, RowKind
from joey.engine.asks import build_feedback_blocks, publish_feedback
from joey.engine.completion import close_completion_call
from joey.engine.hooks import reload_hooks
from joey.engine.message_expansion import expand_message
from joey.engine.outcomes import RunStopped
from joey.errors import FailureCode

if TYPE_CHECKING:
    from joey.engine.task import Task


class RunStart(StrEnum):
    NEW = "new"
    MESSAGE = "message"
    """Words are waiting in the queue."""
    RESUME = "resume"
    """Ask the user whether, and with what words, to go on."""
    CONTINUE = "continue"
    """Go on where it stopped: whoever had to be asked was asked."""
    RETRY = "retry"
    """Send a request that failed once more, by another model or with another key."""

    @property
    def is_resumed(self) -> bool:
        return self is not RunStart.NEW


async def build_first_content(task: Task, run_start: RunStart) -> tuple[UserBlock, ...]:
    """Build the first content of this run; queued messages are added when the request is built.

    Messages acknowledged just before a process ended come first: they are never lost.
    """
    projection = task.recorder.projection
    delegated = {child.call_id for child in task.recorder.pending_delegations}
    unsent_feedback = [
        said.answer for said in projection.unsent_feedback if said.call_id not in delegated
    ]
    blocks = [block for answer in unsent_feedback for block in build_feedback_blocks(answer)]
    queued = {(message.text, message.images) for message in projection.queued_messages.values()}
    for said in projection.unsent_messages:
        if (said.text, said.images) not in queued:
            blocks += await expand_message(task, said.text, said.images)
    if run_start is RunStart.RESUME:
        blocks += await _ask_to_resume(task)
    if not task.recorder.api_history.request_messages and projection.prompt is not None:
        blocks = [*await _build_prompt_blocks(task, projection.prompt), *blocks]
    elif run_start.is_resumed:
        interrupted = [
            call for call in task.recorder.api_history.open_calls if call.id not in delegated
        ]
        is_announced = run_start is not RunStart.RETRY and (interrupted or not delegated)
        if not blocks and not projection.queued_messages and is_announced:
            was_interrupted = bool(interrupted) and not projection.is_result_accepted
            idle_minutes = (task.runtime.clock.now() - projection.updated) // 60_000
            text = messages_to_model.render_resumption(idle_minutes, was_interrupted)
            blocks = [TextBlock(text)]
        if projection.is_result_accepted:
            close_completion_call(task)
    return tuple(blocks)


async def _build_prompt_blocks(task: Task, prompt: UserMessage) -> tuple[UserBlock, ...]:
    wrap = partial(messages_to_model.render_task_message, task.protocol)
    if task.recorder.projection.parent_id is not None:
        # Text of a model: apparent mentions in it are not the user's.
        return (TextBlock(wrap(prompt.text)), *(build_image_block(uri) for uri in prompt.images))
    return await expand_message(task, prompt.text, prompt.images, wrap)


async def _ask_to_resume(task: Task) -> tuple[UserBlock, ...]:
    completed = task.recorder.projection.is_result_accepted
    answer = await task.ask(AskKind.RESUME_COMPLETED_TASK if completed else AskKind.RESUME_TASK)
    publish_feedback(task, answer)
    if answer.response is Response.NO:
        raise RunStopped(FailureCode.RESUME_DECLINED, "The task was not resumed.")
    return await expand_message(task, answer.text, answer.images) if answer.has_content else ()


async def record_working_conditions(task: Task) -> None:
    """Record the working conditions in the system prompt, which stay fixed until the run ends."""
    task.working_conditions = WorkingConditions(
        task.settings,
        sandbox=await asyncio.to_thread(task.runtime.find_sandbox),
        is_unattended=task.asks.is_unattended,
    )


async def reload_customizations(task: Task) -> None:
    """Reload what has changed since the last run, and leave a mode that no longer exists."""
    runtime = task.runtime
    customizations = runtime.capabilities.customizations
    if customizations is not None and await asyncio.to_thread(customizations.refresh):
        runtime.system_prompt_cache.clear()
    if (tools := runtime.capabilities.custom_tools) is not None:
        known = tools.warnings
        await tools.refresh()
        for warning in tools.warnings:  # reported when first found
            if warning not in known:
                task.add_row(RowKind.ERROR, warning)
    await reload_hooks(task)
    slug = task.recorder.projection.mode
    if find_mode(slug, runtime.modes) is not None:
        return
    mode = choose_fallback_mode(runtime.settings.mode, runtime.modes)
    slugs = ", ".join(known.slug for known in runtime.modes)
    text = f"There is no mode {slug!r} (any more); continuing in {mode.name} mode. Modes: {slugs}."
    task.add_row(RowKind.ERROR, text)
    task.publish(ModeSwitched(ts=task.next_ts(), mode=mode.slug))


def warn_missing_profile(task: Task) -> None:
    """Warn once about a mode whose configured model cannot be used."""
    others = task.runtime.mode_providers
    if others is not None and (problem := others.take_error(task.mode.slug)) is not None:
        task.add_row(
            RowKind.ERROR,
            f"modeApiConfigs: {task.mode.name} mode continues with the task's model. {problem}"
            " Correct the setting or the profile; it takes effect when the task is opened again.",
        )
