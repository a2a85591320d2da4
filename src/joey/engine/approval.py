"""Approval of a tool call: find and prepare the tool, decide by the rules, ask the user.

`TaskGrants` holds the rules that users add during a task by answering "always"; they apply to the
task and its subtasks at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from joey.core.events import AskAnswered, Record, RowAdded, ToolStarted
from joey.core.permissions.policy import (
    WORKSPACE_EDITS_RULE,
    Access,
    Allow,
    Ask,
    Claim,
    Deny,
    GrammarParser,
    PersistentRule,
    SandboxStatus,
    TaskRule,
    add_rule,
    decide,
    find_missing_boundary_settings,
    propose_persistent_rule,
    propose_task_rule,
)
from joey.core.prompts import replies
from joey.core.settings import Settings
from joey.core.task import Answer, AskKind, Response, get_first_suggestion
from joey.engine.asks import TimeoutAnswer, publish_feedback
from joey.engine.environment import is_busy
from joey.engine.hooks import check_refused
from joey.engine.limits import FailureCounter, RepetitionVerdict
from joey.engine.outcomes import (
    AnyTool,
    ApprovedCall,
    RejectedCall,
    RepeatedCallError,
    RowCall,
    RunStopped,
)
from joey.engine.runtime import tool_context
from joey.errors import ArgumentError, ConfigError, DeniedError
from joey.ports import ToolContext
from joey.tools.base import PreparedToolCall

if TYPE_CHECKING:
    from joey.engine.task import Task


async def make_ready(
    task: Task, placed: RowCall, mistakes: FailureCounter
) -> ApprovedCall | RejectedCall:
    """Prepare, decide, ask.

    Raises:
        ToolError: the call cannot be made, or a rule forbids it.
        Stop: the model repeats itself and nobody tells it how to go on.
    """
    tool, prepared, context = await _prepare(task, placed, mistakes)
    shell = task.runtime.capabilities.shell
    read = None if shell is None else shell.chain
    match decide(prepared.claims, task.settings, read, edits_granted=task.granted.edits):
        case Allow(rule):
            if prepared.row or any(claim.access is not Access.NONE for claim in prepared.claims):
                _announce(task, placed, tool, prepared, rule)
            return ApprovedCall(tool, prepared, context, None, rule)
        case Deny(rule, reason):
            raise DeniedError(reason, rule)
        case Ask(reason):
            offered = await rule_to_offer(task, prepared.claims, read)
            answer = await _ask_approval(task, placed, tool, prepared, reason, offered)
    check_refused(answer)
    await apply_always_answer(task, offered, answer, placed.row_ts)
    publish_feedback(task, answer)
    if prepared.ask is AskKind.FOLLOWUP or answer.approves:
        return ApprovedCall(tool, prepared, context, answer)
    return RejectedCall(
        answer, find_missing_boundary_settings(prepared.claims, task.settings, read)
    )


async def _prepare(
    task: Task, placed: RowCall, mistakes: FailureCounter
) -> tuple[AnyTool, PreparedToolCall, ToolContext]:
    call, registry = placed.call, task.runtime.toolbox
    if call.problem is not None:
        raise ArgumentError(call.problem)
    tool = registry.find(call.name)
    registry.check_allowed(tool, task.mode, task.runtime.settings, call.input)
    params = tool.parse(call.input)
    mistakes.rounds.called(tool.name, call.input)
    verdict = mistakes.repetition.check(call.id, tool.name, call.input, is_busy=is_busy(task))
    if verdict is not RepetitionVerdict.ALLOW:
        await _stop_repeating(task, placed, tool, verdict)
    context = tool_context(task, placed.call.id, placed.row_ts)
    prepared = await tool.prepare(params, context)
    registry.check_places(tool, task.mode, prepared.claims)
    return tool, prepared, context


async def _stop_repeating(
    task: Task, placed: RowCall, tool: AnyTool, verdict: RepetitionVerdict
) -> None:
    """Raises RepeatedCallError or Stop: without a user, the first time never ends the run."""
    limit = replies.render_repetition_limit(tool.name)
    if verdict is RepetitionVerdict.STOP and task.asks.is_unattended:
        raise RepeatedCallError(limit, ())
    answer = await task.ask(AskKind.MISTAKE_LIMIT_REACHED, limit, call_id=placed.call.id)
    publish_feedback(task, answer)
    if answer.response is Response.NO:
        raise RunStopped("mistakes", f"The model kept calling {tool.name} in the same way.")
    advice = f"\n{replies.render_user_message(answer.text)}" if answer.text else ""
    raise RepeatedCallError(limit + advice, answer.images)


def _announce(
    task: Task, placed: RowCall, tool: AnyTool, prepared: PreparedToolCall, rule: str
) -> None:
    task.publish(
        ToolStarted(
            ts=placed.row_ts,
            call_id=placed.call.id,
            tool=tool.name,
            text=_row_text(prepared),
            path=prepared.path,
            diff=prepared.diff,
            rule=rule,
            sandbox=_sandbox(prepared),
        )
    )


async def _ask_approval(
    task: Task,
    placed: RowCall,
    tool: AnyTool,
    prepared: PreparedToolCall,
    reason: str,
    offered: PersistentRule | TaskRule | None,
) -> Answer:
    return await task.ask(
        prepared.ask,
        _row_text(prepared),
        lapse=_lapse(prepared, task.runtime.settings),
        ts=placed.row_ts,
        call_id=placed.call.id,
        tool=tool.name,
        path=prepared.path,
        diff=prepared.diff,
        is_protected=any(c.path is not None and c.path.is_protected for c in prepared.claims),
        reason=reason,
        always_rule=None if offered is None else offered.text,
        sandbox=_sandbox(prepared),
    )


def _sandbox(prepared: PreparedToolCall) -> SandboxStatus | None:
    """What would hold the command, if the call is one."""
    return next((claim.sandbox for claim in prepared.claims if claim.sandbox is not None), None)


def _lapse(prepared: PreparedToolCall, settings: Settings) -> TimeoutAnswer | None:
    """A question may answer itself with its first suggestion, if the settings say so."""
    seconds = settings.followup_auto_approve_timeout_ms / 1000
    wanted = prepared.ask is AskKind.FOLLOWUP and settings.always_allow_followup_questions
    if not wanted or seconds <= 0:
        return None
    suggestion = get_first_suggestion(_row_text(prepared))
    return TimeoutAnswer(seconds, Answer(Response.MESSAGE, text=suggestion)) if suggestion else None


def _row_text(prepared: PreparedToolCall) -> str:
    if prepared.row_text is not None:
        return prepared.row_text
    return msgspec.json.encode(prepared.row).decode()


class TaskGrants:
    """Those of a task and its subtasks, which count for all of them at once."""

    def __init__(self) -> None:
        self._rules: list[PersistentRule | TaskRule] = []
        self._edits_by: tuple[str, int] | None = None
        """The task and the question in whose answer edits were accepted."""

    @property
    def rules(self) -> Sequence[PersistentRule | TaskRule]:
        return self._rules

    @property
    def edits(self) -> bool:
        """Files of the workspace may be changed without a question."""
        return WORKSPACE_EDITS_RULE in self._rules

    def add(self, rule: PersistentRule | TaskRule) -> None:
        if rule not in self._rules:
            self._rules.append(rule)

    def accept_edits(self, task_id: str, ask_ts: int) -> None:
        if not self.edits:
            self.add(WORKSPACE_EDITS_RULE)
            self._edits_by = (task_id, ask_ts)

    def loses_edits(self, task_id: str, after: Sequence[Record], *, with_subtasks: bool) -> bool:
        """The answer that accepted them is not in what a task's history would be. Of one to a
        subtask nothing is known: it may have been one of those that go."""
        if self._edits_by is None or not self.edits:
            return False
        asker, ask_ts = self._edits_by
        if asker != task_id:
            return with_subtasks
        answers = (each.event for each in after if isinstance(each.event, AskAnswered))
        return all(answered.ask_ts != ask_ts for answered in answers)

    def withdraw_edits(self) -> bool:
        """Ask about each edit again; False when they are asked about anyway."""
        if not self.edits:
            return False
        self._rules.remove(WORKSPACE_EDITS_RULE)
        return True

    def over(self, settings: Settings) -> Settings:
        for rule in self._rules:
            if isinstance(rule, PersistentRule):
                settings = add_rule(settings, rule)
        return settings


async def rule_to_offer(
    task: Task, claims: Sequence[Claim], read: GrammarParser | None
) -> PersistentRule | TaskRule | None:
    """What the person may add with their answer; None where that would not be just this."""
    if (leave := propose_task_rule(claims, task.settings)) is not None:
        return leave
    rulebook = task.runtime.capabilities.rulebook
    if rulebook is None:
        return None
    rule = propose_persistent_rule(claims, task.settings, read)
    if rule is None or (rule.setting == "allowedMcpTools" and _wakes_lists(task)):
        return None
    return rule if await asyncio.to_thread(rulebook.can_add, rule) else None


def _wakes_lists(task: Task) -> bool:
    """Tools that servers have on lists of their own would run unasked, too."""
    mcp = task.runtime.capabilities.mcp
    if task.settings.always_allow_mcp or mcp is None:
        return False
    return any(tool.always_allowed for server in mcp.servers for tool in server.tools)


async def apply_always_answer(
    task: Task, rule: PersistentRule | TaskRule | None, answer: Answer, ask_ts: int
) -> None:
    """Go by the rule at once, if that is what the person said, and write it down if it outlives
    the task."""
    if rule is None or not (answer.always and answer.approves):
        return
    if isinstance(rule, TaskRule):
        task.granted.accept_edits(task.id, ask_ts)
        return
    task.granted.add(rule)
    rulebook = task.runtime.capabilities.rulebook
    if rulebook is None:
        return
    try:
        await asyncio.to_thread(rulebook.add, rule)
    except ConfigError as error:
        text = f"`{rule.text}` is allowed for this task, but could not be kept: {error}"
        task.publish(RowAdded(ts=task.now(), say="error", text=text))
