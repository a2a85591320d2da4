"""The real program, as a user or a script starts it."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.harness.fork_server import start_process

LIMIT = 60.0
"""Seconds after which a test gives up waiting."""


class Finished(Struct, frozen=True):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Joey(Struct, frozen=True):
    home: Path
    workspace: Path

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "JOEY_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "PYTHONWARNINGS": "error",
        }

    @property
    def tasks(self) -> list[Path]:
        return sorted((self.home / "tasks").iterdir())

    def settings(self, **values: Any) -> None:
        self.home.mkdir(exist_ok=True)
        (self.home / "settings.json").write_text(json.dumps(values), encoding="utf-8")

    async def start(self, *arguments: str, **options: Any) -> Process:
        return await start_process(
            *arguments, env=options.pop("env", self.env), cwd=self.workspace, **options
        )

    async def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: dict[str, str] | None = None,
        limit: float = LIMIT,
    ) -> Finished:
        async with asyncio.timeout(limit):
            process = await self.start(
                *arguments,
                stdin=PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
                env=env or self.env,
            )
            out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return Finished(process.returncode, out.decode(), err.decode())


def reach(url: str) -> tuple[str, ...]:
    """The flags that lead to a scripted model."""
    return ("--provider", "anthropic", "--base-url", url, "--model", "scripted")
