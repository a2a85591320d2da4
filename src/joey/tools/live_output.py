"""The output of a command while it runs, for whoever watches: prompt, and never a flood."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_INTERVAL = 0.1
_MOST_CHARACTERS = 32 * 1024


class LiveOutput:
    """Passes output on at once, then at intervals; of a flood only the newest part."""

    def __init__(self, sink: Callable[[str], None]) -> None:
        self._sink = sink
        self._pending = ""
        self._dropped = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def feed(self, text: str) -> None:
        if self._closed:
            return
        kept = (self._pending + text)[-_MOST_CHARACTERS:]
        self._dropped += len(self._pending) + len(text) - len(kept)
        self._pending = kept
        if self._timer is None:
            self._pass_on()

    def close(self) -> None:
        """Pass on the rest; what comes later is told with the next request."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._pending:
            self._tell()

    def _pass_on(self) -> None:
        self._timer = None
        if self._pending:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._pass_on)
            self._tell()

    def _tell(self) -> None:
        note = f"\n[...{self._dropped} characters omitted...]\n" if self._dropped else ""
        text, self._pending, self._dropped = note + self._pending, "", 0
        self._sink(text)
