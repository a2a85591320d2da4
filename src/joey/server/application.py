"""The server as an application: routes, behind the two checks that every request passes."""

from __future__ import annotations

import logging

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from joey.server.auth import Doorkeeper
from joey.server.connection import Connections
from joey.server.pages import SAFE_HEADERS, Pages

log = logging.getLogger(__name__)


def make_application(connections: Connections, doorkeeper: Doorkeeper) -> ASGIApp:
    pages = Pages(connections)
    routes = [
        Route("/", pages.index),
        Route("/assets/{path:path}", pages.asset),
        Route("/health", pages.health),
        Route("/metrics", pages.metrics),
        Route("/schema.json", pages.schema),
        WebSocketRoute("/ws", connections.serve),
        WebSocketRoute("/", connections.serve),
    ]
    return Gate(Starlette(routes=routes), doorkeeper, connections)


class Gate:
    """Lets in what the doorkeeper lets in, and puts the safe headers on everything."""

    def __init__(
        self, application: ASGIApp, doorkeeper: Doorkeeper, connections: Connections
    ) -> None:
        self._application = application
        self._doorkeeper = doorkeeper
        self._counters = connections.hub.counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] == "http":
            send = _with_headers(send)
        reason = self._doorkeeper.refuses(scope["headers"])
        if reason is None:
            await self._application(scope, receive, send)
            return
        self._counters.refused += 1
        log.info("refused", extra={"reason": reason, "path": scope["path"][:100]})
        if scope["type"] == "http":
            await PlainTextResponse(f"{reason}\n", 403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SAFE_HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
