"""What a run without a screen is doing, in short lines on standard error."""

from __future__ import annotations

import sys
from typing import TextIO

from joey.cli.answers import follow_up
from joey.cli.sanitise import one_line
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
)
from joey.core.messages import TextPart

COMMAND_TOOL = "execute_command"
WIDTH = 120


class Progress:
    """Hears events and prints the ones worth a line. A closed stream is not worth a failure."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = stream or sys.stderr
        self._counted: int | None = None
        """The wait that was announced last."""
        self._asked: set[int] = set()

    def hear(self, event: Event) -> None:
        match event:
            case ReplyReceived():
                for placed in event.parts:
                    if isinstance(placed.part, TextPart) and placed.part.text.strip():
                        self.line(f"  {one_line(placed.part.text, WIDTH)}")
            case ToolAnnounced():
                self.line(describe_call(event.tool, event.path, event.text))
            case AskOpened(ask=ask) if ask in APPROVALS:
                self._asked.add(event.ts)
                self.line(describe_call(event.tool or "", event.path, event.text))
            case AskOpened(ask=AskKind.FOLLOWUP):
                self.line(f"? {one_line(follow_up(event.text).question, WIDTH)}")
            case AskAnswered(ask_ts=ts) if ts in self._asked and not event.answer.approves:
                self.line("  refused: nobody is there to allow it")
            case Said(say="error"):
                self.line(f"! {one_line(event.text, WIDTH)}")
            case Countdown(ts=ts) if ts != self._counted:
                self._counted = ts
                self.line(
                    f"~ trying again in {event.seconds} s (attempt {event.attempt}):"
                    f" {one_line(event.message, WIDTH)}"
                )
            case TaskCreated():
                self.line(f"joey: task {event.task_id} · {event.model} · {event.mode}")

    def line(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            print(text, file=self._stream, flush=True)
        except (BrokenPipeError, ValueError):
            self._stream = None


def describe_call(tool: str, path: str | None, text: str) -> str:
    if tool == COMMAND_TOOL:
        return f"$ {one_line(text, WIDTH)}"
    return f"· {one_line(f'{tool} {path or str()}', WIDTH)}"


def describe_cost(usage: TokenUsage) -> str:
    """`12.5k tokens in, 1.9k out, $0.0312`."""
    tokens = f"{_short(usage.total_tokens_in)} tokens in, {_short(usage.total_tokens_out)} out"
    return f"{tokens}, ${usage.total_cost:.4f}" if usage.total_cost else tokens


def _short(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"
