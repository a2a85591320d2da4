"""A result that the model presents: checked, shown, and accepted or answered with feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joey.core.asks import AskKind
from joey.core.events import Said, TaskCompleted
from joey.core.prompts import replies
from joey.engine.calls import PlacedCall
from joey.engine.words import show_words
from joey.errors import ToolError
from joey.tools.base import Outcome

if TYPE_CHECKING:
    from joey.engine.task import Task


async def accept_completion(
    task: Task, result: str, placed: PlacedCall, *, something_failed: bool
) -> Outcome | None:
    """None when the result was accepted; otherwise the feedback, as the call's outcome.

    Raises:
        ToolError: the result is refused before anybody sees it.
    """
    _check(task, something_failed)
    facts = task.recorder.facts
    task.publish(Said(ts=placed.row_ts, say="completion_result", text=result))
    task.publish(
        TaskCompleted(ts=task.now(), result=result, usage=facts.usage, tool_usage=dict(facts.tools))
    )
    answer = await task.ask(AskKind.COMPLETION_RESULT, call_id=placed.call.id)
    show_words(task, answer)
    if answer.approves:
        return None
    return Outcome(replies.completion_feedback(answer.text), images=answer.images)


def _check(task: Task, something_failed: bool) -> None:
    if something_failed:
        raise ToolError(replies.tool_failed_before_completion())
    todos = task.recorder.facts.todos
    if task.bench.settings.prevent_completion_with_open_todos and any(
        todo.status != "completed" for todo in todos
    ):
        raise ToolError(replies.open_todos())
