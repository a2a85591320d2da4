"""What the tests want to know about processes, and how they wait for a command to say something."""

from __future__ import annotations

import asyncio
import gc

import psutil


def is_alive(pid: int) -> bool:
    """A zombie is dead: only whoever adopted it has not noticed."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


_Transport = asyncio.SubprocessTransport


def open_transports() -> list[asyncio.SubprocessTransport]:
    """Of programs that this test has started, and that nobody has seen end."""
    loop = asyncio.get_running_loop()
    # `isinstance` would ask what weak references stand for, which may be gone.
    found = (each for each in gc.get_objects() if issubclass(type(each), _Transport))
    ours = (each for each in found if vars(each)["_loop"] is loop)
    return [transport for transport in ours if not transport.is_closing()]


class Listener:
    """Collects live output and lets a test wait for a text in it."""

    def __init__(self) -> None:
        self.text = ""
        self.calls = 0
        self._changed = asyncio.Event()

    def __call__(self, text: str) -> None:
        self.text += text
        self.calls += 1
        self._changed.set()

    async def until(self, wanted: str) -> str:
        """Everything heard so far, as soon as `wanted` is in it."""
        async with asyncio.timeout(60):
            while wanted not in self.text:
                self._changed.clear()
                await self._changed.wait()
        return self.text

    async def pids(self) -> list[int]:
        """The numbers on the line `pids: …` that a command prints."""
        text = await self.until("pids:")
        while "\n" not in text.partition("pids:")[2]:
            self._changed.clear()
            await self._changed.wait()
            text = self.text
        line = text.partition("pids:")[2].partition("\n")[0]
        return [int(word) for word in line.split()]
