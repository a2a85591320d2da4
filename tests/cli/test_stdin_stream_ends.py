"""Steering through stdin: bad lines, questions, and all the ways in which it can end."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from joey.testing.script import Turn, call, fail, pause, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.cli.stdin_stream import (
    codes,
    completing,
    is_gone,
    is_user,
    number_of_command,
    running,
    waiting,
)
from tests.harness.cli.steering import FLAGS, steering
from tests.harness.cli.terminal import terminal

ASKING = Turn(
    call("ask_followup_question", {"question": "Which?", "follow_up": [{"text": "The red one."}]})
)
START = '{"command":"start","requestId":"s","prompt":"do it"}\n'


@pytest.mark.contract("cli:stdin-stream")
async def test_bad_lines_are_answered_and_nothing_is_lost(joey: Joey) -> None:
    async with ModelServer([completing("Done.")]) as server, steering(joey, server.url) as steered:
        steered.write('nonsense\n{"command":"fly","requestId":"f"}\n' + START)
        first = await steered.until(lambda line: line["type"] == "control")
        assert (first["subtype"], first["code"]) == ("error", "invalid_command")
        assert "line 1 of stdin" in first["content"]
        assert (await steered.control("error", "f"))["command"] == "fly"
        assert (await steered.result("s"))["content"] == "Done."
        await steered.shut_down()


@pytest.mark.contract("cli:stdin-stream")
@pytest.mark.parametrize("name", ["message", "cancel", "fly", "x" * 1000])
async def test_a_stream_of_which_every_line_was_refused_is_wrong_usage(
    joey: Joey, name: str
) -> None:
    line = {"command": name, "requestId": "r" * 1000, "prompt": "\ud83d", "taskId": "other"}
    done = await joey.run(*FLAGS, stdin=f"nonsense\n{json.dumps(line)}\n".encode())
    *_, last = map(json.loads, done.out.splitlines())
    assert (last["subtype"], last["requestId"]) == ("error", line["requestId"])
    assert last["command"] == name
    assert done.code == 2


@pytest.mark.contract("cli:stdin-stream")
async def test_a_question_is_not_answered_with_nothing(joey: Joey) -> None:
    async with (
        ModelServer([ASKING, completing("Done.")]) as server,
        steering(joey, server.url) as steered,
    ):
        steered.write(START)
        await steered.until(lambda line: line.get("subtype") == "followup")
        yes = '{"command":"message","requestId":"y","response":"yesButtonClicked"'
        steered.write(f"{yes}}}\n")
        assert (await steered.control("error", "y"))["code"] == "invalid_command"
        steered.write(f'{yes[:-1]}","prompt":"The blue one."}}\n')
        assert (await steered.result("y"))["content"] == "Done."
        sent = json.dumps(server.requests[-1].body["messages"])
        assert sent.count("The blue one.") == 1
        await steered.shut_down()


@pytest.mark.contract("cli:stdin-stream")
async def test_when_no_more_commands_come_the_task_is_seen_through(joey: Joey) -> None:
    gate = asyncio.Event()
    first = waiting(gate, call("attempt_completion", {"result": "First."}))
    async with (
        ModelServer([first, ASKING, completing("Second.")]) as server,
        steering(joey, server.url) as steered,
    ):
        steered.write(START)
        await steered.until(lambda line: line.get("content") == "I begin")
        # The last line has no end.
        steered.write('{"command":"message","requestId":"m","prompt":"and this"}')
        steered.close()
        await steered.control("done", "m")
        gate.set()
        assert (await steered.result("m"))["content"] == "Second."
        assert await steered.ended() == 0
        assert "The red one." in json.dumps(server.requests[-1].body["messages"])
    listed = await joey.run("tasks", "list", "--json")
    assert [task["status"] for task in listed.json] == ["completed"]


@pytest.mark.contract("cli:stdin-stream")
@pytest.mark.parametrize(("answer", "code"), [(fail(401, "no such key"), 78), (None, 2)])
async def test_the_exit_code_is_that_of_the_last_task(
    joey: Joey, answer: Turn | None, code: int
) -> None:
    turn = Turn(answer) if answer is not None else Turn()  # type: ignore[arg-type]
    async with ModelServer([turn]) as server:
        done = await joey.run(*FLAGS, *reach(server.url), stdin=START.encode() if answer else b"")
    assert done.code == code
    last = [line for line in done.lines if line["type"] == "result"][-1]
    assert (last["success"], last["exitCode"]) == (False, code)
    if answer:
        assert last["code"] == "provider:auth"
        assert done.lines[-1]["code"] == "task_failed"


async def test_commands_may_come_from_a_file(joey: Joey) -> None:
    file = joey.workspace / "commands.jsonl"
    file.write_text(START, encoding="utf-8")
    async with ModelServer([completing("Done.")]) as server, asyncio.timeout(LIMIT):
        with file.open("rb") as opened:
            process = await joey.start(*FLAGS, *reach(server.url), stdin=opened)
            out, _ = await process.communicate()
    assert process.returncode == 0
    assert b'"content":"Done."' in out


async def test_a_terminal_is_no_place_for_commands(joey: Joey) -> None:
    async with terminal(joey, *FLAGS, *reach("http://127.0.0.1:9")) as screen:
        assert await screen.ended() == 2
        assert "stdin is a terminal" in screen.text


@pytest.mark.parametrize(
    "flags",
    [
        ("-p", "--input-format", "stream-json"),
        (*FLAGS, "a prompt"),
        (*FLAGS, "--prompt-file", "x"),
        ("-p", "--input-format", "stream-json", "--output-format", "json"),
    ],
)
async def test_flags_that_do_not_go_together_are_wrong_usage(
    joey: Joey, flags: tuple[str, ...]
) -> None:
    done = await joey.run(*flags, stdin=b"")
    assert done.code == 2
    assert "--input-format stream-json" in done.err


async def test_a_task_that_cannot_be_started_is_an_error_and_another_one_can(joey: Joey) -> None:
    task_id = "01a1e0f0-06f2-73af-994d-80f41896f1da"
    async with (
        ModelServer([completing("One."), completing("Two.")]) as server,
        steering(joey, server.url) as steered,
    ):
        await steered.send("start", "a", prompt="do it", taskId=task_id)
        await steered.result("a")
        await steered.send("start", "b", prompt="do it", taskId=task_id)
        refused = await steered.control("error", "b")
        assert refused["code"] == "task_error"
        assert "exists already" in refused["content"]
        await steered.send("start", "c", prompt="do it", configuration={"mode": "nonsense"})
        assert "nonsense" in (await steered.control("error", "c"))["content"]
        await steered.send("message", "m", prompt="hello?")
        assert (await steered.control("error", "m"))["code"] == "no_active_task"
        await steered.send("start", "d", prompt="do it")
        assert (await steered.result("d"))["content"] == "Two."
        await steered.shut_down()


async def test_a_task_may_bring_its_own_settings(joey: Joey) -> None:
    edit = Turn(call("write_to_file", {"path": "a.txt", "content": "hello\n"}))
    async with (
        ModelServer([edit, completing("Done.")]) as server,
        steering(joey, server.url, commands=False) as steered,
    ):
        allowed = {"autoApprovalEnabled": True, "alwaysAllowWrite": True}
        await steered.send("start", "s", prompt="do it", configuration=allowed)
        assert (await steered.result("s"))["success"] is True
        await steered.shut_down()
    assert (joey.workspace / "a.txt").read_text(encoding="utf-8") == "hello\n"


async def test_a_question_is_answered_by_the_next_message(joey: Joey) -> None:
    async with (
        ModelServer([ASKING, completing("Done.")]) as server,
        steering(joey, server.url) as steered,
    ):
        steered.write(START)
        asked = await steered.until(lambda line: line.get("subtype") == "followup")
        assert json.loads(asked["content"])["question"] == "Which?"
        await steered.send("message", "m", prompt="The blue one.")
        assert (await steered.control("done", "m"))["code"] == "responded"
        await steered.until(is_user("The blue one."))
        assert (await steered.result("m"))["content"] == "Done."
        assert (await steered.control("done", "s"))["code"] == "task_completed"
        await steered.shut_down()


async def test_what_needs_a_user_is_refused_unless_the_program_wants_to_be_asked(
    joey: Joey,
) -> None:
    edit = Turn(call("write_to_file", {"path": "a.txt", "content": "hello\n"}))
    async with (
        ModelServer([edit, completing("Not done."), edit, completing("Done.")]) as server,
        steering(joey, server.url, commands=False) as steered,
    ):
        steered.write(START)
        result = await steered.result("s")
        assert (result["success"], result["code"]) == (False, "needs_person")
        await steered.shut_down()
        async with steering(joey, server.url, "-a", commands=False) as careful:
            careful.write(START)
            await careful.until(lambda line: line["type"] == "tool_use" and "done" in line)
            await careful.send("message", "m", response="yesButtonClicked")
            assert (await careful.control("done", "m"))["code"] == "responded"
            assert (await careful.result("m"))["success"] is True
            await careful.send("message", "n", response="yesButtonClicked", prompt="")
            await careful.shut_down()
    assert (joey.workspace / "a.txt").exists()


@pytest.mark.contract("websocket:commands")
async def test_a_message_that_names_another_task_does_not_reach_the_active_one(joey: Joey) -> None:
    edit = Turn(call("write_to_file", {"path": "a.txt", "content": "hello\n"}))
    async with (
        ModelServer([edit, completing("Done.")]) as server,
        steering(joey, server.url, "-a", commands=False) as steered,
    ):
        steered.write(START)
        task_id = (await steered.control("ack", "s"))["taskId"]
        await steered.until(lambda line: line["type"] == "tool_use" and "done" in line)
        for number, no_id in enumerate(("", None, 7)):
            yes: dict[str, object] = {"response": "yesButtonClicked", "taskId": no_id}
            await steered.send("message", f"m{number}", **yes)
            assert (await steered.control("error", f"m{number}"))["code"] == "invalid_command"
        other = "01a1e0f0-06f2-73af-994d-80f41896f1da"
        for command in ("message", "cancel", "ping", "shutdown"):
            yes = {"response": "yesButtonClicked", "taskId": other}
            await steered.send(command, command, **yes)
            assert (await steered.control("error", command))["code"] == "task_not_found"
        assert not (joey.workspace / "a.txt").exists()
        await steered.send("message", "m", response="yesButtonClicked", taskId=task_id.upper())
        assert (await steered.control("done", "m"))["code"] == "responded"
        assert (await steered.result("m"))["success"] is True
        await steered.shut_down()
    assert (joey.workspace / "a.txt").exists()


@pytest.mark.contract("cli:stdin-stream")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_signal_ends_it_and_what_it_started(
    joey: Joey, number: signal.Signals, code: int
) -> None:
    async with ModelServer([running()]) as server, steering(joey, server.url) as steered:
        steered.write(START)
        pid = await number_of_command(steered)
        steered.process.send_signal(number)
        assert await steered.ended() == code
        assert is_gone(pid)
        assert codes(steered, "s")[-1] == ("done", "task_aborted")
        last = steered.lines[-1]
        assert (last["type"], last["code"], last["exitCode"]) == ("result", "aborted", code)


async def test_a_reader_that_goes_away_ends_it_quietly(joey: Joey) -> None:
    async with (
        ModelServer(
            [Turn(*(say("more words ", chunk=1) for _ in range(50)), pause(60.0))]
        ) as server,
        asyncio.timeout(LIMIT),
    ):
        process = await joey.start(*FLAGS, *reach(server.url), stdin=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(START.encode())
        await process.stdout.readline()
        process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
        assert process.stderr is not None
        said = await process.stderr.read()
        assert await process.wait() == 141
    assert b"Traceback" not in said


async def test_a_task_of_an_earlier_run_goes_on_with_a_message(joey: Joey) -> None:
    async with ModelServer([completing("One."), completing("Two.")]) as server:
        await joey.run("-p", *reach(server.url), "do it")
        async with steering(joey, server.url, "-c") as steered:
            await steered.send("message", "m", prompt="and now?")
            assert (await steered.control("done", "m"))["code"] == "resumed"
            assert (await steered.result("m"))["content"] == "Two."
            await steered.shut_down()
            assert steered.lines_of_type("queue") == []
            assert [line["content"] for line in steered.lines_of_type("user")] == ["and now?"]
    assert len(joey.tasks) == 1


async def test_queued_messages_do_not_answer_a_question_and_are_not_blocked_by_it(
    joey: Joey,
) -> None:
    gate = asyncio.Event()
    asking = Turn(say("I begin"), pause(gate), *ASKING.steps)
    async with (
        ModelServer([asking, completing("Done.")]) as server,
        steering(joey, server.url) as steered,
    ):
        steered.write(START)
        await steered.until(lambda line: line.get("content") == "I begin")
        await steered.send("message", "m", prompt="take the green one")
        await steered.control("done", "m")
        gate.set()
        assert (await steered.result("m"))["content"] == "Done."
        await steered.shut_down()


async def test_subtasks_work_below_a_steered_task(joey: Joey, tmp_path: Path) -> None:
    delegate = Turn(call("new_task", {"mode": "code", "message": "look"}))
    turns = [delegate, ASKING, completing("Looked."), completing("Done.")]
    async with ModelServer(turns) as server, steering(joey, server.url) as steered:
        steered.write(START)
        asked = await steered.until(lambda line: line.get("subtype") == "followup")
        assert asked["taskId"]
        await steered.send("message", "m", prompt="The blue one.")
        assert (await steered.control("done", "m"))["code"] == "responded"
        result = await steered.until(lambda line: line["type"] == "result")
        assert result["content"] == "Done."
        await steered.shut_down()
