"""What a test does at a screen, and what it sees there."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from pathlib import Path

from tests.harness.cli.binary import LIMIT

SNAPSHOTS = os.environ.get("JOEY_SNAPSHOTS")
"""Where to keep what was seen, if anywhere."""
LEFT, MOVED, WHEEL_UP, WHEEL_DOWN = 0, 32, 64, 65
"""Mouse buttons, as terminals report them."""
PRESSED, RELEASED = "M", "m"


class Screen(ABC):
    poll_interval_s = 0.05

    @abstractmethod
    async def press(self, *keys: str) -> None:
        """Keys by tmux's names: `Enter`, `Escape`, `C-c`, `BTab`…"""

    @abstractmethod
    async def type(self, text: str) -> None: ...

    @abstractmethod
    async def capture(self, *, colours: bool = False) -> str: ...

    @abstractmethod
    async def wait_for_guard(self) -> None: ...

    async def send(self, text: str) -> None:
        await self.type(text)
        await self.press("Enter")

    async def mouse(self, *reports: tuple[int, tuple[int, int], str]) -> None:
        """Mouse reports in SGR encoding: button code, (column, row) from 0, `M` or `m`."""
        sequences = (
            f"\x1b[<{code};{column + 1};{row + 1}{end}" for code, (column, row), end in reports
        )
        await self.type("".join(sequences))

    async def click(self, position: tuple[int, int]) -> None:
        await self.mouse((LEFT, position, PRESSED), (LEFT, position, RELEASED))

    async def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        await self.mouse((LEFT, start, PRESSED), (MOVED, end, PRESSED), (LEFT, end, RELEASED))

    async def find_text(self, text: str) -> tuple[int, int]:
        """Column and row where the text begins, the last of them if it is there repeatedly."""
        lines = (await self.until(text)).splitlines()
        row = max(number for number, line in enumerate(lines) if text in line)
        return lines[row].index(text), row

    async def answer(self, key: str) -> None:
        """To a question that was seen: for a moment, keys are not taken for answers."""
        await self.wait_for_guard()
        await self.press(key)

    async def until(self, *texts: str) -> str:
        """What stands on the screen once all these words do."""
        shown = ""
        try:
            async with asyncio.timeout(LIMIT):
                while True:
                    shown = await self.capture()
                    if all(word in shown for word in texts):
                        return shown
                    await asyncio.sleep(self.poll_interval_s)
        except TimeoutError:
            missing = [word for word in texts if word not in shown]
            raise AssertionError(f"{missing} never came; there stands:\n{shown}") from None

    async def until_gone(self, text: str) -> str:
        shown = text
        try:
            async with asyncio.timeout(LIMIT):
                while True:
                    shown = await self.capture()
                    if text not in shown:
                        return shown
                    await asyncio.sleep(self.poll_interval_s)
        except TimeoutError:
            raise AssertionError(f"{text!r} never went; there stands:\n{shown}") from None

    async def save_snapshot(self, name: str) -> None:
        """A snapshot of what is to be seen, with its colours."""
        if SNAPSHOTS:
            _write_snapshot(Path(SNAPSHOTS, f"{name}.txt"), await self.capture(colours=True))


def _write_snapshot(path: Path, shown: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(shown, encoding="utf-8")
