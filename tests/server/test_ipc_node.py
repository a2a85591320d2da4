"""The proof of the IPC socket: the packages that Roo's own clients are made of go through a task.

`node-ipc` is the transport of Roo's clients (12 is the version that they were built with, 14 the
latest), and `@roo-code/types` the schemas that they check each message with.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.harness.client.serving import done, write
from tests.harness.fork_server import start_process
from tests.harness.server.packages import installed

SOURCE = Path(__file__).parent / "ipc_client"
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def client() -> Path:
    """The folder of the client, with its packages installed; kept from one run to the next."""
    directory = installed(SOURCE)
    shutil.copy(SOURCE / "client.js", directory)
    return directory


@asynccontextmanager
async def serving(root: Path, model: ModelServer) -> AsyncIterator[Path]:
    """`joey serve`, told by Roo's variable where its IPC socket is to be."""
    path = root / "roo-code-test.sock"
    (root / "work").mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "JOEY_HOME": str(root / "home"),
        "ROO_CODE_IPC_SOCKET_PATH": str(path),
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": model.url,
        "PYTHONWARNINGS": "error",
    }
    with (root / "log").open("wb") as log:
        server = await start_process("serve", "--port", "0", env=env, cwd=root / "work", stderr=log)
    try:
        assert server.stdout is not None
        assert await server.stdout.readline(), (root / "log").read_text()
        yield path
        server.terminate()
        assert await server.wait() == 143, (root / "log").read_text()
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


async def play(directory: Path, package: str, path: Path) -> dict[str, Any]:
    """What the client heard."""
    async with asyncio.timeout(TIMEOUT_S):
        process = await asyncio.create_subprocess_exec(
            "node", "client.js", package, str(path), cwd=directory, stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    report: dict[str, Any] = json.loads(out)
    return report


@pytest.mark.contract("ipc:clients")
@pytest.mark.parametrize("package", ["node-ipc", "node-ipc-12"])
async def test_a_client_of_roos_goes_through_a_task_with_answers_a_cancel_and_a_resume(
    client: Path, package: str, tmp_path: Path
) -> None:
    never = asyncio.Event()
    turns = [
        Turn(say("I shall write it.", chunk=3), write("note", "❤\n")),
        Turn(call("ask_followup_question", {"question": "Which colour?", "follow_up": []})),
        Turn(done("The note is written.")),
        Turn(call("execute_command", {"command": "touch forbidden"})),
        Turn(say("Thinking it over…"), pause(never)),
        Turn(done("Nothing was run.")),
    ]
    async with ModelServer(turns) as model, serving(tmp_path, model) as path:
        report = await play(client, package, path)
        said = str(model.requests[-1].body)
    assert (tmp_path / "work" / "note").read_text(encoding="utf-8") == "❤\n"
    assert not (tmp_path / "work" / "forbidden").exists()
    assert "code" in {mode["slug"] for mode in report["modes"]}
    assert report["names"][3:6] == ["taskCreated", "taskFocused", "taskStarted"]
    task_id, usage, tools, about = report["completed"]
    assert task_id == report["taskId"]
    assert usage["totalTokensOut"] == 15
    assert tools["write_to_file"] == {"attempts": 1, "failures": 0}
    assert about == {"isSubtask": False}
    for text in ("blue", "now run it", "do not run anything", "go on"):
        assert text in said
    assert report["texts"][0] == "Write the note ❤"
    assert [name for name in report["names"] if name in ("taskCompleted", "taskAborted")] == [
        "taskCompleted",
        "taskAborted",
        "taskCompleted",
    ]
