"""The first words of a run: a new task, a message to one at rest, or a resumption."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from joey.core.events import ToolFinished, UserSaid
from joey.core.history.api import COMPLETION
from joey.core.messages import TextBlock, UserBlock, image_block
from joey.core.prompts import replies
from joey.core.task import AskKind, Response
from joey.engine.endings import Stop
from joey.engine.mentions import tell
from joey.engine.words import show_words, told_words

if TYPE_CHECKING:
    from joey.engine.task import Task


class Opening(StrEnum):
    NEW = "new"
    MESSAGE = "message"
    """Words are waiting in the queue."""
    RESUME = "resume"
    """Ask the person whether, and with what words, to go on."""
    CONTINUE = "continue"
    """Go on where it stopped: whoever had to be asked was asked."""

    @property
    def resumed(self) -> bool:
        return self is not Opening.NEW


async def first_content(task: Task, opening: Opening) -> tuple[UserBlock, ...]:
    """What the first request of this run says; queued messages join it when it is composed.

    Words that were acknowledged just before a process ended come first: they are never lost.
    """
    facts = task.recorder.facts
    delegated = {child.call_id for child in task.recorder.delegated}
    unheard = [said.answer for said in facts.unheard if said.about not in delegated]
    words = [block for answer in unheard for block in told_words(answer)]
    queued = {(message.text, message.images) for message in facts.queue.values()}
    for said in facts.untold:
        if (said.text, said.images) not in queued:
            words += await tell(task, said.text, said.images)
    if opening is Opening.RESUME:
        words += await _ask_to_resume(task)
    if not task.recorder.api.messages and facts.prompt is not None:
        words = [*await _first_words(task, facts.prompt), *words]
    elif opening.resumed:
        lost = [call for call in task.recorder.api.open_calls if call.id not in delegated]
        if not words and not facts.queue and (lost or not delegated):
            cut = bool(lost) and not facts.accepted
            words = [TextBlock(replies.resumption(_minutes_since(task), cut))]
        if facts.accepted:
            close_completion(task)
    return tuple(words)


async def _first_words(task: Task, prompt: UserSaid) -> tuple[UserBlock, ...]:
    wrap = partial(replies.task_message, task.recorder.facts.protocol)
    if task.recorder.facts.parent_id is not None:
        # Words of a model: what looks like a mention in them is not what a person pointed at.
        return (TextBlock(wrap(prompt.text)), *(image_block(uri) for uri in prompt.images))
    return await tell(task, prompt.text, prompt.images, wrap)


async def _ask_to_resume(task: Task) -> tuple[UserBlock, ...]:
    completed = task.recorder.facts.accepted
    answer = await task.ask(AskKind.RESUME_COMPLETED_TASK if completed else AskKind.RESUME_TASK)
    show_words(task, answer)
    if answer.response is Response.NO:
        raise Stop("declined", "The task was not resumed.")
    return await tell(task, answer.text, answer.images) if answer.has_words else ()


def _minutes_since(task: Task) -> int:
    return (task.bench.clock.now() - task.recorder.facts.updated) // 60_000


def close_completion(task: Task) -> None:
    """A completion that was left open when it was accepted gets its result."""
    for call in task.recorder.api.open_calls:
        if call.name == COMPLETION:
            accepted = replies.completion_accepted()
            task.publish(
                ToolFinished(ts=task.now(), call_id=call.id, tool=call.name, content=accepted)
            )
