"""Our end of a WebSocket: uvicorn's, with a way to write ready-made bytes without waiting.

uvicorn's own `send` encodes and frames a message anew for every client, and waits for the client
to take it. What goes to a thousand clients is framed once here, and whoever does not take it in
time is cut without waiting for anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.http11 import Request

EXTENSION = "joey.socket"
HANDSHAKE_SECONDS = 10.0
CUT_SECONDS = 5.0
"""How long a client that does not read may take to notice that it was cut."""


class Socket(WebSocketsSansIOProtocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.on_writable: Callable[[], None] | None = None

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions = cast(dict[str, object], self.scope["extensions"])
            extensions[EXTENSION] = self

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            # uvicorn would log a refusal as a defect of the application.
            self.handshake_complete = True

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_writable is not None:
            self.on_writable()

    @property
    def is_closing(self) -> bool:
        return self.close_sent or self.disconnected or self.transport.is_closing()

    @property
    def can_write(self) -> bool:
        return self.writable.is_set() and not self.is_closing

    def write(self, packet: bytes) -> None:
        self.transport.write(packet)

    def cut(self, code: int, reason: str) -> None:
        """Close without waiting for the client to read what is on its way."""
        if not self.is_closing:
            try:
                self.conn.send_close(code, reason)
            except InvalidState:
                self.transport.abort()
                return
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
            self.transport.close()
        self.abort_later()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.abort_later()

    def abort_later(self) -> None:
        self.loop.call_later(CUT_SECONDS, self.transport.abort)


class Doorway(H11Protocol):
    """HTTP, until it is upgraded: whoever says nothing is not kept."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HANDSHAKE_SECONDS, transport.abort)

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None or self.transport.get_protocol() is not self:
            self._deadline.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)
