"""Stopped from outside at random moments: by Ctrl-C, by a terminal that is closed, by a reader
that goes away. Whenever it happens, no process is left, the history is whole, and the exit code
is the right one."""

from __future__ import annotations

import asyncio
import os
import random
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer, by_conversation
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.cli.steering import create_joey
from tests.harness.cli.terminal import CTRL_C, terminal
from tests.service_rules import check_anthropic

MOMENTS = int(os.environ.get("JOEY_STOPS", "3"))
LONGEST = 1.5
"""Seconds that the whole run takes, about."""
LOUD = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done; (sleep 300 &); sleep 300"
ENDLESS = "(sleep 300 &); while sleep 0.05; do echo on; done"
DONE = Turn(call("attempt_completion", {"result": "Done."}))
several = pytest.mark.parametrize("seed", range(MOMENTS))


def script(last: str) -> list[Turn]:
    slow = [step for _ in range(5) for step in (say("word "), pause(0.02))]
    return [
        Turn(*slow, call("write_to_file", {"path": "a.txt", "content": "hello\n" * 20}, chunk=7)),
        Turn(say("I look."), call("read_file", {"path": "a.txt"})),
        Turn(say("I run."), call("execute_command", {"command": last})),
    ]


@asynccontextmanager
async def model(last: str = LOUD) -> AsyncIterator[ModelServer]:
    async with ModelServer(by_conversation(script(last))) as server:
        yield server


def moment(seed: int) -> float:
    return random.Random(f"moment {seed}").uniform(0, LONGEST)


async def check_rest(joey: Joey) -> None:
    """No process works in the folder any more, and the task can go on."""
    async with asyncio.timeout(LIMIT):
        while left := [each for each in psutil.process_iter() if works_in(each, joey.workspace)]:
            await asyncio.to_thread(psutil.wait_procs, left, 0.1)
    for directory in joey.tasks if (joey.home / "tasks").exists() else []:
        task_id = directory.name.removeprefix("task_")
        async with ModelServer([DONE] * 5) as server:
            flags = ("-p", "--no-sandbox", *reach(server.url))
            again = await joey.run(*flags, "-r", task_id, "go on")
            assert (again.code, again.out) == (0, "Done.\n"), again.err
            check_anthropic(server.requests[-1].body)


def works_in(process: psutil.Process, directory: Path) -> bool:
    try:
        return bool(process.cwd() == str(directory) and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


@pytest.mark.contract("cli:signals")
@several
async def test_ctrl_c_on_a_terminal(tmp_path: Path, seed: int) -> None:
    joey = create_joey(tmp_path, seed)
    async with model() as server:
        flags = ("-p", "-y", "--no-sandbox", *reach(server.url), "do it")
        async with terminal(joey, *flags) as screen:
            await screen.until("joey: task")
            await asyncio.sleep(moment(seed))
            screen.press(CTRL_C)
            assert await screen.ended() == 130
            assert "Traceback" not in screen.text
    await check_rest(joey)


@pytest.mark.contract("cli:signals")
@several
@pytest.mark.parametrize("flags", [("-p",), ()], ids=["print", "conversation"])
async def test_a_terminal_that_is_closed(tmp_path: Path, seed: int, flags: tuple[str, ...]) -> None:
    joey = create_joey(tmp_path, seed)
    async with model() as server:
        arguments = (*flags, "-y", "--no-sandbox", *reach(server.url), "do it")
        async with terminal(joey, *arguments) as screen:
            await screen.until("joey")
            await server.wait_for_requests(1)
            await asyncio.sleep(moment(seed))
            screen.close()
            async with asyncio.timeout(LIMIT):
                assert await screen.process.wait() == 129
    await check_rest(joey)


@pytest.mark.contract("cli:signals")
@several
async def test_a_reader_that_goes_away(tmp_path: Path, seed: int) -> None:
    joey = create_joey(tmp_path, seed)
    flags = ("-p", "-y", "--no-sandbox", "--output-format", "stream-json")
    # Whoever has nothing more to say does not notice that nobody reads it.
    async with model(ENDLESS) as server, asyncio.timeout(LIMIT):
        reading, writing = os.pipe()
        process = await joey.start(*flags, *reach(server.url), "do it", stdout=writing)
        os.close(writing)
        await server.wait_for_requests(1)
        await asyncio.sleep(moment(seed))
        os.close(reading)
        _, err = await process.communicate()
    assert process.returncode == 141
    assert b"Traceback" not in err
    await check_rest(joey)


@pytest.mark.contract("cli:signals")
@several
async def test_ctrl_c_twice(tmp_path: Path, seed: int) -> None:
    """The second ends it at once, and what it started with it."""
    joey = create_joey(tmp_path, seed)
    stubborn = Turn(call("execute_command", {"command": "trap '' TERM; echo $$; sleep 300"}))
    async with ModelServer([stubborn]) as server:
        flags = ("-p", "-y", "--no-sandbox", *reach(server.url), "do it")
        async with terminal(joey, *flags) as screen:
            await screen.until("$ trap")
            await asyncio.sleep(moment(seed) / 3)
            screen.press(CTRL_C)
            await screen.until("stopping")
            screen.press(CTRL_C)
            assert await screen.ended() == 130
    await check_rest(joey)


@several
async def test_a_program_that_stops_steering(tmp_path: Path, seed: int) -> None:
    """Both ends of the pipe are closed at once, as when the program that steers is killed."""
    joey = create_joey(tmp_path, seed)
    flags = ("-p", "-y", "--no-sandbox", "--input-format", "stream-json")
    async with model() as server, asyncio.timeout(LIMIT):
        process = await joey.start(
            *flags, "--output-format", "stream-json", *reach(server.url), stdin=PIPE
        )
        assert process.stdin is not None
        process.stdin.write(b'{"command":"start","requestId":"s","prompt":"do it"}\n')
        await server.wait_for_requests(1)
        await asyncio.sleep(moment(seed) / 3)
        process._transport.close()  # type: ignore[attr-defined]
        await process.wait()
    await check_rest(joey)
