"""Raw HTTP requests to a server."""

from __future__ import annotations

import asyncio

from tests.harness.server.server_fixture import ServerFixture


async def get(
    here: ServerFixture, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, str]:
    """Status, head and body of a plain request."""
    given = {"host": f"127.0.0.1:{here.listening.port}", "connection": "close", **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in given.items()), "", ""]
    reader, writer = await asyncio.open_connection("127.0.0.1", here.listening.port)
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(60):
        answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), head.lower(), body
