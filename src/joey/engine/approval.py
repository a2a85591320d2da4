"""Approval of a tool call: find and prepare the tool, decide by the rules, ask the user.

`TaskGrants` holds the rules that users add during a task by answering "always"; they apply to the
task and its subtasks at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from joey.core.events import AskAnswered, Record, ToolStarted
from joey.core.permissions import policy
from joey.core.permissions.reasons import DeniedError, format_reason
from joey.core.prompts import messages_to_model
from joey.core.settings import Settings
from joey.core.task_types import Answer, AskKind, Response, RowKind, get_first_suggestion
from joey.core.tool_calls import ToolCallSummary, summarize_call
from joey.engine.asks import TimeoutAnswer, publish_feedback
from joey.engine.environment import has_background_command
from joey.engine.hooks import check_hook_refusal
from joey.engine.limits import FailureCounter, RepetitionVerdict
from joey.engine.outcomes import (
    AnyTool,
    ApprovedCall,
    RejectedCall,
    RepeatedCallError,
    RepeatedCallStop,
    RowCall,
)
from joey.engine.runtime import build_tool_context
from joey.errors import ArgumentError, ConfigError
from joey.ports.tool_context import ToolContext
from joey.tools.base import PreparedToolCall

if TYPE_CHECKING:
    from joey.engine.task import Task


async def authorize_call(
    task: Task, row_call: RowCall, failures: FailureCounter
) -> ApprovedCall | RejectedCall:
    """Prepare, decide, ask. Raises ToolError: the call cannot be made, or a rule forbids it; Stop:
    the model repeats itself and nobody tells it how to go on."""
    tool, prepared, context = await _prepare_call(task, row_call, failures)
    shell = task.runtime.capabilities.shell_grammar
    read = None if shell is None else shell.parse_chain
    match policy.decide(
        prepared.claims, task.settings, read, edits_granted=task.grants.has_edit_grant
    ):
        case policy.Allow(rule):
            if prepared.row or any(
                claim.access is not policy.Access.NONE for claim in prepared.claims
            ):
                task.publish(ToolStarted(**_build_row_fields(row_call, tool, prepared), rule=rule))
            return ApprovedCall(tool, prepared, context, None, rule)
        case policy.Deny(reason):
            raise DeniedError(format_reason(reason), reason)
        case policy.Ask(reasons):
            proposed = await propose_rule(task, prepared.claims, read)
            fields = _build_row_fields(row_call, tool, prepared)
            if prepared.ask_kind is AskKind.FOLLOWUP:
                del fields["summary"]
            answer = await task.ask(
                prepared.ask_kind,
                timeout_answer=_build_timeout_answer(prepared, task.runtime.settings),
                is_protected=_is_protected(prepared),
                reasons=reasons,
                always_rule=None if proposed is None else proposed.text,
                **fields,
            )
    check_hook_refusal(answer)
    await apply_always_answer(task, proposed, answer, row_call.row_ts)
    publish_feedback(task, answer)
    if prepared.ask_kind is AskKind.FOLLOWUP:  # what comes with a yes or a no is the answer too
        answer = structs.replace(answer, response=Response.MESSAGE)
        return ApprovedCall(tool, prepared, context, answer)
    if answer.approves:
        return ApprovedCall(tool, prepared, context, answer)
    return RejectedCall(
        answer, policy.find_missing_boundary_settings(prepared.claims, task.settings, read)
    )


async def _prepare_call(
    task: Task, row_call: RowCall, failures: FailureCounter
) -> tuple[AnyTool, PreparedToolCall, ToolContext]:
    call, registry = row_call.call, task.runtime.tool_set
    if call.problem is not None:
        raise ArgumentError(call.problem)
    tool = registry.get(call.name)
    if tool is None:
        offered = task.runtime.build_tool_specs(task.mode, task.protocol, task.working_conditions)
        tool = registry.find(call.name, offered)
    registry.check_allowed(tool, task.mode, task.runtime.settings, call.input)
    params = tool.parse(call.input)
    failures.repeated_round_detector.record_call(tool.name, call.input)
    verdict = failures.repeated_call_detector.check_call(
        call.id, tool.name, call.input, is_busy=has_background_command(task)
    )
    if verdict is not RepetitionVerdict.ALLOW:
        await _refuse_repeated_call(task, row_call, tool, verdict)
    context = build_tool_context(task, row_call.call.id, row_call.row_ts)
    prepared = await tool.prepare(params, context)
    registry.check_claimed_paths(tool, task.mode, prepared.claims)
    return tool, prepared, context


async def _refuse_repeated_call(
    task: Task, row_call: RowCall, tool: AnyTool, verdict: RepetitionVerdict
) -> None:
    """Raises RepeatedCallError, or RepeatedCallStop, but without a user never the first time."""
    limit = messages_to_model.render_repetition_limit(tool.name)
    if verdict is RepetitionVerdict.STOP and task.asks.is_unattended:
        raise RepeatedCallError(limit, ())
    answer = await task.ask(AskKind.MISTAKE_LIMIT_REACHED, limit, call_id=row_call.call.id)
    publish_feedback(task, answer)
    if answer.response is Response.NO:
        raise RepeatedCallStop(tool.name, limit)
    advice = f"\n{messages_to_model.render_user_message(answer.text)}" if answer.text else ""
    raise RepeatedCallError(limit + advice, answer.images)


def _build_row_fields(
    row_call: RowCall, tool: AnyTool, prepared: PreparedToolCall
) -> dict[str, Any]:
    """The fields that `ToolStarted` and `AskOpened` have in common."""
    return {
        "ts": row_call.row_ts,
        "call_id": row_call.call.id,
        "tool": tool.name,
        "text": _format_row_text(prepared),
        "path": prepared.path,
        "diff": prepared.diff,
        "sandbox": _find_confinement(prepared),
        "summary": _summarize(tool, prepared),
    }


def _summarize(tool: AnyTool, prepared: PreparedToolCall) -> ToolCallSummary:
    return summarize_call(
        tool.name,
        prepared.row,
        text=prepared.row_text or "",
        path=prepared.path,
        diff=prepared.diff,
        kind=prepared.kind,
        is_protected=_is_protected(prepared),
        sandbox=_find_confinement(prepared),
    )


def _is_protected(prepared: PreparedToolCall) -> bool:
    return any(claim.path is not None and claim.path.is_protected for claim in prepared.claims)


def _find_confinement(prepared: PreparedToolCall) -> policy.SandboxStatus | None:
    """What would hold the command, if the call is one."""
    return next((claim.sandbox for claim in prepared.claims if claim.sandbox is not None), None)


def _build_timeout_answer(prepared: PreparedToolCall, settings: Settings) -> TimeoutAnswer | None:
    """A question may answer itself with its first suggestion, if the settings say so."""
    seconds = settings.followup_auto_approve_timeout_ms / 1000
    is_enabled = prepared.ask_kind is AskKind.FOLLOWUP and settings.always_allow_followup_questions
    if not is_enabled or seconds <= 0:
        return None
    suggestion = get_first_suggestion(_format_row_text(prepared))
    return TimeoutAnswer(seconds, Answer(Response.MESSAGE, text=suggestion)) if suggestion else None


def _format_row_text(prepared: PreparedToolCall) -> str:
    if prepared.row_text is not None:
        return prepared.row_text
    return msgspec.json.encode(prepared.row).decode()


class TaskGrants:
    """Those of a task and its subtasks, which count for all of them at once."""

    def __init__(self) -> None:
        self._rules: list[policy.PersistentRule | policy.TaskRule] = []
        self._edits_granted_by: tuple[str, int] | None = None
        """The task and the question in whose answer edits were accepted."""

    @property
    def rules(self) -> Sequence[policy.PersistentRule | policy.TaskRule]:
        return self._rules

    @property
    def has_edit_grant(self) -> bool:
        """Files of the workspace may be changed without a question."""
        return policy.WORKSPACE_EDITS_RULE in self._rules

    def add_rule(self, rule: policy.PersistentRule | policy.TaskRule) -> None:
        if rule not in self._rules:
            self._rules.append(rule)

    def grant_edits(self, task_id: str, ask_ts: int) -> None:
        if not self.has_edit_grant:
            self.add_rule(policy.WORKSPACE_EDITS_RULE)
            self._edits_granted_by = (task_id, ask_ts)

    def would_lose_edit_grant(
        self, task_id: str, after: Sequence[Record], *, with_subtasks: bool
    ) -> bool:
        """The answer that accepted them is not in what a task's history would be. Of one to a
        subtask nothing is known: it may have been one of those that go."""
        if self._edits_granted_by is None or not self.has_edit_grant:
            return False
        asker, ask_ts = self._edits_granted_by
        if asker != task_id:
            return with_subtasks
        events = (each.event for each in after)
        return not any(isinstance(e, AskAnswered) and e.ask_ts == ask_ts for e in events)

    def revoke_edits(self) -> bool:
        """Ask about each edit again; False when they are asked about anyway."""
        if not self.has_edit_grant:
            return False
        self._rules.remove(policy.WORKSPACE_EDITS_RULE)
        return True

    def apply_to(self, settings: Settings) -> Settings:
        for rule in self._rules:
            if isinstance(rule, policy.PersistentRule):
                settings = policy.add_rule(settings, rule)
        return settings


async def propose_rule(
    task: Task, claims: Sequence[policy.Claim], read: policy.GrammarParser | None
) -> policy.PersistentRule | policy.TaskRule | None:
    """What the user may add with their answer; None where that would not be just this."""
    if (grant := policy.propose_task_rule(claims, task.settings)) is not None:
        return grant
    rulebook = task.runtime.capabilities.rule_store
    if rulebook is None:
        return None
    rule = policy.propose_persistent_rule(claims, task.settings, read)
    if rule is None:
        return None
    mcp = task.runtime.capabilities.mcp
    if (
        rule.setting == "allowedMcpTools" and mcp is not None and not task.settings.always_allow_mcp
    ) and any(tool.always_allowed for server in mcp.servers for tool in server.tools):
        return None  # tools that servers have on lists of their own would run unasked, too
    return rule if await asyncio.to_thread(rulebook.would_enable_only, rule) else None


async def apply_always_answer(
    task: Task, rule: policy.PersistentRule | policy.TaskRule | None, answer: Answer, ask_ts: int
) -> None:
    """Go by the rule at once, if that is what the user said, and write it down if it outlives
    the task."""
    if rule is None or not (answer.always and answer.approves):
        return
    if isinstance(rule, policy.TaskRule):
        task.grants.grant_edits(task.id, ask_ts)
        return
    task.grants.add_rule(rule)
    rulebook = task.runtime.capabilities.rule_store
    if rulebook is None:
        return
    try:
        await asyncio.to_thread(rulebook.add, rule)
    except ConfigError as error:
        text = f"`{rule.text}` is allowed for this task, but could not be kept: {error}"
        task.add_row(RowKind.ERROR, text)
