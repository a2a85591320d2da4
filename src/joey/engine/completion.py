"""A result that the model presents: checked, shown, and accepted or answered with feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joey.core.asks import Answer, AskKind
from joey.core.events import Said, TaskCompleted, ToolAnnounced
from joey.core.history.api import COMPLETION
from joey.core.permissions.claims import Access, Claim
from joey.core.permissions.policy import Allow, Ask, Deny, decide
from joey.core.prompts import replies
from joey.engine.calls import PlacedCall
from joey.engine.hooks import on_completion
from joey.engine.words import show_words
from joey.errors import ToolError
from joey.tools.base import Outcome

if TYPE_CHECKING:
    from joey.engine.task import Task

FINISH = '{"tool":"finishTask"}'
"""What the row says in which a subtask hands over its result."""
NO_WORDS = "The result was not accepted."


async def accept_completion(
    task: Task, result: str, placed: PlacedCall, *, something_failed: bool
) -> Outcome | None:
    """None when the result was accepted; otherwise the feedback, as the call's outcome.

    Raises:
        ToolError: the result is refused before anybody sees it.
        Stop: it never had the form that was asked for.
    """
    _check(task, something_failed)
    if task.bench.result_check is not None:
        await task.bench.result_check.check(result)
    await on_completion(task, placed, result)
    facts = task.recorder.facts
    task.publish(Said(ts=placed.row_ts, say="completion_result", text=result))
    task.publish(
        TaskCompleted(
            ts=task.now(),
            result=result,
            usage=facts.usage,
            tool_usage=dict(facts.ledger.tools),
        )
    )
    if task.is_awaited:
        return await _hand_over(task, placed)
    answer = await task.ask(AskKind.COMPLETION_RESULT, call_id=placed.call.id)
    show_words(task, answer)
    return None if answer.approves else _feedback(answer)


async def _hand_over(task: Task, placed: PlacedCall) -> Outcome | None:
    """A subtask's result goes to the task that waits for it, if the rules or the person agree."""
    ts, call_id = task.now(), placed.call.id
    match decide((Claim(Access.DELEGATE),), task.bench.settings):
        case Allow(rule):
            task.publish(
                ToolAnnounced(ts=ts, call_id=call_id, tool=COMPLETION, text=FINISH, rule=rule)
            )
            return None
        case Ask(reason) | Deny(_, reason):
            answer = await task.ask(
                AskKind.TOOL, FINISH, ts=ts, call_id=call_id, tool=COMPLETION, reason=reason
            )
    show_words(task, answer)
    return None if answer.approves else _feedback(answer)


def _feedback(answer: Answer) -> Outcome:
    words = answer.text or NO_WORDS
    return Outcome(replies.completion_feedback(words), images=answer.images)


def _check(task: Task, something_failed: bool) -> None:
    if something_failed:
        raise ToolError(replies.tool_failed_before_completion())
    todos = task.recorder.facts.todos
    if task.bench.settings.prevent_completion_with_open_todos and any(
        todo.status != "completed" for todo in todos
    ):
        raise ToolError(replies.open_todos())
