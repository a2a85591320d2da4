"""A terminal with the real program in it, line by line: what it draws, and keys to press."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import re
import struct
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from joey.presentation.text import measure_width
from tests.harness.cli.binary import LIMIT, Joey
from tests.harness.fork_server import start_process

CTRL_C = "\x03"
CTRL_D = "\x04"
_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TOKENS = re.compile(rf"{_SEQUENCES.pattern}|.", re.DOTALL)


class Screen:
    def __init__(self, fd: int, name: str, process: Process, columns: int) -> None:
        self._fd = fd
        self._name = name
        self._columns = columns
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._read_to = 0
        self.process = process
        self.raw = ""
        self.is_closed = False

    @property
    def text(self) -> str:
        """Everything that was drawn, without colours."""
        return _SEQUENCES.sub("", self.raw).replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, as if it had no lower end."""
        return render_lines(self.raw, self._columns)

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    async def until_read(self) -> None:
        """Wait until the program has read every line that was typed."""
        terminal = os.open(self._name, os.O_RDONLY | os.O_NOCTTY)
        try:
            async with asyncio.timeout(LIMIT):
                while any(fcntl.ioctl(terminal, termios.FIONREAD, bytes(4))):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        finally:
            os.close(terminal)

    async def until(self, text: str) -> str:
        """What was drawn since the last call, up to these words; waits until they are there."""
        async with asyncio.timeout(LIMIT):
            while (found := self.text.find(text, self._read_to)) < 0:
                if not await self._read_more():
                    raise AssertionError(f"{text!r} never came; drawn:\n{self.text}")
        seen = self.text[self._read_to : found + len(text)]
        self._read_to = found + len(text)
        return seen

    def close(self) -> None:
        """Close the window: the terminal is gone."""
        os.close(self._fd)
        self.is_closed = True

    async def ended(self) -> int:
        """The exit code, once the program has ended."""
        async with asyncio.timeout(LIMIT):
            while await self._read_more():
                pass
            return await self.process.wait()

    async def _read_more(self) -> bool:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._fd, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return False
        self.raw += self._decoder.decode(data)
        return bool(data)


def render_lines(raw: str, columns: int) -> list[str]:
    """The lines that a terminal of so many columns shows for this output."""
    lines: list[list[str]] = [[]]
    row, column = 0, 0
    for token in _TOKENS.findall(raw):
        if token == "\n":
            row, column = row + 1, 0
            if row == len(lines):
                lines.append([])
        elif token == "\r":
            column = 0
        elif token.startswith("\x1b["):
            count = int(token[2:-1]) if token[2:-1].isdecimal() else 1
            if token[-1] == "D":
                column = max(0, column - count)
            elif token[-1] == "K":
                del lines[row][column:]
        elif token >= " ":
            width = measure_width(token)
            if column + width > columns:
                row, column = row + 1, 0
                lines.append([])
            lines[row] += " " * (column - len(lines[row]))
            lines[row][column : column + width] = [token, *[""] * (width - 1)]
            column += width
    return ["".join(line).rstrip() for line in lines]


@asynccontextmanager
async def terminal(
    joey: Joey, *arguments: str, columns: int = 100, env: Mapping[str, str] | None = None
) -> AsyncIterator[Screen]:
    """The program on a terminal of its own, which it controls."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = await start_process(
        *arguments,
        env={**joey.env, "JOEY_PLAIN": "1", **(env or {})},
        cwd=joey.workspace,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        controls_terminal=True,
    )
    screen = Screen(master, os.ttyname(slave), process, columns)
    os.close(slave)
    try:
        yield screen
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if not screen.is_closed:
            os.close(master)
