"""An MCP server on a loopback port, and the login service in front of it; both small and real."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

MEGABYTE = 1_000_000


class Web:
    """What the server does, and what it saw."""

    def __init__(self) -> None:
        self.url = ""
        self.login = False
        """Whether requests need a token."""
        self.expires_in = 3600
        self.refuse = False
        """Whether the login service turns people away."""
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Methods, and the headers they came with."""
        self.sessions: set[str] = set()
        self.tokens: set[str] = set()
        self.refreshed = 0
        self.registered: dict[str, list[str]] = {}
        self._codes: dict[str, str] = {}

    def app(self) -> Starlette:
        well_known = "/.well-known"
        return Starlette(
            routes=[
                Route("/mcp", self.speak, methods=["POST", "GET", "DELETE"]),
                Route(f"{well_known}/oauth-protected-resource/mcp", self.resource),
                Route(f"{well_known}/oauth-authorization-server", self.service),
                Route("/register", self.register, methods=["POST"]),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
            ]
        )

    # The server

    async def speak(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.login and token not in self.tokens:
            where = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{where}"'
            return Response(status_code=401, headers={"WWW-Authenticate": challenge})
        if request.method != "POST":
            return Response(status_code=405)
        message = json.loads(await request.body())
        method = message.get("method", "")
        self.requests.append((method, dict(request.headers)))
        if method == "initialize":
            session = secrets.token_hex(8)
            self.sessions.add(session)
            return JSONResponse(
                _result(message, _greeting(message)), headers={"Mcp-Session-Id": session}
            )
        if request.headers.get("mcp-session-id") not in self.sessions:
            return Response(status_code=404)
        if "id" not in message:
            return Response(status_code=202)
        return self._answer(message, method)

    def _answer(self, message: dict[str, Any], method: str) -> Response:
        if method == "tools/list":
            schema = {"type": "object", "properties": {}}
            tools = [
                {"name": name, "inputSchema": schema} for name in ("hello", "json", "sse", "zip")
            ]
            return JSONResponse(_result(message, {"tools": tools}))
        if method != "tools/call":
            error = {"code": -32601, "message": "no such method"}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})
        match message["params"]["name"]:
            case "json":
                return StreamingResponse(_huge(message, b""), media_type="application/json")
            case "sse":
                return StreamingResponse(_huge(message, b"data: "), media_type="text/event-stream")
            case "zip":
                body = gzip.compress(json.dumps(_result(message, _text("x" * 1000))).encode())
                headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
                return Response(body, headers=headers)
        return JSONResponse(_result(message, _text("hello")))

    # The login service

    async def resource(self, request: Request) -> Response:
        return JSONResponse(
            {"resource": f"{self.url}/mcp", "authorization_servers": [f"{self.url}/"]}
        )

    async def service(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": f"{self.url}/",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }
        )

    async def register(self, request: Request) -> Response:
        asked = json.loads(await request.body())
        client = secrets.token_hex(8)
        self.registered[client] = asked["redirect_uris"]
        return JSONResponse({**asked, "client_id": client}, status_code=201)

    async def authorize(self, request: Request) -> Response:
        """A user with a browser would be asked here; this one always says the same."""
        asked = request.query_params
        assert asked["redirect_uri"] in self.registered[asked["client_id"]]
        back = {"state": asked["state"]}
        if self.refuse:
            back |= {"error": "access_denied", "error_description": "not today"}
        else:
            code = secrets.token_hex(8)
            self._codes[code] = asked["code_challenge"]
            back["code"] = code
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}")

    async def token(self, request: Request) -> Response:
        form = await request.form()
        if form["grant_type"] == "refresh_token":
            self.refreshed += 1
        else:
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            assert self._codes.pop(str(form["code"])) == challenge
        token = secrets.token_hex(8)
        self.tokens.add(token)
        return JSONResponse(
            {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": self.expires_in,
                "refresh_token": secrets.token_hex(8),
            }
        )


def _result(message: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _greeting(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": message["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "web", "version": "1"},
    }


def _text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


async def _huge(message: dict[str, Any], before: bytes) -> AsyncIterator[bytes]:
    """An answer of fifty megabytes."""
    start, _, end = json.dumps(_result(message, _text("@"))).encode().partition(b"@")
    yield before + start
    for _ in range(50):
        yield b"y" * MEGABYTE
    yield end + b"\n\n"


@asynccontextmanager
async def serving() -> AsyncIterator[Web]:
    web = Web()
    config = uvicorn.Config(web.app(), port=0, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 (uvicorn announces it in no other way)
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    web.url = f"http://127.0.0.1:{port}"
    try:
        yield web
    finally:
        server.should_exit = True
        server.force_exit = True
        await running
