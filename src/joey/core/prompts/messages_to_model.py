"""Messages that the model reads instead of, or along with, a plain tool result.

Texts are plain, with the user's messages in tags. Those without a protocol argument are the same in
native and XML tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from joey.core.file_state import FileDiffStat, WorktreeMergeResult
from joey.core.messages import UnusableCall
from joey.core.models import ToolProtocol
from joey.core.permissions.policy import BoundarySetting

NO_TOOL_HEADER = (
    "[ERROR] You did not use a tool in your previous response! Please retry with a tool use."
)

_XML_REMINDER = """\
# Reminder: Instructions for Tool Use

Tool uses are formatted using XML-style tags. The name of the tool is the outer tag, and each \
parameter has a tag of its own inside it:

{usage}

Write the tags directly, not inside a code block and not as JSON."""

_XML_USAGE = """\
<tool_name>
<first_parameter>its value</first_parameter>
<second_parameter>its value</second_parameter>
</tool_name>

For example, to finish a task:

<attempt_completion>
<result>
What was done, and the outcome.
</result>
</attempt_completion>"""

_NATIVE_REMINDER = """\
# Reminder: Instructions for Tool Use

Call tools through the tool-calling interface of this API, with a value for every required \
parameter. Don't write calls into your text."""

_MAX_LISTED_ERRORS = 5
_MAX_ERROR_CHARS = 300
"""Of those that a warning repeats: the model has read them whole."""

_WAIT_S = 300
"""In the suggested call that waits for a command."""

_NEXT_STEPS = """\
# Next Steps

- If the task is done, call attempt_completion with the whole result, not only what is new in it.
- If you need information that only the user has, call ask_followup_question.
- Otherwise, call the tool for your next step.

(This message comes from the program, not from the user; don't reply to it in text.)"""


# Answers of the user ------------------------------------------------------------------------


def render_denial(feedback: str = "", image_count: int = 0) -> str:
    sentence = "The user did not allow this call; it was not carried out."
    return _append_feedback(sentence, feedback, image_count)


def render_retry_rejection(feedback: str, image_count: int) -> str:
    """Render the text that follows the result of a command that failed without network access."""
    sentence = "The user was asked whether to run it again with network access, and said no."
    return _append_feedback(sentence, feedback, image_count)


def _append_feedback(sentence: str, feedback: str, image_count: int) -> str:
    if feedback:
        return f"{sentence} They said:\n{_wrap_in_tag('feedback', feedback)}"
    return f"{sentence} They attached {_count_images(image_count)}." if image_count else sentence


def render_approval_feedback(feedback: str, image_count: int = 0) -> str:
    """Render the text that precedes the call's result."""
    if not feedback:
        return f"The user allowed this call and attached {_count_images(image_count)}."
    return f"The user allowed this call and added:\n{_wrap_in_tag('feedback', feedback)}"


def render_answer(tag: str, text: str, image_count: int = 0) -> str:
    """Render the answer to a question of the model."""
    if text.strip():
        return _wrap_in_tag(tag, text)
    if image_count:
        return f"The user answered with {_count_images(image_count)}."
    return "The user gave no answer."


def _count_images(count: int) -> str:
    return "an image" if count == 1 else f"{count} images"


def render_guidance(feedback: str) -> str:
    """Render the user's advice after too many mistakes in a row."""
    return (
        "Several attempts in a row failed. The user's advice:\n"
        f"{_wrap_in_tag('feedback', feedback)}"
    )


def render_failure_warning(failed: int, left: int, errors: Sequence[str]) -> str:
    """Render a warning for a model that works without a user, after several mistakes in a row."""
    brief = dict.fromkeys(" ".join(error.split())[:_MAX_ERROR_CHARS] for error in errors)
    listed = "\n".join(f"- {error}" for error in list(brief)[:_MAX_LISTED_ERRORS])
    more = "one more such reply" if left == 1 else f"{left} more such replies"
    return (
        f"No call succeeded in your last {failed} replies. The latest errors:\n{listed}\nDo not"
        " make the same calls again: change your approach, or call attempt_completion and say"
        f" what is left to do. The run is stopped after {more}."
    )


def render_completion_feedback(
    text: str, image_count: int = 0, *, is_rejected: bool = False
) -> str:
    if not text and image_count and not is_rejected:
        return (
            f"The user has provided feedback on the results: {_count_images(image_count)}."
            " Consider their input to continue the task."
        )
    if not text:
        sentence = "The user did not accept this result."
        return (
            f"{sentence} They attached {_count_images(image_count)}." if image_count else sentence
        )
    return (
        "The user has provided feedback on the results. Consider their input to continue the"
        f" task:\n{_wrap_in_tag('feedback', text)}"
    )


COMPLETION_ACCEPTED_TEXT = "The user accepted this result."
"""Result of an accepted completion, written when the conversation goes on."""
COMPLETION_PRESENTED_TEXT = "The result was presented and the run ended."
"""The same without a user."""


def render_unattended_denial(
    missing_settings: Sequence[BoundarySetting] = (), protected_paths: Sequence[str] = ()
) -> str:
    """Render the result of a call that needs a user, in a run without one."""
    denial = "This call was not carried out: it needs approval, and in this run nobody can give it."
    rest = "Do not repeat it; reach the goal in another way, or finish and say what is left to do."
    if protected_paths:
        rest = (
            f"Protected: {', '.join(protected_paths)}. Do not change this with a command either;"
            " make the other changes without it, and say in the result what is left to do."
        )
    options = " and ".join(
        f"the setting {setting}"
        if setting is BoundarySetting.WRITE_PROTECTED
        else f"the flag --add-dir DIRECTORY (or the setting {setting})"
        for setting in missing_settings
    )
    allowing = f" Only the user can allow it, with {options}." if options else ""
    return f"{denial} {rest}{allowing}"


def render_unattended_question(first_suggestion: str | None) -> str:
    """Render the result of a question in a run without a user to answer it."""
    text = _NOBODY_THERE_TEXT
    return f"{text} Your first suggestion was: {first_suggestion}" if first_suggestion else text


_NOBODY_THERE_TEXT = "Nobody is there; decide yourself."
_ENDING_MARKS = " \n*_`\"')]"
"""Characters that may follow the question mark of a question."""


def render_hook_rejection(reason: str) -> str:
    """Render the result of a call that a user's hook has blocked."""
    return f"A hook set up by the user blocked this call:\n{reason}"


def render_hook_completion_rejection(reason: str) -> str:
    return f"A hook set up by the user does not accept this result yet:\n{reason}"


def render_hook_comment(text: str) -> str:
    """Render the text that follows the result of a call."""
    return f"A hook set up by the user says:\n{text}"


# Messages of the user --------------------------------------------------------------------------


def render_task_message(protocol: ToolProtocol, text: str) -> str:
    """Render the message that starts a task."""
    return _wrap_in_tag("task", text) if protocol is ToolProtocol.XML else text


def render_user_message(text: str) -> str:
    """Render any later message of the user."""
    return _wrap_in_tag("user_message", text)


def render_resumption(minutes_ago: int | None, had_interrupted_call: bool) -> str:
    """Render the beginning of the first request after an interrupted task was resumed."""
    when = "" if minutes_ago is None else f" {_format_age(minutes_ago)} ago"
    text = (
        f"[TASK RESUMPTION] This task was interrupted{when} and continues now. It may or may not be"
        " complete, and files may have changed: check before you rely on what you knew."
    )
    if had_interrupted_call:
        text += (
            " The last call was interrupted: find out what it did, and repeat it only if it is"
            " still needed."
        )
    return text


# Errors ---------------------------------------------------------------------------------------


def render_tool_error(message: str) -> str:
    return f"[ERROR] {message}"


def render_missing_parameter(
    protocol: ToolProtocol, tool: str, parameter: str, usage: str | None = None
) -> str:
    """Render a missing parameter; `usage` is the call in XML, where `args` may hold a parameter."""
    in_args = usage is not None and "<args>" in usage and f"<{parameter}>" not in usage
    if protocol is ToolProtocol.XML and in_args:
        parameter = "args"
    return render_tool_error(
        f"Missing value for required parameter '{parameter}' of {tool}. Repeat the call"
        f" with it.\n\n{_get_tool_use_reminder(protocol, usage)}"
    )


def render_argument_error(message: str, usage: str | None) -> str:
    """Render an argument error in XML tasks, with the usage of the tool."""
    return render_tool_error(
        f"{message}\n\n{_get_tool_use_reminder(ToolProtocol.XML, usage)}" if usage else message
    )


def render_rooignore_denial(path: str) -> str:
    return render_tool_error(
        f"{path} is hidden by .rooignore and cannot be used. Continue without this file, or ask"
        " the user to change .rooignore if you need it."
    )


def render_no_tool_used(protocol: ToolProtocol, text: str = "", *, can_ask: bool = True) -> str:
    """Render the reply to a message without calls; `text` is that message; a question in a run
    without a user is answered."""
    reminder = _get_tool_use_reminder(protocol)
    is_question = text.rstrip(_ENDING_MARKS).endswith(("?", "\uff1f"))
    nobody = f"\n\n{_NOBODY_THERE_TEXT}" if is_question and not can_ask else ""
    return f"{NO_TOOL_HEADER}\n\n{reminder}\n\n{_render_next_steps(can_ask=can_ask)}{nobody}"


class AwaitableCommand(Struct, frozen=True):
    """A running command of the task, and the name of its output for calls."""

    command: str
    artifact_id: str
    running_s: float


def render_running_commands(protocol: ToolProtocol, commands: Sequence[AwaitableCommand]) -> str:
    """Render the reply to a message without calls while commands run for which the model may want
    to wait."""
    listed = "\n".join(f"- `{each.command}` (for {each.running_s:.0f} s)" for each in commands)
    calls = "\n".join(_render_wait_call(protocol, each.artifact_id) for each in commands)
    return (
        "[ERROR] You did not use a tool, and your text is not taken as the answer while a command"
        f" is running:\n{listed}\n\nTo wait for its end and read its output, call:\n\n{calls}\n\n"
        "With `stop` instead of `wait` the call ends the command. If the command should keep"
        " running, as a server does, call attempt_completion with the result."
    )


def _render_wait_call(protocol: ToolProtocol, artifact_id: str) -> str:
    if protocol is ToolProtocol.NATIVE:
        return f'read_command_output {{"artifact_id": "{artifact_id}", "wait": {_WAIT_S}}}'
    return (
        f"<read_command_output>\n<artifact_id>{artifact_id}</artifact_id>\n<wait>{_WAIT_S}</wait>\n"
        "</read_command_output>"
    )


CUT_OFF_REPLY_TEXT = (
    "[ERROR] Your reply was cut off by the output limit, so it is not complete. Continue from where"
    " it stopped, in smaller steps: one tool call at a time, and long files in several parts."
)

REPETITIVE_REPLY_TEXT = (
    "[ERROR] Your reply repeated the same text over and over, so it was stopped; the repetitions"
    " were removed. Do not continue it. Call the tool for your next step."
)


def render_only_reasoning(protocol: ToolProtocol, *, can_ask: bool = True) -> str:
    return (
        "[ERROR] Your reply contained only reasoning: no text and no tool call. Nothing in your"
        f" reasoning is carried out.\n\n{_get_tool_use_reminder(protocol)}\n\n"
        f"{_render_next_steps(can_ask=can_ask)}"
    )


def _render_next_steps(*, can_ask: bool) -> str:
    lines = _NEXT_STEPS.splitlines()
    return "\n".join(line for line in lines if can_ask or "ask_followup_question" not in line)


def render_unusable_call(
    protocol: ToolProtocol,
    unusable: UnusableCall,
    available: Sequence[str],
    usage: str | None = None,
) -> str:
    """Render the reply to text that looks like a call; the reason follows the reminder."""
    return (
        f"{NO_TOOL_HEADER}\n\n{_get_tool_use_reminder(protocol, usage)}\n\n# What was wrong\n\n"
        f"{_explain_unusable_call(unusable, available)}"
    )


def render_unusable_part(unusable: UnusableCall, available: Sequence[str]) -> str:
    """Render the same for a reply that also makes valid calls."""
    reason = _explain_unusable_call(unusable, available)
    return f"[ERROR] One more tool call of your reply was not run. {reason}"


def _explain_unusable_call(unusable: UnusableCall, available: Sequence[str]) -> str:
    tools = f" Available tools: {', '.join(available)}." if unusable.unknown_tool else ""
    return f"{unusable.problem}{tools}"


def render_skipped_after_rejection(tool: str) -> str:
    return f"Skipped: {tool} was not run because the user rejected an earlier call of this reply."


def render_skipped_after_completion(tool: str) -> str:
    return f"Skipped: {tool} was not run because the result before it was accepted."


def render_skipped_after_stop(tool: str) -> str:
    return f"Skipped: {tool} was not run because the run ended at another call of this reply."


INTERRUPTED_CALL_TEXT = (
    "The task was interrupted before this call reported back. It may have done all, some or none"
    " of its work."
)
"""Result of a call that never got one: the task was cancelled, or the process died."""


def render_repetition_limit(tool: str) -> str:
    return (
        f"{tool} was called with the same arguments several times in a row, always with the same"
        " result, and was not run again: the repetition limit is reached. Its result will not"
        " change by itself, so try another way."
    )


UNSEEN_RESULTS_TEXT = (
    "The result was not presented: read the results of the other calls in this reply first, then"
    " call attempt_completion again."
)
"""Result of a completion that follows other calls in its reply."""
COMPLETION_AFTER_FAILURE_TEXT = (
    "The task cannot be completed in a reply in which a call failed. Look at the failure, fix it,"
    " then call attempt_completion again."
)
OPEN_TODOS_TEXT = (
    "The todo list still has open items. Finish them, or update the list if they are done or no"
    " longer needed, then call attempt_completion again."
)


def render_completion_sent_back(
    protocol: ToolProtocol, facts: Sequence[str], running: Sequence[AwaitableCommand] = ()
) -> str:
    listed = "\n".join(f"- {fact}" for fact in facts)
    calls = "\n".join(_render_wait_call(protocol, each.artifact_id) for each in running)
    wait = f"\nTo wait for its end and read its output, call:\n\n{calls}\n" if calls else ""
    return render_tool_error(
        f"The result was not presented:\n{listed}{wait}\nFix this and check that it works. If it is"
        " expected or cannot be fixed, complete the task again and say so in the result. If a later"
        " run covers it, just complete the task again."
    )


def render_invalid_result(problems: Sequence[str]) -> str:
    listed = "\n".join(f"- {problem}" for problem in problems)
    return (
        "The result was not accepted: it must be JSON that is valid against the schema in your"
        f" instructions.\n{listed}\nFix this, then call attempt_completion again."
    )


# Subtasks -------------------------------------------------------------------------------------


def render_subtask_completed(child_id: str, result: str) -> str:
    return f"Subtask {child_id} completed.\n\nResult:\n{result}"


def render_subtask_failed(child_id: str, message: str) -> str:
    return (
        f"Subtask {child_id} ended without a result: {message} It may have changed things"
        " before that: check, then finish the work yourself, delegate it again or say what is left."
    )


def render_subtask_stopped(child_id: str) -> str:
    return (
        f"Subtask {child_id} was stopped by the user before it was done. Do not delegate it again"
        " unless they ask for it; continue without its result."
    )


def render_worktree_location(directory: str, branch: str) -> str:
    return f"Its changes are in its worktree, {directory}, on the branch {branch}."


def render_subtask_not_started(message: str) -> str:
    return f"The subtask could not be started: {message}"


# Results --------------------------------------------------------------------------------------


EMPTY_RESULT_TEXT = "(tool did not return anything)"


def render_result_header(description: str) -> str:
    """Render the line above a result in XML tasks, e.g. ``[read_file for 'a.py'] Result:``."""
    return f"{description} Result:"


def _get_tool_use_reminder(protocol: ToolProtocol, usage: str | None = None) -> str:
    if protocol is ToolProtocol.NATIVE:
        return _NATIVE_REMINDER
    return _XML_REMINDER.format(usage=usage or _XML_USAGE)


def _wrap_in_tag(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>"


def _format_age(minutes: int) -> str:
    for unit, size in (("day", 1440), ("hour", 60), ("minute", 1)):
        if (number := minutes // size) > 0:
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "moments"


def render_hidden_messages_marker(count: int) -> str:
    """Render the marker that replaces the oldest turns of a long conversation."""
    return (
        f"[{count} earlier messages of this conversation are hidden, because it is longer than"
        " your context window. Read files again rather than rely on what you no longer see.]"
    )


def render_bad_mcp_arguments(server: str, tool: str) -> str:
    return render_tool_error(
        f"The arguments for the tool '{tool}' of the MCP server '{server}' are not a JSON object."
        " Make the call again with arguments that are one JSON object."
    )


def render_unknown_mcp_tool(server: str, tool: str, known: Sequence[str]) -> str:
    listed = f"Available tools: {', '.join(known)}." if known else "This server offers no tools."
    return render_tool_error(f"The MCP server '{server}' has no tool '{tool}'. {listed}")


def render_unknown_mcp_server(server: str, known: Sequence[str]) -> str:
    listed = f"Available servers: {', '.join(known)}." if known else "No server is configured."
    return render_tool_error(f"There is no MCP server '{server}'. {listed}")


_MAX_LISTED_FILES = 50
_MAX_WARNED_CONFLICTS = 5


def render_merge_report(merge: WorktreeMergeResult) -> str:
    """Render the report of a merge, for the model and for users."""
    return "\n".join(_iter_merge_lines(merge))


def render_merge_warning(merge: WorktreeMergeResult) -> str:
    """Render one line for users: where the changes are, and why they are not in the workspace."""
    where = f"Changes of a subtask are left on the branch {merge.branch}, in {merge.directory}:"
    if not merge.conflicts:
        return f"{where} {merge.error}."
    names = list(merge.conflicts[:_MAX_WARNED_CONFLICTS])
    more = len(merge.conflicts) - len(names)
    listed = ", ".join([*names, f"{more} more"] if more > 0 else names)
    return f"{where} they conflict with {listed}."


def _iter_merge_lines(merge: WorktreeMergeResult) -> Iterator[str]:
    if not merge.changed_files and merge.is_clean:
        yield "Worktree: no file was changed."
        return
    yield "Worktree: these files were changed:" if merge.changed_files else "Worktree:"
    yield from _limit_lines([_format_changed_file(file) for file in merge.changed_files])
    if merge.is_clean:
        yield "All changes are in your workspace now, uncommitted."
        return
    if merge.conflicts:
        yield "They conflict with your workspace in:"
        yield from _limit_lines([f"- {path}" for path in merge.conflicts])
    if merge.error:
        yield f"They could not be merged into your workspace: {merge.error}."
    yield (
        "Some of your files may have the changes already."
        if merge.is_partial
        else "Your files are as they were."
    )
    yield (
        "The changes are committed on the branch"
        f" {merge.branch}, checked out in {merge.directory}; see them there or with"
        f" `git show {merge.branch}:PATH`, and apply what is needed."
    )


def _format_changed_file(file: FileDiffStat) -> str:
    if file.added_line_count is None or file.removed_line_count is None:
        return f"- {file.path} (binary)"
    return f"- {file.path} (+{file.added_line_count} -{file.removed_line_count})"


def _limit_lines(lines: list[str]) -> list[str]:
    more = len(lines) - _MAX_LISTED_FILES
    return [*lines[:_MAX_LISTED_FILES], f"- and {more} more"] if more > 0 else lines
