"""Condensing a conversation: its context usage, a summary by the model, users' requests for one.

The model reads the conversation as text and writes a summary. What must not depend on the model,
above all the user's own messages, is taken from the record and passed on next to the summary.
Nothing changes before the summary is complete: a cancelled or killed run leaves everything as it
was. The result is one event, or none.

A running task carries out a user's request before its next model request. A task at rest does so at
once and stays at rest: its state does not change, only what the model will be shown.

A `ContextUsage` is the context usage at one moment: the tokens that the next request takes of the
model's window. Create a new one after the history has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from joey.core.context import condense as prompts
from joey.core.context.condense import (
    PreservedContext,
    SummaryBudget,
    build_summary_content,
    find_commands,
    render_transcript,
)
from joey.core.context.window import (
    CHARACTERS_PER_TOKEN,
    ContextWindow,
    estimate_blocks_tokens,
    estimate_text_tokens,
)
from joey.core.events import ContextCondensed, RequestEnded, RowAdded, RowOpened, UsageChanged
from joey.core.messages import (
    Message,
    TextBlock,
    TextChunk,
    Usage,
    UsageChunk,
    UserBlock,
    extract_text,
)
from joey.core.models import ModelRequest
from joey.core.task import IDLE_STATES
from joey.engine.limits import RetryBudget, count_down
from joey.engine.runtime import prompt_of
from joey.errors import CondenseError, ProviderError, ProviderFailure, StoreError, ToolError
from joey.ports import Provider
from joey.tools.list_code_definition_names import definition_list, definitions_in

if TYPE_CHECKING:
    from joey.engine.task import Task


_MIN_CONVERSATION_CHARS = 6_000


class ContextUsage:
    """A look at one moment; make a new one after the history has changed."""

    def __init__(self, task: Task) -> None:
        model, facts, api = task.provider.model, task.recorder.facts, task.recorder.api
        self.gauge = task.gauge
        self.gauge.set_model(model.id, facts.request_count)
        self.window = ContextWindow.from_model(model)
        system, tools = prompt_of(task)
        self.head = estimate_text_tokens(system) + self.gauge.estimate_tools(tools)
        self._api = api
        self._shown = self.gauge.sum_messages(api.render_current())
        counted = facts.prompt_tokens
        if counted is not None and counted > self.window.size:
            counted = None  # more than fits, and yet answered: it counts something else
        self._counted = counted if self.gauge.is_count_current(facts.request_count) else None

    def use(self, content: Sequence[UserBlock] = ()) -> int:
        """The tokens of a request that says this after all that was said."""
        return self.gauge.estimate_usage(
            self.head, self._shown, estimate_blocks_tokens(content), self._counted
        )

    @property
    def visible(self) -> Sequence[Message]:
        """The messages behind it, each for itself."""
        return self._api.visible_messages

    @property
    def open_results(self) -> Sequence[Message]:
        return self._api.open_result_messages

    @property
    def estimate(self) -> int:
        """The same by our count alone, and without anything new."""
        return self.head + self._shown.prefix_sums[-1]

    def use_with(self, said: int) -> int:
        """What `use` would be if the conversation had this estimate; like is compared to like."""
        return self.use() * (self.head + said) // max(1, self.estimate)

    @property
    def said(self) -> int:
        """How much of it could be summed up: all that was said since the last summary."""
        first, counts = self.visible[:1], self.gauge.message_tokens
        summary = counts.estimate(first[0]) if first and first[0].is_summary else 0
        return self.gauge.scale_estimate(self._shown.prefix_sums[-1] - summary)

    @property
    def characters(self) -> int:
        """How long the whole conversation may be."""
        tokens = (self.window.soft_limit - self.gauge.scale_estimate(self.head)) / self.gauge.scale
        return max(_MIN_CONVERSATION_CHARS, int(tokens) * CHARACTERS_PER_TOKEN)


CONDENSE_ROW = "condense_context"
CONDENSE_ERROR_ROW = "condense_context_error"
CONDENSE_STOPPED_TEXT = "Condensing was stopped. Nothing has changed."
_MAX_LISTED_FILES = 100
_MAX_OUTLINED_FILES = 15
_MIN_SUMMARY_TOKENS = 100
"""Tokens; a conversation that would not get shorter by it is left alone."""
_MAX_OVERFLOW_RETRIES = 3


async def condense(
    task: Task, instructions: str = "", following_content: Sequence[UserBlock] = ()
) -> ContextCondensed:
    """Let a summary stand for all that was said. `following_content` follows it, and is not
    repeated.

    Raises:
        CondenseError: nothing has changed.
    """
    check_enough(task, following_content)
    api, room = task.recorder.api, ContextUsage(task)
    messages = (*room.visible, *room.open_results)
    before = room.estimate - room.head
    most = SummaryBudget.from_total_chars(room.characters)
    kept = _gather(task, following_content)
    outlined = structs.replace(kept, outlines=await _outlines(task, most.file_chars))
    if _least(outlined, most) < before:
        kept = outlined
    ts = task.now()
    task.publish(RowOpened(ts=ts, say=CONDENSE_ROW))
    writing = _SummaryWriter(task, most, instructions)
    try:
        summary = await writing.write(messages)
        content = build_summary_content(summary, kept, most)
        after = estimate_blocks_tokens(content)
        if after >= before:
            raise CondenseError("The summary would be longer than the conversation itself.")
        if task.recorder.api is not api:
            raise CondenseError("The conversation has changed while it was summed up.")
    except asyncio.CancelledError:
        writing.fail(ts, CONDENSE_STOPPED_TEXT)
        raise
    except CondenseError as error:
        writing.fail(ts, str(error))
        raise
    event = ContextCondensed(
        ts=ts,
        condense_id=f"condense_{ts}",
        summary=summary,
        content=content,
        tokens_before=room.use(),
        tokens_after=room.use_with(after),
        usage=writing.usage,
        cost=writing.cost,
    )
    task.publish(event)
    task.publish(UsageChanged(ts=task.now(), usage=task.usage))
    await task.recorder.commit()
    return event


def check_enough(task: Task, following_content: Sequence[UserBlock] = ()) -> None:
    """Raises CondenseError unless a summary could be shorter than what it stands for."""
    room = ContextUsage(task)
    messages = (*room.visible, *room.open_results)
    if not any(message.role == "assistant" for message in messages):
        raise CondenseError("There is nothing to condense.")
    least = _least(
        _gather(task, following_content), SummaryBudget.from_total_chars(room.characters)
    )
    if least >= room.estimate - room.head:
        raise CondenseError("There is nothing to condense: a summary would not be shorter.")


def _least(kept: PreservedContext, most: SummaryBudget) -> int:
    """The tokens of the shortest summary with all that is kept."""
    return estimate_blocks_tokens(build_summary_content("", kept, most)) + _MIN_SUMMARY_TOKENS


def _gather(task: Task, following_content: Sequence[UserBlock]) -> PreservedContext:
    facts = task.recorder.facts
    again = extract_text(tuple(following_content))
    return PreservedContext(
        task=facts.prompt.text if facts.prompt is not None else "",
        user_messages=[
            said.text for said in facts.recent_user_messages if said.text and said.text not in again
        ],
        commands=find_commands(task.recorder.api.first_message),
        todos=facts.todos,
        mode=f"{task.mode.slug} ({task.mode.name})",
        file_names=[
            place.display_path for place in task.runtime.memory.list_recent(_MAX_LISTED_FILES)
        ],
    )


async def _outlines(task: Task, most: int) -> list[str]:
    """What the latest files define; those that cannot be read or parsed are left out."""
    outlines, found = task.runtime.capabilities.outlines, list[str]()
    if outlines is None:
        return found
    for place in task.runtime.memory.list_recent(_MAX_OUTLINED_FILES):
        if most <= 0:
            break
        if not outlines.supports(place.path.name):
            continue
        try:
            definitions = await definitions_in(place, outlines, task.runtime.files)
        except ToolError:
            continue  # the name stays in the list of files
        if definitions:
            found.append(definition_list(place.display_path, definitions))
            most -= len(found[-1])
    return found


class _SummaryWriter:
    """The request for a summary, as often as it takes, and what that used."""

    def __init__(self, task: Task, most: SummaryBudget, instructions: str) -> None:
        self._task = task
        runtime, settings = task.runtime, task.runtime.settings
        self._provider: Provider = runtime.condenser or task.provider
        problem = runtime.others.take_summary_error() if runtime.others is not None else None
        if problem is not None:
            task.publish(RowAdded(ts=task.now(), say="error", text=problem))
        summary_length = max(100, min(2_000, most.summary_chars // 12))
        self._instruction = prompts.build_instruction(
            settings.custom_condensing_prompt, instructions, summary_length
        )
        self.usage: Usage | None = None

    @property
    def cost(self) -> float | None:
        return None if self.usage is None else self._provider.model.compute_cost(self.usage)

    async def write(self, messages: Sequence[Message]) -> str:
        """Raises CondenseError."""
        budget, room, shrinkings = RetryBudget(self._task.runtime.settings), self._room, 0
        while True:
            try:
                text = await asyncio.to_thread(_fitting, messages, room)
                return await self._ask(text)
            except ProviderError as error:
                if (
                    error.failure is ProviderFailure.CONTEXT_OVERFLOW
                    and shrinkings < _MAX_OVERFLOW_RETRIES
                ):
                    shrinkings += 1
                    room //= 2
                    continue
                was_empty = error.failure is ProviderFailure.EMPTY_REPLY and budget.attempts > 0
                wait = None if was_empty else budget.wait_after(error)
                if wait is None:
                    raise CondenseError(f"No summary could be written: {error}") from error
                await count_down(self._task, error, wait, budget)

    @property
    def _room(self) -> int:
        """Tokens that the conversation may take, by our estimate."""
        window = ContextWindow.from_model(self._provider.model)
        own = estimate_text_tokens(prompts.CONDENSE_SYSTEM_PROMPT) + estimate_text_tokens(
            self._instruction
        )
        is_own_model = self._provider.model.id == self._task.provider.model.id
        scale = self._task.gauge.scale if is_own_model else 1.0
        return int((window.soft_limit - own) / scale) - _MIN_SUMMARY_TOKENS

    async def _ask(self, text: str) -> str:
        content = (TextBlock(text), TextBlock(self._instruction))
        message = Message(role="user", content=content)
        request = ModelRequest(
            system=prompts.CONDENSE_SYSTEM_PROMPT, messages=(message,), task_id=self._task.id
        )
        pieces: list[str] = []
        usage: Usage | None = None
        try:
            async with aclosing(self._provider.stream(request)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    match chunk:
                        case TextChunk():
                            pieces.append(chunk.text)
                        case UsageChunk():
                            usage = chunk.usage
        finally:
            self.usage = _sum(self.usage, usage)
        summary = "".join(pieces).strip()
        if not summary:
            raise ProviderError(
                "The model's summary was empty.", failure=ProviderFailure.EMPTY_REPLY
            )
        return summary

    def fail(self, ts: int, reason: str) -> None:
        """Close the row, and count what was used."""
        task = self._task
        if self.usage is not None:
            task.publish(
                RequestEnded(
                    ts=task.now(),
                    request_ts=ts,
                    usage=self.usage,
                    cost=self.cost,
                    cancel_reason="streaming_failed",
                    error=reason,
                )
            )
            task.publish(UsageChanged(ts=task.now(), usage=task.usage))
        task.publish(RowAdded(ts=ts, say=CONDENSE_ERROR_ROW, text=reason))


def _fitting(messages: Sequence[Message], tokens: int) -> str:
    """The conversation as text that is surely within so many tokens."""
    most = max(0, tokens) * CHARACTERS_PER_TOKEN
    text = render_transcript(messages, most)
    while most > CHARACTERS_PER_TOKEN and (counted := estimate_text_tokens(text)) > max(tokens, 1):
        most = min(most * 9 // 10, most * tokens // counted)
        text = render_transcript(messages, most)
    return text


def _sum(first: Usage | None, second: Usage | None) -> Usage | None:
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
    granted: asyncio.Future[ContextCondensed]


class CondenseRequests:
    """One at a time."""

    def __init__(self) -> None:
        self._pending: _CondenseRequest | None = None

    def add(self, task: Task, instructions: str) -> asyncio.Future[ContextCondensed]:
        """Raises CondenseError: there is nothing to wish for."""
        if self._pending is not None:
            raise CondenseError("The conversation is about to be condensed already.")
        if not task.is_running or task.state in IDLE_STATES:  # its last words may still be saved
            _check(task)
        granted: asyncio.Future[ContextCondensed] = asyncio.get_running_loop().create_future()
        granted.add_done_callback(_look)
        self._pending = _CondenseRequest(instructions, granted)
        if not task.is_running:
            task.work(self._grant_at_rest(task))
        return granted

    async def grant(self, task: Task) -> bool:
        """Carry out the wish, if there is one; whether it worked is told to who waits for it."""
        if (request := self._pending) is None:
            return False
        try:
            _check(task)
        except CondenseError as error:
            task.publish(RowAdded(ts=task.now(), say=CONDENSE_ERROR_ROW, text=str(error)))
            self._settle(error)
            return True
        try:
            event = await condense(task, request.instructions)
        except CondenseError as error:
            self._settle(error)
        except BaseException as error:
            self._settle(
                error if isinstance(error, Exception) else CondenseError(CONDENSE_STOPPED_TEXT)
            )
            raise
        else:
            self._settle(event)
        return True

    def catch_up(self, task: Task, was_stopped: bool) -> None:
        """A run is over: grant what it did not get to, unless somebody stopped it."""
        if self._pending is None:
            return
        if was_stopped:
            self._settle(CondenseError(CONDENSE_STOPPED_TEXT))
        else:
            task.work(self._grant_at_rest(task))

    async def _grant_at_rest(self, task: Task) -> None:
        try:
            await self.grant(task)
        except StoreError as error:
            task.break_down(error)
        else:
            await task.save()

    def _settle(self, outcome: ContextCondensed | BaseException) -> None:
        request, self._pending = self._pending, None
        if request is None or request.granted.done():
            return
        if isinstance(outcome, ContextCondensed):
            request.granted.set_result(outcome)
        else:
            request.granted.set_exception(outcome)


def _check(task: Task) -> None:
    check_enough(task)
    if task.recorder.delegated:
        raise CondenseError("Its subtasks have not returned: resume the task first.")


def _look(granted: asyncio.Future[ContextCondensed]) -> None:
    """Nobody has to wait for it: a row tells the same."""
    if not granted.cancelled():
        granted.exception()
