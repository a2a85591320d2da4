"""Approval of a tool call: find and prepare the tool, decide by the rules, ask the user.

`TaskGrants` holds what users allow during a task: its level, rules, permission for edits. They
apply to the task and its subtasks at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from joey.core.events import AskAnswered, Record, ToolStarted
from joey.core.permissions import policy
from joey.core.permissions.reasons import DeniedError, format_reason
from joey.core.prompts import messages_to_model
from joey.core.settings import Settings
from joey.core.task_types import (
    Answer,
    AnsweredBy,
    ApprovalLevel,
    AskKind,
    Response,
    RuleScope,
    get_first_suggestion,
)
from joey.core.tool_calls import summarize_call
from joey.engine.asks import TimeoutAnswer, publish_feedback
from joey.engine.environment import has_background_command
from joey.engine.hooks import check_hook_refusal
from joey.engine.limits import FailureCounter, RepetitionVerdict
from joey.engine.outcomes import (
    AnyTool,
    ApprovedCall,
    OutputRow,
    RejectedCall,
    RepeatedCallError,
    RepeatedCallStop,
    RowCall,
)
from joey.engine.runtime import build_tool_context
from joey.errors import ArgumentError
from joey.ports.tool_context import ToolContext
from joey.tools.base import PreparedToolCall

if TYPE_CHECKING:
    from joey.core.permissions.granted_rules import GrantedRule, RuleSetting
    from joey.engine.task import Task


async def authorize_call(
    task: Task, row_call: RowCall, failures: FailureCounter
) -> ApprovedCall | RejectedCall:
    """Prepare a call, decide about it, and ask if needed. Raises ToolError if the call is invalid
    or a rule forbids it, RunStopped if the model repeats itself and no user tells it how to
    continue."""
    output_row = OutputRow(task)
    tool, prepared, context = await _prepare_call(task, row_call, failures, output_row)
    shell = task.runtime.capabilities.shell_grammar
    read = None if shell is None else shell.parse_chain
    match policy.decide(prepared.claims, task.settings, read, edits_granted=task.has_edit_grant):
        case policy.Allow(rule):
            if prepared.row or any(
                claim.access is not policy.Access.NONE for claim in prepared.claims
            ):
                task.publish(ToolStarted(**_build_row_fields(row_call, tool, prepared), rule=rule))
            return ApprovedCall(tool, prepared, context, output_row, None, rule)
        case policy.Deny(reason):
            raise DeniedError(format_reason(reason), reason)
        case policy.Ask(reasons):
            # Many runs ask no questions.
            from joey.engine.offers import apply_answer, build_offer, select_offered

            offer = await build_offer(task, prepared.claims, read)
            fields = _build_row_fields(row_call, tool, prepared)
            if prepared.ask_kind is AskKind.FOLLOWUP:
                del fields["summary"]
            answer = await task.ask(
                prepared.ask_kind,
                timeout_answer=_build_timeout_answer(prepared, task.runtime.settings),
                is_protected=_is_protected(prepared),
                reasons=reasons,
                always_rule=None if offer.rule is None else offer.rule.text,
                always_scopes=offer.scopes,
                network=offer.network,
                **fields,
            )
    check_hook_refusal(answer)
    answer = select_offered(answer, offer)
    await apply_answer(task, offer, answer, row_call.row_ts)
    publish_feedback(task, answer)
    if prepared.ask_kind is AskKind.FOLLOWUP:  # a message with a yes or a no is part of the answer
        answer = structs.replace(answer, response=Response.MESSAGE)
        return ApprovedCall(tool, prepared, context, output_row, answer)
    if answer.approves:
        return ApprovedCall(tool, prepared, context, output_row, answer)
    return RejectedCall(
        answer,
        policy.find_missing_boundary_settings(prepared.claims, task.settings, read),
        policy.list_protected_subjects(reasons),
    )


async def _prepare_call(
    task: Task, row_call: RowCall, failures: FailureCounter, output_row: OutputRow
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
    context = build_tool_context(task, row_call.call.id, row_call.row_ts, output_row)
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
    """Build the fields that `ToolStarted` and `AskOpened` have in common."""
    # The sandbox of the command, if the call is one.
    confinement = next((each.sandbox for each in prepared.claims if each.sandbox is not None), None)
    return {
        "ts": row_call.row_ts,
        "call_id": row_call.call.id,
        "tool": tool.name,
        "text": _format_row_text(prepared),
        "path": prepared.path,
        "diff": prepared.diff,
        "sandbox": confinement,
        "summary": summarize_call(
            tool.name,
            prepared.row,
            text=prepared.row_text or "",
            path=prepared.path,
            diff=prepared.diff,
            kind=prepared.kind,
            is_protected=_is_protected(prepared),
            sandbox=confinement,
        ),
    }


def _is_protected(prepared: PreparedToolCall) -> bool:
    return any(claim.path is not None and claim.path.is_protected for claim in prepared.claims)


def _build_timeout_answer(prepared: PreparedToolCall, settings: Settings) -> TimeoutAnswer | None:
    """Build the answer after a timeout: the first suggestion, if the settings allow that."""
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
    """The grants of a task and its subtasks, which share them."""

    def __init__(self) -> None:
        self._rules: list[GrantedRule] = []
        self._edits_granted_by: tuple[str, int] | None = None
        """The task and the question in whose answer edits were accepted."""
        self._revoked: set[tuple[RuleSetting, str]] = set()
        """What counts no longer of the settings."""
        self.level = ApprovalLevel.ASK
        """What the user has allowed for the session."""

    @property
    def rules(self) -> Sequence[GrantedRule]:
        return self._rules

    @property
    def has_edit_grant(self) -> bool:
        """Whether files of the workspace may be changed without approval."""
        return self.level is not ApprovalLevel.ASK or self._has_edit_rule

    @property
    def _has_edit_rule(self) -> bool:
        return any(rule.setting == "alwaysAllowWrite" for rule in self._rules)

    def add_rule(self, rule: GrantedRule) -> None:
        self._revoked.discard((rule.setting, rule.text))
        if all(rule.key != known.key for known in self._rules):
            self._rules.append(rule)

    def revoke(self, setting: RuleSetting, text: str, scope: RuleScope) -> bool:
        """Revoke a rule; False if there is no such rule. The settings with which the task was
        opened lose it too."""
        left = [rule for rule in self._rules if rule.key != (setting, text, scope)]
        is_changed = len(left) < len(self._rules)
        self._rules[:] = left
        if scope is RuleScope.EVERYWHERE:
            self._revoked.add((setting, text))
        return is_changed

    def grant_edits(self, task_id: str, ask_ts: int, by: str = AnsweredBy.USER) -> None:
        if not self._has_edit_rule:
            from joey.core.permissions.granted_rules import GrantedRule

            text = policy.WORKSPACE_EDITS_TEXT
            self.add_rule(GrantedRule("alwaysAllowWrite", text, RuleScope.TASK, by, task_id))
            self._edits_granted_by = (task_id, ask_ts)

    def would_lose_edit_grant(
        self, task_id: str, after: Sequence[Record], *, with_subtasks: bool
    ) -> bool:
        """Whether a rewind would remove the answer that granted edits. Answers to subtasks are not
        known here: they may be removed too."""
        if self._edits_granted_by is None or not self._has_edit_rule:
            return False
        asker, ask_ts = self._edits_granted_by
        if asker != task_id:
            return with_subtasks
        events = (each.event for each in after)
        return not any(isinstance(e, AskAnswered) and e.ask_ts == ask_ts for e in events)

    def revoke_edits(self) -> bool:
        """Revoke the permission for edits; False if edits need approval anyway."""
        was_granted = self.has_edit_grant
        self._rules[:] = [rule for rule in self._rules if rule.setting != "alwaysAllowWrite"]
        self.level = ApprovalLevel.ASK
        return was_granted

    def apply_to(self, settings: Settings, directory_rules: Sequence[GrantedRule]) -> Settings:
        if not (
            self._rules or directory_rules or self._revoked or self.level is not ApprovalLevel.ASK
        ):
            return settings
        # Loaded only if anything has been granted.
        from joey.core.permissions.granted_rules import (
            apply_level,
            remove_rules,
            select_persistent_rules,
        )

        settings = remove_rules(settings, self._revoked)
        rules = select_persistent_rules((*self._rules, *directory_rules))
        return apply_level(policy.apply_rules(settings, rules), self.level)
