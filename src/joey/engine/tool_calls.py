"""The tool calls of one reply: prepared, authorized, run and answered in order.

Adjacent calls that only read run in parallel, and so do those that delegate to subtasks; their
results keep the order (decision D13). A user's rejection skips the remaining calls. A completion
after other calls is not presented, because the model has not seen their results. Each call gets
exactly one outcome, published to the model as its result and to the user as rows. A defect in a
tool fails its call, not the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.messages import ToolCall
from joey.core.models import ToolProtocol
from joey.core.permissions.reasons import DeniedError, Reason, build_ignored_path_reason
from joey.core.prompts import messages_to_model
from joey.core.task_types import Answer, CallEnding, Response, RowKind
from joey.engine.approval import authorize_call
from joey.engine.checkpoints import ReplyCheckpointSaver
from joey.engine.completion import close_completion_call, present_result
from joey.engine.environment import has_background_command
from joey.engine.hooks import run_after_tool_hooks, run_before_tool_hooks
from joey.engine.limits import FailureCounter
from joey.engine.outcomes import (
    ApprovedCall,
    RejectedCall,
    RepeatedCallError,
    RepeatedCallStop,
    RowCall,
    RunStopped,
)
from joey.engine.subtasks import SubtaskResult
from joey.errors import (
    ArgumentError,
    IgnoredPathError,
    StoreError,
    TaskStateError,
    ToolError,
    ToolErrorWithReply,
)
from joey.tools.base import (
    ChangeMode,
    CompleteTask,
    Outcome,
    SetTodos,
    StartSubtask,
)

if TYPE_CHECKING:
    from joey.engine.task import Task


log = logging.getLogger(__name__)

MAX_CONCURRENT_SUBTASKS = 50
"""Each has files, connections and processes of its own."""
FATAL_ERRORS = (RunStopped, StoreError, TaskStateError)
"""What no call can be blamed for: it ends the run."""


class ToolCallRunner:
    """The state of one reply's calls while they are processed."""

    def __init__(self, task: Task, failures: FailureCounter, *, has_failure: bool = False) -> None:
        """`has_failure`: the reply has text that was meant as a call but is not one."""
        self._task = task
        self._failures = failures
        self._checkpoint_saver = ReplyCheckpointSaver(task)
        self._error_messages: list[str] = []
        """Of the calls that failed."""
        self._has_success = False
        """A call did what it was made for, or told the model what it wanted to know."""
        self._has_failure = has_failure
        """A call failed, or only a part of it succeeded."""
        self._has_unseen_results = has_failure
        """There are results that the model has to see before it can know how the task stands."""
        self.has_rejection = False
        self.is_stopped = False
        """The user's rejection ends the run."""
        self.accepted_result: str | None = None
        """The result that the user accepted, which ends the task."""

    async def run(self, calls: Sequence[RowCall]) -> None:
        try:
            await self._run_calls(calls)
        except RepeatedCallStop:  # calls that were not made must not look interrupted later
            self._skip_open_calls(calls, messages_to_model.render_skipped_after_stop)
            raise
        self._compare_results()
        self._failures.repeated_call_detector.discard_pending()
        self._count_failure()

    async def _run_calls(self, calls: Sequence[RowCall]) -> None:
        waiting: list[tuple[RowCall, ApprovedCall]] = []
        for row_call in calls:
            is_completion = row_call.call.name == COMPLETION_TOOL_NAME
            tool = self._task.runtime.tool_set.get(row_call.call.name)
            delegates = tool is not None and tool.starts_subtask
            if is_completion or (_is_delegating_batch(waiting) and not delegates):
                # The next calls are prepared after the subtasks are done.
                await self._run_parallel(waiting)
            if is_completion and self._has_unseen_results and not self.has_rejection:
                self._defer_completion(row_call)
                continue
            limits = self._task.run_limits
            limit_message = None if limits is None or is_completion else limits.consume_call()
            if limit_message and not self.has_rejection:
                self._fail_call(row_call, ToolError(limit_message))
                continue
            approved = None if self.has_rejection else await self._authorize(row_call)
            if approved is None:
                if self.has_rejection and self._is_open(row_call):
                    reason = messages_to_model.render_skipped_after_rejection(row_call.call.name)
                    skip_call(self._task, row_call, reason)
                continue
            if not approved.tool.can_run_in_parallel and not _is_delegating_batch(waiting):
                await self._run_parallel(waiting)
            if approved.tool.can_run_in_parallel or approved.tool.starts_subtask:
                waiting.append((row_call, approved))
                continue
            await self._checkpoint_saver.save_before_call(
                approved.prepared.claims, was_asked=approved.answer is not None
            )
            outcome = await self._run_with_hooks(row_call, approved)
            if isinstance(outcome, Outcome) and outcome.lacked_network:
                approved, outcome = await self._offer_network(row_call, approved, outcome)
            await self._publish_outcome(row_call, approved, outcome)
            await self._checkpoint_saver.save_after_call(approved.prepared.claims)
            if self.accepted_result is not None:
                # Only the call of an accepted result stays open.
                if len(calls) > 1:
                    close_completion_call(self._task)
                    self._skip_open_calls(calls, messages_to_model.render_skipped_after_completion)
                return
        await self._run_parallel(waiting)

    async def resume_pending_subtasks(self) -> None:
        """Return calls whose subtasks had not returned when the task was interrupted."""
        if delegated := self._task.recorder.pending_delegations:
            await self._run_subtasks(delegated)
            self._count_failure()

    def _count_failure(self) -> None:
        """Count a reply in which no call succeeded as one mistake, however many calls failed."""
        if self._has_success:
            self._failures.reset()
        elif self._error_messages:
            self._failures.record_failure(self._error_messages)

    def _compare_results(self) -> None:
        def find_comparable(call_id: str) -> tuple[object, ...] | None:
            outcome = self._task.recorder.api_history.find_outcome(call_id)
            return None if outcome is None else (outcome.content, outcome.images, outcome.is_error)

        self._failures.repeated_call_detector.compare_results(
            find_comparable, is_busy=has_background_command(self._task)
        )

    def _is_open(self, row_call: RowCall) -> bool:
        """Whether the call has no outcome yet."""
        open_calls = self._task.recorder.api_history.open_calls
        return any(call.id == row_call.call.id for call in open_calls)

    async def _authorize(self, row_call: RowCall) -> ApprovedCall | None:
        """Authorize a call; None if it already has its outcome."""
        self._compare_results()
        try:
            approved = await authorize_call(self._task, row_call, self._failures)
        except ToolError as error:
            self._fail_call(row_call, error)
            return None
        except RepeatedCallStop as stop:
            text = messages_to_model.render_tool_error(stop.refusal)
            finish_call(self._task, row_call, Outcome(text, is_error=True))
            raise
        except FATAL_ERRORS:
            raise
        except Exception as error:
            self._fail_call(row_call, _build_defect_error(row_call.call, error))
            return None
        if isinstance(approved, RejectedCall):
            # A policy rejects single calls; a user who says no may not want the others either.
            self.has_rejection = approved.answer.is_by_user
            self.is_stopped = approved.answer.stops_run
            self._has_unseen_results = True
            reject_call(self._task, row_call, approved)
            return None
        return approved

    async def _run_parallel(self, waiting: list[tuple[RowCall, ApprovedCall]]) -> None:
        batch = waiting[:]
        waiting.clear()
        if _is_delegating_batch(batch):
            await self._checkpoint_saver.save_before_subtasks()
        outcomes = await asyncio.gather(*(self._run_with_hooks(*pair) for pair in batch))
        delegated: list[ev.SubtaskSpawned] = []
        for (row_call, approved), outcome in zip(batch, outcomes, strict=True):
            match outcome:
                case Outcome(directive=StartSubtask() as delegate):
                    delegated.append(self._task.subtasks.spawn(self._task, row_call, delegate))
                case _:
                    await self._publish_outcome(row_call, approved, outcome)
        if delegated:
            await self._run_subtasks(delegated)

    async def _run_subtasks(self, spawned: Sequence[ev.SubtaskSpawned]) -> None:
        for start in range(0, len(spawned), MAX_CONCURRENT_SUBTASKS):
            batch = spawned[start : start + MAX_CONCURRENT_SUBTASKS]
            await self._task.subtasks.run_all(self._task, batch, self._publish_subtask_result)
        await self._checkpoint_saver.save_after_subtasks()

    def _publish_subtask_result(self, spawned: ev.SubtaskSpawned, returned: SubtaskResult) -> None:
        """Publish the outcome of a call after its subtask has returned."""
        task = self._task
        open_calls = task.recorder.api_history.open_calls
        row_call = RowCall(
            next(call for call in open_calls if call.id == spawned.call_id), spawned.row_ts
        )
        feedback = task.recorder.projection.unsent_feedback
        answers = (said.answer for said in feedback if said.call_id == spawned.call_id)
        answer = next((answer for answer in answers if answer.approves), None)
        child_id, usage = spawned.child_id, returned.usage
        spent = None if task.run_limits is None else task.run_limits.fold_subtask(child_id)
        if returned.error is not None:
            self._record_failure(row_call, returned.error)
            fail_call(task, row_call, returned.error, answer, usage, spent)
            return
        self._has_success = self._has_unseen_results = True
        result = returned.result or ""
        task.publish(
            ev.RowAdded(
                ts=spawned.result_ts, say=RowKind.SUBTASK_RESULT, text=result, subtask_id=child_id
            )
        )
        outcome = Outcome(messages_to_model.render_subtask_completed(child_id, result))
        finish_call(task, row_call, outcome, answer, usage, spent)

    async def _run_with_hooks(
        self, row_call: RowCall, approved: ApprovedCall
    ) -> Outcome | ToolError:
        # Another process may have taken over the task since the reply was committed.
        if self._task.recorder.task_log.is_shared:
            await self._task.recorder.task_log.confirm()
        try:
            await run_before_tool_hooks(self._task, row_call, approved)
        except DeniedError as error:
            return error
        outcome = await self._run_tool(row_call, approved)
        return await run_after_tool_hooks(self._task, row_call, approved, outcome)

    async def _offer_network(
        self, row_call: RowCall, approved: ApprovedCall, outcome: Outcome
    ) -> tuple[ApprovedCall, Outcome | ToolError]:
        """Offer to run a command again that lacked the network."""
        from joey.engine.network_access import RejectedRetry, offer_retry  # loaded on demand

        match await offer_retry(self._task, row_call, approved, outcome):
            case ApprovedCall() as again:
                return again, await self._run_with_hooks(row_call, again)
            case RejectedRetry(answer):
                self.is_stopped = answer.stops_run
                self.has_rejection = answer.stops_run
                note = messages_to_model.render_retry_rejection(answer.text, len(answer.images))
                text = f"{outcome.text}\n\n{note}"
                images = (*outcome.images, *answer.images)
                return approved, structs.replace(outcome, text=text, images=images, rows=())
        return approved, outcome

    async def _run_tool(self, row_call: RowCall, approved: ApprovedCall) -> Outcome | ToolError:
        try:
            return await approved.tool.run_prepared(
                approved.prepared, approved.context, approved.answer
            )
        except ToolError as error:
            return error
        except FATAL_ERRORS:
            raise
        except Exception as error:
            return _build_defect_error(row_call.call, error)

    async def _publish_outcome(
        self, row_call: RowCall, approved: ApprovedCall, outcome: Outcome | ToolError
    ) -> None:
        task = self._task
        if isinstance(outcome, ToolError):
            approved.output_row.close()
            self._fail_call(row_call, outcome, approved.answer)
            return
        approved.output_row.add_rows_and_close(outcome.rows)
        if outcome.is_error:
            self._has_failure = True
            report_failed_outcome(task, row_call, outcome)
        match outcome.directive:
            case CompleteTask(result):
                await self._present_completion(row_call, result)
                return
            case SetTodos(todos):
                task.publish(ev.TodosChanged(ts=task.next_ts(), todos=todos))
            case ChangeMode(slug):
                task.publish(ev.ModeSwitched(ts=task.next_ts(), mode=slug))
        self._has_success = True
        self._has_unseen_results |= not isinstance(outcome.directive, SetTodos)
        finish_call(task, row_call, outcome, approved.answer)

    async def _present_completion(self, row_call: RowCall, result: str) -> None:
        try:
            answer = await present_result(self._task, result, row_call.row_ts, row_call.call)
        except ToolError as error:
            self._fail_call(row_call, error)
            return
        self._has_success = True
        if answer is None or answer.approves:
            self.accepted_result = self._task.result or result
        else:
            self.has_rejection = True
            feedback = messages_to_model.render_completion_feedback(
                answer.text, len(answer.images), is_rejected=answer.response is Response.NO
            )
            finish_call(self._task, row_call, Outcome(feedback, images=answer.images))

    def _defer_completion(self, row_call: RowCall) -> None:
        if self._has_failure:
            self._fail_call(row_call, ToolError(messages_to_model.COMPLETION_AFTER_FAILURE_TEXT))
        else:
            skip_call(self._task, row_call, messages_to_model.UNSEEN_RESULTS_TEXT)

    def _skip_open_calls(
        self, calls: Sequence[RowCall], render_reason: Callable[[str], str]
    ) -> None:
        for row_call in calls:
            if self._is_open(row_call):
                skip_call(self._task, row_call, render_reason(row_call.call.name))

    def _fail_call(self, row_call: RowCall, error: ToolError, answer: Answer | None = None) -> None:
        self._record_failure(row_call, error)
        fail_call(self._task, row_call, error, answer)

    def _record_failure(self, row_call: RowCall, error: ToolError) -> None:
        self._has_failure = self._has_unseen_results = True
        if error.is_informative:
            self._has_success = True
        else:
            self._error_messages.append(f"{row_call.call.name}: {error}")


def _is_delegating_batch(waiting: Sequence[tuple[RowCall, ApprovedCall]]) -> bool:
    return bool(waiting) and waiting[-1][1].tool.starts_subtask


def _build_defect_error(call: ToolCall, error: Exception) -> ToolError:
    log.error("%s failed because of a bug", call.name, exc_info=error)
    return ToolError(f"The tool itself failed: {error!r}. Try another way.")


def finish_call(
    task: Task,
    row_call: RowCall,
    outcome: Outcome,
    answer: Answer | None = None,
    usage: ev.TokenUsage | None = None,
    spent: ev.Spending | None = None,
) -> None:
    """Finish a call; `answer` is the user's answer to its question; the other arguments are of a
    subtask."""
    if answer is not None and answer.approves:
        outcome = _prepend_feedback(outcome, answer)
    task.close_row(row_call.row_ts)  # the call was discarded
    task.publish(
        ev.ToolFinished(
            ts=task.next_ts(),
            call_id=row_call.call.id,
            tool=_find_tool_name(task, row_call.call),
            content=outcome.text,
            images=outcome.images,
            is_error=outcome.is_error,
            result_header=_format_result_header(task, row_call.call),
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            ending=outcome.ending,
            has_background_processes=outcome.has_background_processes,
            new_errors=outcome.new_errors,
            row_ts=row_call.row_ts,
            subtask_usage=usage,
            subtask_spending=spent,
        )
    )


def fail_call(
    task: Task,
    row_call: RowCall,
    error: ToolError,
    answer: Answer | None = None,
    usage: ev.TokenUsage | None = None,
    spent: ev.Spending | None = None,
) -> None:
    name, protocol = row_call.call.name, task.protocol
    say, row_text = RowKind.ERROR, f"{name}: {error}"
    images: tuple[str, ...] = ()
    match error:
        case ArgumentError(parameter=str(parameter)):
            text = messages_to_model.render_missing_parameter(
                protocol, name, parameter, task.runtime.render_xml_usage(name)
            )
        case ArgumentError() if protocol is ToolProtocol.XML:
            text = messages_to_model.render_argument_error(
                str(error), task.runtime.render_xml_usage(name)
            )
        case IgnoredPathError(path=path, reason=""):
            text = messages_to_model.render_rooignore_denial(path)
            say, row_text = RowKind.ROOIGNORE_ERROR, path
        case ToolErrorWithReply(reply=text):
            pass
        case RepeatedCallError():
            text, images = messages_to_model.render_tool_error(str(error)), error.images
        case _:
            text = messages_to_model.render_tool_error(str(error))
    reason = _find_denial_reason(error)
    task.close_row(row_call.row_ts)
    task.add_row(say, row_text)
    task.publish(
        ev.ToolFailed(
            ts=task.next_ts(),
            tool=_find_tool_name(task, row_call.call),
            error=str(error),
            call_id=row_call.call.id,
            rule=None if reason is None else reason.rule,
            reason=reason,
        )
    )
    finish_call(task, row_call, Outcome(text, images=images, is_error=True), answer, usage, spent)


_FAILURE_ROW_KINDS = (RowKind.ERROR, RowKind.ROOIGNORE_ERROR)


def report_failed_outcome(task: Task, row_call: RowCall, outcome: Outcome) -> None:
    """Show users an error that the tool itself reported to the model, unless it showed it
    already."""
    name = row_call.call.name
    errors = [text for say, text in outcome.rows if say in _FAILURE_ROW_KINDS]
    if not errors:
        errors = [f"{name}: {outcome.text}"]
        task.add_row(RowKind.ERROR, errors[0])
    error = "\n".join(text.removeprefix(f"{name}: ") for text in errors)
    call_id = row_call.call.id
    task.publish(
        ev.ToolFailed(ts=task.next_ts(), tool=name, error=error, call_id=call_id, has_run=True)
    )


def reject_call(task: Task, row_call: RowCall, rejected: RejectedCall) -> None:
    answer = rejected.answer
    if answer.is_by_user or answer.text:
        text = messages_to_model.render_denial(answer.text, len(answer.images))
    else:
        text = messages_to_model.render_unattended_denial(
            rejected.required_settings, rejected.protected_paths
        )
    finish_call(task, row_call, Outcome(text, images=answer.images))


def skip_call(task: Task, row_call: RowCall, reason: str) -> None:
    finish_call(task, row_call, Outcome(reason, is_error=True, ending=CallEnding.SKIPPED))


def _prepend_feedback(outcome: Outcome, answer: Answer) -> Outcome:
    """Prepend text that came with a yes to the result, and images to its images."""
    text = outcome.text
    if answer.has_content:
        said = messages_to_model.render_approval_feedback(answer.text, len(answer.images))
        text = f"{said}\n\n{text}"
    return structs.replace(outcome, text=text, images=(*answer.images, *outcome.images))


def _find_denial_reason(error: ToolError) -> Reason | None:
    match error:
        case DeniedError():
            return error.reason
        case IgnoredPathError():
            return build_ignored_path_reason(error.path, error.reason)
        case _:
            return None


def _find_tool_name(task: Task, call: ToolCall) -> str:
    """Return the tool's own name for any name that the model used; the model's name if there is no
    such tool."""
    tool = task.runtime.tool_set.get(call.name)
    return call.name if tool is None else tool.name


def _format_result_header(task: Task, call: ToolCall) -> str:
    tool = task.runtime.tool_set.get(call.name)
    description = "" if tool is None else tool.describe_call(call.input)
    if tool is None or not description.startswith(f"[{tool.name}"):
        return messages_to_model.render_result_header(description or f"[{call.name}]")
    # The model finds its call by the name that it used.
    return messages_to_model.render_result_header(
        f"[{call.name}{description.removeprefix(f'[{tool.name}')}"
    )
