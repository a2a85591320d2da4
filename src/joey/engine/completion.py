"""Completion: a result, accepted or sent back, and the answer to its call when a task continues.

A result is checked, shown, and presented to the user or the waiting parent task. A reply without
tool calls is a result too. But if the mode may edit files or run commands, a model that only talks
has most likely forgotten to act, and gets one reminder first. Without a user, such a reply is no
result while a command runs for which the model may want to wait.

A result that recorded facts contradict is sent back once, with the facts (decision D78).

Commands that are still running are named in the result. Without a user, the result first waits for
those that went to the background because they took long, for the remaining time of the run and at
most ten minutes; servers and other commands that were given a `timeout` or started with `&` are not
waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from joey.core.check_commands import find_checks, is_known_check
from joey.core.diagnostics import find_remaining, format_diagnostics
from joey.core.events import (
    BackgroundCommand,
    CompletionSentBack,
    TaskCompleted,
    ToolFinished,
    ToolStarted,
)
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.history.usage_ledger import add_to_tallies
from joey.core.messages import TextBlock, TextPart, ToolCall, build_image_block
from joey.core.permissions.policy import Access, Allow, Ask, Claim, decide
from joey.core.prompts import messages_to_model
from joey.core.task_types import Answer, AskKind, Response, RowKind
from joey.core.text import compile_regex, to_one_line
from joey.engine.asks import publish_feedback
from joey.engine.environment import record_ended_commands
from joey.engine.hooks import run_completion_hooks
from joey.engine.limits import FailureCounter
from joey.engine.message_expansion import expand_message
from joey.engine.outcomes import CommittedReply, Completed, Continue
from joey.engine.protocol import MAX_UNUSABLE_REPLIES, change_after_unusable_calls
from joey.errors import ToolError, ToolErrorWithReply

if TYPE_CHECKING:
    from joey.engine.task import Task
    from joey.ports.execution import RunningCommand


FINISH_TASK_ROW_TEXT = '{"tool":"finishTask"}'
"""What the row says in which a subtask hands over its result."""
_WORD_SEPARATOR_RE = compile_regex(r"\W+")


async def present_result(
    task: Task, result: str, row_ts: int, call: ToolCall | None = None
) -> Answer | None:
    """Present a result and return the answer; None if the rules accept it. A plain answer has no
    call. Raises ToolError if the result is rejected before it is shown, RunStopped if it never had
    the required format. The result as presented is `task.result`."""
    projection = task.recorder.projection
    has_open_todos = any(todo.status != "completed" for todo in projection.todos)
    if has_open_todos and task.runtime.settings.prevent_completion_with_open_todos:
        raise ToolError(messages_to_model.OPEN_TODOS_TEXT)
    if task.runtime.result_validator is not None:
        await task.runtime.result_validator.validate(result)
    commands = await _settle_background_commands(task)
    await _check_facts(task)
    if task.runtime.result_validator is None:
        result = "\n\n".join((result, *map(describe_background_command, commands)))
    await run_completion_hooks(task, call, result)
    task.add_row(RowKind.COMPLETION_RESULT, result, row_ts)
    tallies = projection.ledger.tool_tallies
    task.publish(
        TaskCompleted(
            ts=task.next_ts(),
            result=result,
            usage=projection.usage,
            tool_usage=tallies if call is None else add_to_tallies(tallies, COMPLETION_TOOL_NAME),
            is_plain_answer=call is None,
            background_commands=commands,
        )
    )
    call_id = None if call is None else call.id
    if task.has_waiting_parent:
        return await _hand_over_to_parent(task, call_id)
    answer = await task.ask(AskKind.COMPLETION_RESULT, call_id=call_id)
    publish_feedback(task, answer)
    return answer


_MAX_COMMAND_WAIT_S = 600.0
_DEADLINE_MARGIN_S = 2.0
"""Left of the run's time when the result is presented."""


async def _settle_background_commands(task: Task) -> tuple[BackgroundCommand, ...]:
    """Wait for commands if no user will, and record how they ended. Returns those that ran."""
    commands = [each for each in task.runtime.terminal.background_commands if each.is_running]
    if task.asks.is_unattended:
        deadline = None if task.run_limits is None else task.run_limits.deadline
        left_s = _MAX_COMMAND_WAIT_S
        if deadline is not None:
            now = asyncio.get_running_loop().time()
            left_s = min(left_s, max(0.0, deadline - now - _DEADLINE_MARGIN_S))
        awaited = (each for each in commands if each.is_expected_to_end)
        await asyncio.gather(*(each.wait_for_processes(left_s) for each in awaited))
    record_ended_commands(task)
    return tuple(
        BackgroundCommand(each.command, is_running=True)
        if each.is_running or each.exit is None
        else BackgroundCommand(each.command, False, each.exit.exit_code, each.exit.signal)
        for each in commands
    )


def describe_background_command(
    command: BackgroundCommand, running: str = "Still running when the task completed"
) -> str:
    """Describe a command in a sentence, which begins with `running` if the command had not
    ended."""
    name = f"`{to_one_line(command.command)}`"
    if command.is_running:
        return f"{running}: {name}"
    status = f"signal {command.signal}" if command.signal else f"exit code {command.exit_code}"
    return f"Ended in the background: {name} ({status})"


_MAX_REPORTED_ERRORS = 5


async def _check_facts(task: Task) -> None:
    """Check the result against recorded facts. Raises ToolErrorWithReply if they contradict it and
    none was sent back since the user's last message."""
    facts = task.recorder.projection.completion_facts
    if facts.was_sent_back or task.runtime.settings.confirm_completion == "off":
        return
    if not _has_turn_left(task):
        return
    found = [failed.describe() for failed in facts.failed_commands if facts.has_edits]
    # Tests, linters and builds in the background, without those that a result waits for.
    running = [
        awaitable
        for each, awaitable in _list_unfinished_commands(task)
        if not (task.asks.is_unattended and each.is_expected_to_end)
        and is_known_check(find_checks(each.command, anywhere=True))
    ]
    found += (f"`{each.command}` is still running in the background." for each in running)
    files, diagnostics = task.runtime.files, task.runtime.capabilities.diagnostics
    if diagnostics is not None and facts.edit_errors:
        paths = dict.fromkeys(error.path for error in facts.edit_errors)
        current = await diagnostics.check_files([files.resolve(path) for path in paths])
        if errors := find_remaining(current, facts.edit_errors):
            listed = format_diagnostics(errors[:_MAX_REPORTED_ERRORS])
            found.append(f"An edit left new errors:\n{listed}")
    if found:
        task.publish(CompletionSentBack(ts=task.next_ts(), facts=tuple(found)))
        raise ToolErrorWithReply(
            "The result was sent back to the model once: " + "\n".join(found),
            messages_to_model.render_completion_sent_back(task.protocol, found, running),
            is_informative=True,
        )


async def _hand_over_to_parent(task: Task, call_id: str | None) -> Answer | None:
    """Return a subtask's result to its parent, if the rules or the user agree."""
    ts = task.next_ts()
    match decide((Claim(Access.DELEGATE),), task.runtime.settings):
        case Allow(rule):
            task.publish(
                ToolStarted(
                    ts=ts,
                    call_id=call_id or "",
                    tool=COMPLETION_TOOL_NAME,
                    text=FINISH_TASK_ROW_TEXT,
                    rule=rule,
                )
            )
            return None
        case decision:
            answer = await task.ask(
                AskKind.TOOL,
                FINISH_TASK_ROW_TEXT,
                ts=ts,
                call_id=call_id,
                tool=COMPLETION_TOOL_NAME,
                reasons=decision.reasons if isinstance(decision, Ask) else (decision.reason,),
            )
    publish_feedback(task, answer)
    return answer


async def process_plain_reply(
    task: Task, reply: CommittedReply, failures: FailureCounter
) -> Completed | Continue:
    """Tell the model what its reply lacks, or present its text as the result."""
    texts = {
        placed.ts: text
        for placed in reply.parts
        if isinstance(placed.part, TextPart) and (text := placed.part.text.strip())
    }
    texts_so_far = failures.plain_reply_texts
    if reply.unusable_call is not None and not reply.is_cut_off:
        failures.unusable_reply_count += 1
        if failures.unusable_reply_count == MAX_UNUSABLE_REPLIES:
            change_after_unusable_calls(task)
    else:
        failures.unusable_reply_count = 0
    problem = _find_problem(task, reply, has_text=bool(texts))
    can_continue = reply.is_cut_off and not reply.is_repetitive
    is_continued = bool(failures.cut_reply_text)
    if texts and reply.unusable_call is None and (can_continue or not problem):
        text = _continue_text(failures.cut_reply_text, "\n\n".join(texts.values()))
        failures.cut_reply_text = text if can_continue else ""
        texts_so_far += [] if can_continue else [text]
    if problem:
        failures.record_failure((problem.partition("\n")[0],))
        return Continue((TextBlock(problem),))
    row_ts = max(texts)
    is_first = len(texts_so_far) == 1 and not is_continued
    if is_first and task.mode.can_edit_or_run and not _is_last_word(task):
        reminder = messages_to_model.render_no_tool_used(
            task.protocol, texts_so_far[0], can_ask=_can_ask(task)
        )
        return Continue((TextBlock(reminder),))
    # A result that must match a schema is for a program: nothing may precede it.
    needs_schema = task.runtime.result_validator is not None
    answer = texts_so_far[-1] if needs_schema else _join_distinct(texts_so_far[-2:])
    try:
        response = await present_result(task, answer, row_ts)
    except ToolError as error:
        if not error.is_informative:
            failures.record_failure((str(error),))
        task.add_row(RowKind.ERROR, str(error))
        reply_text = error.reply if isinstance(error, ToolErrorWithReply) else str(error)
        return Continue((TextBlock(reply_text),))
    failures.reset()
    failures.plain_reply_texts.clear()
    if response is not None and not response.approves:
        if response.text:
            return Continue(await expand_message(task, response.text, response.images))
        feedback = messages_to_model.render_completion_feedback(
            "", len(response.images), is_rejected=response.response is Response.NO
        )
        return Continue((TextBlock(feedback), *map(build_image_block, response.images)))
    if task.recorder.projection.queued_messages:
        return Continue()
    return Completed(task.result or answer, answered=True)


def _find_problem(task: Task, reply: CommittedReply, *, has_text: bool) -> str:
    """Return why a reply without calls is not an answer, as a message for the model."""
    if reply.is_repetitive:
        return messages_to_model.REPETITIVE_REPLY_TEXT
    if reply.is_cut_off:
        return messages_to_model.CUT_OFF_REPLY_TEXT
    if reply.unusable_call is not None:
        return messages_to_model.render_unusable_call(
            task.protocol,
            reply.unusable_call,
            list_available_tools(task),
            task.runtime.render_xml_usage(reply.unusable_call.tool),
        )
    if not has_text:
        return messages_to_model.render_only_reasoning(task.protocol, can_ask=_can_ask(task))
    if commands := _list_awaitable_commands(task):
        return messages_to_model.render_running_commands(task.protocol, commands)
    return ""


def _list_awaitable_commands(task: Task) -> list[messages_to_model.AwaitableCommand]:
    """List running commands that only the model can wait for; servers and background processes run
    on purpose."""
    if not task.asks.is_unattended:
        return []
    return [awaitable for _, awaitable in _list_unfinished_commands(task)]


def _list_unfinished_commands(
    task: Task,
) -> list[tuple[RunningCommand, messages_to_model.AwaitableCommand]]:
    return [
        (
            each,
            messages_to_model.AwaitableCommand(
                to_one_line(each.command, cut_at_space=True), each.artifact.name, each.running_s
            ),
        )
        for each in task.runtime.terminal.background_commands
        if each.exit is None and each.artifact is not None and not each.is_listening
    ]


def list_available_tools(task: Task) -> list[str]:
    specs = task.runtime.build_tool_specs(task.mode, task.protocol, task.working_conditions)
    return [spec.name for spec in specs]


def _is_last_word(task: Task) -> bool:
    """Whether the model cannot be reminded and leaves no edit half-done."""
    return not _has_turn_left(task) and not task.recorder.projection.completion_facts.has_edits


def _has_turn_left(task: Task) -> bool:
    return task.run_limits is None or task.run_limits.has_turn_left


def _can_ask(task: Task) -> bool:
    return not task.working_conditions.is_unattended


def _continue_text(cut_text: str, text: str) -> str:
    """Join a text that was cut off, perhaps within a sentence, and what continues it."""
    is_in_sentence = not cut_text.endswith((".", "!", "?", ":", "`"))
    return _join_distinct((cut_text, text), " " if is_in_sentence else "\n\n")


def _join_distinct(texts: Sequence[str], separator: str = "\n\n") -> str:
    """Join the texts of the replies, unless one contains the other."""
    first, last = texts[0], texts[-1]
    first_flat, last_flat = (_WORD_SEPARATOR_RE.sub(" ", text).strip() for text in (first, last))
    if last_flat in first_flat:
        return first
    return last if first_flat in last_flat else f"{first}{separator}{last}"


def close_completion_call(task: Task) -> None:
    """Close a completion call that was still open when the result was accepted."""
    content = messages_to_model.COMPLETION_ACCEPTED_TEXT
    if not task.recorder.projection.is_result_seen_by_user:
        content = messages_to_model.COMPLETION_PRESENTED_TEXT
    for call in task.recorder.api_history.open_calls:
        if call.name == COMPLETION_TOOL_NAME:
            task.publish(
                ToolFinished(ts=task.next_ts(), call_id=call.id, tool=call.name, content=content)
            )
