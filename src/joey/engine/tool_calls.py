"""The tool calls of one reply: prepared, authorized, run and answered in order.

Adjacent calls that only read run in parallel, and so do those that delegate to subtasks; their
results keep the order (D13). The first rejection skips the remaining calls. A completion after
other calls is not presented, because the model has not seen their results. Each call gets exactly
one outcome, published to the model as its result and to the user as rows. A defect in a tool fails
its call, not the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from joey.core.events import (
    ModeSwitched,
    RowAdded,
    Spending,
    SubtaskSpawned,
    TodosChanged,
    TokenUsage,
    ToolFailed,
    ToolFinished,
)
from joey.core.history.api import COMPLETION_TOOL
from joey.core.history.ui import Row
from joey.core.messages import ToolCall
from joey.core.models import ToolProtocol
from joey.core.prompts import replies
from joey.core.task import Answer
from joey.engine.approval import make_ready
from joey.engine.checkpoints import CheckpointGuard
from joey.engine.completion import DEFAULT_REJECTION_FEEDBACK, close_completion, present
from joey.engine.environment import is_busy
from joey.engine.hooks import after_tool, before_tool
from joey.engine.limits import FailureCounter
from joey.engine.outcomes import ApprovedCall, RejectedCall, RepeatedCallError, RowCall, RunStopped
from joey.engine.subtasks import SubtaskResult
from joey.errors import (
    ArgumentError,
    DeniedError,
    IgnoredPathError,
    PreformattedError,
    StoreError,
    TaskStateError,
    ToolError,
)
from joey.tools.base import ChangeMode, CompleteTask, Outcome, SetTodos, StartSubtask

if TYPE_CHECKING:
    from joey.engine.task import Task


log = logging.getLogger(__name__)

MAX_CONCURRENT_SUBTASKS = 50
"""Subtasks that work side by side: each has files, connections and processes of its own."""
FATAL_ERRORS = (RunStopped, StoreError, TaskStateError)
"""What no call can be blamed for: it ends the run."""


class ToolCallRunner:
    """The state of one reply's calls while they are worked through."""

    def __init__(self, task: Task, mistakes: FailureCounter) -> None:
        self._task = task
        self._mistakes = mistakes
        self._checkpoint_guard = CheckpointGuard(task)
        self._errors: list[str] = []
        """Of the calls that failed."""
        self._succeeded = False
        """A call did what it was made for, or told the model what it wanted to know."""
        self._failed = False
        """A call failed, or only a part of it succeeded."""
        self._unseen = False
        """There are results that the model has to see before it can know how the task stands."""
        self.rejected = False
        self.accepted: str | None = None
        """The result that the person accepted, which ends the task."""

    async def run(self, calls: Sequence[RowCall]) -> None:
        await self._run_all(calls)
        self._compare_results()
        self._mistakes.repetition.forget_unsettled()
        self._count_mistake()

    async def _run_all(self, calls: Sequence[RowCall]) -> None:
        waiting: list[tuple[RowCall, ApprovedCall]] = []
        for placed in calls:
            is_completion = placed.call.name == COMPLETION_TOOL
            if is_completion or (_delegating(waiting) and not self._delegates(placed)):
                # What comes next is prepared for a world in which the subtasks have done theirs.
                await self._run_side_by_side(waiting)
            if is_completion and self._unseen and not self.rejected:
                self._hold_back(placed)
                continue
            used_up = self._take_call(placed)
            if used_up and not self.rejected:
                self._fail(placed, ToolError(used_up))
                continue
            ready = None if self.rejected else await self._make_ready(placed)
            if ready is None:
                self._skip_if_rejected(placed)
                continue
            if not ready.tool.parallel and not _delegating(waiting):
                await self._run_side_by_side(waiting)
            if ready.tool.parallel or ready.tool.delegates:
                waiting.append((placed, ready))
                continue
            await self._checkpoint_guard.before(
                ready.prepared.claims, was_asked=ready.answer is not None
            )
            await self._settle(placed, ready, await self._outcome(placed, ready))
            await self._checkpoint_guard.after(ready.prepared.claims)
            if self.accepted is not None:
                self._close_around_completion(calls)
                return
        await self._run_side_by_side(waiting)

    async def take_up(self) -> None:
        """Calls whose subtasks had not returned when the task was interrupted."""
        if delegated := self._task.recorder.delegated:
            await self._delegate(delegated)
            self._count_mistake()

    def _count_mistake(self) -> None:
        """A reply in which no call succeeded is one mistake, however many calls failed."""
        if self._succeeded:
            self._mistakes.forgive()
        elif self._errors:
            self._mistakes.made_one(self._errors)

    def _compare_results(self) -> None:
        task = self._task
        self._mistakes.repetition.settle(partial(compared, task), is_busy=is_busy(task))

    def _take_call(self, placed: RowCall) -> str | None:
        """Why the call must not be made, when the allowance has none left."""
        allowance = self._task.allowance
        if allowance is None or placed.call.name == COMPLETION_TOOL:
            return None
        return allowance.take_call()

    def _delegates(self, placed: RowCall) -> bool:
        try:
            return self._task.runtime.toolbox.find(placed.call.name).delegates
        except ToolError:
            return False

    def _skip_if_rejected(self, placed: RowCall) -> None:
        if self.rejected and is_open(self._task, placed):
            reason = replies.render_skipped_after_rejection(placed.call.name)
            skip(self._task, placed, reason)

    async def _make_ready(self, placed: RowCall) -> ApprovedCall | None:
        """None when the call already has its outcome."""
        self._compare_results()
        try:
            ready = await make_ready(self._task, placed, self._mistakes)
        except ToolError as error:
            self._fail(placed, error)
            return None
        except FATAL_ERRORS:
            raise
        except Exception as error:
            self._fail(placed, _defect(placed.call, error))
            return None
        if isinstance(ready, RejectedCall):
            self.rejected = True
            reject(self._task, placed, ready)
            return None
        return ready

    async def _run_side_by_side(self, waiting: list[tuple[RowCall, ApprovedCall]]) -> None:
        batch = waiting[:]
        waiting.clear()
        if _delegating(batch):
            await self._checkpoint_guard.before_subtasks()
        outcomes = await asyncio.gather(*(self._outcome(*pair) for pair in batch))
        delegated: list[SubtaskSpawned] = []
        for (placed, ready), outcome in zip(batch, outcomes, strict=True):
            match outcome:
                case Outcome(directive=StartSubtask() as wanted):
                    delegated.append(self._task.subtasks.spawn(self._task, placed, wanted))
                case _:
                    await self._settle(placed, ready, outcome)
        if delegated:
            await self._delegate(delegated)

    async def _delegate(self, spawned: Sequence[SubtaskSpawned]) -> None:
        for start in range(0, len(spawned), MAX_CONCURRENT_SUBTASKS):
            some = spawned[start : start + MAX_CONCURRENT_SUBTASKS]
            await self._task.subtasks.see_through(self._task, some, self._return)
        await self._checkpoint_guard.after_subtasks()

    def _return(self, spawned: SubtaskSpawned, returned: SubtaskResult) -> None:
        """The outcome of a call, once its subtask has returned."""
        task = self._task
        call = next(call for call in task.recorder.api.open_calls if call.id == spawned.call_id)
        placed = RowCall(call, spawned.row_ts)
        answers = [
            said.answer for said in task.recorder.facts.unsent_feedback if said.call_id == call.id
        ]
        answer = next((answer for answer in answers if answer.approves), None)
        child_id, usage = spawned.child_id, returned.usage
        spent = None if task.allowance is None else task.allowance.fold(child_id)
        if returned.error is not None:
            self._note_failure(placed, returned.error)
            fail(task, placed, returned.error, answer, usage, spent)
            return
        self._succeeded = self._unseen = True
        result = returned.result or ""
        task.publish(
            RowAdded(ts=spawned.result_ts, say="subtask_result", text=result, subtask_id=child_id)
        )
        outcome = Outcome(replies.render_subtask_completed(child_id, result))
        finish(task, placed, outcome, answer, usage, spent)

    async def _outcome(self, placed: RowCall, ready: ApprovedCall) -> Outcome | ToolError:
        try:
            await before_tool(self._task, placed, ready)
        except DeniedError as error:
            return error
        outcome = await self._run(placed, ready)
        return await after_tool(self._task, placed, ready, outcome)

    async def _run(self, placed: RowCall, ready: ApprovedCall) -> Outcome | ToolError:
        try:
            return await ready.tool.run(ready.prepared, ready.context, ready.answer)
        except ToolError as error:
            return error
        except FATAL_ERRORS:
            raise
        except asyncio.CancelledError:
            self._keep_output(ready.context.output_ts)
            raise
        except Exception as error:
            return _defect(placed.call, error)

    def _keep_output(self, ts: int) -> None:
        """What a cancelled command had printed stays on the screen."""
        row = self._task.recorder.ui.get_row(ts)
        if isinstance(row, Row) and row.partial:
            self._task.publish(RowAdded(ts=ts, say="command_output", text=row.text or ""))

    async def _settle(
        self, placed: RowCall, ready: ApprovedCall, outcome: Outcome | ToolError
    ) -> None:
        if isinstance(outcome, ToolError):
            self._fail(placed, outcome, ready.answer)
            return
        task = self._task
        for say, text in outcome.said:
            ts = ready.context.output_ts if say == "command_output" else task.now()
            task.publish(RowAdded(ts=ts, say=say, text=text))
        self._failed = self._failed or outcome.is_error
        match outcome.directive:
            case CompleteTask(result):
                await self._complete(placed, result)
                return
            case SetTodos(todos):
                task.publish(TodosChanged(ts=task.now(), todos=todos))
            case ChangeMode(slug):
                task.publish(ModeSwitched(ts=task.now(), mode=slug))
        self._succeeded = True
        self._unseen = self._unseen or not isinstance(outcome.directive, SetTodos)
        finish(task, placed, outcome, ready.answer)

    async def _complete(self, placed: RowCall, result: str) -> None:
        try:
            answer = await present(self._task, result, placed.row_ts, placed.call)
        except ToolError as error:
            self._fail(placed, error)
            return
        self._succeeded = True
        if answer is None or answer.approves:
            self.accepted = result
        else:
            self.rejected = True
            feedback = replies.render_completion_feedback(answer.text or DEFAULT_REJECTION_FEEDBACK)
            finish(self._task, placed, Outcome(feedback, images=answer.images))

    def _hold_back(self, placed: RowCall) -> None:
        """Do not present a result; its text stays on the screen as something the model said."""
        match placed.call.input:
            case {"result": str(text)} if text.strip():
                self._task.publish(RowAdded(ts=placed.row_ts, say="text", text=text))
        if self._failed:
            self._fail(placed, ToolError(replies.render_completion_after_failure()))
        else:
            skip(self._task, placed, replies.render_unseen_results())

    def _close_around_completion(self, calls: Sequence[RowCall]) -> None:
        """An accepted result alone stays open, as the seed has it; beside others it is closed."""
        if len(calls) == 1:
            return
        close_completion(self._task)
        for placed in calls:
            if is_open(self._task, placed):
                reason = replies.render_skipped_after_completion(placed.call.name)
                skip(self._task, placed, reason)

    def _fail(self, placed: RowCall, error: ToolError, answer: Answer | None = None) -> None:
        self._note_failure(placed, error)
        fail(self._task, placed, error, answer)

    def _note_failure(self, placed: RowCall, error: ToolError) -> None:
        self._failed = self._unseen = True
        if error.is_answer:
            self._succeeded = True
        else:
            self._errors.append(f"{placed.call.name}: {error}")


def _delegating(waiting: Sequence[tuple[RowCall, ApprovedCall]]) -> bool:
    return bool(waiting) and waiting[-1][1].tool.delegates


def _defect(call: ToolCall, error: Exception) -> ToolError:
    log.error("%s failed by a defect of its own", call.name, exc_info=error)
    return ToolError(f"The tool itself failed: {error!r}. Try another way.")


def is_open(task: Task, placed: RowCall) -> bool:
    """Whether the call still has no outcome."""
    return any(call.id == placed.call.id for call in task.recorder.api.open_calls)


def compared(task: Task, call_id: str) -> tuple[object, ...] | None:
    """What makes the result of a call the same as that of another; None while it has none."""
    outcome = task.recorder.api.find_outcome(call_id)
    return None if outcome is None else (outcome.content, outcome.images, outcome.is_error)


def finish(
    task: Task,
    placed: RowCall,
    outcome: Outcome,
    answer: Answer | None = None,
    usage: TokenUsage | None = None,
    spent: Spending | None = None,
) -> None:
    """`answer` is what the person said when the call was put to them; what follows is of a
    subtask."""
    if answer is not None and answer.approves:
        outcome = _prepend_feedback(outcome, answer, task.recorder.facts.protocol)
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
    placed: RowCall,
    error: ToolError,
    answer: Answer | None = None,
    usage: TokenUsage | None = None,
    spent: Spending | None = None,
) -> None:
    name, protocol = placed.call.name, task.recorder.facts.protocol
    say, shown = "error", f"{name}: {error}"
    images: tuple[str, ...] = ()
    match error:
        case ArgumentError(parameter=str(parameter)):
            text = replies.render_missing_parameter(protocol, name, parameter)
        case IgnoredPathError(path=path, because=""):
            text = replies.render_rooignore_denial(protocol, path)
            say, shown = "rooignore_error", path
        case PreformattedError(reply=text):
            pass
        case RepeatedCallError():
            text, images = replies.render_tool_error(protocol, str(error)), error.images
        case _:
            text = replies.render_tool_error(protocol, str(error))
    task.publish(RowAdded(ts=task.now(), say=say, text=shown))
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


def reject(task: Task, placed: RowCall, rejected: RejectedCall) -> None:
    answer = rejected.answer
    unattended = replies.render_unattended_denial(rejected.beyond) if answer.by != "person" else ""
    text = replies.render_denial(task.recorder.facts.protocol, answer.text or unattended)
    finish(task, placed, Outcome(text, images=answer.images))


def skip(task: Task, placed: RowCall, reason: str) -> None:
    finish(task, placed, Outcome(reason, is_error=True))


def _prepend_feedback(outcome: Outcome, answer: Answer, protocol: ToolProtocol) -> Outcome:
    """Words that came with a yes go in front of the result, pictures before its own."""
    text = outcome.text
    if answer.text:
        text = f"{replies.render_approval_feedback(protocol, answer.text)}\n\n{text}"
    return structs.replace(outcome, text=text, images=(*answer.images, *outcome.images))


def _refused_by(error: ToolError) -> str | None:
    match error:
        case DeniedError(rule=rule):
            return rule
        case IgnoredPathError():
            return ".rooignore"
        case _:
            return None


def _header(task: Task, call: ToolCall) -> str:
    try:
        description = task.runtime.toolbox.find(call.name).describe(call.input)
    except ToolError:
        description = f"[{call.name}]"
    return replies.render_result_header(description)
