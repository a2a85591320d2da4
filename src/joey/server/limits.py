"""How much one client may send, and how many clients there may be."""

from __future__ import annotations

import asyncio

from msgspec import Struct


class Limits(Struct, frozen=True):
    connections: int = 256
    auth_seconds: float = 10.0
    """To say the token in, when it did not come with the request."""
    failed_auth_seconds: float = 0.5
    """That a wrong token has to wait for its answer."""
    drain_seconds: float = 10.0
    """That a client which lost events may take to read that it did."""
    heartbeat_seconds: float = 20.0
    """Between two pings, and for the answer to one."""
    frames_per_second: float = 50.0
    burst: int = 200
    """Frames that a client may send at once."""


class Rate:
    """So many messages a second, more in a burst. Whoever sends faster is read more slowly."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._left = float(burst)
        self._last = asyncio.get_running_loop().time()

    async def take(self) -> None:
        now = asyncio.get_running_loop().time()
        self._left = min(self._burst, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= 1
        if self._left < 0:
            await asyncio.sleep(-self._left / self._per_second)
