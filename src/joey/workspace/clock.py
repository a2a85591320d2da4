"""The machine's time."""

from __future__ import annotations

import asyncio
import time

from joey.ports import Clock


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_fits: type[Clock] = SystemClock
