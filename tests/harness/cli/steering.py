"""A program that steers the real one by commands on its standard input."""

from __future__ import annotations

import asyncio
import json
import os
import random
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.cli.binary import LIMIT, Joey, reach

RUNS = int(os.environ.get("JOEY_STREAM_RUNS", "2"))
"""How often each case is run, with other delays each time."""
MAX_DELAY_S = 0.03
FLAGS = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")
Line = dict[str, Any]


class Steered:
    def __init__(self, process: Process, seed: int) -> None:
        self.process = process
        self._random = random.Random(seed)
        self.lines: list[Line] = []
        """All that was told so far."""
        self._seen = 0

    async def send(self, command: str, request_id: str, **more: Any) -> None:
        """After a moment: what is to hold must hold whenever a command comes."""
        await asyncio.sleep(self._random.uniform(0, MAX_DELAY_S))
        self.write(json.dumps({"command": command, "requestId": request_id, **more}) + "\n")

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def until(self, is_it: Callable[[Line], bool]) -> Line:
        """The next line of this kind, behind the one that was waited for before."""
        while True:
            while self._seen < len(self.lines):
                self._seen += 1
                if is_it(self.lines[self._seen - 1]):
                    return self.lines[self._seen - 1]
            if not await self._read():
                raise AssertionError(f"it never came; told: {json.dumps(self.lines, indent=1)}")

    async def control(self, subtype: str, request_id: str) -> Line:
        def is_it(line: Line) -> bool:
            kind = (line["type"], line.get("subtype"), line.get("requestId"))
            return kind == ("control", subtype, request_id)

        return await self.until(is_it)

    async def result(self, request_id: str) -> Line:
        def is_it(line: Line) -> bool:
            return line["type"] == "result" and line.get("requestId") == request_id

        return await self.until(is_it)

    async def ended(self) -> int:
        """The exit code, once all is read."""
        while await self._read():
            pass
        return await self.process.wait()

    async def shut_down(self) -> None:
        await self.send("shutdown", "end")
        await self.control("ack", "end")
        done = await self.control("done", "end")
        assert (done["code"], done["success"]) == ("shutdown_requested", True)
        assert await self.ended() == 0

    def lines_of_type(self, kind: str, subtype: str | None = None) -> list[Line]:
        return [
            line
            for line in self.lines
            if line["type"] == kind and (subtype is None or line.get("subtype") == subtype)
        ]

    async def wait_for_lines(self, kind: str, subtype: str) -> list[Line]:
        """Lines that may stand before or behind the one that was waited for before."""
        while not (found := self.lines_of_type(kind, subtype)):
            assert await self._read(), f"it never came; told: {json.dumps(self.lines, indent=1)}"
        return found

    async def _read(self) -> bool:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if line:
            self.lines.append(json.loads(line))
        return bool(line)


@asynccontextmanager
async def steering(
    joey: Joey, url: str, *flags: str, seed: int = 0, commands: bool = True
) -> AsyncIterator[Steered]:
    """The program with a scripted model; `commands` may run unasked."""
    allowed = ("-y", "--no-sandbox") if commands else ()
    async with asyncio.timeout(LIMIT):
        process = await joey.start(*FLAGS, *allowed, *reach(url), *flags, stdin=PIPE)
        assert process.stderr is not None
        complaints = asyncio.create_task(process.stderr.read())
        steered = Steered(process, seed)
        try:
            first = await steered.until(lambda line: True)
            assert (first["type"], first["subtype"], first["schemaVersion"]) == (
                "system",
                "init",
                1,
            )
            assert first["protocol"] == "roo-cli-stream"
            assert first["capabilities"] == [
                f"stdin:{name}" for name in ("start", "message", "cancel", "ping", "shutdown")
            ]
            yield steered
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            said = await complaints
        assert b"Traceback" not in said, said.decode()


def create_joey(tmp_path: Path, number: int) -> Joey:
    """A home and a folder for one of several runs."""
    root = tmp_path / f"run{number}"
    (root / "work").mkdir(parents=True)
    return Joey(home=root / "joey-home", workspace=root / "work")
