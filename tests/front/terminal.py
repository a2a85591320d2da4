"""A terminal with the real program in it: what it draws, and keys to press."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import re
import struct
import sys
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.front.binary import LIMIT, Joey

CTRL_C = "\x03"
CTRL_D = "\x04"
_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    def __init__(self, fd: int, process: Process) -> None:
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._read_to = 0
        self.process = process
        self.raw = ""

    @property
    def text(self) -> str:
        """Everything that was drawn, without colours."""
        return _SEQUENCES.sub("", self.raw).replace("\r\n", "\n")

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    async def until(self, words: str) -> str:
        """What was drawn since the last call, up to these words; waits until they are there."""
        async with asyncio.timeout(LIMIT):
            while (found := self.text.find(words, self._read_to)) < 0:
                if not await self._read_more():
                    raise AssertionError(f"{words!r} never came; drawn:\n{self.text}")
        seen = self.text[self._read_to : found + len(words)]
        self._read_to = found + len(words)
        return seen

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


@asynccontextmanager
async def terminal(joey: Joey, *arguments: str) -> AsyncIterator[Screen]:
    """The program on a terminal of its own, which it controls."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "joey", *arguments),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=joey.env,
        cwd=joey.workspace,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    try:
        yield Screen(master, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(master)
