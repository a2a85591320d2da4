"""A result, from a completion or a plain answer: checked, shown, and accepted or sent back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from joey.core.events import Said, TaskCompleted, ToolAnnounced
from joey.core.history.api import COMPLETION
from joey.core.messages import ToolCall
from joey.core.permissions.policy import Access, Allow, Ask, Claim, Deny, decide
from joey.core.prompts import replies
from joey.core.task import Answer, AskKind
from joey.engine.hooks import on_completion
from joey.engine.words import show_words
from joey.errors import ToolError

if TYPE_CHECKING:
    from joey.engine.task import Task

FINISH = '{"tool":"finishTask"}'
"""What the row says in which a subtask hands over its result."""
NOT_ACCEPTED = "The result was not accepted."
"""The feedback of a user who says no to a result and nothing else."""


async def present(
    task: Task, result: str, row_ts: int, call: ToolCall | None = None
) -> Answer | None:
    """The answer to a result; None when the rules accept it. A plain answer has no call.

    Raises:
        ToolError: the result is refused before anybody sees it.
        Stop: it never had the form that was asked for.
    """
    _check_todos(task)
    if task.bench.result_check is not None:
        await task.bench.result_check.check(result)
    await on_completion(task, call, result)
    facts = task.recorder.facts
    task.publish(Said(ts=row_ts, say="completion_result", text=result))
    task.publish(
        TaskCompleted(
            ts=task.now(),
            result=result,
            usage=facts.usage,
            tool_usage=dict(facts.ledger.tools),
            answered=call is None,
        )
    )
    call_id = None if call is None else call.id
    if task.is_awaited:
        return await _hand_over(task, call_id)
    answer = await task.ask(AskKind.COMPLETION_RESULT, call_id=call_id)
    show_words(task, answer)
    return answer


async def _hand_over(task: Task, call_id: str | None) -> Answer | None:
    """A subtask's result goes to the task that waits for it, if the rules or the person agree."""
    ts = task.now()
    match decide((Claim(Access.DELEGATE),), task.bench.settings):
        case Allow(rule):
            task.publish(
                ToolAnnounced(ts=ts, call_id=call_id or "", tool=COMPLETION, text=FINISH, rule=rule)
            )
            return None
        case Ask(reason) | Deny(_, reason):
            answer = await task.ask(
                AskKind.TOOL, FINISH, ts=ts, call_id=call_id, tool=COMPLETION, reason=reason
            )
    show_words(task, answer)
    return answer


def _check_todos(task: Task) -> None:
    todos = task.recorder.facts.todos
    if task.bench.settings.prevent_completion_with_open_todos and any(
        todo.status != "completed" for todo in todos
    ):
        raise ToolError(replies.open_todos())
