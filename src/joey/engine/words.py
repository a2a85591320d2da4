"""Words that come with an answer: shown to the person as a row, told to the model as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joey.core.events import UserSaid
from joey.core.messages import TextBlock, UserBlock, image_block
from joey.core.prompts import replies
from joey.core.task import Answer

if TYPE_CHECKING:
    from joey.engine.task import Task


def show_words(task: Task, answer: Answer) -> None:
    if answer.has_words:
        task.publish(UserSaid(ts=task.now(), text=answer.text, images=answer.images))


def told_words(answer: Answer) -> tuple[UserBlock, ...]:
    """The words as the model reads them; nothing when there were none."""
    text = (TextBlock(replies.user_message(answer.text)),) if answer.text else ()
    return (*text, *(image_block(uri) for uri in answer.images))
