"""Progress of a run without a screen, as short lines on stderr."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TextIO

from joey.core import events as ev
from joey.core.history.api import COMPLETION_TOOL_NAME
from joey.core.messages import TextPart
from joey.core.task_types import APPROVAL_ASKS, AskKind, RowKind
from joey.core.tool_calls import COMMAND_TOOL_NAME, CallKind, get_summary
from joey.presentation.phrases import (
    describe_command_exit,
    describe_condense,
    describe_error,
    describe_provider_error,
    describe_retry,
)
from joey.presentation.questions import parse_follow_up
from joey.presentation.text import get_terminal_width, to_one_line, wrap

_WRITING_STATUS = "  the model writes…"
_TRANSIENT_STATUS_TEXTS: dict[type[object], str] = {
    ev.RequestStarted: "  waiting for the model…",
    ev.RowDelta: _WRITING_STATUS,
    ev.ArgumentsDelta: _WRITING_STATUS,
    ev.RequestEnded: "",
}
_ERASE_LINE = "\r\x1b[K"
DEFAULT_WIDTH = 120


class TransientStatusLine:
    """Stands for as long as nothing else is to be told, on a terminal alone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._has_terminal = get_terminal_width(stream) is not None
        self._current_text = ""

    def show(self, text: str) -> None:
        """Raises OSError, ValueError."""
        if self._has_terminal and text != self._current_text:
            print(f"{_ERASE_LINE}{text}", end="", file=self._stream, flush=True)
            self._current_text = text


class ProgressPrinter:
    """Hears events and prints the ones worth a line. A closed stream is not worth a failure."""

    def __init__(
        self,
        stream: TextIO | None = None,
        prefix: str = "",
        status_line: TransientStatusLine | None = None,
    ) -> None:
        """`prefix` stands before every line: it says which subtask is meant."""
        self._stream: TextIO | None = stream or sys.stderr
        self._prefix = prefix
        self._status_line = status_line
        self._announced_countdown_ts: int | None = None
        """The wait that was announced last."""
        self._pending_asks: dict[int, AskKind] = {}

    def handle(self, event: ev.Event) -> None:
        match event:
            case ev.RequestStarted() | ev.RowDelta() | ev.ArgumentsDelta() | ev.RequestEnded():
                self._show_status(_TRANSIENT_STATUS_TEXTS[type(event)])
            case ev.ReplyReceived():
                for placed in event.parts:
                    if isinstance(placed.part, TextPart) and placed.part.text.strip():
                        self.print_truncated(
                            f"  {to_one_line(placed.part.text, 2 * DEFAULT_WIDTH)}"
                        )
            case ev.ToolStarted(tool=tool) if tool != COMPLETION_TOOL_NAME:
                self.print_truncated(describe_call(event))
            case ev.AskOpened(ask=ask) if ask in APPROVAL_ASKS:
                self._pending_asks[event.ts] = ask
                self.print_truncated(describe_call(event))
            case ev.AskOpened(ask=AskKind.FOLLOWUP):
                self._pending_asks[event.ts] = AskKind.FOLLOWUP
                self.print_truncated(
                    f"? {to_one_line(parse_follow_up(event.text).question, 2 * DEFAULT_WIDTH)}"
                )
            case ev.AskAnswered(ask_ts=ts) if ts in self._pending_asks:
                self._print_answer(event, self._pending_asks.pop(ts))
            case ev.ToolFinished(tool=tool) if tool == COMMAND_TOOL_NAME and (
                end := describe_command_exit(event)
            ):
                self.print_truncated(f"  {end}")
            case ev.RowAdded():
                self._print_row(event)
            case ev.ContextCondensed() | ev.ContextTruncated():
                self.print_wrapped(f"~ {describe_condense(event)}")
            case ev.ModeSwitched(mode=mode):
                self.print_truncated(f"  now in {mode} mode")
            case ev.RetryCountdown(ts=ts) if ts != self._announced_countdown_ts:
                self._announced_countdown_ts = ts
                self.print_wrapped(
                    f"~ {describe_retry(event)}: "
                    f"{to_one_line(describe_provider_error(event.message), 2 * DEFAULT_WIDTH)}"
                )
            case ev.TaskCreated():
                self.print_wrapped(f"joey: task {event.task_id} · {event.model} · {event.mode}")

    def _print_row(self, event: ev.RowAdded) -> None:
        match event.say:
            case RowKind.ERROR:
                self.print_truncated(
                    f"! {to_one_line(describe_error(event.text), 2 * DEFAULT_WIDTH)}"
                )
            case RowKind.HOOK_MESSAGE:
                self.print_truncated(f"  {to_one_line(event.text, 2 * DEFAULT_WIDTH)}")
            case RowKind.ROOIGNORE_ERROR:
                self.print_truncated(f"! {to_one_line(event.text)} is hidden by .rooignore")
            case RowKind.CONDENSE_CONTEXT_ERROR:
                self.print_wrapped(f"~ not condensed: {to_one_line(event.text, 2 * DEFAULT_WIDTH)}")

    def _print_answer(self, event: ev.AskAnswered, kind: AskKind) -> None:
        if kind is AskKind.FOLLOWUP:
            self.print_truncated(f"  answered: {to_one_line(event.answer.text, 2 * DEFAULT_WIDTH)}")
        elif not event.answer.approves:
            self.print_wrapped("  refused: nobody is there to allow it")

    def print_truncated(self, text: str) -> None:
        """One line, cut where the terminal ends."""
        self._write(
            truncate_line(self._prefix + text, get_terminal_width(self._stream) or DEFAULT_WIDTH)
        )

    def print_wrapped(self, text: str) -> None:
        """All of it, over as many lines as the terminal needs."""
        self._write(wrap(self._prefix + text, get_terminal_width(self._stream)))

    def create_for_subtask(self, prefix: str) -> ProgressPrinter:
        return ProgressPrinter(self._stream, prefix, self._status_line)

    def _show_status(self, text: str) -> None:
        if self._stream is None or self._status_line is None:
            return
        try:
            self._status_line.show(text)
        except (OSError, ValueError):
            self._stream = None

    def _write(self, text: str) -> None:
        self._show_status("")
        if self._stream is None:
            return
        try:
            print(text, file=self._stream, flush=True)
        except (OSError, ValueError):
            self._stream = None


class TaskTreeProgress:
    """The lines of a task and of its subtasks, which are numbered: `[2]`, and `[2.1]` below it."""

    def __init__(self, root_id: str, progress: ProgressPrinter) -> None:
        self._root_id = root_id
        self._numbers_by_task = {root_id: ""}
        self._printers_by_task = {root_id: progress}
        self._subtask_counts: Counter[str] = Counter()

    def handle(self, task_id: str, event: ev.Event) -> None:
        if task_id not in self._printers_by_task:
            self._add_subtask(task_id, self._root_id)
        printer = self._printers_by_task[task_id]
        if task_id == self._root_id or not isinstance(event, ev.TaskCreated):
            printer.handle(event)
        match event:
            case ev.SubtaskSpawned(child_id=child_id):
                said = (
                    f"subtask in {event.mode} mode: {to_one_line(event.message, 2 * DEFAULT_WIDTH)}"
                )
                self._add_subtask(child_id, task_id).print_truncated(said)
            case ev.TaskPaused(child_ids=child_ids):
                for child_id in child_ids:
                    if child_id not in self._printers_by_task:
                        self._add_subtask(child_id, task_id).print_wrapped(
                            f"going on with subtask {child_id}"
                        )
            case ev.TaskFinished() if task_id != self._root_id:
                printer.print_wrapped("done")
            case ev.TaskAborted() if task_id != self._root_id:
                printer.print_wrapped("stopped")
            case ev.TaskFailed(message=message) if task_id != self._root_id:
                printer.print_wrapped(f"failed: {to_one_line(message, 2 * DEFAULT_WIDTH)}")

    def _add_subtask(self, task_id: str, parent_id: str) -> ProgressPrinter:
        self._subtask_counts[parent_id] += 1
        above = self._numbers_by_task[parent_id]
        number = (
            f"{above}.{self._subtask_counts[parent_id]}"
            if above
            else str(self._subtask_counts[parent_id])
        )
        self._numbers_by_task[task_id] = number
        printer = self._printers_by_task[task_id] = self._printers_by_task[
            parent_id
        ].create_for_subtask(f"[{number}] ")
        return printer


def truncate_line(text: str, width: int) -> str:
    """Cut at `width`, with the indent that it has."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def describe_call(event: ev.ToolStarted | ev.AskOpened) -> str:
    summary = get_summary(event)
    if summary.kind is CallKind.EXECUTE:
        return f"$ {summary.subject}"
    return f"· {to_one_line(f'{summary.headline} {summary.arguments}', 2 * DEFAULT_WIDTH)}"
