"""Clients attached to a server."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from joey.client.remote import RemoteEngine
from joey.testing.script import Turn
from joey.testing.server import ModelServer, TurnSelector
from tests.harness.cli.binary import Finished, Joey
from tests.harness.cli.terminal import Screen, terminal

TIMEOUT_S = 60.0


class AttachHarness(Struct, frozen=True):
    joey: Joey
    model: ModelServer
    link: str
    engine: RemoteEngine

    @property
    def url(self) -> str:
        return self.link.partition("#")[0]

    async def run(self, *arguments: str) -> Finished:
        return await self.joey.run("attach", "--url", self.url, *arguments)


@asynccontextmanager
async def serving(root: Path, *turns: Turn | TurnSelector) -> AsyncIterator[AttachHarness]:
    joey = Joey(home=root / "joey-home", workspace=root / "work")
    joey.workspace.mkdir()
    async with asyncio.timeout(TIMEOUT_S), ModelServer(turns) as model:
        env = joey.env | {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": model.url}
        server = await joey.start("serve", "--port", "0", env=env)
        try:
            assert server.stdout is not None
            link = (await server.stdout.readline()).decode().strip()
            drained = asyncio.create_task(server.communicate())
            async with await RemoteEngine.connect(link) as engine:
                yield AttachHarness(joey, model, link, engine)
            await _stop(server)
            await drained
        finally:
            if server.returncode is None:
                server.kill()
                await server.wait()


async def _stop(server: Process) -> None:
    server.terminate()
    assert await server.wait() == 143


def attached(harness: AttachHarness, *arguments: str) -> AbstractAsyncContextManager[Screen]:
    return terminal(harness.joey, "attach", "--url", harness.url, *arguments)
