"""Facts against a result, folded from a task's events: failed commands, errors that edits left.

Commands count in tasks that edit files: in others, a failure may be exactly what is to be reported.
A command counts if its status is a verdict (see `check_commands`). Its failure is settled by a
later success of the same program, if the status of the line shows it, or the shell reported no
failure in a pipeline (`pytest | tail`). After an edit, only failed tests, linters and builds still
count: other commands may have been attempts that the edit made obsolete. A presented result settles
everything. A result is sent back once between two messages of the user (decision D78).
"""

from __future__ import annotations

from msgspec import Struct, structs

from joey.core import events as ev
from joey.core.check_commands import (
    CheckName,
    are_variants,
    find_checks,
    find_failed_in_pipeline,
    find_passed_checks,
    is_failure,
    is_known_check,
    is_program_missing,
)
from joey.core.diagnostics import Diagnostic
from joey.core.text import to_one_line
from joey.core.tool_calls import COMMAND_TOOL_NAME, EDIT_KINDS, decode_row, get_summary

_MAX_COMMAND_CHARS = 200


class FailedCommand(Struct, frozen=True):
    command: str
    checks: tuple[CheckName, ...]
    status: str
    is_before_edit: bool = False
    unclear_run: str = ""
    """A later line that ran it, and whose status does not tell how it ended."""

    def describe(self) -> str:
        command = to_one_line(self.command, _MAX_COMMAND_CHARS, cut_at_space=True)
        if self.unclear_run:
            line = to_one_line(self.unclear_run, _MAX_COMMAND_CHARS, cut_at_space=True)
            return (
                f"`{command}` failed ({self.status}). It ran again in `{line}`, whose exit code"
                " does not show whether it passed."
            )
        edited = " and has not run since the last edit" if self.is_before_edit else ""
        return f"`{command}` failed in its last run ({self.status}){edited}."


def _build_failed_command(
    command: str, exit_code: int | None, signal: str | None, output: str
) -> FailedCommand | None:
    """Build a failed command; None if it did not fail, or its status is no verdict."""
    if exit_code == 0 and (found := find_failed_in_pipeline(command, output)) is not None:
        check, code = found
        return FailedCommand(command, (check,), f"exit code {code} of {' '.join(check)}")
    if not is_failure(exit_code, signal) or not (checks := find_checks(command)):
        return None
    status = f"exit code {exit_code}" if signal is None else f"signal {signal}"
    return FailedCommand(command, checks, status)


class CompletionFacts:
    def __init__(self) -> None:
        self.was_sent_back = False
        """A result was sent back since the user last said something."""
        self.has_edits = False
        """Files were edited since the last result."""
        self.failed_commands: tuple[FailedCommand, ...] = ()
        """The latest run of each program, where it failed."""
        self.edit_errors: tuple[Diagnostic, ...] = ()
        """Errors that edits introduced; they may have been fixed since."""
        self.failed_at_result: tuple[FailedCommand, ...] = ()
        """The failed commands that counted when the latest result was presented."""
        self._calls: dict[str, ev.ToolStarted | ev.AskOpened] = {}
        """Calls of the latest reply that have no outcome yet, by their ids."""

    def apply(self, event: ev.Durable) -> None:
        match event:
            case ev.ReplyReceived():
                self._calls.clear()
            case ev.ToolStarted() | ev.AskOpened():
                self._calls[event.call_id or ""] = event
            case ev.AskAnswered() if not event.answer.approves:
                self._calls = {id_: c for id_, c in self._calls.items() if c.ts != event.ask_ts}
            case ev.ToolFinished():
                self._apply_outcome(event)
            case ev.CommandEnded():
                self._apply_run(event.command, event)
            case ev.TaskCompleted():
                self.failed_at_result = self.failed_commands if self.has_edits else ()
                self.has_edits, self.failed_commands, self.edit_errors = False, (), ()
            case ev.UserMessage(is_first=False):
                self.was_sent_back = False
            case ev.CompletionSentBack():
                self.was_sent_back = True

    def _apply_outcome(self, event: ev.ToolFinished) -> None:
        call = self._calls.pop(event.call_id, None)
        if event.subtask_usage is not None:
            self._apply_edit()
        elif call is None:
            return
        elif event.exit_code is not None or event.signal is not None:
            is_command = call.tool == COMMAND_TOOL_NAME
            command = call.text if is_command else decode_row(call.text).get("command")
            if isinstance(command, str):
                self._apply_run(command, event)
        elif get_summary(call).kind in EDIT_KINDS:
            if event.new_errors or not event.is_error:
                self._apply_edit()
            self.edit_errors += event.new_errors

    def _apply_run(self, command: str, event: ev.ToolFinished | ev.CommandEnded) -> None:
        if isinstance(event, ev.ToolFinished) and is_program_missing(command, event.content):
            return
        output = event.content if isinstance(event, ev.ToolFinished) else None
        failed = _build_failed_command(command, event.exit_code, event.signal, output or "")
        if failed is not None:
            others = [e for e in self.failed_commands if not are_variants(e.checks, failed.checks)]
            self.failed_commands = (*others, failed)
        elif self.failed_commands:
            passed = find_passed_checks(command, output) if event.exit_code == 0 else ()
            rerun = find_checks(command, anywhere=True)
            self.failed_commands = tuple(
                structs.replace(each, unclear_run=command)
                if are_variants(each.checks, rerun)
                else each
                for each in self.failed_commands
                if not are_variants(each.checks, passed)
            )

    def _apply_edit(self) -> None:
        self.has_edits = True
        self.failed_commands = tuple(
            structs.replace(failed, is_before_edit=True, unclear_run="")
            for failed in self.failed_commands
            if is_known_check(failed.checks)
        )
