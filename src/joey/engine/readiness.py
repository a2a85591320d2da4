"""Everything before a call runs: find its tool, prepare it, and get it allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from joey.core.events import ToolAnnounced
from joey.core.permissions.policy import (
    Access,
    Allow,
    Ask,
    Confinement,
    Deny,
    StandingRule,
    TaskRule,
    decide,
    missing_reach,
)
from joey.core.prompts import replies
from joey.core.repetition import Verdict
from joey.core.settings import Settings
from joey.core.task import Answer, AskKind, Response, first_suggestion
from joey.engine.asks import Lapse
from joey.engine.calls import AnyTool, PlacedCall, Ready, Rejected, RepeatedError
from joey.engine.endings import Stop
from joey.engine.granted import heed_always, rule_to_offer
from joey.engine.hooks import check_refused
from joey.engine.mistakes import Mistakes
from joey.engine.surroundings import is_busy
from joey.engine.tool_context import tool_context
from joey.engine.words import show_words
from joey.errors import ArgumentError, RefusedError
from joey.ports import ToolContext
from joey.tools.base import Prepared

if TYPE_CHECKING:
    from joey.engine.task import Task


async def make_ready(task: Task, placed: PlacedCall, mistakes: Mistakes) -> Ready | Rejected:
    """Prepare, decide, ask.

    Raises:
        ToolError: the call cannot be made, or a rule forbids it.
        Stop: the model repeats itself and nobody tells it how to go on.
    """
    tool, prepared, context = await _prepare(task, placed, mistakes)
    shell = task.bench.extras.shell
    read = None if shell is None else shell.chain
    match decide(prepared.claims, task.settings, read, edits_granted=task.granted.edits):
        case Allow(rule):
            if prepared.row or any(claim.access is not Access.NONE for claim in prepared.claims):
                _announce(task, placed, tool, prepared, rule)
            return Ready(tool, prepared, context, None, rule)
        case Deny(rule, reason):
            raise RefusedError(reason, rule)
        case Ask(reason):
            offered = await rule_to_offer(task, prepared.claims, read)
            answer = await _put_to_person(task, placed, tool, prepared, reason, offered)
    check_refused(answer)
    await heed_always(task, offered, answer, placed.row_ts)
    show_words(task, answer)
    if prepared.ask is AskKind.FOLLOWUP or answer.approves:
        return Ready(tool, prepared, context, answer)
    return Rejected(answer, missing_reach(prepared.claims, task.settings, read))


async def _prepare(
    task: Task, placed: PlacedCall, mistakes: Mistakes
) -> tuple[AnyTool, Prepared, ToolContext]:
    call, registry = placed.call, task.bench.toolbox
    if call.problem is not None:
        raise ArgumentError(call.problem)
    tool = registry.find(call.name)
    registry.check_allowed(tool, task.mode, task.bench.settings, call.input)
    params = tool.parse(call.input)
    mistakes.rounds.called(tool.name, call.input)
    verdict = mistakes.repetition.check(call.id, tool.name, call.input, is_busy=is_busy(task))
    if verdict is not Verdict.GO:
        await _stop_repeating(task, placed, tool, verdict)
    context = tool_context(task, placed.call.id, placed.row_ts)
    prepared = await tool.prepare(params, context)
    registry.check_places(tool, task.mode, prepared.claims)
    return tool, prepared, context


async def _stop_repeating(task: Task, placed: PlacedCall, tool: AnyTool, verdict: Verdict) -> None:
    """Raises RepeatedError or Stop: without a user, the first time never ends the run."""
    limit = replies.repetition_limit(tool.name)
    if verdict is Verdict.STOP and task.asks.is_unattended:
        raise RepeatedError(limit, ())
    answer = await task.ask(AskKind.MISTAKE_LIMIT_REACHED, limit, call_id=placed.call.id)
    show_words(task, answer)
    if answer.response is Response.NO:
        raise Stop("mistakes", f"The model kept calling {tool.name} in the same way.")
    advice = f"\n{replies.user_message(answer.text)}" if answer.text else ""
    raise RepeatedError(limit + advice, answer.images)


def _announce(task: Task, placed: PlacedCall, tool: AnyTool, prepared: Prepared, rule: str) -> None:
    task.publish(
        ToolAnnounced(
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


async def _put_to_person(
    task: Task,
    placed: PlacedCall,
    tool: AnyTool,
    prepared: Prepared,
    reason: str,
    offered: StandingRule | TaskRule | None,
) -> Answer:
    return await task.ask(
        prepared.ask,
        _row_text(prepared),
        lapse=_lapse(prepared, task.bench.settings),
        ts=placed.row_ts,
        call_id=placed.call.id,
        tool=tool.name,
        path=prepared.path,
        diff=prepared.diff,
        protected=any(c.place is not None and c.place.protected for c in prepared.claims),
        reason=reason,
        always=None if offered is None else offered.text,
        sandbox=_sandbox(prepared),
    )


def _sandbox(prepared: Prepared) -> Confinement | None:
    """What would hold the command, if the call is one."""
    return next((claim.sandbox for claim in prepared.claims if claim.sandbox is not None), None)


def _lapse(prepared: Prepared, settings: Settings) -> Lapse | None:
    """A question may answer itself with its first suggestion, if the settings say so."""
    seconds = settings.followup_auto_approve_timeout_ms / 1000
    wanted = prepared.ask is AskKind.FOLLOWUP and settings.always_allow_followup_questions
    if not wanted or seconds <= 0:
        return None
    suggestion = first_suggestion(_row_text(prepared))
    return Lapse(seconds, Answer(Response.MESSAGE, text=suggestion)) if suggestion else None


def _row_text(prepared: Prepared) -> str:
    if prepared.row_text is not None:
        return prepared.row_text
    return msgspec.json.encode(prepared.row).decode()
