"""Signals and pipes: how `joey -p` is stopped from outside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any

import pytest

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach

DONE = Turn(say("Nearly."), call("attempt_completion", {"result": "All **done**."}))


def running(command: str) -> Turn:
    return Turn(say("I run."), call("execute_command", {"command": command}))


def histories(joey: Joey) -> tuple[list[Any], list[Any]]:
    (directory,) = joey.tasks
    ui = json.loads((directory / "ui_messages.json").read_text(encoding="utf-8"))
    api = json.loads((directory / "api_conversation_history.json").read_text(encoding="utf-8"))
    return ui, api


@pytest.mark.contract("cli:signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_stops_the_run_and_leaves_valid_histories(
    joey: Joey, number: signal.Signals, code: int
) -> None:
    turn = Turn(say("I begin", chunk=7), pause(asyncio.Event()), say(" and never end"))
    flags = ("-p", "--output-format", "stream-json")
    async with ModelServer([turn]) as server, asyncio.timeout(LIMIT):
        process = await joey.start(*flags, *reach(server.url), "do it")
        assert process.stdout is not None
        while b"I begin" not in (line := await process.stdout.readline()):
            assert line
        process.send_signal(number)
        rest = await process.stdout.read()
        assert await process.wait() == code
    last = json.loads(rest.splitlines()[-1])
    assert (last["type"], last["code"], last["exitCode"]) == ("result", "aborted", code)
    ui, api = histories(joey)
    assert [message["role"] for message in api] == ["user", "assistant"]
    assert not any(row.get("partial") for row in ui)


async def test_a_signal_that_was_ignored_from_the_start_stays_ignored(joey: Joey) -> None:
    gate = asyncio.Event()
    turn = Turn(say("I begin"), pause(gate), *DONE.steps)
    async with ModelServer([turn]) as server, asyncio.timeout(LIMIT):
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", "trap '' HUP; exec \"$@\"", "sh", sys.executable, "-m", "joey"),
            *("-p", *reach(server.url), "do it"),
            cwd=joey.workspace,
            env=joey.env,
            stdout=PIPE,
            stderr=PIPE,
        )
        await server.wait_for_requests(1)
        process.send_signal(signal.SIGHUP)
        gate.set()
        out, _ = await process.communicate()
    assert (process.returncode, out) == (0, b"All **done**.\n")


async def printed_number(process: Process) -> int:
    """The first number that a command of the task prints."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        event = json.loads(line)
        if event["type"] == "tool_result" and "done" not in event:
            return int(event["tool_result"]["output"])
    raise AssertionError("the command printed nothing")


async def test_a_signal_ends_a_running_command_too(joey: Joey) -> None:
    # Without a sandbox the command has the number that it sees.
    flags = ("-p", "-y", "--no-sandbox", "--output-format", "stream-json")
    async with (
        ModelServer([running("echo $$; sleep 600"), DONE]) as server,
        asyncio.timeout(LIMIT),
    ):
        process = await joey.start(*flags, *reach(server.url), "do it")
        pid = await printed_number(process)
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        assert process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_second_signal_ends_it_at_once(joey: Joey) -> None:
    stubborn = running("trap '' TERM; echo $$; while :; do sleep 0.1; done")
    # Without a sandbox the command has the number that it sees.
    flags = ("-p", "-y", "--no-sandbox", "--output-format", "stream-json")
    async with ModelServer([stubborn, DONE]) as server, asyncio.timeout(LIMIT):
        process = await joey.start(*flags, *reach(server.url), "do it")
        assert process.stderr is not None
        pid = await printed_number(process)
        try:
            process.send_signal(signal.SIGINT)
            while b"stopping" not in (line := await process.stderr.readline()):
                assert line
            process.send_signal(signal.SIGINT)
            rest, _ = await process.communicate()
            assert process.returncode == 130
        finally:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
    assert b"result" not in rest


async def test_a_reader_that_goes_away_ends_the_run_quietly(joey: Joey) -> None:
    turn = Turn(*(say("more and more words ", chunk=1) for _ in range(20)), *DONE.steps)
    flags = ("-p", "--output-format", "stream-json")
    async with ModelServer([turn]) as server, asyncio.timeout(LIMIT):
        reading_end, writing_end = os.pipe()
        process = await joey.start(*flags, *reach(server.url), "do it", stdout=writing_end)
        os.close(writing_end)
        os.read(reading_end, 10)
        os.close(reading_end)
        _, err = await process.communicate()
    assert process.returncode == 141
    assert b"Traceback" not in err
    assert b"Exception" not in err


async def test_a_process_whose_terminal_is_gone_ends_though_something_holds_it_up() -> None:
    program = """
import asyncio, threading
from joey.cli import signals
signals.HANGUP_SHUTDOWN_TIMEOUT_S = 0.2

async def main():
    with signals.handle_signals(only_stoppable=True):
        print("ready", flush=True)
        held = threading.Lock()
        held.acquire()
        held.acquire()

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT):
        await process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        assert await process.wait() == 129
