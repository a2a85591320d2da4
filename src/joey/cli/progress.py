"""What a run without a screen is doing, in short lines on standard error."""

from __future__ import annotations

import sys
from typing import TextIO

from joey.cli.answers import follow_up
from joey.cli.sanitise import one_line
from joey.cli.sentences import COMMAND_TOOL, command_end, mishap, trouble, waiting
from joey.cli.wrapping import columns, wrap
from joey.core.asks import APPROVALS, AskKind
from joey.core.events import (
    AskAnswered,
    AskOpened,
    Countdown,
    Event,
    ReplyReceived,
    Said,
    TaskCreated,
    TokenUsage,
    ToolAnnounced,
    ToolFinished,
)
from joey.core.messages import TextPart

WIDTH = 120
"""Of a line where no terminal says how wide it is."""


class Progress:
    """Hears events and prints the ones worth a line. A closed stream is not worth a failure."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = stream or sys.stderr
        self._counted: int | None = None
        """The wait that was announced last."""
        self._asked: dict[int, AskKind] = {}

    def hear(self, event: Event) -> None:
        match event:
            case ReplyReceived():
                for placed in event.parts:
                    if isinstance(placed.part, TextPart) and placed.part.text.strip():
                        self.brief(f"  {one_line(placed.part.text, 2 * WIDTH)}")
            case ToolAnnounced():
                self.brief(describe_call(event.tool, event.path, event.text))
            case AskOpened(ask=ask) if ask in APPROVALS:
                self._asked[event.ts] = ask
                self.brief(describe_call(event.tool or "", event.path, event.text))
            case AskOpened(ask=AskKind.FOLLOWUP):
                self._asked[event.ts] = AskKind.FOLLOWUP
                self.brief(f"? {one_line(follow_up(event.text).question, 2 * WIDTH)}")
            case AskAnswered(ask_ts=ts) if ts in self._asked:
                self._answered(event, self._asked.pop(ts))
            case ToolFinished(tool=tool) if tool == COMMAND_TOOL and (end := command_end(event)):
                self.brief(f"  {end}")
            case Said(say="error"):
                self.brief(f"! {one_line(mishap(event.text), 2 * WIDTH)}")
            case Said(say="rooignore_error"):
                self.brief(f"! {one_line(event.text)} is hidden by .rooignore")
            case Countdown(ts=ts) if ts != self._counted:
                self._counted = ts
                self.line(f"~ {waiting(event)}: {one_line(trouble(event.message), 2 * WIDTH)}")
            case TaskCreated():
                self.line(f"joey: task {event.task_id} · {event.model} · {event.mode}")

    def _answered(self, event: AskAnswered, kind: AskKind) -> None:
        if kind is AskKind.FOLLOWUP:
            self.brief(f"  answered: {one_line(event.answer.text, 2 * WIDTH)}")
        elif not event.answer.approves:
            self.line("  refused: nobody is there to allow it")

    def brief(self, text: str) -> None:
        """One line, cut where the terminal ends."""
        self._write(cut_short(text, columns(self._stream) or WIDTH))

    def line(self, text: str) -> None:
        """All of it, over as many lines as the terminal needs."""
        self._write(wrap(text, columns(self._stream)))

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            print(text, file=self._stream, flush=True)
        except (BrokenPipeError, ValueError):
            self._stream = None


def cut_short(text: str, width: int) -> str:
    """Cut at `width`, with the indent that it has."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def describe_call(tool: str, path: str | None, text: str) -> str:
    if tool == COMMAND_TOOL:
        return f"$ {one_line(text, 2 * WIDTH)}"
    return f"· {one_line(f'{tool} {path or str()}', 2 * WIDTH)}"


def describe_cost(usage: TokenUsage) -> str:
    """`12.5k tokens in, 1.9k out, $0.0312`."""
    tokens = f"{_short(usage.total_tokens_in)} tokens in, {_short(usage.total_tokens_out)} out"
    return f"{tokens}, ${usage.total_cost:.4f}" if usage.total_cost else tokens


def total_cost(usage: TokenUsage) -> str:
    """`14.4k tokens, $0.0312`."""
    tokens = f"{_short(usage.total_tokens_in + usage.total_tokens_out)} tokens"
    return f"{tokens}, ${usage.total_cost:.4f}" if usage.total_cost else tokens


def _short(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"
