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

from joey.core.events import ModeSwitched, RowAdded, UserMessage
from joey.core.messages import TextBlock, UserBlock, build_image_block
from joey.core.modes import choose_fallback_mode, find_mode
from joey.core.prompts import replies
from joey.core.task import AskKind, Response
from joey.engine.asks import build_feedback_blocks, publish_feedback
from joey.engine.completion import close_completion
from joey.engine.hooks import read_hooks
from joey.engine.mentions import expand_mentions
from joey.engine.outcomes import RunStopped

if TYPE_CHECKING:
    from joey.engine.task import Task


class RunStart(StrEnum):
    NEW = "new"
    MESSAGE = "message"
    """Words are waiting in the queue."""
    RESUME = "resume"
    """Ask the person whether, and with what words, to go on."""
    CONTINUE = "continue"
    """Go on where it stopped: whoever had to be asked was asked."""

    @property
    def resumed(self) -> bool:
        return self is not RunStart.NEW


async def first_content(task: Task, opening: RunStart) -> tuple[UserBlock, ...]:
    """What the first request of this run says; queued messages join it when it is composed.

    Words that were acknowledged just before a process ended come first: they are never lost.
    """
    facts = task.recorder.facts
    delegated = {child.call_id for child in task.recorder.delegated}
    unheard = [said.answer for said in facts.unsent_feedback if said.call_id not in delegated]
    blocks = [block for answer in unheard for block in build_feedback_blocks(answer)]
    queued = {(message.text, message.images) for message in facts.queue.values()}
    for said in facts.unsent_messages:
        if (said.text, said.images) not in queued:
            blocks += await expand_mentions(task, said.text, said.images)
    if opening is RunStart.RESUME:
        blocks += await _ask_to_resume(task)
    if not task.recorder.api.messages and facts.prompt is not None:
        blocks = [*await _build_prompt_blocks(task, facts.prompt), *blocks]
    elif opening.resumed:
        lost = [call for call in task.recorder.api.open_calls if call.id not in delegated]
        if not blocks and not facts.queue and (lost or not delegated):
            cut = bool(lost) and not facts.is_result_accepted
            blocks = [TextBlock(replies.render_resumption(_minutes_since(task), cut))]
        if facts.is_result_accepted:
            close_completion(task)
    return tuple(blocks)


async def _build_prompt_blocks(task: Task, prompt: UserMessage) -> tuple[UserBlock, ...]:
    wrap = partial(replies.render_task_message, task.recorder.facts.protocol)
    if task.recorder.facts.parent_id is not None:
        # Words of a model: what looks like a mention in them is not what a person pointed at.
        return (TextBlock(wrap(prompt.text)), *(build_image_block(uri) for uri in prompt.images))
    return await expand_mentions(task, prompt.text, prompt.images, wrap)


async def _ask_to_resume(task: Task) -> tuple[UserBlock, ...]:
    completed = task.recorder.facts.is_result_accepted
    answer = await task.ask(AskKind.RESUME_COMPLETED_TASK if completed else AskKind.RESUME_TASK)
    publish_feedback(task, answer)
    if answer.response is Response.NO:
        raise RunStopped("declined", "The task was not resumed.")
    return await expand_mentions(task, answer.text, answer.images) if answer.has_content else ()


def _minutes_since(task: Task) -> int:
    return (task.runtime.clock.now() - task.recorder.facts.updated) // 60_000


async def reload_customizations(task: Task) -> None:
    """Take in what was changed since the last run, and leave a mode that is gone."""
    runtime = task.runtime
    customizations = runtime.capabilities.customizations
    if customizations is not None and await asyncio.to_thread(customizations.refresh):
        runtime.prompts.clear()
    await _read_custom_tools(task)
    await read_hooks(task)
    slug = task.recorder.facts.mode
    if find_mode(slug, runtime.modes) is not None:
        return
    mode = choose_fallback_mode(runtime.settings.mode, runtime.modes)
    known = ", ".join(known.slug for known in runtime.modes)
    text = f"There is no mode {slug!r} (any more); going on in {mode.name} mode. Modes: {known}."
    task.publish(RowAdded(ts=task.now(), say="error", text=text))
    task.publish(ModeSwitched(ts=task.now(), mode=mode.slug))


async def _read_custom_tools(task: Task) -> None:
    """Look at the user's own tools; what is wrong with a file is told when it is first seen."""
    tools = task.runtime.capabilities.custom_tools
    if tools is None:
        return
    known = tools.warnings
    await tools.refresh()
    for warning in tools.warnings:
        if warning not in known:
            task.publish(RowAdded(ts=task.now(), say="error", text=warning))


def warn_missing_profile(task: Task) -> None:
    """A mode that cannot have the model that the settings want for it says so once."""
    others = task.runtime.others
    if others is not None and (problem := others.take_mode_error(task.mode)) is not None:
        task.publish(RowAdded(ts=task.now(), say="error", text=problem))
