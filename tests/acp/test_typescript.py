"""The same program under another editor: one that the protocol's TypeScript package makes."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.acp.conftest import JS
from tests.harness.acp.editor import done, model_at, summarize_updates
from tests.harness.cli.binary import LIMIT, Joey


@pytest.mark.contract("acp:task")
async def test_a_client_in_typescript_drives_a_whole_task(joey: Joey, sdk: Path) -> None:
    turns = [
        Turn(
            say("I write it.", chunk=3),
            call("write_to_file", {"path": "a.txt", "content": "one\n"}),
        ),
        done("It is written."),
        done("Nothing more."),
        Turn(call("execute_command", {"command": "touch b.txt"})),
    ]
    shutil.copy(JS / "client.mjs", sdk)
    async with ModelServer(turns) as server:
        process = await asyncio.create_subprocess_exec(
            *("node", "client.mjs", str(joey.workspace), sys.executable, "-m", "joey", "acp"),
            cwd=sdk,
            env={**joey.env, **model_at(server.url)},
            stdout=PIPE,
            stderr=PIPE,
        )
        async with asyncio.timeout(LIMIT):
            out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    seen = json.loads(out)
    assert seen["stops"] == ["end_turn", "end_turn", "cancelled"]
    assert seen["asked"] == ["Create a.txt", "Run `touch b.txt`"]
    assert (seen["listed"], seen["mode"], seen["code"]) == ([seen["session"]], "code", 0)
    assert {"code", "ask"} <= set(seen["modes"])
    assert summarize_updates(seen["loaded"]) == summarize_updates(seen["live"])
    assert (joey.workspace / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert not (joey.workspace / "b.txt").exists()
