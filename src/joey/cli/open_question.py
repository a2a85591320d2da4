"""A question on the screen, which somebody else may settle before a line is typed."""

from __future__ import annotations

import asyncio

from joey.cli.keyboard import Keyboard
from joey.client.session import Session
from joey.core.events import AskAnswered, AskOpened, AskWithdrawn


async def read_answer(keyboard: Keyboard, task: Session, ask: AskOpened) -> str | None:
    """The next line; None when the question is not open any more.

    Raises:
        EOFError, Interrupted
    """
    line = asyncio.ensure_future(keyboard.read_line())
    settled = asyncio.ensure_future(_settled(task, ask))
    try:
        await asyncio.wait([line, settled], return_when=asyncio.FIRST_COMPLETED)
        return line.result() if line.done() else None
    finally:
        for each in (line, settled):
            each.cancel()
        await asyncio.gather(line, settled, return_exceptions=True)


async def _settled(task: Session, ask: AskOpened) -> None:
    """Returns when a hook, a timeout or another person has settled it."""
    async for event in task.events(task.seq):
        match event:
            case AskAnswered(ask_ts=ts) | AskWithdrawn(ask_ts=ts) if ts == ask.ts:
                return
