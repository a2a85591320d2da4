"""`ROO_CODE_IPC_SOCKET_PATH` during a `-p` run, as Roo's evals start it."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL
from pathlib import Path

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.server.ipc_peer import connected

DONE = Turn(call("attempt_completion", {"result": "Done."}))


async def wait_for(path: Path) -> Path:
    async with asyncio.timeout(LIMIT):
        while not path.exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.02)
    return path


async def test_a_client_follows_a_run_to_its_end(joey: Joey, tmp_path: Path) -> None:
    going_on = asyncio.Event()
    turns = [Turn(say("I wait."), pause(going_on), call("list_files", {"path": "."})), DONE]
    env = joey.env | {"ROO_CODE_IPC_SOCKET_PATH": str(tmp_path / "run" / "evals.sock")}
    async with ModelServer(turns) as server:
        arguments = ("-p", "-y", "--no-sandbox", *reach(server.url), "do it")
        process = await joey.start(*arguments, stdin=DEVNULL, env=env)
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        async with connected(await wait_for(tmp_path / "run" / "evals.sock")) as peer:
            (task_id,) = await peer.event("taskStarted")  # it began before the client came
            going_on.set()
            completed = await peer.event("taskCompleted")
            out, err = await process.communicate()
    assert completed[0] == task_id == joey.tasks[0].name.removeprefix("task_")
    assert completed[1]["totalTokensIn"] > 0
    assert {"message", "taskTokenUsageUpdated"} <= {name for name, _ in peer.events}
    assert (process.returncode, out.decode()) == (0, "Done.\n"), err.decode()
    assert not (tmp_path / "run" / "evals.sock").exists()


async def test_a_client_cancels_a_run(joey: Joey, tmp_path: Path) -> None:
    env = joey.env | {"ROO_CODE_IPC_SOCKET_PATH": str(tmp_path / "run" / "evals.sock")}
    async with ModelServer([Turn(pause(60)), DONE]) as server:
        process = await joey.start("-p", *reach(server.url), "do it", stdin=DEVNULL, env=env)
        async with connected(await wait_for(tmp_path / "run" / "evals.sock")) as peer:
            while not server.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            peer.send("CancelTask")
            await peer.event("taskAborted")
            async with asyncio.timeout(LIMIT):
                await process.communicate()
    assert process.returncode == 130


async def test_a_socket_that_another_server_has_is_a_warning(joey: Joey, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = joey.env | {"ROO_CODE_IPC_SOCKET_PATH": str(tmp_path / "file")}
    async with ModelServer([DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "do it", env=env)
    assert (done.code, done.out) == (0, "Done.\n")
    assert "IPC socket" in done.err
