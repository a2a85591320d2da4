"""Condensing a conversation: its context usage, a summary by the model, users' requests for one.

The model writes a summary: at the end of the conversation if the window has room for that, else
from a transcript (decision D41). What must not depend on the model, above all the user's own
messages, is taken from the record and passed on next to the summary. Nothing changes before the
summary is complete: a cancelled or killed run leaves everything as it was. The result is one event,
or none.

A running task handles a user's request before its next model request. A task at rest does so at
once and stays at rest: its state does not change, only what the model will be shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from joey.core.context import condense as prompts
from joey.core.context.condense import PreservedContext, SummaryBudget, build_summary_content
from joey.core.context.window import (
    CHARACTERS_PER_TOKEN,
    MAX_TRUNCATED_TEXT_CHARS,
    MIN_TRUNCATED_TEXT_CHARS,
    ContextWindow,
    TokenEstimator,
    estimate_blocks_tokens,
    estimate_text_tokens,
)
from joey.core.events import ContextCondensed, RequestEnded, RowOpened, UsageChanged
from joey.core.history.visible import truncate_message
from joey.core.messages import (
    CallChunk,
    Message,
    TextBlock,
    TextChunk,
    ToolUseBlock,
    Usage,
    UsageChunk,
    UserBlock,
    extract_text,
    get_blocks,
)
from joey.core.models import ModelRequest
from joey.core.parsing.repetition import RepetitionDetector, cut_repetition
from joey.core.task_types import IDLE_STATES, CancelReason, RowKind
from joey.engine.limits import start_retry_budget, wait_for_admission, wait_with_countdown
from joey.engine.runtime import SUMMARY_PROFILE_KEY, build_system_prompt_and_tools
from joey.errors import CondenseError, ProviderError, ProviderFailureKind, StoreError, ToolError
from joey.ports.model import Provider
from joey.tools.list_code_definition_names import format_definitions, parse_definitions

if TYPE_CHECKING:
    from joey.engine.task import Task


_MIN_CONVERSATION_CHARS = 6_000


class ContextUsage:
    """The tokens that the next request takes of the model's window, at one moment; create a new one
    after the history has changed."""

    def __init__(self, task: Task) -> None:
        model, projection = task.provider.model, task.recorder.projection
        api = task.recorder.api_history
        self.estimator = task.token_estimator
        self.estimator.set_model(model.id, projection.request_count)
        self.window = ContextWindow.from_model(model)
        self._has_small_window = model.has_small_window
        system, tools = build_system_prompt_and_tools(task)
        self.system_tokens = estimate_text_tokens(system) + self.estimator.estimate_tools(tools)
        self._api_history = api
        self._conversation_totals = self.estimator.sum_messages(api.build_current_messages())
        counted = projection.prompt_tokens
        if counted is not None and counted > self.window.size:
            counted = None  # answered although it does not fit: the service counts differently
        self._reported_tokens = (
            counted if self.estimator.is_count_current(projection.request_count) else None
        )

    def count_request_tokens(self, content: Sequence[UserBlock] = ()) -> int:
        """Count the tokens of a request that adds this."""
        return self.estimator.estimate_usage(
            self.system_tokens,
            self._conversation_totals,
            estimate_blocks_tokens(content),
            self._reported_tokens,
        )

    def limit_prompt(self, reply_tokens: int) -> int:
        """Return the maximum size of a request with such a reply: in a small window all the rest,
        if the service counts tokens and never rejected one that should have fitted."""
        limit = self.window.hard_limit
        is_exact = self._reported_tokens is not None and not self.estimator.has_overflowed
        if is_exact and self._has_small_window:
            limit = max(limit, self.window.size - reply_tokens)
        return limit

    @property
    def visible_messages(self) -> Sequence[Message]:
        """The messages on which it is based, not joined."""
        return self._api_history.visible_messages

    @property
    def open_result_messages(self) -> Sequence[Message]:
        return self._api_history.open_result_messages

    @property
    def estimated_tokens(self) -> int:
        """The size by joey's own estimate, without new content."""
        return self.system_tokens + self._conversation_totals.prefix_sums[-1]

    def project_request_tokens(self, conversation_tokens: int) -> int:
        """Project `use` for a conversation of this estimated size; like is compared with like."""
        return (
            self.count_request_tokens()
            * (self.system_tokens + conversation_tokens)
            // max(1, self.estimated_tokens)
        )

    @property
    def condensable_tokens(self) -> int:
        """The tokens that could be condensed: everything since the last summary."""
        first, counts = self.visible_messages[:1], self.estimator.message_token_cache
        summary = counts.estimate(first[0]) if first and first[0].is_summary else 0
        return self.estimator.scale_estimate(self._conversation_totals.prefix_sums[-1] - summary)

    @property
    def max_conversation_chars(self) -> int:
        """The maximum length of the whole conversation."""
        tokens = (
            self.window.soft_limit - self.estimator.scale_estimate(self.system_tokens)
        ) / self.estimator.clamped_ratio
        return max(_MIN_CONVERSATION_CHARS, int(tokens) * CHARACTERS_PER_TOKEN)


CONDENSE_STOPPED_TEXT = "Condensing was stopped. Nothing has changed."
_MAX_LISTED_FILES = 100
_MAX_OUTLINED_FILES = 15
_MIN_SUMMARY_TOKENS = 100
"""A conversation that would not get shorter by it is left alone."""
_MAX_OVERFLOW_RETRIES = 3
_OUTPUT_TOKENS_PER_WORD = 3
_MIN_OUTPUT_TOKENS_PER_WORD = 2
_MAX_THOUGHT_TOKENS = 2_000
"""Before the summary itself."""
_TRANSCRIPT_FAILURES = frozenset(
    {
        ProviderFailureKind.INVALID_REQUEST,
        ProviderFailureKind.CONTEXT_OVERFLOW,
        ProviderFailureKind.EMPTY_REPLY,
    }
)
"""Failures of a request for a summary after which a transcript may work."""


async def condense(
    task: Task, instructions: str = "", following_content: Sequence[UserBlock] = ()
) -> ContextCondensed:
    """Replace the conversation by a summary. `following_content` follows it and is not repeated.
    Raises CondenseError; then nothing has changed."""
    check_condensable(task, following_content)
    api, context = task.recorder.api_history, ContextUsage(task)
    messages = (*context.visible_messages, *context.open_result_messages)
    before = context.estimated_tokens - context.system_tokens
    budget = SummaryBudget.from_total_chars(context.max_conversation_chars)
    preserved = _collect_preserved_context(task, following_content)
    outlined = structs.replace(preserved, outlines=await _collect_outlines(task, budget.file_chars))
    if _count_min_summary_tokens(outlined, budget) < before:
        preserved = outlined
    ts = task.next_ts()
    task.publish(RowOpened(ts=ts, say=RowKind.CONDENSE_CONTEXT))
    writer = _SummaryWriter(task, budget, instructions)
    try:
        summary = await writer.write(messages, writer.build_appended_request(context))
        content = build_summary_content(summary, preserved, budget)
        after = estimate_blocks_tokens(content)
        if after >= before:
            raise CondenseError("The summary would be longer than the conversation itself.")
        if task.recorder.api_history is not api:
            raise CondenseError("The conversation has changed while it was summed up.")
    except asyncio.CancelledError:
        writer.publish_failure(ts, CONDENSE_STOPPED_TEXT)
        raise
    except CondenseError as error:
        writer.publish_failure(ts, str(error))
        raise
    event = ContextCondensed(
        ts=ts,
        condense_id=f"condense_{ts}",
        summary=summary,
        content=content,
        tokens_before=context.count_request_tokens(),
        tokens_after=context.project_request_tokens(after),
        usage=writer.usage,
        cost=None if writer.usage is None else writer.usage.cost,
    )
    task.publish(event)
    task.publish(UsageChanged(ts=task.next_ts(), usage=task.usage))
    await task.recorder.commit()
    return event


def check_condensable(task: Task, following_content: Sequence[UserBlock] = ()) -> None:
    """Raises CondenseError unless a summary could be shorter than what it replaces."""
    context = ContextUsage(task)
    messages = (*context.visible_messages, *context.open_result_messages)
    if not any(message.role == "assistant" for message in messages):
        raise CondenseError("There is nothing to condense.")
    min_tokens = _count_min_summary_tokens(
        _collect_preserved_context(task, following_content),
        SummaryBudget.from_total_chars(context.max_conversation_chars),
    )
    if min_tokens >= context.estimated_tokens - context.system_tokens:
        raise CondenseError("There is nothing to condense: a summary would not be shorter.")


def _count_min_summary_tokens(preserved: PreservedContext, budget: SummaryBudget) -> int:
    """Count the tokens of the shortest summary with everything that is kept."""
    return (
        estimate_blocks_tokens(build_summary_content("", preserved, budget)) + _MIN_SUMMARY_TOKENS
    )


def _collect_preserved_context(
    task: Task, following_content: Sequence[UserBlock]
) -> PreservedContext:
    projection = task.recorder.projection
    again = extract_text(tuple(following_content))
    return PreservedContext(
        task=projection.prompt.text if projection.prompt is not None else "",
        user_messages=[
            said.text
            for said in projection.recent_user_messages
            if said.text and said.text not in again
        ],
        slash_commands=prompts.find_slash_commands(task.recorder.api_history.first_message),
        todos=projection.todos,
        mode=f"{task.mode.slug} ({task.mode.name})",
        file_names=[
            resolved.display_path
            for resolved in task.runtime.read_tracker.list_recent_paths(_MAX_LISTED_FILES)
        ],
    )


async def _collect_outlines(task: Task, remaining_chars: int) -> list[str]:
    """Collect outlines of the latest files; unreadable ones are left out."""
    outlines, found = task.runtime.capabilities.outlines, list[str]()
    if outlines is None:
        return found
    for resolved in task.runtime.read_tracker.list_recent_paths(_MAX_OUTLINED_FILES):
        if remaining_chars <= 0:
            break
        if not outlines.supports(resolved.path.name):
            continue
        try:
            definitions = await parse_definitions(resolved, outlines, task.runtime.files)
        except ToolError:
            continue  # the name stays in the list of files
        if definitions:
            found.append(format_definitions(resolved.display_path, definitions))
            remaining_chars -= len(found[-1])
    return found


class _SummaryWriter:
    """Requests a summary, repeatedly if needed, and counts the usage."""

    def __init__(self, task: Task, budget: SummaryBudget, instructions: str) -> None:
        self._task = task
        others = task.runtime.mode_providers
        self._provider: Provider = (others and others.find(SUMMARY_PROFILE_KEY)) or task.provider
        if others is not None and (problem := others.take_error(SUMMARY_PROFILE_KEY)) is not None:
            text = f"condensingProfile: the model of the task writes the summary. {problem}"
            task.add_row(RowKind.ERROR, text)
        summary_length = max(100, min(2_000, budget.summary_chars // 12))
        self._max_output_tokens = _OUTPUT_TOKENS_PER_WORD * summary_length + _MAX_THOUGHT_TOKENS
        self._min_output_tokens = _MIN_OUTPUT_TOKENS_PER_WORD * summary_length
        self._instruction = prompts.build_condense_instruction(
            task.runtime.settings.custom_condensing_prompt, instructions, summary_length
        )
        self.usage: Usage | None = None

    def build_appended_request(self, context: ContextUsage) -> ModelRequest | None:
        """Build the task's next request with the instruction at its end, most of which the service
        has cached: only long texts of its last message may be cut. None if another model writes the
        summary, the window has no room even so, or a call is open."""
        task = self._task
        instruction = TextBlock(f"{prompts.APPENDED_INTRODUCTION}\n\n{self._instruction}")
        messages = task.recorder.api_history.build_current_messages()
        last = messages[-1]
        if self._provider is not task.provider or any(
            isinstance(block, ToolUseBlock) for block in get_blocks(last)
        ):
            return None
        used = context.count_request_tokens((instruction,))
        max_used = context.limit_prompt(self._min_output_tokens)
        if last.role == "user":
            last, saved = _shorten_message(last, used - max_used, context.estimator)
            used -= saved
        if used > max_used:
            return None
        if last.role == "user":
            content = (*get_blocks(last), instruction)
            messages[-1] = structs.replace(last, content=content)
        else:
            messages.append(Message(role="user", content=(instruction,)))
        system, tools = build_system_prompt_and_tools(task)
        return ModelRequest(
            system_prompt=system,
            messages=tuple(messages),
            tools=tools,
            tool_protocol=task.protocol,
            task_id=task.id,
            max_output_tokens=min(self._max_output_tokens, context.window.size - used),
        )

    async def write(
        self, messages: Sequence[Message], appended_request: ModelRequest | None = None
    ) -> str:
        """Raises CondenseError."""
        budget = start_retry_budget(self._task, self._provider)
        max_tokens, shrinkings = self._max_conversation_tokens, 0
        while True:
            try:
                if appended_request is not None:
                    return await self._request_summary(appended_request, offers_tools=True)
                text = await asyncio.to_thread(_fit_transcript, messages, max_tokens)
                return await self._request_summary(self._build_transcript_request(text))
            except ProviderError as error:
                if appended_request is not None and error.failure in _TRANSCRIPT_FAILURES:
                    appended_request = None
                    continue
                if (
                    error.failure is ProviderFailureKind.CONTEXT_OVERFLOW
                    and shrinkings < _MAX_OVERFLOW_RETRIES
                ):
                    shrinkings += 1
                    max_tokens //= 2
                    continue
                was_empty = error.failure is ProviderFailureKind.EMPTY_REPLY and budget.attempts > 0
                wait = None if was_empty else budget.consume_retry(error)
                if wait is None:
                    raise CondenseError(f"No summary could be written: {error}") from error
                await wait_with_countdown(self._task, error, wait, budget)

    @property
    def _max_conversation_tokens(self) -> int:
        """Return the tokens that the conversation may take by joey's estimate."""
        window = ContextWindow.from_model(self._provider.model)
        own = estimate_text_tokens(prompts.CONDENSE_SYSTEM_PROMPT) + estimate_text_tokens(
            self._instruction
        )
        is_own_model = self._provider.model.id == self._task.provider.model.id
        scale = self._task.token_estimator.clamped_ratio if is_own_model else 1.0
        return int((window.soft_limit - own) / scale) - _MIN_SUMMARY_TOKENS

    def _build_transcript_request(self, text: str) -> ModelRequest:
        content = (TextBlock(text), TextBlock(self._instruction))
        message = Message(role="user", content=content)
        return ModelRequest(
            system_prompt=prompts.CONDENSE_SYSTEM_PROMPT,
            messages=(message,),
            task_id=self._task.id,
            max_output_tokens=self._max_output_tokens,
        )

    async def _request_summary(self, request: ModelRequest, *, offers_tools: bool = False) -> str:
        """Request the summary; with `offers_tools`, a reply with a call is not a summary, but the
        model working on."""
        pieces: list[str] = []
        repetition = RepetitionDetector()
        has_call = False
        usage: Usage | None = None
        await wait_for_admission(self._task, self._provider)
        try:
            async with aclosing(self._provider.stream(request)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    match chunk:
                        case TextChunk():
                            pieces.append(chunk.text)
                            repetition.feed(chunk.text)
                        case CallChunk():
                            has_call = True
                        case UsageChunk():
                            usage = chunk.usage
                    if repetition.period:
                        break
        finally:
            if usage is not None:  # rates depend on the input of the single request
                usage = structs.replace(usage, cost=self._provider.model.compute_cost(usage))
            self.usage = _add_usage(self.usage, usage)
        summary = "".join(pieces)
        if repetition.period:
            summary = cut_repetition(summary, repetition.period)
        summary = summary.strip()
        if not summary or (offers_tools and (has_call or self._begins_call(summary))):
            raise ProviderError(
                "The model's summary was empty.", failure=ProviderFailureKind.EMPTY_REPLY
            )
        return summary

    def _begins_call(self, text: str) -> bool:
        """Whether a line is the opening tag of a tool."""
        tags = {f"<{name}>" for name in self._task.runtime.tool_set.names}
        return not tags.isdisjoint(line.strip() for line in text.splitlines())

    def publish_failure(self, ts: int, reason: str) -> None:
        """Close the row and count the usage."""
        task = self._task
        if self.usage is not None:
            task.publish(
                RequestEnded(
                    ts=task.next_ts(),
                    request_ts=ts,
                    usage=self.usage,
                    cost=self.usage.cost,
                    cancel_reason=CancelReason.STREAMING_FAILED,
                    error=reason,
                )
            )
            task.publish(UsageChanged(ts=task.next_ts(), usage=task.usage))
        task.add_row(RowKind.CONDENSE_CONTEXT_ERROR, reason, ts)


def _shorten_message(
    message: Message, excess_tokens: int, estimator: TokenEstimator
) -> tuple[Message, int]:
    """Cut the long texts of a message to save so many tokens, if possible; return the saved
    tokens."""
    shorter, saved, max_chars = message, 0, MAX_TRUNCATED_TEXT_CHARS
    before = estimate_blocks_tokens(get_blocks(message))
    while saved < excess_tokens and max_chars >= MIN_TRUNCATED_TEXT_CHARS:
        shorter = truncate_message(message, max_chars)
        saved = estimator.scale_estimate(before - estimate_blocks_tokens(get_blocks(shorter)))
        max_chars //= 2
    return shorter, saved


def _fit_transcript(messages: Sequence[Message], max_tokens: int) -> str:
    """Render the conversation as text that is certainly within so many tokens."""
    max_chars = max(0, max_tokens) * CHARACTERS_PER_TOKEN
    text = prompts.render_transcript(messages, max_chars)
    while max_chars > CHARACTERS_PER_TOKEN and (counted := estimate_text_tokens(text)) > max(
        max_tokens, 1
    ):
        max_chars = min(max_chars * 9 // 10, max_chars * max_tokens // counted)
        text = prompts.render_transcript(messages, max_chars)
    return text


def _add_usage(first: Usage | None, second: Usage | None) -> Usage | None:
    if first is None or second is None:
        return first or second
    costs = [usage.cost for usage in (first, second) if usage.cost is not None]
    return structs.replace(
        first,
        input=first.input + second.input,
        output=first.output + second.output,
        cache_writes=first.cache_writes + second.cache_writes,
        cache_reads=first.cache_reads + second.cache_reads,
        cost=sum(costs) if costs else None,
    )


class _CondenseRequest(Struct, frozen=True):
    instructions: str
    future: asyncio.Future[ContextCondensed]


class CondenseRequests:
    """Holds a user's request for a summary, one at a time."""

    def __init__(self) -> None:
        self._pending_request: _CondenseRequest | None = None

    def submit(self, task: Task, instructions: str) -> asyncio.Future[ContextCondensed]:
        """Submit a request. Raises CondenseError if there is nothing to condense."""
        if self._pending_request is not None:
            raise CondenseError("The conversation is about to be condensed already.")
        if not task.is_running or task.state in IDLE_STATES:  # it may still be saving
            _check_can_condense(task)
        future: asyncio.Future[ContextCondensed] = asyncio.get_running_loop().create_future()
        # The caller need not wait: a row shows the same.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending_request = _CondenseRequest(instructions, future)
        if not task.is_running:
            task.run_job(self._run_while_idle(task))
        return future

    async def run_pending(self, task: Task) -> bool:
        """Run the request, if there is one, and report to its caller whether it worked."""
        if (request := self._pending_request) is None:
            return False
        try:
            _check_can_condense(task)
        except CondenseError as error:
            task.add_row(RowKind.CONDENSE_CONTEXT_ERROR, str(error))
            self._finish_pending_request(error)
            return True
        try:
            event = await condense(task, request.instructions)
        except CondenseError as error:
            self._finish_pending_request(error)
        except BaseException as error:
            self._finish_pending_request(
                error if isinstance(error, Exception) else CondenseError(CONDENSE_STOPPED_TEXT)
            )
            raise
        else:
            self._finish_pending_request(event)
        return True

    def handle_run_end(self, task: Task, was_stopped: bool) -> None:
        """Handle a pending request when a run ends, unless a user stopped the run."""
        if self._pending_request is None:
            return
        if was_stopped:
            self._finish_pending_request(CondenseError(CONDENSE_STOPPED_TEXT))
        else:
            task.run_job(self._run_while_idle(task))

    async def _run_while_idle(self, task: Task) -> None:
        try:
            await self.run_pending(task)
        except StoreError as error:
            task.handle_storage_failure(error)
        else:
            await task.save()

    def _finish_pending_request(self, outcome: ContextCondensed | BaseException) -> None:
        request, self._pending_request = self._pending_request, None
        if request is None or request.future.done():
            return
        if isinstance(outcome, ContextCondensed):
            request.future.set_result(outcome)
        else:
            request.future.set_exception(outcome)


def _check_can_condense(task: Task) -> None:
    check_condensable(task)
    if task.recorder.pending_delegations:
        raise CondenseError("Its subtasks have not returned: resume the task first.")
