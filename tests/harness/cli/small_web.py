"""A web server of a few pages, on loopback: what model servers answer when nothing is asked of a
model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct

OLLAMA = {"/api/tags": {"models": [{"name": "qwen3-coder:30b"}, {"name": "llama4:8b"}]}}
OPENAI = {"/v1/models": {"object": "list", "data": [{"id": "my-model", "object": "model"}]}}


class SmallWeb(Struct, frozen=True):
    port: int
    request_heads: list[str]
    """Heads of the requests that came."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def small_web(
    pages: Mapping[str, object], *, status: int = 200, silent: bool = False, delay: float = 0
) -> AsyncIterator[SmallWeb]:
    """Answers GET with JSON, and with 404 for what is no page; or takes calls and says nothing."""
    request_heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        request_heads.append(head)
        if silent:
            await reader.read()
        else:
            await asyncio.sleep(delay)
            path = head.split(" ")[1]
            body = json.dumps(pages.get(path, {"error": "no such page"})).encode()
            code = status if path in pages else 404
            writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (code, len(body)) + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield SmallWeb(server.sockets[0].getsockname()[1], request_heads)
