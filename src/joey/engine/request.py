"""Requests to the model: fitted into the context window, streamed, retried and committed.

`take_turn_with_patience` sends one request until a reply is committed or the retry budget
(`limits`) is used up; then the user decides, and a yes opens a new budget. A request that the
service finds too long is shortened and sent again; such recoveries are counted separately.

`make_room` keeps a request within the window before it is sent, by ever harsher means: text that
came along with the user's message is cut, the conversation is condensed, its oldest turns are
hidden, long texts in what is left are cut. If even that is not enough, the run ends with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import structs

from joey.core.context.condense import extract_user_blocks, is_attachment
from joey.core.context.window import (
    MAX_TEXT_CHARS,
    MIN_TEXT_CHARS,
    estimate_blocks_tokens,
    plan_truncation,
    resolve_threshold,
)
from joey.core.events import (
    ArgumentsDelta,
    ContextTruncated,
    MessageUnqueued,
    ReplyReceived,
    RequestEnded,
    RequestStarted,
    RowAdded,
    RowDelta,
    RowOpened,
    RowPart,
    UsageChanged,
)
from joey.core.history.visible import truncate_middle
from joey.core.messages import CallPart, ReasoningPart, Reply, TextBlock, TextPart, UserBlock
from joey.core.models import ModelRequest, ToolProtocol
from joey.core.parsing.assembler import PartDelta, PartEnded, PartEvent, PartStarted, ReplyAssembler
from joey.core.task import AskKind
from joey.engine.asks import build_feedback_blocks, publish_feedback
from joey.engine.condense import ContextUsage, condense
from joey.engine.environment import describe_surroundings
from joey.engine.limits import RetryBudget, check_spending, count_down
from joey.engine.outcomes import RunStopped
from joey.errors import CondenseError, ProviderError, ProviderFailure, ToolError
from joey.ports import Provider

if TYPE_CHECKING:
    from joey.engine.task import Task


async def take_turn_with_patience(
    task: Task, request: ModelRequest, request_ts: int
) -> tuple[RowPart, ...]:
    """A committed reply, after as many attempts as the budget allows.

    Raises:
        Stop: the person, or the policy in their place, gave up.
    """
    budget, recoveries = RetryBudget(task.runtime.settings), 0
    while True:
        try:
            return await take_turn(task, request, request_ts)
        except ProviderError as error:
            if error.failure is ProviderFailure.EMPTY_REPLY and budget.attempts > 0:
                task.publish(
                    RowAdded(ts=task.now(), say="error", text="MODEL_NO_ASSISTANT_MESSAGES")
                )
            blocks: tuple[UserBlock, ...] = ()
            wait = budget.wait_after(error)
            if (
                error.failure is ProviderFailure.CONTEXT_OVERFLOW
                and recoveries < MAX_OVERFLOW_RECOVERIES
            ):
                recoveries += 1
                blocks = await recover(task)
            elif wait is None:
                blocks = await _ask_to_try_again(task, error)
                budget, recoveries = RetryBudget(task.runtime.settings), 0
            else:
                await count_down(task, error, wait, budget)
        check_spending(task)
        request_ts = task.now()
        protocol = task.provider.api_protocol
        task.publish(RequestStarted(ts=request_ts, api_protocol=protocol, content=blocks))
        request = structs.replace(request, messages=tuple(task.recorder.api.messages))


async def _ask_to_try_again(task: Task, error: ProviderError) -> tuple[UserBlock, ...]:
    """Words that came with a yes."""
    answer = await task.ask(AskKind.API_REQ_FAILED, str(error))
    publish_feedback(task, answer)
    if not answer.approves:
        raise RunStopped(f"provider:{error.failure}", str(error)) from error
    task.publish(RowAdded(ts=task.now(), say="api_req_retried"))
    return build_feedback_blocks(answer)


class ReplyStream:
    """A reply while it streams: which part is shown in which row."""

    def __init__(self, task: Task, request_ts: int, provider: Provider) -> None:
        self._task = task
        self._provider = provider
        self._request_ts = request_ts
        self._rows: list[int] = []
        self._is_call: list[bool] = []
        runtime, facts = task.runtime, task.recorder.facts
        self.assembler = ReplyAssembler(
            protocol=facts.protocol,
            tools=runtime.toolbox.xml_tools() if facts.protocol is ToolProtocol.XML else {},
            taken_ids=task.recorder.api.has_call,
            understand_text_calls=runtime.settings.understand_text_calls,
            make_id=lambda: f"call_{task.now()}",
        )

    def show(self, events: Iterable[PartEvent]) -> None:
        publish = self._task.publish
        for event in events:
            match event:
                case PartDelta(index, delta):
                    grew = ArgumentsDelta if self._is_call[index] else RowDelta
                    publish(grew(ts=self._rows[index], delta=delta))
                case PartStarted():
                    self._open_row(event)
                case PartEnded():
                    pass

    def _open_row(self, started: PartStarted) -> None:
        ts = self._task.now()
        is_call = started.kind == "call"
        self._rows.append(ts)
        self._is_call.append(is_call)
        say = "tool" if is_call else started.kind
        self._task.publish(RowOpened(ts=ts, say=say, tool=started.name, call_id=started.call_id))
        if started.name is not None:
            self._prewarm_tool(started.name)

    def _prewarm_tool(self, name: str) -> None:
        """The model is still writing the arguments: what their tool needs can be made ready."""
        runtime, toolbox = self._task.runtime, self._task.runtime.toolbox
        try:
            tool = toolbox.find(name)
            toolbox.check_allowed(tool, self._task.mode, runtime.settings)
        except ToolError:
            return  # The model is told when the call is whole.
        tool.prewarm(runtime.terminal)

    def commit(self, *, interrupted: bool) -> tuple[RowPart, ...]:
        """Write the reply down; nothing acts on it before."""
        reply = self.assembler.reply
        parts = self._placed(reply)
        if interrupted:
            parts = tuple(placed for placed in parts if not _is_cut_off(placed))
        self._task.publish(
            ReplyReceived(
                ts=self._task.now(),
                parts=parts,
                raw=reply.raw,
                response_id=reply.response_id,
                stop_reason=reply.stop_reason,
                interrupted=interrupted,
            )
        )
        return parts

    def keep_what_was_shown(self) -> None:
        """The stream broke: its words stay on the screen, but are no part of the conversation."""
        for placed in self._placed(self.assembler.reply):
            match placed.part:
                case TextPart(text=text) | ReasoningPart(text=text) if text.strip():
                    say = "text" if isinstance(placed.part, TextPart) else "reasoning"
                    self._task.publish(RowAdded(ts=placed.ts, say=say, text=text))

    def _placed(self, reply: Reply) -> tuple[RowPart, ...]:
        return tuple(
            RowPart(ts=ts, part=part) for ts, part in zip(self._rows, reply.parts, strict=True)
        )

    def end(self, *, cancel_reason: str | None = None, error: str | None = None) -> None:
        usage = self.assembler.reply.usage
        cost = self._provider.model.compute_cost(usage) if usage is not None else None
        self._task.publish(
            RequestEnded(
                ts=self._task.now(),
                request_ts=self._request_ts,
                usage=usage,
                cost=cost,
                cancel_reason=cancel_reason,
                error=error,
            )
        )
        self._task.publish(UsageChanged(ts=self._task.now(), usage=self._task.usage))


async def take_turn(task: Task, request: ModelRequest, request_ts: int) -> tuple[RowPart, ...]:
    """The parts of one committed reply.

    Raises:
        ProviderError: the service failed or said nothing; nothing was committed.
        CancelledError: what had arrived is committed as an interrupted reply.
    """
    provider = task.provider
    live = ReplyStream(task, request_ts, provider)
    assembler = live.assembler
    try:
        async with aclosing(provider.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                live.show(assembler.feed(chunk))
        live.show(assembler.close(complete=True))
        if assembler.reply.is_empty:
            raise ProviderError("The model's reply was empty.", failure=ProviderFailure.EMPTY_REPLY)
    except asyncio.CancelledError:
        live.show(assembler.close(complete=False))
        live.commit(interrupted=True)
        live.end(cancel_reason="user_cancelled")
        raise
    except Exception as error:
        live.show(assembler.close(complete=False))
        live.keep_what_was_shown()
        live.end(cancel_reason="streaming_failed", error=str(error))
        raise
    parts = live.commit(interrupted=False)
    live.end()
    await task.recorder.commit()
    return parts


def _is_cut_off(placed: RowPart) -> bool:
    return isinstance(placed.part, CallPart) and placed.part.call.problem is not None


MAX_OVERFLOW_RECOVERIES = 3
_MIN_CONDENSABLE_DIVISOR = 4
"""A summary is written when at least this part of what may be filled is there to be summed up."""
_CONDENSE_RETRY_DIVISOR = 20
"""After a failure, not before another such part of the window is filled."""


async def make_room(task: Task, content: tuple[UserBlock, ...]) -> tuple[UserBlock, ...]:
    """What the next request says, cut where it must be; the history before it fits.

    Raises:
        Stop: what is to be said alone is too much for the window.
    """
    room = ContextUsage(task)
    content = _within_half(room, content)
    if await task.condense_requests.grant(task):
        room = ContextUsage(task)
    if _is_due(task, room, content):
        try:
            await condense(task)
        except CondenseError:
            task.gauge.condense_failed_at = room.use()
        room = ContextUsage(task)
    if _hide_oldest(task, room, content):
        room = ContextUsage(task)
    if room.use(content) > room.window.hard_limit:
        raise _too_much(task, room, content)
    room.gauge.record_request(room.head)
    return content


async def recover(task: Task) -> tuple[UserBlock, ...]:
    """After the service refused a request as too long: what the next one says after a shorter
    history. What the estimates got wrong is remembered.

    Raises:
        Stop: it cannot be made shorter.
    """
    room = ContextUsage(task)
    before = room.estimate
    room.gauge.record_overflow(before, room.window.size)
    content: tuple[UserBlock, ...] = ()
    last = room.visible[-1]
    user_blocks = () if last.is_summary else extract_user_blocks(last)
    try:
        await condense(task, following_content=user_blocks)
        surroundings = await describe_surroundings(task, with_files=False)
        content = _within_half(ContextUsage(task), (*user_blocks, TextBlock(surroundings)))
    except CondenseError:
        pass  # a row says why; the oldest turns go instead
    _hide_oldest(task, ContextUsage(task), content)
    room = ContextUsage(task)
    if (
        room.estimate + estimate_blocks_tokens(content) >= before
        or room.use(content) > room.window.hard_limit
    ):
        raise _too_much(task, room, content)
    return content


def _is_due(task: Task, room: ContextUsage, content: Sequence[UserBlock]) -> bool:
    settings = task.runtime.settings
    if not settings.auto_condense_context:
        return False
    threshold = resolve_threshold(
        settings.auto_condense_context_percent,
        settings.profile_thresholds,
        task.runtime.route.profile,
    )
    if threshold.problem is not None and threshold.problem not in task.shown_once:
        task.shown_once.add(threshold.problem)
        task.publish(RowAdded(ts=task.now(), say="error", text=threshold.problem))
    window, use = room.window, room.use(content)
    limit = min(window.soft_limit, window.size * threshold.percent // 100)
    if use < limit or room.said * _MIN_CONDENSABLE_DIVISOR < limit:
        return False
    failed_at = room.gauge.condense_failed_at
    return (
        use > window.soft_limit
        or failed_at is None
        or use > failed_at + window.size // _CONDENSE_RETRY_DIVISOR
    )


def _hide_oldest(task: Task, room: ContextUsage, content: Sequence[UserBlock]) -> bool:
    """Hide turns until the request fits, or all that can be hidden is; whether that was needed."""
    gauge, allowed = room.gauge, room.window.soft_limit
    use, new = room.use(content), estimate_blocks_tokens(content)
    if use <= allowed:
        return False
    # The service may count more than the gauge dares to conclude from it.
    scale = max(gauge.scale, use / (room.estimate + new))
    plan = plan_truncation(
        room.visible,
        room.open_results,
        gauge.message_tokens,
        lambda estimate: (room.head + estimate + new) * scale <= allowed,
    )
    if plan is None:
        return False
    ts = task.now()
    task.publish(
        ContextTruncated(
            ts=ts,
            truncation_id=f"truncation_{ts}",
            hidden_message_count=plan.hidden_messages,
            tokens_before=room.use(),
            tokens_after=room.use_with(plan.estimate),
            max_text_chars=plan.max_text_chars,
        )
    )
    return True


def _within_half(room: ContextUsage, content: tuple[UserBlock, ...]) -> tuple[UserBlock, ...]:
    """What came along with the words takes half of the room at most."""
    most = (room.window.soft_limit - room.gauge.scale_estimate(room.head)) // 2
    longest = MAX_TEXT_CHARS
    shorter = content
    while (
        room.gauge.scale_estimate(estimate_blocks_tokens(shorter)) > most
        and longest >= MIN_TEXT_CHARS
    ):
        shorter = tuple(_cut(block, longest) for block in content)
        longest //= 2
    return shorter


def _cut(block: UserBlock, longest: int) -> UserBlock:
    if isinstance(block, TextBlock) and is_attachment(block):
        return TextBlock(truncate_middle(block.text, longest))
    return block


def _too_much(task: Task, room: ContextUsage, content: Sequence[UserBlock]) -> RunStopped:
    whole = room.gauge.scale_estimate
    _give_up_longest(
        task, whole(room.head + estimate_blocks_tokens(content)) - room.window.hard_limit, whole
    )
    return RunStopped(
        "context",
        f"This is too much for {task.provider.model.id}: of its window of {room.window.size}"
        f" tokens, about {room.window.hard_limit} may be filled, and the instructions and tools "
        "take"
        f" {whole(room.head)}, what was said before {whole(room.estimate - room.head)}, the new"
        f" message {whole(estimate_blocks_tokens(content))}. Say it in fewer words, let it read "
        "the rest"
        " from a file, or use a model with a larger window.",
    )


def _give_up_longest(task: Task, over: int, whole: Callable[[int], int]) -> None:
    """Waiting words that would be in the way of all others, if there is room without them."""
    queued = task.recorder.facts.queue.values()
    sizes = {said.id: whole(estimate_blocks_tokens((TextBlock(said.text),))) for said in queued}
    if over > sum(sizes.values()):
        return
    for message_id in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if over > 0:
            task.publish(MessageUnqueued(ts=task.now(), id=message_id))
            over -= sizes[message_id]
