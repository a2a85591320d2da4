"""`examples/websocket/client.ts` compiles strictly, and holds a conversation with a server."""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, say
from tests.harness.paths import ROOT
from tests.harness.server.server_fixture import TOKEN, done, open_server

COMPILER = ROOT / "web" / "node_modules" / ".bin" / "tsc"
OPTIONS = ("--strict", "--target", "es2022", "--lib", "es2022,dom", "--module", "es2022")
WEBSOCKET = 'import WebSocket from "ws";\nglobalThis.WebSocket ??= WebSocket;\n'


@pytest.mark.skipif(not COMPILER.exists(), reason="no TypeScript here: run `make web`")
async def test_the_typescript_client_sees_a_task_to_its_end(
    tmp_path: Path, ws_packages: Path
) -> None:
    shutil.copy(ROOT / "examples" / "websocket" / "client.ts", tmp_path)
    (tmp_path / "node_modules").symlink_to(ws_packages / "node_modules")
    (tmp_path / "websocket.mjs").write_text(WEBSOCKET, encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    compiler = await asyncio.create_subprocess_exec(
        str(COMPILER), *OPTIONS, "client.ts", cwd=tmp_path, stdout=PIPE, stderr=STDOUT
    )
    complaints, _ = await compiler.communicate()
    assert (compiler.returncode, complaints) == (0, b"")
    turns = (
        Turn(say("I write."), call("write_to_file", {"path": "a.txt", "content": "hi\n"})),
        Turn(call("execute_command", {"command": "touch b.txt"})),
        done("There are two files."),
    )
    async with open_server(tmp_path, *turns) as here:
        client = await asyncio.create_subprocess_exec(
            *("node", "--import", "./websocket.mjs", "client.js", "write"),
            cwd=tmp_path,
            env={
                **os.environ,
                "JOEY_TOKEN": TOKEN,
                "JOEY_URL": f"ws://127.0.0.1:{here.listening.port}/ws",
            },
            stdout=PIPE,
            stderr=STDOUT,
        )
        async with asyncio.timeout(30):
            out, _ = await client.communicate()
        assert client.returncode == 0, out.decode()
        names = {name for _, _, names in os.walk(tmp_path) for name in names}
    assert out.decode().splitlines() == ["I write.", "There are two files."]
    assert "a.txt" in names
    assert "b.txt" not in names
