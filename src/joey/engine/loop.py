"""The task loop. Start reading here.

A task is a conversation that continues until its result is accepted. Each iteration:

1. `check_limits`   ask the user when failures pile up or a limit is reached (`limits`)
2. `build_request`  build the next message: queued user messages and the environment details; if
                    the context window gets full, condense or hide earlier messages (`request`)
3. `request_reply_with_retry`  stream the model's reply (`request`); it is committed to the journal
                    before anything acts on it
4. `process_reply`  run its tool calls in order, asking for approval where the rules require it
                    (`tool_calls`), and wait for delegated work (`subtasks`); an accepted result
                    ends the task; a reply without calls gets one reminder, and is taken as the
                    answer after that (`completion`)
5. `commit_turn`    make the results durable before the next request

Everything the loop reports is an event, and both histories are folded from events: there is nothing
to save here, and the process may end at any line without losing acknowledged input.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from joey.core.events import RequestStarted, UserMessage
from joey.core.messages import CallPart, TextBlock, UserBlock, build_image_block
from joey.core.models import ModelRequest
from joey.core.prompts import messages_to_model
from joey.core.prompts.environment import strip_environment_details
from joey.core.task_types import AskKind, Response
from joey.engine.asks import publish_feedback
from joey.engine.checkpoints import prewarm_initial_checkpoint
from joey.engine.completion import (
    close_completion_call,
    list_available_tools,
    process_plain_reply,
)
from joey.engine.environment import (
    build_environment_blocks,
    observe_environment,
    record_environment,
)
from joey.engine.limits import (
    FAILURE_LIMIT_QUESTION,
    REPEATED_ROUNDS_QUESTION,
    FailureCounter,
    RunLimits,
    ensure_run_within_budget,
    wait_for_admission,
)
from joey.engine.message_expansion import expand_message
from joey.engine.outcomes import (
    Aborted,
    CommittedReply,
    Completed,
    Continue,
    Ending,
    Failed,
    RowCall,
    RunStopped,
    StoppedByUser,
)
from joey.engine.protocol import prepare_model
from joey.engine.request import build_model_request, fit_context, request_reply_with_retry
from joey.engine.run_start import (
    RunStart,
    build_first_content,
    record_working_conditions,
    reload_customizations,
    warn_missing_profile,
)
from joey.engine.tool_calls import ToolCallRunner
from joey.errors import FailureCode

if TYPE_CHECKING:
    from joey.engine.task import Task


async def run(task: Task, run_start: RunStart, run_limits: RunLimits) -> Ending:
    """Work until the result is accepted, the run limits are used up, or the user stops the task."""
    try:
        async with asyncio.timeout_at(run_limits.deadline) as limit:
            return await _run_until_completed(task, run_start, run_limits)
    except StoppedByUser:
        return Aborted()
    except RunStopped as stop:
        return Failed(stop.code, stop.message)
    except TimeoutError:
        if not limit.expired():
            raise
        return run_limits.timeout_failure


async def _run_until_completed(task: Task, run_start: RunStart, run_limits: RunLimits) -> Completed:
    limit = task.runtime.settings.consecutive_mistake_limit
    failures = FailureCounter(limit, is_unattended=task.asks.is_unattended)
    task.known_environment = None
    await asyncio.gather(
        record_working_conditions(task), reload_customizations(task), prepare_model(task)
    )
    content = await build_first_content(task, run_start)
    if run_start is RunStart.RESUME:
        await reload_customizations(task)  # the answer may come days after the question
    await ToolCallRunner(task, failures).resume_pending_subtasks()
    is_first = True
    while True:
        content += await check_limits(task, failures, run_limits)
        request, request_ts = await build_request(task, content)
        if is_first:  # not earlier: preparing the request would wait for it
            prewarm_initial_checkpoint(task)
            is_first = False
        reply = await request_reply_with_retry(task, request, request_ts)
        match await process_reply(task, reply, failures):
            case Completed() as completed:
                return completed
            case Continue(content):
                await commit_turn(task)


async def check_limits(
    task: Task, failures: FailureCounter, run_limits: RunLimits
) -> tuple[UserBlock, ...]:
    """Ask the user if a limit is reached; their advice becomes part of the next message."""
    blocks = await run_limits.consume_turn(task)
    repeats_rounds = failures.repeated_round_detector.is_limit_reached
    if not repeats_rounds and not failures.is_limit_reached:
        if failures.is_warning_due:  # no user can help the model before its mistakes end the run
            left = failures.limit - failures.count
            text = messages_to_model.render_failure_warning(
                failures.count, left, failures.last_errors
            )
            blocks += (TextBlock(text),)
        return blocks
    question = REPEATED_ROUNDS_QUESTION if repeats_rounds else FAILURE_LIMIT_QUESTION
    answer = await task.ask(AskKind.MISTAKE_LIMIT_REACHED, question)
    failures.reset()
    failures.repeated_round_detector.reset()
    publish_feedback(task, answer)
    if answer.response is Response.NO:
        behavior = "repeating itself" if repeats_rounds else "making mistakes"
        raise RunStopped(
            FailureCode.REPEATED_FAILURES,
            f"Stopped: the model kept {behavior}.",
        )
    if answer.text:
        blocks += (TextBlock(messages_to_model.render_guidance(answer.text)),)
    return (*blocks, *(build_image_block(uri) for uri in answer.images))


async def build_request(task: Task, content: tuple[UserBlock, ...]) -> tuple[ModelRequest, int]:
    """Build the next request: results so far, then `content`, queued messages, the environment.
    Room is made before any of it is announced, so that a summary only covers the results."""
    task.messages_closed_ts = task.next_ts()
    queued_messages = task.recorder.projection.queued_messages.values()
    queued = tuple(queued_messages)[: task.max_queued_per_request]
    for message in queued:
        content += await expand_message(task, message.text, message.images)
    await task.runtime.wait_for_mcp(task.mode)
    await prepare_model(task)  # that of another mode
    sent = task.recorder.api_history.request_messages
    is_first = not sent or (len(sent) == 1 and not sent[0].is_summary)  # or no reply
    environment = await observe_environment(task, with_files=is_first)
    blocks = build_environment_blocks(task, environment)
    ensure_run_within_budget(task)
    content = await fit_context(task, (*content, *blocks))
    ensure_run_within_budget(task)
    if (all_blocks := build_environment_blocks(task, environment)) != blocks:
        # Earlier reports were summarised or hidden.
        content = (*strip_environment_details(content), *all_blocks)
    await wait_for_admission(task, task.provider)
    record_environment(task, environment)
    for message in queued:
        task.publish(UserMessage(ts=task.next_ts(), text=message.text, images=message.images))
    warn_missing_profile(task)
    request_ts = task.next_ts()
    task.publish(
        RequestStarted(
            ts=request_ts,
            api_protocol=task.provider.api_protocol,
            content=content,
            dequeued_ids=tuple(message.id for message in queued),
        )
    )
    task.messages_closed_ts = None
    return build_model_request(task), request_ts


async def process_reply(
    task: Task, reply: CommittedReply, failures: FailureCounter
) -> Completed | Continue:
    """Run the calls of the reply; an accepted result ends the task."""
    first = task.recorder.api_history.visible_messages[0]
    failures.repeated_round_detector.start_round_if_new_summary(
        str(first.condense_id) if first.is_summary else None
    )
    calls = [
        RowCall(each.part.call, each.ts) for each in reply.parts if isinstance(each.part, CallPart)
    ]
    if not calls:
        return await process_plain_reply(task, reply, failures)
    failures.plain_reply_texts.clear()
    failures.cut_reply_text = ""
    failures.unusable_reply_count = 0
    runner = ToolCallRunner(task, failures, has_failure=reply.unusable_call is not None)
    await runner.run(calls)
    if runner.is_stopped and not task.recorder.projection.queued_messages:
        raise StoppedByUser
    if runner.accepted_result is None:
        if reply.is_repetitive:
            return Continue((TextBlock(messages_to_model.REPETITIVE_REPLY_TEXT),))
        if reply.unusable_call is None:
            return Continue()
        skipped = messages_to_model.render_unusable_part(
            reply.unusable_call, list_available_tools(task)
        )
        return Continue((TextBlock(skipped),))
    if not task.recorder.projection.queued_messages:
        return Completed(runner.accepted_result)
    close_completion_call(task)  # messages that arrived meanwhile keep the task running
    return Continue()


async def commit_turn(task: Task) -> None:
    """Make the results durable; write the history files now and then."""
    await task.recorder.commit()
    if task.recorder.is_snapshot_due:
        await task.save()
