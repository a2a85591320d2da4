"""docs/websocket.md is true: its programs run, its tables are whole, its schema is the code's."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

from joey.core.wire.commands import COMMANDS
from joey.core.wire.events import PAYLOAD_TYPES
from joey.core.wire.frames import ErrorCode
from joey.core.wire.schema import build_wire_schema
from joey.testing.script import Turn, say
from tests.harness.paths import DOCS
from tests.harness.server.server_fixture import TOKEN, done, open_server

TEXT = (DOCS / "websocket.md").read_text(encoding="utf-8")


def program(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return found[1]


async def run(tmp_path: Path, text: str, name: str, command: list[str]) -> str:
    """What the program of the document prints when it talks to a server."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    turn = Turn(say("Two files."), *done("There are two files.").steps)
    async with open_server(tmp_path, turn) as here:
        text = text.replace(":7800", f":{here.listening.port}")
        (tmp_path / name).write_text(text, encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *command,
            str(tmp_path / name),
            env={**os.environ, "JOEY_TOKEN": TOKEN},
            stdout=PIPE,
            stderr=STDOUT,
        )
        async with asyncio.timeout(30):
            out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_the_python_program_watches_a_task_to_its_end(tmp_path: Path) -> None:
    out = await run(tmp_path, program("python"), "talk.py", [sys.executable, "-W", "error"])
    assert out.startswith("welcome")
    assert "There are two files." in out
    assert out.splitlines()[-1].startswith("taskCompleted")
    assert len([line for line in program("python").splitlines() if line.strip()]) <= 15


async def test_the_javascript_program_watches_a_task_to_its_end(
    tmp_path: Path, ws_packages: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(ws_packages / "node_modules")
    out = await run(tmp_path, program("js"), "talk.mjs", ["node"])
    assert out.startswith("welcome")
    assert "taskCompleted" in out
    assert program("js").count("\n") <= 15


def test_every_command_event_and_error_is_in_the_document() -> None:
    named = set(re.findall(r"`(\w+)`", TEXT))
    assert set(COMMANDS) - named == set()
    assert set(PAYLOAD_TYPES) - named == set()
    assert {code.value for code in ErrorCode} - named == set()


def test_the_schema_in_the_documents_is_that_of_the_code() -> None:
    """`python -m joey.core.wire.schema > docs/websocket.schema.json` renews it."""
    kept = json.loads((DOCS / "websocket.schema.json").read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps(build_wire_schema()))
