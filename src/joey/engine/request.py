"""Requests to the model: fitted into the context window, streamed, retried and committed.

`request_reply_with_retry` sends one request until a reply is committed or the retry budget
(`limits`) is used up; then the user decides, and a yes starts a new budget. A request that the
service rejects as too long is shortened and sent again; such recoveries are counted separately.

`fit_context` keeps a request within the window before it is sent, in increasingly drastic steps:
attachments of the user's message are cut, the conversation is condensed, its oldest turns are
hidden, long texts in the rest are cut. If even that is not enough, the run ends with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from joey.core import events as ev
from joey.core.context.condense import extract_user_blocks, is_attachment
from joey.core.context.window import (
    MAX_TRUNCATED_TEXT_CHARS,
    MIN_TRUNCATED_TEXT_CHARS,
    estimate_blocks_tokens,
    plan_truncation,
    resolve_condense_threshold,
)
from joey.core.history.visible import truncate_middle
from joey.core.messages import CallPart, ReasoningPart, Reply, TextBlock, TextPart, UserBlock
from joey.core.models import ModelRequest
from joey.core.parsing.assembler import ReplyAssembler
from joey.core.parsing.parts import (
    REPETITION_STOP_REASON,
    PartDelta,
    PartEnded,
    PartEvent,
    PartStarted,
    is_output_limit,
)
from joey.core.task_types import AskKind, CancelReason, RowKind
from joey.engine.asks import build_feedback_blocks, publish_feedback
from joey.engine.condense import ContextUsage, condense
from joey.engine.environment import (
    build_environment_blocks,
    observe_environment,
    record_environment,
)
from joey.engine.limits import (
    RetryBudget,
    ensure_run_within_budget,
    start_retry_budget,
    wait_for_admission,
    wait_with_countdown,
)
from joey.engine.outcomes import CommittedReply, RunStopped
from joey.engine.protocol import change_after_refusal, prepare_model
from joey.engine.runtime import build_system_prompt_and_tools
from joey.errors import (
    CondenseError,
    FailureCode,
    ProviderError,
    ProviderFailureKind,
    ToolError,
    encode_provider_failure,
)
from joey.ports.model import Provider

if TYPE_CHECKING:
    from joey.engine.task import Task


_RATE_LIMIT = ProviderFailureKind.RATE_LIMIT


async def request_reply_with_retry(
    task: Task, request: ModelRequest, request_ts: int
) -> CommittedReply:
    """Return a committed reply, after as many attempts as the budget allows. Raises RunStopped if
    the user, or the policy instead, gave up."""
    budget, recoveries = start_retry_budget(task, task.provider), 0
    while True:
        try:
            reply = await request_reply(task, request, request_ts)
            _warn_if_not_recorded(task)
            return reply
        except ProviderError as error:
            _warn_if_not_recorded(task)
            if error.failure is ProviderFailureKind.EMPTY_REPLY and budget.attempts > 0:
                task.add_row(RowKind.ERROR, "MODEL_NO_ASSISTANT_MESSAGES")
            blocks: tuple[UserBlock, ...] = ()
            gate, is_limited = task.runtime.request_gate, error.failure is _RATE_LIMIT
            wait = 0.0 if gate and is_limited else budget.consume_retry(error)
            if gate is not None and is_limited:
                await gate.record_rate_limit(task.provider.address, error.retry_after)
            elif (
                error.failure is ProviderFailureKind.CONTEXT_OVERFLOW
                and recoveries < MAX_OVERFLOW_RECOVERIES
            ):
                recoveries += 1
                blocks = await recover_from_overflow(task, error.context_window)
            elif error.failure is ProviderFailureKind.TOOLS_REFUSED and change_after_refusal(
                task, error.advice
            ):
                pass  # the same again, in XML
            elif error.failure is ProviderFailureKind.OUT_OF_MEMORY and _shrink_window(task):
                context = ContextUsage(task)
                if context.count_request_tokens() > context.window.hard_limit:
                    blocks = await recover_from_overflow(task)
            elif wait is None:
                blocks = await _ask_to_retry(task, error)
                settings, has_answered = task.runtime.settings, budget.has_answered
                budget, recoveries = RetryBudget(settings, has_answered=has_answered), 0
            else:
                await wait_with_countdown(task, error, wait, budget)
        ensure_run_within_budget(task)
        await prepare_model(task)  # the server may have been started meanwhile
        _ensure_window_large_enough(task, ContextUsage(task))
        await wait_for_admission(task, task.provider)
        request_ts = task.next_ts()
        protocol = task.provider.api_protocol
        task.publish(ev.RequestStarted(ts=request_ts, api_protocol=protocol, content=blocks))
        request = build_model_request(task)


def build_model_request(task: Task) -> ModelRequest:
    """Build the request with everything that has happened, in the task's protocol."""
    system, tools = build_system_prompt_and_tools(task)
    return ModelRequest(
        system_prompt=system,
        messages=tuple(task.recorder.api_history.request_messages),
        tools=tools,
        tool_protocol=task.protocol,
        task_id=task.id,
    )


def _warn_if_not_recorded(task: Task) -> None:
    recorder = task.runtime.request_recorder
    if recorder is not None and recorder.failure:
        task.warn_once(
            f"RECORDING HAS STOPPED: {recorder.failure.rstrip('.')}. The task continues, and its"
            " requests are no longer recorded."
        )


def _shrink_window(task: Task) -> bool:
    """After a local server ran out of memory, return whether a smaller window can be tried."""
    provider = task.provider
    before = provider.model.context_window
    if not provider.shrink_window():
        return False
    task.add_row(
        RowKind.ERROR,
        f"{provider.address} has too little memory for a window of {before:,} tokens; trying"
        f" {provider.model.context_window:,}.",
    )
    return True


async def _ask_to_retry(task: Task, error: ProviderError) -> tuple[UserBlock, ...]:
    """Ask whether to retry; return content that came with a yes."""
    answer = await task.ask(AskKind.API_REQ_FAILED, str(error), failure=error.failure.value)
    publish_feedback(task, answer)
    if not answer.approves:
        raise RunStopped(encode_provider_failure(error.failure), str(error)) from error
    task.add_row(RowKind.API_REQ_RETRIED)
    return build_feedback_blocks(answer)


class ReplyStream:
    """Tracks a streaming reply: which part is shown in which row."""

    def __init__(self, task: Task, request_ts: int, provider: Provider) -> None:
        self._task = task
        self._provider = provider
        self._request_ts = request_ts
        self._row_timestamps: list[int] = []
        self._is_call_by_part: list[bool] = []
        self._unshown_rows: dict[int, tuple[PartStarted, str]] = {}
        """Parts of which only white space has come, with that: they may never have a row."""
        runtime = task.runtime
        self.assembler = ReplyAssembler(
            protocol=task.protocol,
            tools=runtime.build_tool_names(task.mode, task.protocol, task.working_conditions),
            taken_ids=task.recorder.api_history.has_call,
            understand_text_calls=runtime.settings.understand_text_calls,
            make_id=lambda: f"call_{task.next_ts()}",
        )

    def publish_parts(self, events: Iterable[PartEvent]) -> None:
        publish = self._task.publish
        for event in events:
            match event:
                case PartDelta(index, delta) if index in self._unshown_rows:
                    started, before = self._unshown_rows[index]
                    self._unshown_rows[index] = started, before + delta
                    if delta.strip():
                        self._open_row(self._unshown_rows.pop(index)[0])
                        ts = self._row_timestamps[index]
                        publish(ev.RowDelta(ts=ts, delta=before + delta))
                case PartDelta(index, delta):
                    grew = ev.ArgumentsDelta if self._is_call_by_part[index] else ev.RowDelta
                    publish(grew(ts=self._row_timestamps[index], delta=delta))
                case PartStarted():
                    is_call = event.kind == "call"
                    self._row_timestamps.append(self._task.next_ts())
                    self._is_call_by_part.append(is_call)
                    if is_call:
                        self._open_row(event)
                    else:
                        self._unshown_rows[event.index] = event, ""
                case PartEnded():
                    pass

    def _open_row(self, started: PartStarted) -> None:
        ts = self._row_timestamps[started.index]
        say = RowKind.TOOL if started.kind == "call" else RowKind(started.kind)
        self._task.publish(ev.RowOpened(ts=ts, say=say, tool=started.name, call_id=started.call_id))
        if started.name is not None:
            self._prewarm_tool(started.name)

    def _prewarm_tool(self, name: str) -> None:
        """Prepare a tool while the model is still writing the arguments."""
        runtime, tool_set = self._task.runtime, self._task.runtime.tool_set
        try:
            tool = tool_set.find(name)
            tool_set.check_allowed(tool, self._task.mode, runtime.settings)
        except ToolError:
            return  # The model is told once the call is complete.
        tool.prewarm(runtime.terminal)

    def commit_reply(self, *, interrupted: bool) -> tuple[ev.RowPart, ...]:
        """Commit the reply to the journal before anything acts on it, without interrupted calls."""
        reply = self.assembler.reply
        parts = self._assign_rows(reply)
        if interrupted:
            parts = tuple(
                each
                for each in parts
                if not isinstance(each.part, CallPart) or each.part.call.problem is None
            )
        self._task.publish(
            ev.ReplyReceived(
                ts=self._task.next_ts(),
                parts=parts,
                raw=reply.raw,
                response_id=reply.response_id,
                stop_reason=reply.stop_reason,
                interrupted=interrupted,
                source=reply.source,
            )
        )
        self.close_rows(kept=parts)
        return parts

    def close_rows(self, kept: Sequence[ev.RowPart] = ()) -> None:
        """Close the rows of all but the `kept` calls. Their content is not part of the
        conversation, but stays visible."""
        calls = {each.ts for each in kept if isinstance(each.part, CallPart)}
        for row_part in self._assign_rows(self.assembler.reply):
            if row_part.ts in calls:
                continue
            match row_part.part:
                case TextPart(text=text):
                    self._task.close_row(row_part.ts, RowKind.TEXT, text)
                case ReasoningPart(text=text):
                    self._task.close_row(row_part.ts, RowKind.REASONING, text)
                case _:
                    self._task.close_row(row_part.ts)

    def _assign_rows(self, reply: Reply) -> tuple[ev.RowPart, ...]:
        return tuple(
            ev.RowPart(ts=ts, part=part)
            for ts, part in zip(self._row_timestamps, reply.parts, strict=True)
        )

    def publish_request_end(
        self, *, cancel_reason: CancelReason | None = None, error: str | None = None
    ) -> None:
        usage = self.assembler.reply.usage
        cost = self._provider.model.compute_cost(usage) if usage is not None else None
        self._task.publish(
            ev.RequestEnded(
                ts=self._task.next_ts(),
                request_ts=self._request_ts,
                usage=usage,
                cost=cost,
                cancel_reason=cancel_reason,
                error=error,
            )
        )
        self._task.publish(ev.UsageChanged(ts=self._task.next_ts(), usage=self._task.usage))


_FILTER_STOP_REASONS = ("content_filter", "sensitive", "refusal")
"""OpenAI and Gemini (which adds a cause), Z.ai, Anthropic: the same request would end the same."""


def _build_empty_reply_error(stop_reason: str | None) -> ProviderError:
    if stop_reason is not None and stop_reason.startswith(_FILTER_STOP_REASONS):
        return ProviderError(
            f"The service's content filter stopped the reply (`{stop_reason}`). Say it in another"
            " way, or use another model.",
            failure=ProviderFailureKind.INVALID_REQUEST,
        )
    return ProviderError("The model's reply was empty.", failure=ProviderFailureKind.EMPTY_REPLY)


async def request_reply(task: Task, request: ModelRequest, request_ts: int) -> CommittedReply:
    """Request one reply and commit it. Raises ProviderError if the service failed or the reply was
    empty (then nothing was committed); on CancelledError, the part that had arrived is committed as
    an interrupted reply."""
    provider = task.provider
    estimate = ContextUsage(task).estimated_tokens if provider.window_advice else 0
    stream = ReplyStream(task, request_ts, provider)
    assembler = stream.assembler
    try:
        async with aclosing(provider.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                stream.publish_parts(assembler.feed(chunk))
                if assembler.stop_repetition():
                    break
        stream.publish_parts(assembler.close(complete=True))
        if assembler.reply.is_empty:
            raise _build_empty_reply_error(assembler.reply.stop_reason)
    except asyncio.CancelledError:
        stream.publish_parts(assembler.close(complete=False))
        stream.commit_reply(interrupted=True)
        stream.publish_request_end(cancel_reason=CancelReason.USER_CANCELLED)
        raise
    except Exception as error:
        stream.publish_parts(assembler.close(complete=False))
        stream.close_rows()
        stream.publish_request_end(cancel_reason=CancelReason.STREAMING_FAILED, error=str(error))
        raise
    parts = stream.commit_reply(interrupted=False)
    stream.publish_request_end()
    if task.run_limits is not None:
        task.run_limits.answered_addresses.add(provider.address)
    await task.recorder.commit()
    reply = assembler.reply
    usage = reply.usage
    if estimate and usage is not None and task.token_estimator.is_cut(estimate, usage.input):
        provider.doubt_window()
        task.warn_once(
            f"The server cuts prompts to {usage.input:,} of about {estimate:,} tokens: "
            f"{provider.window_advice}."
        )
    is_repetitive = reply.stop_reason == REPETITION_STOP_REASON
    if is_repetitive:
        task.add_row(RowKind.ERROR, "The model's reply repeated itself and was stopped.")
    is_cut_off = is_repetitive or is_output_limit(reply.stop_reason)
    return CommittedReply(parts, is_cut_off, reply.unusable_call, is_repetitive)


MAX_OVERFLOW_RECOVERIES = 3
MIN_CONVERSATION_TOKENS = 2_000
"""In a smaller rest of the window no task can be done."""
_MIN_CONDENSABLE_DIVISOR = 4
"""A summary is written when at least this part of what may be filled is there to be summed up."""
_CONDENSE_RETRY_DIVISOR = 20
"""After a failure, not before another such part of the window is filled."""


async def fit_context(task: Task, content: tuple[UserBlock, ...]) -> tuple[UserBlock, ...]:
    """Fit the next request into the window; return its content, cut if necessary. Raises RunStopped
    if the new content alone is too large."""
    context = ContextUsage(task)
    _ensure_window_large_enough(task, context)
    content = _shorten_attachments(context, content)
    if await task.condense_requests.run_pending(task):
        context = ContextUsage(task)
    if _should_condense(task, context, content):
        try:
            await condense(task)
        except CondenseError:
            task.token_estimator.usage_at_condense_failure = context.count_request_tokens()
        context = ContextUsage(task)
    if _truncate_oldest(task, context, content):
        context = ContextUsage(task)
    if context.count_request_tokens(content) > context.window.hard_limit:
        raise _unqueue_and_build_overflow_stop(task, context, content)
    context.estimator.record_request(context.system_tokens)
    return content


async def recover_from_overflow(task: Task, window: int | None = None) -> tuple[UserBlock, ...]:
    """Recover after the service rejected a request as too long, with or without naming its window;
    return the next content after a shorter history. Wrong estimates are remembered. Raises
    RunStopped if it cannot be shortened."""
    earlier = ContextUsage(task)
    before = earlier.estimated_tokens
    if window is not None:
        task.provider.learn_window(window)
    context = ContextUsage(task)
    _ensure_window_large_enough(task, context)
    is_changed = (context.estimated_tokens, context.window) != (before, earlier.window)
    if is_changed and context.count_request_tokens() <= context.window.soft_limit:
        return ()  # it fits with the lean prompt and tools, or a lower limit for the reply
    context.estimator.record_overflow(before, context.window.size)
    content: tuple[UserBlock, ...] = ()
    last = context.visible_messages[-1]
    user_blocks = () if last.is_summary else extract_user_blocks(last)
    try:
        await condense(task, following_content=user_blocks)
        environment = await observe_environment(task, with_files=False)
        blocks = build_environment_blocks(task, environment)
        record_environment(task, environment)
        content = _shorten_attachments(ContextUsage(task), (*user_blocks, *blocks))
    except CondenseError:
        pass  # a row says why; the oldest turns are hidden instead
    _truncate_oldest(task, ContextUsage(task), content)
    context = ContextUsage(task)
    if (
        context.estimated_tokens + estimate_blocks_tokens(content) >= before
        or context.count_request_tokens(content) > context.window.hard_limit
    ):
        raise _unqueue_and_build_overflow_stop(task, context, content)
    return content


def _ensure_window_large_enough(task: Task, context: ContextUsage) -> None:
    """Raises RunStopped if a local server's window is too small for any task but can be
    enlarged."""
    provider, window = task.provider, context.window
    used = context.estimator.scale_estimate(context.system_tokens) + MIN_CONVERSATION_TOKENS
    if provider.window_advice and used > window.hard_limit:
        needed = used * window.size // max(1, window.hard_limit)
        raise RunStopped(
            FailureCode.WINDOW_TOO_SMALL,
            f"The model {provider.model.id} at {provider.address} has a window of"
            f" {window.size:,} tokens, and joey needs about {needed:,} for instructions,"
            f" tools, a short conversation and the reply: {provider.window_advice}.",
        )


def _should_condense(task: Task, context: ContextUsage, content: Sequence[UserBlock]) -> bool:
    settings = task.runtime.settings
    if not settings.auto_condense_context:
        return False
    threshold = resolve_condense_threshold(
        settings.auto_condense_context_percent,
        settings.profile_thresholds,
        task.runtime.route.profile,
    )
    if threshold.problem is not None:
        task.warn_once(threshold.problem)
    window, use = context.window, context.count_request_tokens(content)
    limit = min(window.soft_limit, window.size * threshold.percent // 100)
    if use < limit or context.condensable_tokens * _MIN_CONDENSABLE_DIVISOR < limit:
        return False
    failed_at = context.estimator.usage_at_condense_failure
    return (
        use > window.soft_limit
        or failed_at is None
        or use > failed_at + window.size // _CONDENSE_RETRY_DIVISOR
    )


def _truncate_oldest(task: Task, context: ContextUsage, content: Sequence[UserBlock]) -> bool:
    """Hide turns until the request fits, or as many as possible; return whether any had to be
    hidden."""
    estimator, allowed = context.estimator, context.window.soft_limit
    use, new = context.count_request_tokens(content), estimate_blocks_tokens(content)
    if use <= allowed:
        return False
    # The service may count more than the estimate assumes.
    scale = max(estimator.clamped_ratio, use / (context.estimated_tokens + new))
    plan = plan_truncation(
        context.visible_messages,
        context.open_result_messages,
        estimator.message_token_cache,
        lambda estimate: (context.system_tokens + estimate + new) * scale <= allowed,
    )
    if plan is None:
        return False
    ts = task.next_ts()
    task.publish(
        ev.ContextTruncated(
            ts=ts,
            truncation_id=f"truncation_{ts}",
            hidden_message_count=plan.hidden_message_count,
            tokens_before=context.count_request_tokens(),
            tokens_after=context.project_request_tokens(plan.remaining_token_estimate),
            max_text_chars=plan.max_text_chars,
        )
    )
    return True


def _shorten_attachments(
    context: ContextUsage, content: tuple[UserBlock, ...]
) -> tuple[UserBlock, ...]:
    """Shorten attachments to at most half of the available room."""
    max_tokens = (
        context.window.soft_limit - context.estimator.scale_estimate(context.system_tokens)
    ) // 2
    max_chars = MAX_TRUNCATED_TEXT_CHARS
    shorter = content
    while (
        context.estimator.scale_estimate(estimate_blocks_tokens(shorter)) > max_tokens
        and max_chars >= MIN_TRUNCATED_TEXT_CHARS
    ):
        shorter = tuple(
            TextBlock(truncate_middle(block.text, max_chars))
            if isinstance(block, TextBlock) and is_attachment(block)
            else block
            for block in content
        )
        max_chars //= 2
    return shorter


def _unqueue_and_build_overflow_stop(
    task: Task, context: ContextUsage, content: Sequence[UserBlock]
) -> RunStopped:
    to_tokens = context.estimator.scale_estimate
    _unqueue_longest_messages(
        task,
        to_tokens(context.system_tokens + estimate_blocks_tokens(content))
        - context.window.hard_limit,
        to_tokens,
    )
    return RunStopped(
        FailureCode.CONTEXT_LIMIT,
        f"This is too much for {task.provider.model.id}: of its window of {context.window.size:,} "
        f"tokens, about {context.window.hard_limit:,} may be filled, and the instructions and "
        f"tools take {to_tokens(context.system_tokens):,}, what was said before "
        f"{to_tokens(context.estimated_tokens - context.system_tokens):,}, the new message "
        f"{to_tokens(estimate_blocks_tokens(content)):,}. Say it in fewer words, let it read the "
        f"rest from a file, or {task.provider.window_advice or 'use a model with a larger window'}"
        ".",
    )


def _unqueue_longest_messages(
    task: Task, excess_tokens: int, to_tokens: Callable[[int], int]
) -> None:
    """Remove the longest queued messages if they leave no room for the others."""
    queued = task.recorder.projection.queued_messages.values()
    sizes = {said.id: to_tokens(estimate_blocks_tokens((TextBlock(said.text),))) for said in queued}
    if excess_tokens > sum(sizes.values()):
        return
    for message_id in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if excess_tokens > 0:
            task.publish(ev.MessageUnqueued(ts=task.next_ts(), id=message_id))
            excess_tokens -= sizes[message_id]
