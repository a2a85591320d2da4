"""What a person hears of MCP servers while a task begins: which are waited for, which are missing.

The task itself waits some seconds for them before its first request, and goes on without those
that are not there by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from joey.core.events import Event, RequestStarted
from joey.core.mcp import McpServer
from joey.ports import Mcp
from joey.presentation.text import one_line

WORTH_A_WORD = 1.0
"""Seconds after which a wait is announced."""


class ServerWatch:
    def __init__(self, mcp: Mcp | None, tell: Callable[[str], None]) -> None:
        self._mcp = mcp
        self._tell = tell
        self._asked = False
        """The model has been asked: nobody is waited for any more."""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While a task begins."""
        if self._mcp is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(WORTH_A_WORD, self.tell_waiting)
        try:
            yield
        finally:
            timer.cancel()

    def hear(self, event: Event) -> None:
        if isinstance(event, RequestStarted) and not self._asked:
            self._asked = True
            for server in self._missing():
                why = server.error or "it is still starting"
                self._tell(
                    f"the MCP server {one_line(server.name)} is not ready; its tools are missing:"
                    f" {one_line(why, 300)}"
                )

    def tell_waiting(self) -> None:
        names = [one_line(each.name) for each in self._missing() if each.status == "connecting"]
        if names and not self._asked:
            self._tell(f"waiting for MCP servers: {', '.join(names)}…")

    def _missing(self) -> list[McpServer]:
        """Those that should be there; what is switched off or not trusted is told elsewhere."""
        servers = () if self._mcp is None else self._mcp.servers
        return [each for each in servers if each.status in ("connecting", "disconnected")]
