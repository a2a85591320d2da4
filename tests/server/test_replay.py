"""Whoever was away is told everything since, in order, once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer, by_conversation
from tests.server.binary import Served
from tests.server.house import House, Peer, done, house, rows_of

FEWEST = 20
"""Cuts that even a slow machine has time for; a usual one makes a hundred."""


def busy_turns(parts: int = 3) -> list[Turn]:
    """A few seconds of reasoning, text, tool calls and edits."""
    turns = [
        Turn(
            say(f"Part {part}: looking around, thinking aloud. " * 5, chunk=6),
            call("list_files", {"path": "."}),
            call("update_todo_list", {"todos": f"[x] part {part}\n[ ] rest"}),
            call("write_to_file", {"path": f"{part}.txt", "content": "line\n" * 100}, chunk=20),
            pace=150,
        )
        for part in range(parts)
    ]
    return [*turns, done()]


async def test_a_client_that_is_cut_again_and_again_misses_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with house(tmp_path, *busy_turns(10), alwaysAllowWrite=True) as here:
        async with here.peer() as starter:
            task_id = (await starter.ask("startNewTask", text="go"))["taskId"]
        heard: list[dict[str, Any]] = []
        cuts = 0
        while not any(event["eventName"] == "taskIdle" for event in heard):
            await listen_and_vanish(here, task_id, heard, chance.randrange(1, 5))
            cuts += 1
        async with here.peer() as peer:
            kept = await peer.ask("getMessages", task_id)
        assert cuts >= FEWEST
        assert [row for row in rows_of(heard) if not row.get("partial")] == kept["messages"]
        numbers = [event["seq"] for event in heard]
        assert numbers == sorted(numbers)
        assert max(numbers) == kept["seq"]


async def listen_and_vanish(
    here: House, task_id: str, heard: list[dict[str, Any]], frames: int
) -> None:
    """Read so many frames, then be gone without a word."""
    async with here.peer() as peer:
        await catch_up(peer, task_id, heard)
        while len(peer.events) < frames:
            await peer.frame()
            if peer.events[-1]["eventName"] == "taskIdle":
                break
        heard += peer.events
        peer.socket.transport.abort()


async def catch_up(peer: Peer, task_id: str, heard: list[dict[str, Any]]) -> None:
    """Subscribe from the last number; what came before the answer is told again after it."""
    since = max((event["seq"] for event in heard), default=0)
    await peer.ask("subscribe", task_id, since=since)
    peer.events.clear()


async def test_everything_is_told_from_the_beginning_and_then_live(tmp_path: Path) -> None:
    gate = asyncio.Event()
    turns = (
        Turn(say("first"), call("list_files", {"path": "."})),
        Turn(say("second"), pause(gate), *done().steps),
    )
    async with house(tmp_path, *turns) as here, here.peer() as first:
        task_id = (await first.ask("startNewTask", text="go"))["taskId"]
        await first.event(
            "message", where=lambda e: e["payload"]["message"].get("text") == "second"
        )
        async with here.peer() as late:
            told = await late.ask("subscribe", task_id, since=0)
            assert late.events == [], "the answer comes before what it announces"
            gate.set()
            await late.asked("completion_result")
            await first.asked("completion_result")
            assert told["taskId"] == task_id
            final = [row for row in first.rows() if not row.get("partial")]
            assert [row for row in late.rows() if not row.get("partial")] == final
            assert late.names()[0] == "taskCreated"
            for event in late.events:
                if event["eventName"] == "message":
                    assert event["payload"]["action"] == "created"
                    break
            everything = await late.ask("subscribe")
            assert everything == {"tasks": {task_id: late.events[-1]["seq"]}}


async def test_a_row_that_is_met_first_is_created_and_then_updated(tmp_path: Path) -> None:
    async with house(tmp_path, done()) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.asked("completion_result")
        since = next(
            event["seq"]
            for event in peer.events
            if event["eventName"] == "message"
            and event["payload"]["message"].get("say") == "api_req_started"
        )
        events = (await peer.ask("getEvents", task_id, since=since))["events"]
        rows = [event["payload"] for event in events if event["eventName"] == "message"]
        assert rows[0]["message"]["say"] == "api_req_started"
        assert rows[0]["action"] == "created"


async def test_a_closed_task_is_read_from_disk_and_goes_on_live_when_it_is_opened(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, done("one"), done("two")) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.asked("completion_result")
        await peer.ask("clearCurrentTask")
        async with here.peer() as late:
            told = await late.ask("subscribe", task_id, since=0)
            await late.event("taskAborted")
            assert late.events[-1]["seq"] == told["seq"]
            before = len(late.events)
            await peer.ask("sendMessage", task_id, message="once more")
            await late.asked("completion_result", since=before)
            kept = await late.ask("getMessages", task_id)
            assert [row for row in late.rows() if not row.get("partial")] == kept["messages"]


async def test_a_killed_server_comes_back_with_everything_it_had_told(tmp_path: Path) -> None:
    turns = [Turn(say("Some words that stream. " * 30, chunk=6), pace=100), *busy_turns()]
    async with ModelServer(by_conversation(turns)) as model:
        served = Served(tmp_path, model.url, alwaysAllowWrite=True)
        async with served.running() as first, first.peer() as peer:
            task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
            await peer.event(
                "message", where=lambda e: e["payload"]["message"].get("partial") is True
            )
            heard = [e for e in peer.events if not _passing(e)]
            await first.kill()
        async with served.running() as second, second.peer() as peer:
            since = max(event["seq"] for event in heard)
            await peer.ask("subscribe", task_id, since=since)
            assert (await peer.ask("isTaskInHistory", task_id)) == {"inHistory": True}
            await peer.ask("resumeTask", task_id)
            ask_ts = await peer.asked("resume_task")
            await peer.ask("respond", task_id, askTs=ask_ts, response="yesButtonClicked")
            await peer.asked("completion_result")
            heard += [e for e in peer.events if e.get("taskId") == task_id]
            kept = (await peer.ask("getMessages", task_id))["messages"]
            assert [row for row in rows_of(heard) if not row.get("partial")] == kept


def _passing(event: dict[str, Any]) -> bool:
    return bool(event["payload"].get("message", {}).get("partial"))
