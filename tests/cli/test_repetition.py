"""A reply that repeats itself without end is stopped, in the real program."""

from __future__ import annotations

import json

import pytest

from joey.testing.script import Say, Step, Think, Turn, call, say, think
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.replies import PROTOCOLS, last_message

pytestmark = pytest.mark.contract("loop:repetition")

LINE = "I will now read the file to see what is wrong with it.\n"
ENDLESS = f"Let me see: {LINE * 2_000}"
END = Turn(call("attempt_completion", {"result": "It is the linker."}))
NEVER = call("write_to_file", {"path": "never.txt", "content": "x"})
STOPPED = "[ERROR] Your reply repeated the same text over and over, so it was stopped"
NOTE = "! The model's reply repeated itself and was stopped."


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("endless", [say(ENDLESS, chunk=50), think(ENDLESS, chunk=50)])
async def test_a_reply_that_repeats_itself_is_stopped_and_explained(
    joey: Joey, protocol: str, endless: Say | Think
) -> None:
    async with ModelServer([Turn(endless, NEVER), END]) as server:
        flags = ("-p", "-y", "--protocol", protocol, *reach(server.url))
        done = await joey.run(*flags, "why does the build fail?")
        messages = json.dumps(server.requests[1].body["messages"])
    assert (done.code, done.out) == (0, "It is the linker.\n")
    assert done.err.splitlines().count(NOTE) == 1
    assert not (joey.workspace / "never.txt").exists()
    assert messages.count("I will now read the file") == isinstance(endless, Say)
    assert messages.count(STOPPED) == 1
    journal = (joey.tasks[0] / "journal.jsonl").read_text()
    assert journal.count('"stop_reason":"repetition"') == 1
    assert len(journal) < 40_000


async def test_calls_before_the_repetition_run(joey: Joey) -> None:
    look = Turn(call("list_files", {"path": "."}), say(ENDLESS, chunk=50), NEVER)
    async with ModelServer([look, END]) as server:
        done = await joey.run("-p", "-y", *reach(server.url), "why does the build fail?")
        message = last_message(server.requests[1])
    assert (done.code, done.out) == (0, "It is the linker.\n")
    assert "tool_result" in message
    assert STOPPED in message
    assert not (joey.workspace / "never.txt").exists()


async def test_a_model_that_only_repeats_itself_ends_the_run(joey: Joey) -> None:
    async with ModelServer([Turn(say(ENDLESS, chunk=500))] * 20) as server:
        done = await joey.run("-p", *reach(server.url), "why does the build fail?")
        assert len(server.requests) == 10
    assert (done.code, done.out) == (3, "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_file_may_have_any_number_of_equal_lines(joey: Joey, protocol: str) -> None:
    rows = "0,0,0\n" * 9_000
    write: Step = call("write_to_file", {"path": "a.csv", "content": rows})
    if protocol == "xml":
        xml = f"<write_to_file>\n<path>a.csv</path>\n<content>\n{rows}</content>\n</write_to_file>"
        write = say(xml, chunk=400)
    async with ModelServer([Turn(write), END]) as server:
        flags = ("-p", "-y", "--protocol", protocol, *reach(server.url))
        done = await joey.run(*flags, "write it")
    assert done.code == 0
    assert (joey.workspace / "a.csv").read_text() == rows
