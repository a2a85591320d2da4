"""The first words of a run: a new task, a message to one at rest, or a resumption."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.core.asks import AskKind, Response
from joey.core.events import ToolFinished, UserSaid
from joey.core.history.api import COMPLETION
from joey.core.messages import TextBlock, UserBlock, image_block
from joey.core.prompts import replies
from joey.core.state import TaskState
from joey.engine.endings import Stop

if TYPE_CHECKING:
    from joey.engine.task import Task

ACCEPTED = "The user accepted this result."


class Kind(StrEnum):
    NEW = "new"
    MESSAGE = "message"
    """Words are waiting in the queue."""
    RESUME = "resume"
    """Ask the person whether, and with what words, to go on."""


class Opening(Struct, frozen=True):
    kind: Kind
    was_completed: bool = False

    @classmethod
    def new(cls) -> Opening:
        return cls(Kind.NEW)

    @classmethod
    def message(cls) -> Opening:
        return cls(Kind.MESSAGE)

    @classmethod
    def resume(cls, state: TaskState) -> Opening:
        return cls(Kind.RESUME, was_completed=state is TaskState.COMPLETED)

    @property
    def resumed(self) -> bool:
        return self.kind is not Kind.NEW


async def first_content(task: Task, opening: Opening) -> tuple[UserBlock, ...]:
    """What the first request of this run says; queued messages join it when it is composed.

    Words that were acknowledged just before a process ended come first: they are never lost.
    """
    facts = task.recorder.facts
    words = [block for answer in facts.unheard for block in _words(answer.text, answer.images)]
    if opening.kind is Kind.RESUME:
        words += await _ask_to_resume(task, opening)
    if not task.recorder.api.messages and facts.prompt is not None:
        words = [*_first_words(task, facts.prompt), *words]
    elif opening.resumed:
        if not words and not facts.queue:
            cut = bool(task.recorder.api.open_calls) and not opening.was_completed
            words = [TextBlock(replies.resumption(_minutes_since(task), cut))]
        _answer_completion(task)
    return tuple(words)


def _first_words(task: Task, prompt: UserSaid) -> list[UserBlock]:
    text = replies.task_message(task.recorder.facts.protocol, prompt.text)
    return [TextBlock(text), *(image_block(uri) for uri in prompt.images)]


async def _ask_to_resume(task: Task, opening: Opening) -> list[UserBlock]:
    kind = AskKind.RESUME_COMPLETED_TASK if opening.was_completed else AskKind.RESUME_TASK
    answer = await task.ask(kind)
    if answer is None or answer.response is Response.NO:
        raise Stop("declined", "The task was not resumed.")
    if not answer.text and not answer.images:
        return []
    task.publish(UserSaid(ts=task.now(), text=answer.text, images=answer.images))
    return _words(answer.text, answer.images)


def _words(text: str, images: tuple[str, ...]) -> list[UserBlock]:
    return [TextBlock(replies.user_message(text)), *(image_block(uri) for uri in images)]


def _minutes_since(task: Task) -> int:
    return (task.bench.clock.now() - task.recorder.facts.updated) // 60_000


def _answer_completion(task: Task) -> None:
    """A completion left open by acceptance gets its result now that the task goes on."""
    for call in task.recorder.api.open_calls:
        if call.name == COMPLETION:
            task.publish(
                ToolFinished(
                    ts=task.now(),
                    call_id=call.id,
                    tool=call.name,
                    content=ACCEPTED,
                )
            )
