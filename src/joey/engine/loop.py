"""The task loop. Start reading here.

A task is a conversation that continues until its result is accepted. Each iteration:

1. *heed*     ask the user when mistakes pile up or a limit is reached (`limits`)
2. *compose*  build the next message: queued user messages and the environment details
3. *make room*  if the context window gets full: condense or hide earlier messages (`request`)
4. *request*  stream the model's reply, with retries (`request`); it is committed to the journal
              before anything acts on it
5. *act*      run its tool calls in order, asking for approval where the rules require it
              (`tool_calls`), and wait for delegated work (`subtasks`)
6. *judge*    an accepted result ends the task; a reply without calls gets one reminder, and is
              taken as the answer after that (`completion`)

Everything the loop reports is an event, and both histories are folded from events: there is nothing
to save here, and the process may end at any line without losing acknowledged input.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.events import RequestStarted, RowPart, UserMessage
from joey.core.messages import CallPart, TextBlock, UserBlock, build_image_block
from joey.core.models import ModelRequest
from joey.core.prompts import replies
from joey.core.task import AskKind, Response
from joey.engine.asks import publish_feedback
from joey.engine.completion import close_completion, judge_plain_reply
from joey.engine.environment import describe_surroundings
from joey.engine.limits import (
    FAILURE_LIMIT_QUESTION,
    REPEATED_ROUNDS_QUESTION,
    FailureCounter,
    RunLimits,
    check_spending,
)
from joey.engine.mentions import expand_mentions
from joey.engine.outcomes import Completed, Continue, Failed, RowCall, RunStopped
from joey.engine.request import make_room, take_turn_with_patience
from joey.engine.run_start import (
    RunStart,
    first_content,
    reload_customizations,
    warn_missing_profile,
)
from joey.engine.runtime import prompt_of
from joey.engine.tool_calls import ToolCallRunner

if TYPE_CHECKING:
    from joey.engine.task import Task


async def run(task: Task, opening: RunStart, allowance: RunLimits) -> Completed | Failed:
    """Work until the result is accepted, the allowance is used up, or nobody wants to go on."""
    try:
        async with asyncio.timeout_at(allowance.deadline) as limit:
            return await _converse(task, opening, allowance)
    except RunStopped as stop:
        return Failed(stop.code, stop.message)
    except TimeoutError:
        if not limit.expired():
            raise
        return allowance.late


async def _converse(task: Task, opening: RunStart, allowance: RunLimits) -> Completed:
    limit = task.runtime.settings.consecutive_mistake_limit
    mistakes = FailureCounter(limit, is_unattended=task.asks.is_unattended)
    await reload_customizations(task)
    content = await first_content(task, opening)
    if opening is RunStart.RESUME:
        await reload_customizations(task)  # the answer may have come days after the question
    await ToolCallRunner(task, mistakes).take_up()
    while True:
        content += await check_limits(task, mistakes, allowance)
        request, request_ts = await compose(task, content)
        reply = await take_turn_with_patience(task, request, request_ts)
        match await act(task, reply, mistakes):
            case Completed() as completed:
                return completed
            case Continue(content):
                await keep(task)


async def check_limits(
    task: Task, mistakes: FailureCounter, allowance: RunLimits
) -> tuple[UserBlock, ...]:
    """Stop for a person where that is due; their advice becomes part of the next message."""
    blocks = await allowance.check(task)
    goes_round = mistakes.rounds.too_many
    if not goes_round and not mistakes.too_many:
        return (*blocks, *_warning(task, mistakes))
    question = REPEATED_ROUNDS_QUESTION if goes_round else FAILURE_LIMIT_QUESTION
    answer = await task.ask(AskKind.MISTAKE_LIMIT_REACHED, question)
    mistakes.forgive()
    mistakes.rounds.forgive()
    publish_feedback(task, answer)
    if answer.response is Response.NO:
        did = "doing the same after each summary" if goes_round else "making mistakes"
        raise RunStopped("mistakes", f"The model kept {did} and nobody told it how to go on.")
    if answer.text:
        blocks += (TextBlock(replies.render_guidance(task.recorder.facts.protocol, answer.text)),)
    return (*blocks, *(build_image_block(uri) for uri in answer.images))


def _warning(task: Task, mistakes: FailureCounter) -> tuple[UserBlock, ...]:
    """What the model is told where no user can help it, before its mistakes end the run."""
    if not mistakes.warning_due:
        return ()
    left = mistakes.limit - mistakes.count
    protocol = task.recorder.facts.protocol
    text = replies.render_failure_warning(protocol, mistakes.count, left, mistakes.errors)
    return (TextBlock(text),)


async def compose(task: Task, content: tuple[UserBlock, ...]) -> tuple[ModelRequest, int]:
    """The next request: results so far, then `content`, queued words, the surroundings.

    Room is made while nothing of it is announced: a summary covers the results, and is followed
    by these words.
    """
    runtime, facts = task.runtime, task.recorder.facts
    first = not task.recorder.api.messages
    queued = tuple(facts.queue.values())[: task.max_queued_per_request]
    for message in queued:
        content += await expand_mentions(task, message.text, message.images)
    await runtime.settle(task.mode)
    surroundings = await describe_surroundings(task, with_files=first)
    check_spending(task)
    content = await make_room(task, (*content, TextBlock(surroundings)))
    check_spending(task)
    for message in queued:
        task.publish(UserMessage(ts=task.now(), text=message.text, images=message.images))
    warn_missing_profile(task)
    request_ts = task.now()
    task.publish(
        RequestStarted(
            ts=request_ts,
            api_protocol=task.provider.api_protocol,
            content=content,
            dequeued_ids=tuple(message.id for message in queued),
        )
    )
    system, tools = prompt_of(task)
    request = ModelRequest(
        system=system,
        messages=tuple(task.recorder.api.messages),
        tools=tools,
        protocol=facts.protocol,
        task_id=task.id,
    )
    return request, request_ts


async def act(
    task: Task, reply: tuple[RowPart, ...], mistakes: FailureCounter
) -> Completed | Continue:
    """Run the calls of the reply, and judge what it leads to."""
    first = task.recorder.api.visible_messages[0]
    mistakes.rounds.after(str(first.condense_id) if first.is_summary else None)
    calls = [RowCall(p.part.call, p.ts) for p in reply if isinstance(p.part, CallPart)]
    if not calls:
        return await judge_plain_reply(task, reply, mistakes)
    mistakes.plain_replies.clear()
    dispatch = ToolCallRunner(task, mistakes)
    await dispatch.run(calls)
    return judge(task, dispatch.accepted)


def judge(task: Task, accepted: str | None) -> Completed | Continue:
    """What the calls of a reply lead to; `accepted` is the result that was."""
    if accepted is None:
        return Continue()
    if not task.recorder.facts.queue:
        return Completed(accepted)
    # Words came in while the result was accepted: the task goes on with them.
    close_completion(task)
    return Continue()


async def keep(task: Task) -> None:
    """Outcomes are safe before the next request goes out; files are renewed now and then."""
    await task.recorder.commit()
    if task.recorder.snapshot_due:
        await task.save()
