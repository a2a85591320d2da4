"""`joey -p` among other programs: what comes in, what goes out, who goes away."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shlex
import signal
import struct
import sys
import termios
from asyncio.subprocess import PIPE

import pytest

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.cli.terminal import terminal
from tests.harness.images import PNG

DONE = Turn(say("Nearly."), call("attempt_completion", {"result": "Looks good."}))
FULL = 32_768
"""Bytes that are in a pipe when it takes no more, at least."""
JOEY = shlex.join([sys.executable, "-m", "joey"])


async def shell(joey: Joey, script: str) -> tuple[int, str, str]:
    """What a line of bash prints, and how it ends."""
    async with asyncio.timeout(LIMIT):
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"set -o pipefail; {script}"),
            cwd=joey.workspace,
            env=joey.env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.mark.contract("cli:pipes")
async def test_a_change_is_reviewed_in_a_pipeline(joey: Joey) -> None:
    (joey.workspace / "a.txt").write_text("one\n", encoding="utf-8")
    commit = "git init -q && git add . && git -c user.name=n -c user.email=e commit -qm first"
    assert (await shell(joey, commit))[0] == 0
    (joey.workspace / "a.txt").write_text("two\n", encoding="utf-8")
    async with ModelServer([DONE]) as server:
        flags = shlex.join(["--output-format", "json", *reach(server.url)])
        code, out, _ = await shell(
            joey, f"git diff | {JOEY} -p 'review' {flags} | {sys.executable} -m json.tool"
        )
        sent = json.dumps(server.requests[0].body["messages"])
    assert code == 0
    assert json.loads(out)["content"] == "Looks good."
    assert "review\\n\\ndiff --git" in sent
    assert "+two" in sent


@pytest.mark.contract("cli:pipes")
@pytest.mark.parametrize("data", [PNG, b"text and \0", "text".encode("utf-16")])
async def test_what_is_no_text_is_refused_with_advice(joey: Joey, data: bytes) -> None:
    done = await joey.run("-p", "--output-format", "json", "what is this?", stdin=data)
    assert done.code == done.json["exitCode"] == 2
    assert "not text" in done.err
    assert "--image" in done.err


@pytest.mark.contract("cli:pipes")
async def test_a_task_is_listed_by_what_was_said_and_not_by_what_was_piped(joey: Joey) -> None:
    turn = Turn(call("attempt_completion", {"result": "Fine."}))
    async with ModelServer([turn]) as server:
        await joey.run("-p", *reach(server.url), "review", stdin=b"diff --git a/a b/a\n+x\n")
    assert [task["title"] for task in (await joey.run("tasks", "list", "--json")).json] == [
        "review"
    ]
    (joey.tasks[0] / "task_metadata.json").unlink()
    assert "review\n" in (await joey.run("tasks", "list")).out
    assert "review" in (await joey.run("tasks", "search", "diff")).out


async def test_at_a_terminal_nobody_waits_for_a_pipe(joey: Joey) -> None:
    async with (
        ModelServer([DONE]) as server,
        terminal(joey, "-p", *reach(server.url), "review") as screen,
    ):
        assert await screen.ended() == 0
        assert "Looks good." in screen.text
    for arguments in (("-p",), ("-p", "-")):
        async with terminal(joey, *arguments) as screen:
            assert await screen.ended() == 2


async def test_at_a_terminal_one_sees_that_the_model_writes_and_nothing_of_it_stays(
    joey: Joey,
) -> None:
    gate = asyncio.Event()
    turn = Turn(say("Nearly."), pause(gate), call("attempt_completion", {"result": "Looks good."}))
    async with (
        ModelServer([turn]) as server,
        terminal(joey, "-p", *reach(server.url), "review") as screen,
    ):
        await screen.until("the model is writing…")
        gate.set()
        assert await screen.ended() == 0
        lines = screen.lines
    assert "Looks good." in lines
    assert not any("the model" in line for line in lines)


async def test_who_reads_one_line_gets_one_line_and_no_complaint(joey: Joey) -> None:
    turn = Turn(*(say("more and more words ", chunk=1) for _ in range(50)), *DONE.steps)
    async with ModelServer([turn]) as server:
        flags = shlex.join(["--output-format", "stream-json", *reach(server.url)])
        code, out, err = await shell(joey, f"{JOEY} -p 'do it' {flags} | head -1")
    assert code == 141
    assert json.loads(out)["subtype"] == "init"
    assert "Traceback" not in err
    assert "Exception" not in err


@pytest.mark.contract("cli:signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_reader_that_has_stalled_does_not_keep_a_run_from_ending(
    joey: Joey, number: signal.Signals, code: int
) -> None:
    text = " ".join(map(str, range(35_000)))
    turn = Turn(say(text, chunk=1000), pause(asyncio.Event()), *DONE.steps)
    async with ModelServer([turn]) as server, asyncio.timeout(LIMIT):
        reading, writing = os.pipe()
        flags = ("-p", "--output-format", "stream-json", *reach(server.url))
        process = await joey.start(*flags, "do it", stdout=writing)
        os.close(writing)
        await filled(reading)
        process.send_signal(number)
        await process.communicate()
        os.close(reading)
    assert process.returncode == code
    (directory,) = joey.tasks
    assert json.loads((directory / "api_conversation_history.json").read_text(encoding="utf-8"))


async def filled(pipe: int) -> None:
    """Returns when nothing more goes into a pipe that nobody reads."""
    before = -1
    while True:
        (waiting,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
        if waiting == before and waiting > FULL:
            return
        before = waiting
        await asyncio.sleep(0.2)


@pytest.mark.contract("cli:exit-codes")
@pytest.mark.parametrize("form", ["json", "stream-json"])
async def test_the_last_word_has_the_exit_code_and_its_reason(joey: Joey, form: str) -> None:
    async with ModelServer(lambda request: Turn(call("read_file", {"path": "x"}))) as server:
        flags = ("-p", "--max-turns", "1", "--output-format", form, *reach(server.url))
        done = await joey.run(*flags, "do it")
    last = done.json if form == "json" else done.lines[-1]
    assert done.code == last["exitCode"] == 53
    assert (last["type"], last["code"]) == ("result", "turns")
    assert last["reason"].removesuffix(".").lower() in done.err.lower()
