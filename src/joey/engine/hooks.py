"""The user's hooks in a task: before and after a tool call, on an ask, on completion.

A hook can block an action. An action that it accepts runs only because the rules or the user
allowed it before, and exactly as they allowed it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

from joey.core.events import AskOpened
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.hooks import HookEvent, HookInput, HookReport, truncate_result
from joey.core.messages import ToolCall
from joey.core.permissions.reasons import DeniedError, Reason, ReasonKind
from joey.core.prompts import messages_to_model
from joey.core.task_types import APPROVAL_ASKS, Answer, Response, RowKind
from joey.engine.outcomes import ApprovedCall, RowCall
from joey.errors import ToolError, ToolErrorWithReply
from joey.tools.base import CompleteTask, Outcome, StartSubtask

if TYPE_CHECKING:
    from joey.engine.task import Task

log = logging.getLogger(__name__)


async def reload_hooks(task: Task) -> None:
    """Reload the project's hooks at the start of a run; warn once about those that are not used."""
    hooks = task.runtime.capabilities.hooks
    if hooks is not None:
        await hooks.refresh()
        for warning in hooks.warnings:
            task.warn_once(warning)


async def run_before_tool_hooks(task: Task, row_call: RowCall, approved: ApprovedCall) -> None:
    """Raises DeniedError."""
    report = await _run_hooks(
        task,
        HookEvent.BEFORE_TOOL,
        approved.tool.name,
        input=row_call.call.input,
        decision="allowed" if approved.answer is None else "approved",
        rule=approved.rule,
    )
    if report.block_reason is not None:
        raise _build_hook_refusal(report.block_reason, report.blocked_by)


async def run_after_tool_hooks(
    task: Task, row_call: RowCall, approved: ApprovedCall, outcome: Outcome | ToolError
) -> Outcome | ToolError:
    """Run hooks after a tool call and return the outcome with their messages."""
    if isinstance(outcome, Outcome) and isinstance(outcome.directive, CompleteTask | StartSubtask):
        return outcome  # neither has a result yet
    report = await _run_hooks(
        task,
        HookEvent.AFTER_TOOL,
        approved.tool.name,
        input=row_call.call.input,
        result=truncate_result(str(outcome) if isinstance(outcome, ToolError) else outcome.text),
        is_error=isinstance(outcome, ToolError) or outcome.is_error,
    )
    if report.block_reason is None:
        return outcome
    hook_text = messages_to_model.render_hook_comment(report.block_reason)
    if isinstance(outcome, Outcome):
        return structs.replace(outcome, text=f"{outcome.text}\n\n{hook_text}")
    error_reply = outcome.reply if isinstance(outcome, ToolErrorWithReply) else None
    error_reply = error_reply or messages_to_model.render_tool_error(str(outcome))
    reply = f"{error_reply}\n\n{hook_text}"
    return ToolErrorWithReply(str(outcome), reply, is_informative=outcome.is_informative)


async def run_completion_hooks(task: Task, call: ToolCall | None, result: str) -> None:
    """Run the hooks for a result that is about to be presented; a plain answer has no call. Raises
    DeniedError if the model must continue."""
    report = await _run_hooks(
        task,
        HookEvent.ON_COMPLETION,
        COMPLETION_TOOL_NAME,
        input=None if call is None else call.input,
        result=truncate_result(result),
    )
    if report.block_reason is not None:
        raise DeniedError(
            messages_to_model.render_hook_completion_rejection(report.block_reason),
            Reason(ReasonKind.HOOK, rule=report.blocked_by, detail=report.block_reason),
        )


@asynccontextmanager
async def run_hooks_while_asking(task: Task, opened: AskOpened) -> AsyncIterator[None]:
    """Run hooks while the question is open. They may answer no; only the user says yes."""
    if task.runtime.capabilities.hooks is None:
        yield
        return
    running = asyncio.create_task(_run_ask_hooks(task, opened))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled() and (error := running.exception()) is not None:
            log.error("hooks failed because of a bug", exc_info=error)


async def _run_ask_hooks(task: Task, opened: AskOpened) -> None:
    await asyncio.sleep(0)  # a policy may answer at once
    if not _is_ask_pending(task, opened):
        return
    call = next(
        (call for call in task.recorder.api_history.open_calls if call.id == opened.call_id), None
    )
    report = await _run_hooks(
        task,
        HookEvent.ON_ASK,
        opened.tool,
        input=call.input if call is not None else None,
        ask=opened.ask.value,
        reason=opened.reason,
        reasons=opened.reasons,
    )
    if (
        report.block_reason is not None
        and opened.ask in APPROVAL_ASKS
        and _is_ask_pending(task, opened)
    ):
        task.asks.answer(
            opened.ts, Answer(Response.NO, text=report.block_reason), by=report.blocked_by
        )


def _is_ask_pending(task: Task, opened: AskOpened) -> bool:
    return task.pending is not None and task.pending.ts == opened.ts


def check_hook_refusal(answer: Answer) -> None:
    """Raises DeniedError if a hook has answered instead of the user."""
    if answer.is_by_hook:
        raise _build_hook_refusal(answer.text, answer.by)


def _build_hook_refusal(text: str, hook: str) -> DeniedError:
    message = messages_to_model.render_hook_rejection(text)
    return DeniedError(message, Reason(ReasonKind.HOOK, rule=hook, detail=text))


async def _run_hooks(task: Task, event: HookEvent, tool: str | None, **fields: Any) -> HookReport:
    hooks = task.runtime.capabilities.hooks
    if hooks is None:
        return HookReport()
    call = HookInput(
        event=event,
        task_id=task.id,
        workspace=str(task.runtime.workspace),
        mode=task.mode.slug,
        tool=tool,
        **fields,
    )
    found = None if tool is None else task.runtime.tool_set.get(tool)
    aliases = () if found is None else found.aliases  # the server of a tool may be gone
    report = await hooks.run(call, () if tool is None else (tool, *aliases))
    for message in report.messages:
        task.add_row(RowKind.HOOK_MESSAGE, message)
    for warning in report.warnings:
        task.warn_once(warning)
    return report
