"""Roo's cases of steering a task through stdin, each several times with random delays."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import call
from joey.testing.server import ModelServer
from tests.harness.cli.stdin_stream import (
    codes,
    completing,
    is_gone,
    is_user,
    number_of_command,
    running,
    waiting,
)
from tests.harness.cli.steering import RUNS, Line, Steered, create_joey, steering
from tests.harness.images import PNG

IMAGE = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
several = pytest.mark.parametrize("seed", range(RUNS))


@pytest.mark.contract("cli:stdin-stream")
@several
async def test_cancel_active_task(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([running()]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="run it")
        pid = await number_of_command(steered)
        await steered.send("cancel", "c")
        assert (await steered.control("ack", "c"))["code"] == "accepted"
        assert (await steered.control("done", "c"))["code"] == "cancel_requested"
        ended = await steered.control("done", "s")
        assert (ended["code"], ended["success"]) == ("task_aborted", False)
        await steered.shut_down()
        assert steered.lines_of_type("error") == []
        assert steered.lines_of_type("control", "error") == []
        assert is_gone(pid)


@several
async def test_cancel_immediately_after_start_ack(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([waiting(asyncio.Event())]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="do it")
        await steered.control("ack", "s")
        await steered.send("cancel", "c")
        assert (await steered.control("done", "c"))["code"] == "cancel_requested"
        assert (await steered.control("done", "s"))["code"] == "task_aborted"
        await steered.shut_down()
        assert steered.lines_of_type("error") == steered.lines_of_type("control", "error") == []


@several
async def test_cancel_message_recovery_race(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([running(), completing("Stopped, and went on.")]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="run it")
        await number_of_command(steered)
        await steered.send("cancel", "c")
        steered.write('{"command":"message","requestId":"m","prompt":"do this instead"}\n')
        assert (await steered.control("done", "c"))["code"] == "cancel_requested"
        assert (await steered.control("done", "m"))["code"] in ("responded", "queued")
        assert (await steered.result("m"))["content"] == "Stopped, and went on."
        said = next(line for line in steered.lines if is_user("do this instead")(line))
        assert said["requestId"] == "m"
        await steered.shut_down()
        assert "do this instead" not in json.dumps(steered.lines_of_type("tool_result"))
        last = server.requests[-1].body["messages"][-1]["content"]
        results = [block for block in last if block["type"] == "tool_result"]
        assert "do this instead" not in json.dumps(results)
        assert "do this instead" in json.dumps(last)


@several
async def test_cancel_without_active_task(tmp_path: Path, seed: int) -> None:
    async with steering(create_joey(tmp_path, seed), "http://127.0.0.1:9", seed=seed) as steered:
        await steered.send("cancel", "c")
        assert (await steered.control("ack", "c"))["success"] is True
        done = await steered.control("done", "c")
        assert (done["code"], done["success"]) == ("no_active_task", True)
        await steered.shut_down()
        assert steered.lines_of_type("control", "error") == []


@several
async def test_create_with_session_id_resume_loads_correct_session(
    tmp_path: Path, seed: int
) -> None:
    joey, ids = create_joey(tmp_path, seed), [str(uuid.uuid4()) for _ in range(2)]
    async with ModelServer([completing("One."), completing("Two.")]) as server:
        for task_id in ids:
            async with steering(joey, server.url, seed=seed) as steered:
                await steered.send("start", "s", prompt="do it", taskId=task_id.upper())
                assert (await steered.control("ack", "s"))["taskId"] == task_id
                done = await steered.control("done", "s")
                assert (done["code"], done["taskId"]) == ("task_completed", task_id)
                await steered.shut_down()
        listed = await joey.run("tasks", "list", "--json")
        assert {task["id"] for task in listed.json} == set(ids)
        assert {task["status"] for task in listed.json} == {"completed"}
        for task_id in ids:
            async with steering(joey, server.url, "-r", task_id, seed=seed) as steered:
                assert steered.lines[0]["taskId"] == task_id
                await steered.shut_down()
                assert steered.lines_of_type("control")[-1]["taskId"] == task_id


async def complete_and_say(steered: Steered, text: str, **more: Any) -> Line:
    """A first result, then these words; what came of them."""
    await steered.send("start", "s", prompt="do it")
    first = await steered.result("s")
    assert (first["success"], first["content"], first["done"]) == (True, "First.", True)
    done = await steered.control("done", "s")
    assert (done["code"], done["success"]) == ("task_completed", True)
    await steered.send("message", "m", prompt=text, **more)
    await steered.control("ack", "m")
    assert (await steered.control("done", "m"))["code"] == "responded"
    return await steered.result("m")


@several
async def test_followup_after_completion(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([completing("First."), completing("Second.")]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        assert (await complete_and_say(steered, "and now?"))["content"] == "Second."
        assert [line.get("requestId") for line in steered.lines_of_type("user")] == ["s", "m"]
        await steered.shut_down()
        assert "and now?" in json.dumps(server.requests[-1].body["messages"])


@several
async def test_followup_completion_ask_response(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([completing("First."), completing("Second.")]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await complete_and_say(steered, "and now?")
        await steered.shut_down()
        assert [line["requestId"] for line in steered.lines_of_type("control", "ack")] == [
            "s",
            "m",
            "end",
        ]
        assert steered.lines_of_type("queue") == []
        assert len(server.requests) == 2


@several
async def test_followup_completion_ask_response_images(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([completing("First."), completing("Second.")]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await complete_and_say(steered, "look at this", images=[IMAGE])
        await steered.shut_down()
        assert steered.lines_of_type("queue") == []
        assert base64.b64encode(PNG).decode() in json.dumps(server.requests[-1].body["messages"])


@several
async def test_followup_during_streaming(tmp_path: Path, seed: int) -> None:
    gate = asyncio.Event()
    first = waiting(gate, call("attempt_completion", {"result": "First."}))
    async with (
        ModelServer([first, completing("Second.")]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="do it")
        await steered.until(lambda line: line.get("content") == "I begin")
        await steered.send("message", "m", prompt="also this")
        assert (await steered.control("done", "m"))["code"] == "queued"
        gate.set()
        assert (await steered.result("s"))["content"] == "First."
        assert (await steered.until(is_user("also this")))["requestId"] == "m"
        assert (await steered.result("m"))["content"] == "Second."
        await steered.shut_down()


@several
async def test_message_images_queue_metadata(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([waiting(asyncio.Event())]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="do it")
        await steered.until(lambda line: line.get("content") == "I begin")
        text = "look  at\nthis " + "x" * 300
        await steered.send("message", "m", prompt=text, images=[IMAGE])
        update = await steered.until(lambda line: line["type"] == "queue")
        assert (update["subtype"], update["queueDepth"]) == ("enqueued", 1)
        (item,) = update["queue"]
        assert item["imageCount"] == 1
        assert len(item["text"]) == 180
        assert item["text"].startswith("look at this xxx")
        await steered.shut_down()
        assert ("done", "queued") in codes(steered, "m")


@several
async def test_message_without_active_task(tmp_path: Path, seed: int) -> None:
    async with steering(create_joey(tmp_path, seed), "http://127.0.0.1:9", seed=seed) as steered:
        await steered.send("message", "m", prompt="hello?")
        refused = await steered.control("error", "m")
        assert (refused["code"], refused["success"]) == ("no_active_task", False)
        await steered.shut_down()
        assert codes(steered, "m") == [("error", "no_active_task")]


@several
async def test_mixed_command_ordering(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([waiting(asyncio.Event())]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="do it")
        await steered.until(lambda line: line.get("content") == "I begin")
        await steered.send("ping", "p1")
        await steered.send("message", "m", prompt="more")
        await steered.send("ping", "p2")
        await steered.control("done", "p2")
        order = [(line["requestId"], line["subtype"]) for line in steered.lines_of_type("control")]
        pairs = [(name, kind) for name in ("p1", "m", "p2") for kind in ("ack", "done")]
        assert order == [("s", "ack"), *pairs]
        assert ("done", "queued") in codes(steered, "m")
        assert ("done", "pong") in codes(steered, "p1")
        # Commands that come together are all answered before the task gets a word in.
        (queued,) = await steered.wait_for_lines("queue", "enqueued")
        assert (queued["queueDepth"], queued["requestId"]) == (1, "s")
        await steered.shut_down()


@several
async def test_multi_message_queue_order(tmp_path: Path, seed: int) -> None:
    gate = asyncio.Event()
    first = waiting(gate, call("attempt_completion", {"result": "First."}))
    async with (
        ModelServer([first, completing("Second."), completing("Third.")]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="do it")
        await steered.until(lambda line: line.get("content") == "I begin")
        await steered.send("message", "a", prompt="then this")
        await steered.send("message", "b", prompt="and this")
        await steered.control("done", "b")
        gate.set()
        assert (await steered.result("a"))["content"] == "Second."
        assert (await steered.result("b"))["content"] == "Third."
        updates = [
            (line["subtype"], line["queueDepth"], line["requestId"])
            for line in steered.lines_of_type("queue")
        ]
        assert updates == [
            ("enqueued", 1, "s"),
            ("enqueued", 2, "s"),
            ("dequeued", 1, "a"),
            ("drained", 0, "b"),
        ]
        results = [line["content"] for line in steered.lines_of_type("result")]
        assert results == ["First.", "Second.", "Third."]
        await steered.shut_down()


@several
async def test_shutdown_while_running(tmp_path: Path, seed: int) -> None:
    async with (
        ModelServer([running()]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="run it")
        pid = await number_of_command(steered)
        await steered.shut_down()
        assert is_gone(pid)
        assert codes(steered, "s") == [("ack", "accepted"), ("done", "task_aborted")]


@several
async def test_start_while_busy(tmp_path: Path, seed: int) -> None:
    gate = asyncio.Event()
    first = waiting(gate, call("attempt_completion", {"result": "First."}))
    async with (
        ModelServer([first, completing("Another.")]) as server,
        steering(create_joey(tmp_path, seed), server.url, seed=seed) as steered,
    ):
        await steered.send("start", "s", prompt="do it")
        await steered.send("start", "t", prompt="and something else")
        refused = await steered.control("error", "t")
        assert (refused["code"], refused["success"]) == ("task_busy", False)
        gate.set()
        await steered.result("s")
        await steered.send("start", "u", prompt="something else")
        ack = await steered.control("ack", "u")
        assert ack["taskId"] != refused["taskId"]
        assert (await steered.result("u"))["content"] == "Another."
        await steered.shut_down()
