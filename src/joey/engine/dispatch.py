"""The calls of one reply: prepare, decide, ask, run, in the order the model made them.

Neighbouring calls that only read are run side by side; their results keep the order (D13). The
first rejection skips the rest. Each call gets exactly one outcome, whatever happens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from joey.core.asks import Answer, AskKind, Response
from joey.core.events import (
    CommandGrew,
    ModeSwitched,
    Said,
    TodosChanged,
    ToolAnnounced,
    ToolFailed,
    ToolFinished,
    UserSaid,
)
from joey.core.messages import ToolCall
from joey.core.permissions.claims import Access
from joey.core.permissions.policy import Allow, Ask, Deny, decide
from joey.core.prompts import replies
from joey.engine.completion import accept_completion
from joey.engine.mistakes import Mistakes
from joey.errors import ArgumentError, HiddenError, ToolError
from joey.ports import ToolContext
from joey.tools.base import Complete, Outcome, Prepared, SetTodos, SwitchMode, Tool

if TYPE_CHECKING:
    from joey.engine.task import Task

log = logging.getLogger(__name__)

AnyTool = Tool[Any, Any]


class Rejected(Struct, frozen=True):
    """The person, or a rule, said no."""

    feedback: str = ""
    images: tuple[str, ...] = ()


class Ready(Struct, frozen=True):
    """A call that may run."""

    tool: AnyTool
    prepared: Prepared
    context: ToolContext
    answer: Answer | None


class PlacedCall(Struct, frozen=True):
    call: ToolCall
    row_ts: int


class Dispatch:
    """The state of one reply's calls while they are worked through."""

    def __init__(self, task: Task, mistakes: Mistakes) -> None:
        self._task = task
        self._mistakes = mistakes
        self.failed = False
        self.rejected = False
        self.accepted: str | None = None
        """The result that the person accepted, which ends the task."""

    async def run(self, calls: Sequence[PlacedCall]) -> None:
        waiting: list[tuple[PlacedCall, Ready]] = []
        for placed in calls:
            ready = await self._make_ready(placed) if not self.rejected else None
            if ready is not None and ready.tool.parallel:
                waiting.append((placed, ready))
                continue
            await self._run_side_by_side(waiting)
            if ready is not None:
                await self._run_one(placed, ready)
            if self.accepted is not None:
                return
            if self.rejected:
                self._skip_unless_answered(placed)
        await self._run_side_by_side(waiting)

    # Before a call runs

    async def _make_ready(self, placed: PlacedCall) -> Ready | None:
        """Everything up to the run; None when the call already has its outcome."""
        try:
            tool, prepared, context = await self._prepare(placed)
            answer = await self._permission(placed, tool, prepared)
        except ToolError as error:
            self._fail(placed, error)
            return None
        if isinstance(answer, Rejected):
            self._reject(placed, answer)
            return None
        return Ready(tool, prepared, context, answer)

    async def _prepare(self, placed: PlacedCall) -> tuple[AnyTool, Prepared, ToolContext]:
        call, task = placed.call, self._task
        if call.problem is not None:
            raise ArgumentError(call.problem)
        registry = task.bench.registry
        tool = registry.find(call.name)
        registry.check_allowed(tool, task.mode, call.input)
        params = tool.parse(call.input)
        if self._mistakes.repetition.repeats(tool.name, call.input):
            await self._stop_repeating(tool)
        context = self._context(placed)
        prepared = await tool.prepare(params, context)
        registry.check_places(tool, task.mode, prepared.claims)
        return tool, prepared, context

    async def _stop_repeating(self, tool: AnyTool) -> None:
        answer = await self._task.ask(
            AskKind.MISTAKE_LIMIT_REACHED, replies.repetition_limit(tool.name)
        )
        message = replies.repetition_limit(tool.name)
        if answer is not None and answer.text:
            self._say_feedback(answer)
            message = f"{message}\n{replies.user_message(answer.text)}"
        raise ToolError(message)

    async def _permission(
        self, placed: PlacedCall, tool: AnyTool, prepared: Prepared
    ) -> Answer | Rejected | None:
        """None: the rules allow it. Otherwise what the person answered."""
        match decide(prepared.claims, self._task.bench.settings):
            case Allow(rule):
                if (
                    any(claim.access is not Access.NONE for claim in prepared.claims)
                    or prepared.row
                ):
                    self._announce(placed, tool, prepared, rule)
                return None
            case Deny(_, reason):
                raise ToolError(reason)
            case Ask(reason):
                answer = await self._put_to_person(placed, tool, prepared, reason)
        if prepared.ask is AskKind.FOLLOWUP or answer.approves:
            if answer.text:
                self._say_feedback(answer)
            return answer
        return Rejected(answer.text, answer.images)

    async def _put_to_person(
        self, placed: PlacedCall, tool: AnyTool, prepared: Prepared, reason: str
    ) -> Answer:
        settings = self._task.bench.settings
        patience: float | None = None
        if prepared.ask is AskKind.FOLLOWUP and settings.always_allow_followup_questions:
            patience = (settings.followup_auto_approve_timeout_ms or 0) / 1000 or None
        answer = await self._task.ask(
            prepared.ask,
            _row_text(prepared),
            patience=patience,
            ts=placed.row_ts,
            call_id=placed.call.id,
            tool=tool.name,
            path=prepared.path,
            diff=prepared.diff,
            protected=any(c.place is not None and c.place.protected for c in prepared.claims),
            reason=reason,
        )
        return answer if answer is not None else Answer(Response.MESSAGE)

    def _announce(self, placed: PlacedCall, tool: AnyTool, prepared: Prepared, rule: str) -> None:
        self._task.publish(
            ToolAnnounced(
                ts=placed.row_ts,
                call_id=placed.call.id,
                tool=tool.name,
                text=_row_text(prepared),
                path=prepared.path,
                diff=prepared.diff,
                rule=rule,
            )
        )

    def _context(self, placed: PlacedCall) -> ToolContext:
        task = self._task
        output_ts = task.now()
        return ToolContext(
            files=task.bench.files,
            search=task.bench.search,
            terminal=task.bench.terminal,
            settings=task.bench.settings,
            protocol=task.recorder.facts.protocol,
            model=task.bench.provider.model,
            modes=task.bench.modes,
            mode=task.mode,
            todos=task.recorder.facts.todos,
            artifacts=task.recorder.log.folder / "command-output",
            call_id=placed.call.id,
            row_ts=placed.row_ts,
            output_ts=output_ts,
            on_output=lambda text: task.publish(CommandGrew(ts=output_ts, output=text)),
        )

    # The run itself

    async def _run_side_by_side(self, waiting: list[tuple[PlacedCall, Ready]]) -> None:
        batch = waiting[:]
        waiting.clear()
        if len(batch) == 1:
            await self._run_one(*batch[0])
            return
        outcomes = await asyncio.gather(*(_outcome(ready) for _, ready in batch))
        for (placed, ready), outcome in zip(batch, outcomes, strict=True):
            await self._settle(placed, ready, outcome)

    async def _run_one(self, placed: PlacedCall, ready: Ready) -> None:
        await self._settle(placed, ready, await _outcome(ready))

    async def _settle(self, placed: PlacedCall, ready: Ready, outcome: Outcome | ToolError) -> None:
        if isinstance(outcome, ToolError):
            self._fail(placed, outcome)
            return
        for say, text in outcome.said:
            shown_live = say == "command_output"
            ts = ready.context.output_ts if shown_live else self._task.now()
            self._task.publish(Said(ts=ts, say=say, text=text))
        if outcome.is_error:
            self.failed = True
        match outcome.directive:
            case Complete(result):
                await self._complete(placed, result)
                return
            case SetTodos(todos):
                self._task.publish(TodosChanged(ts=self._task.now(), todos=todos))
            case SwitchMode(slug):
                self._task.publish(ModeSwitched(ts=self._task.now(), mode=slug))
        self._mistakes.forgive()
        self._finish(placed, _with_feedback(self._task, ready, outcome), outcome)

    async def _complete(self, placed: PlacedCall, result: str) -> None:
        try:
            verdict = await accept_completion(
                self._task, result, placed.row_ts, something_failed=self.failed
            )
        except ToolError as error:
            self._fail(placed, error)
            return
        self._mistakes.forgive()
        if verdict is None:
            self.accepted = result
        else:
            self._finish(placed, verdict.text, verdict)

    # After it

    def _finish(self, placed: PlacedCall, text: str, outcome: Outcome) -> None:
        task = self._task
        task.publish(
            ToolFinished(
                ts=task.now(),
                call_id=placed.call.id,
                tool=placed.call.name,
                content=text,
                images=outcome.images,
                is_error=outcome.is_error,
                header=_header(task, placed.call),
                row_ts=placed.row_ts,
            )
        )

    def _fail(self, placed: PlacedCall, error: ToolError) -> None:
        task = self._task
        self.failed = True
        self._mistakes.made_one()
        name, protocol = placed.call.name, task.recorder.facts.protocol
        say, shown = "error", f"{name}: {error}"
        match error:
            case ArgumentError(parameter=str(parameter)):
                text = replies.missing_parameter(protocol, name, parameter)
            case HiddenError(path=path):
                text = replies.rooignore(protocol, path)
                say, shown = "rooignore_error", path
            case _:
                text = replies.tool_error(protocol, str(error))
        task.publish(Said(ts=task.now(), say=say, text=shown))
        task.publish(ToolFailed(ts=task.now(), tool=name, error=str(error)))
        self._finish(placed, text, Outcome(text, is_error=True))

    def _reject(self, placed: PlacedCall, rejected: Rejected) -> None:
        self.rejected = True
        if rejected.feedback or rejected.images:
            self._say_feedback(Answer(Response.NO, text=rejected.feedback, images=rejected.images))
        text = replies.denied(self._task.recorder.facts.protocol, rejected.feedback)
        self._finish(placed, text, Outcome(text, images=rejected.images))

    def _skip_unless_answered(self, placed: PlacedCall) -> None:
        if placed.call.id in {call.id for call in self._task.recorder.api.open_calls}:
            text = replies.skipped_after_rejection(placed.call.name)
            self._finish(placed, text, Outcome(text, is_error=True))

    def _say_feedback(self, answer: Answer) -> None:
        task = self._task
        task.publish(UserSaid(ts=task.now(), text=answer.text, images=answer.images))


async def _outcome(ready: Ready) -> Outcome | ToolError:
    try:
        return await ready.tool.run(ready.prepared, ready.context, ready.answer)
    except ToolError as error:
        return error


def _with_feedback(task: Task, ready: Ready, outcome: Outcome) -> str:
    """Words that came with a yes go in front of the result."""
    answer = ready.answer
    if answer is None or not answer.approves or not answer.text:
        return outcome.text
    feedback = replies.approved_with_feedback(task.recorder.facts.protocol, answer.text)
    return f"{feedback}\n\n{outcome.text}"


def _row_text(prepared: Prepared) -> str:
    if prepared.row_text is not None:
        return prepared.row_text
    return msgspec.json.encode(prepared.row).decode()


def _header(task: Task, call: ToolCall) -> str:
    try:
        description = task.bench.registry.find(call.name).describe(call.input)
    except ToolError:
        description = f"[{call.name}]"
    return replies.result_header(description)
