"""The real `joey serve`, as a process that may be stopped in any way."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from tests.harness.fork_server import start_process
from tests.harness.server.server_fixture import TIMEOUT_S, TOKEN, Peer


class Served:
    def __init__(self, root: Path, model_url: str, **settings: Any) -> None:
        self.home = root / "home"
        self.workspace = root / "work"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "JOEY_HOME": str(self.home),
            "JOEY_TOKEN": TOKEN,
            "ANTHROPIC_API_KEY": "key-of-the-environment",
            "ANTHROPIC_BASE_URL": model_url,
            "PYTHONWARNINGS": "error",
        }
        for directory in (self.home, self.workspace):
            directory.mkdir(exist_ok=True)
        (self.home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    async def start(self, *flags: str) -> Process:
        return await start_process("serve", *flags, env=self.env, cwd=self.workspace)

    @asynccontextmanager
    async def running(self, *flags: str, debug: bool = True) -> AsyncIterator[Program]:
        process = await self.start("--port", "0", *["--debug"] * debug, *flags)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                link = (await process.stdout.readline()).decode().strip()
            assert link, (await process.communicate())[1].decode()
            yield Program(process, link)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


class Program:
    def __init__(self, process: Process, link: str) -> None:
        self.process = process
        self.link = link

    @asynccontextmanager
    async def peer(self, **options: Any) -> AsyncIterator[Peer]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with connect(
            self.url, additional_headers=headers, max_size=None, max_queue=None, **options
        ) as socket:
            peer = Peer(socket)
            await peer.frame()
            yield peer

    @property
    def url(self) -> str:
        return self.link.partition("/#")[0].replace("http", "ws", 1) + "/ws"

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> tuple[int, str]:
        """End it as a service is ended; its exit code and its log."""
        self.process.terminate()
        async with asyncio.timeout(TIMEOUT_S):
            _, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, err.decode()
