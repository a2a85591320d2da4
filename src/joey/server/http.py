"""The HTTP application: routes, security middleware, the web page, health, metrics, schema.

No HTTP request changes anything, so other web pages cannot misuse a browser for changes. The web
page is public: it shows nothing without the token, which is in the fragment of its address and thus
never sent with a request.
"""

from __future__ import annotations

import logging
import mimetypes
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from joey import __version__
from joey.core.wire.schema import build_wire_schema
from joey.server.auth import OriginPolicy, extract_token
from joey.server.websocket import Connections

log = logging.getLogger(__name__)


def make_application(connections: Connections, origin_policy: OriginPolicy) -> ASGIApp:
    pages = HttpEndpoints(connections)
    routes = [
        Route("/", pages.get_index),
        Route("/assets/{path:path}", pages.get_asset),
        Route("/health", pages.get_health),
        Route("/metrics", pages.get_metrics),
        Route("/schema.json", pages.get_schema),
        WebSocketRoute("/ws", connections.serve_websocket),
        WebSocketRoute("/", connections.serve_websocket),
    ]
    return SecurityMiddleware(Starlette(routes=routes), origin_policy, connections)


class SecurityMiddleware:
    """Applies the origin policy, and adds security headers to every response."""

    def __init__(
        self, application: ASGIApp, origin_policy: OriginPolicy, connections: Connections
    ) -> None:
        self._application = application
        self._origin_policy = origin_policy
        self._counters = connections.hub.counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] == "http":
            send = _wrap_send_with_security_headers(send)
        reason = self._origin_policy.find_refusal_reason(scope["headers"])
        if reason is None:
            await self._application(scope, receive, send)
            return
        self._counters.refused_count += 1
        log.info("refused", extra={"reason": reason, "path": scope["path"][:100]})
        if scope["type"] == "http":
            await PlainTextResponse(f"{reason}\n", 403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})


def _wrap_send_with_security_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
        await send(message)

    return sending


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
    "'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "permissions-policy": ", ".join(
        f"{feature}=()"
        for feature in (
            *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media"),
            *("fullscreen", "geolocation", "gyroscope", "magnetometer", "microphone", "midi"),
            *("payment", "picture-in-picture", "publickey-credentials-get", "screen-wake-lock"),
            *("serial", "usb", "xr-spatial-tracking"),
        )
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
MISSING_WEB_PAGE_TEXT = (
    "joey listens. The web page was not built into this copy: `make web` in joey's source builds it"
    " (it needs node). Programs connect to /ws.\n"
)


class HttpEndpoints:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._hub = connections.hub

    def get_index(self, request: Request) -> Response:
        data = _read_asset("index.html")
        if data is None:
            return PlainTextResponse(MISSING_WEB_PAGE_TEXT)
        kind = "text/html; charset=utf-8"
        return Response(data, media_type=kind, headers={"cache-control": "no-cache"})

    def get_asset(self, request: Request) -> Response:
        path = f"assets/{request.path_params['path']}"
        data = _read_asset(path)
        if data is None:
            return PlainTextResponse("There is nothing here.\n", 404)
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        return Response(data, media_type=kind, headers={"cache-control": "no-cache"})

    def get_health(self, request: Request) -> Response:
        """Report health to everyone, and load only to clients with the token."""
        status: dict[str, object] = {
            "status": "ok" if self._hub.is_ready else "stopping",
            "version": __version__,
        }
        if self._has_valid_token(request):
            status["tasks"] = len(self._hub.engine.tasks)
            status["connections"] = len(self._connections)
        return Response(msgspec.json.encode(status), media_type="application/json")

    def get_metrics(self, request: Request) -> Response:
        if not self._has_valid_token(request):
            return PlainTextResponse("Send the token: Authorization: Bearer …\n", 401)
        text = self._hub.counters.render_metrics(
            tasks=len(self._hub.engine.tasks), connections=len(self._connections)
        )
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    def get_schema(self, request: Request) -> Response:
        return Response(_encode_wire_schema(), media_type="application/schema+json")

    def _has_valid_token(self, request: Request) -> bool:
        offered = extract_token(request.headers, ())
        return offered is not None and self._connections.token.matches(offered)


def has_web_page() -> bool:
    """Whether this copy includes the web page."""
    return _read_asset("index.html") is not None


@cache
def _encode_wire_schema() -> bytes:
    return msgspec.json.encode(build_wire_schema())


def _read_asset(path: str) -> bytes | None:
    """Read a file of the page, included in this package. The path cannot leave its directory."""
    resource: Traversable = files("joey.server") / "web"
    for step in path.split("/"):
        if step in ("", ".", "..") or "\\" in step or "\0" in step:
            return None
        resource = resource / step
    return resource.read_bytes() if resource.is_file() else None
