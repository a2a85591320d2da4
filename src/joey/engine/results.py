"""One outcome for each call: told to the model as its result, and to the person as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from joey.core.events import Said, Spent, TokenUsage, ToolFailed, ToolFinished
from joey.core.messages import ToolCall
from joey.core.models import ToolProtocol
from joey.core.prompts import replies
from joey.core.task import Answer
from joey.engine.calls import PlacedCall, Rejected, RepeatedError
from joey.errors import ArgumentError, HiddenError, RefusedError, ToolError, WordedError
from joey.tools.base import Outcome

if TYPE_CHECKING:
    from joey.engine.task import Task


def is_open(task: Task, placed: PlacedCall) -> bool:
    """Whether the call still has no outcome."""
    return any(call.id == placed.call.id for call in task.recorder.api.open_calls)


def compared(task: Task, call_id: str) -> tuple[object, ...] | None:
    """What makes the result of a call the same as that of another; None while it has none."""
    outcome = task.recorder.api.outcome(call_id)
    return None if outcome is None else (outcome.content, outcome.images, outcome.is_error)


def finish(
    task: Task,
    placed: PlacedCall,
    outcome: Outcome,
    answer: Answer | None = None,
    usage: TokenUsage | None = None,
    spent: Spent | None = None,
) -> None:
    """`answer` is what the person said when the call was put to them; what follows is of a
    subtask."""
    if answer is not None and answer.approves:
        outcome = _with_words(outcome, answer, task.recorder.facts.protocol)
    task.publish(
        ToolFinished(
            ts=task.now(),
            call_id=placed.call.id,
            tool=placed.call.name,
            content=outcome.text,
            images=outcome.images,
            is_error=outcome.is_error,
            header=_header(task, placed.call),
            exit_code=outcome.exit_code,
            row_ts=placed.row_ts,
            usage=usage,
            spent=spent,
        )
    )


def fail(
    task: Task,
    placed: PlacedCall,
    error: ToolError,
    answer: Answer | None = None,
    usage: TokenUsage | None = None,
    spent: Spent | None = None,
) -> None:
    name, protocol = placed.call.name, task.recorder.facts.protocol
    say, shown = "error", f"{name}: {error}"
    images: tuple[str, ...] = ()
    match error:
        case ArgumentError(parameter=str(parameter)):
            text = replies.missing_parameter(protocol, name, parameter)
        case HiddenError(path=path, because=""):
            text = replies.rooignore(protocol, path)
            say, shown = "rooignore_error", path
        case WordedError(reply=text):
            pass
        case RepeatedError():
            text, images = replies.tool_error(protocol, str(error)), error.images
        case _:
            text = replies.tool_error(protocol, str(error))
    task.publish(Said(ts=task.now(), say=say, text=shown))
    task.publish(
        ToolFailed(
            ts=task.now(),
            tool=name,
            error=str(error),
            call_id=placed.call.id,
            rule=_refused_by(error),
        )
    )
    finish(task, placed, Outcome(text, images=images, is_error=True), answer, usage, spent)


def reject(task: Task, placed: PlacedCall, rejected: Rejected) -> None:
    answer = rejected.answer
    unattended = replies.unattended_denial(rejected.beyond) if answer.by != "person" else ""
    text = replies.denied(task.recorder.facts.protocol, answer.text or unattended)
    finish(task, placed, Outcome(text, images=answer.images))


def skip(task: Task, placed: PlacedCall, reason: str) -> None:
    finish(task, placed, Outcome(reason, is_error=True))


def _with_words(outcome: Outcome, answer: Answer, protocol: ToolProtocol) -> Outcome:
    """Words that came with a yes go in front of the result, pictures before its own."""
    text = outcome.text
    if answer.text:
        text = f"{replies.approved_with_feedback(protocol, answer.text)}\n\n{text}"
    return structs.replace(outcome, text=text, images=(*answer.images, *outcome.images))


def _refused_by(error: ToolError) -> str | None:
    match error:
        case RefusedError(rule=rule):
            return rule
        case HiddenError():
            return ".rooignore"
        case _:
            return None


def _header(task: Task, call: ToolCall) -> str:
    try:
        description = task.bench.toolbox.find(call.name).describe(call.input)
    except ToolError:
        description = f"[{call.name}]"
    return replies.result_header(description)
