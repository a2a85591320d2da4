"""Lines typed at a terminal, read without a thread and without blocking the event loop.

The terminal itself does the line editing. Without a pending read, a line goes to the `on_typeahead`
callback, so that the user can type while the task works; None is the end of the input.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import termios
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from joey.client.session import Session
from joey.core.events import AskAnswered, AskOpened, AskWithdrawn

MAX_PASTE_GAP_S = 0.03
"""Nobody types so fast."""


class InputInterrupted(Exception):
    """Ctrl-C while waiting for a line."""


class Keyboard:
    def __init__(self, fd: int, on_typeahead: Callable[[str | None], None]) -> None:
        self._fd = fd
        self._on_typeahead = on_typeahead
        self._loop = asyncio.get_running_loop()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._partial_line = ""
        self._pending_lines: deque[tuple[float, str]] = deque()
        """Each with the time at which it came."""
        self._last_line_time = 0.0
        """That of the line that was read last."""
        self._waiter: asyncio.Future[None] | None = None
        self.is_closed = False
        """Ctrl-D on an empty line, or the terminal is gone."""
        self._saved_termios: list[Any] | None = None
        """How the terminal behaved before."""

    def __enter__(self) -> Self:
        self._loop.add_reader(self._fd, self._handle_readable)
        if os.isatty(self._fd):
            self._saved_termios = termios.tcgetattr(self._fd)
            quiet = [*self._saved_termios]
            quiet[3] &= ~termios.ECHOCTL  # no ^C in the middle of a line
            termios.tcsetattr(self._fd, termios.TCSANOW, quiet)
        return self

    def restore_terminal(self) -> None:
        """Leave the terminal as it was."""
        if self._saved_termios is None:
            return
        attributes, self._saved_termios = self._saved_termios, None
        with contextlib.suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(self._fd, termios.TCSANOW, attributes)

    def __exit__(self, *exc: object) -> None:
        self._loop.remove_reader(self._fd)
        self.restore_terminal()

    @property
    def is_waiting(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def interrupt(self) -> None:
        """Handle Ctrl-C: pending reads raise `InputInterrupted`."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(InputInterrupted())

    def push_line(self, line: str) -> None:
        """Give a line to the next read."""
        self._pending_lines.append((self._loop.time(), line))

    def discard_typeahead(self) -> None:
        """Discard lines typed ahead: they do not answer the question now on the screen."""
        self._pending_lines.clear()
        self._partial_line = ""
        if os.isatty(self._fd):
            termios.tcflush(self._fd, termios.TCIFLUSH)

    async def read_line(self) -> str:
        """Read a line. Raises EOFError, InputInterrupted."""
        while not self._pending_lines:
            if self.is_closed:
                raise EOFError
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._last_line_time, line = self._pending_lines.popleft()
        return line

    async def read_message(self) -> str:
        """Read a line with any lines pasted after it; a backslash at the end continues it."""
        lines = [await self.read_line()]
        while True:
            if lines[-1].endswith("\\"):
                lines[-1] = lines[-1].removesuffix("\\")
                lines.append(await self.read_line())
                continue
            if (
                self._pending_lines
                and self._pending_lines[0][0] > self._last_line_time + MAX_PASTE_GAP_S
            ):
                return "\n".join(lines)  # both were typed ahead separately
            try:
                async with asyncio.timeout(MAX_PASTE_GAP_S):
                    lines.append(await self.read_line())
            except (TimeoutError, EOFError):
                return "\n".join(lines)

    def _handle_readable(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            data = b""
        *lines, self._partial_line = (self._partial_line + self._decoder.decode(data)).split("\n")
        if not data:
            self.is_closed = True
            self._loop.remove_reader(self._fd)
        if self._waiter is None or self._waiter.done():
            for line in lines:
                self._on_typeahead(line)
            if self.is_closed:
                self._on_typeahead(None)
        elif lines or self.is_closed:
            for line in lines:
                self.push_line(line)
            self._waiter.set_result(None)


async def read_answer(keyboard: Keyboard, task: Session, ask: AskOpened) -> str | None:
    """Read the next line; None if the question is closed before. Raises EOFError,
    InputInterrupted."""
    line = asyncio.ensure_future(keyboard.read_line())
    settled = asyncio.ensure_future(_wait_until_ask_closed(task, ask))
    try:
        await asyncio.wait([line, settled], return_when=asyncio.FIRST_COMPLETED)
        return line.result() if line.done() else None
    finally:
        for each in (line, settled):
            each.cancel()
        await asyncio.gather(line, settled, return_exceptions=True)


async def _wait_until_ask_closed(task: Session, ask: AskOpened) -> None:
    """Wait until a hook, a timeout or another user has answered the question."""
    async for event in task.events(task.seq):
        match event:
            case AskAnswered(ask_ts=ts) | AskWithdrawn(ask_ts=ts) if ts == ask.ts:
                return
