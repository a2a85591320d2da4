"""How a command went, in the words that the model reads."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

from joey.core.settings import Settings
from joey.core.terminal_text import format_size
from joey.ports import CommandEnd, RunningCommand
from joey.tools.base import Outcome

log = logging.getLogger(__name__)

PREVIEW_BYTES = {"small": 5 * 1024, "medium": 10 * 1024, "large": 20 * 1024}

_CORE_DUMPS = frozenset({"SIGQUIT", "SIGILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV"})


class CommandReport:
    """The output of a command as it is told: whole, or a preview and where the rest is kept."""

    def __init__(self, running: RunningCommand, artifact: Path, settings: Settings) -> None:
        budget = PREVIEW_BYTES[settings.terminal_output_preview_size]
        self.artifact = artifact
        self.cwd = running.cwd.as_posix()
        self.total = running.total_bytes
        self.is_long = self.total > budget
        self.output = running.preview(budget)
        # What this report shows is not new to anybody who is told of the command later on.
        running.take_new()

    @property
    def said(self) -> tuple[tuple[str, str], ...]:
        return (("command_output", self.output),) if self.output else ()

    def persisted(self) -> str:
        """The part of a result that stands in for an output too long to show."""
        kept = _size_on_disk(self.artifact)
        missing = "" if kept >= self.total else f" (only the first {format_size(kept)} are kept)"
        return (
            f"Output ({format_size(self.total)}) persisted{missing}."
            f" Artifact ID: {self.artifact.name}\n\nPreview:\n{self.output}\n\n"
            "Use read_command_output with this artifact ID to read or search all of it."
        )


def ended_or_running(report: CommandReport, end: CommandEnd | None) -> Outcome:
    if end is None:
        return Outcome(_still_running(report), said=report.said)
    status = _status(end)
    if report.is_long:
        text = f"Command executed in '{report.cwd}'. {status}\n\n{report.persisted()}"
    else:
        text = (
            f"Command executed in terminal within working directory '{report.cwd}'. {status}\n"
            f"Output:\n{report.output}"
        )
        if not end.left_running:
            _discard(report.artifact)
    if end.left_running:
        text += (
            "\n\nProcesses that the command put in the background keep running. Their new output"
            " will be told to you with the next messages."
        )
    return Outcome(text, said=report.said, exit_code=end.exit_code)


def _still_running(report: CommandReport) -> str:
    shown = report.persisted() if report.is_long else f"Output so far:\n{report.output}"
    return (
        f"Command is still running in terminal from '{report.cwd}'.\n{shown}\n\n"
        "New output and the end will be told to you with the next messages; everything it prints"
        f" is kept as {report.artifact.name} for read_command_output."
    )


def killed_by_limit(report: CommandReport, settings: Settings) -> Outcome:
    problem = (
        f"The command was terminated because it ran longer than the"
        f" {settings.command_execution_timeout} s that the user allows. Do not run it again as it"
        " is; find a way that takes less time."
    )
    if report.is_long:
        shown = report.persisted()
    else:
        shown = f"Output:\n{report.output}"
        _discard(report.artifact)
    text = f"Command executed in '{report.cwd}'. {problem}\n{shown}"
    return Outcome(text, is_error=True, said=(*report.said, ("error", problem)))


def _status(end: CommandEnd) -> str:
    if end.signal is not None:
        dump = " - core dump possible" if end.signal in _CORE_DUMPS else ""
        return f"Process terminated by signal {end.signal}{dump}"
    match end.exit_code:
        case None:
            return "Exit code: <undefined, notify user>"
        case 0:
            return "Exit code: 0"
        case code:
            return f"The command was not successful.\nExit code: {code}{_likely_signal(code)}"


def _likely_signal(code: int) -> str:
    """Shells report a program that a signal ended as 128 and the signal's number."""
    try:
        return f" (128 + {code - 128}: perhaps {signal.Signals(code - 128).name})"
    except ValueError:
        return ""


def _size_on_disk(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # It could not be written, which the terminal has logged.


def _discard(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s is not needed but could not be removed: %s", path, error)
