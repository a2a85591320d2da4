"""Whoever was away is told everything since, in order, once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.app import open_store
from joey.core.history.ui import UiHistory
from joey.testing.script import Turn, call, pause, say
from joey.testing.server import ModelServer, Request, by_conversation
from tests.harness.server.binary import Program, Served
from tests.harness.server.event_folding import continue_after, identity
from tests.harness.server.server_fixture import Peer, ServerFixture, done, open_server, rows_of

CUTS = 100
KILLS = 4


def busy_turn(part: int) -> Turn:
    """Text, tool calls and an edit, at a pace that can be watched."""
    return Turn(
        say(f"Part {part}: looking around, thinking aloud. " * 5, chunk=6),
        call("list_files", {"path": "."}),
        call("update_todo_list", {"todos": f"[x] part {part}\n[ ] rest"}),
        call("write_to_file", {"path": f"{part}.txt", "content": "line\n" * 100}, chunk=20),
        pace=150,
    )


def rows_on_disk(home: Path, task_id: str) -> list[dict[str, Any]]:
    """What the journal itself says, without the server."""
    ui = UiHistory()
    for record in open_store(home).read_records(task_id):
        ui.apply(record.event)
    rows: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(list(ui.rows)))
    return rows


def finished(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows_of(events) if not row.get("partial")]


@pytest.mark.contract("websocket:replay")
async def test_a_client_that_is_cut_a_hundred_times_ends_with_what_the_journal_has(
    tmp_path: Path,
) -> None:
    chance = random.Random(7)
    cuts = 0
    received: list[dict[str, Any]] = []

    def until_cut_often_enough(request: Request) -> Turn:
        return busy_turn(cuts) if cuts < CUTS else done()

    turns = [until_cut_often_enough] * CUTS
    async with open_server(tmp_path, *turns, alwaysAllowWrite=True) as here:
        async with here.peer() as starter:
            task_id = (await starter.ask("startNewTask", text="go"))["taskId"]
        while cuts < CUTS:
            await listen_and_vanish(here, task_id, received, chance.randrange(5))
            cuts += 1
        assert not any(event["eventName"] == "taskIdle" for event in received), "it still streams"
        async with here.peer() as peer:
            await catch_up(peer, task_id, received)
            await peer.asked("completion_result")
            received += peer.events
        assert finished(received) == rows_on_disk(here.home, task_id)
        numbers = [event["seq"] for event in received]
        assert numbers == sorted(numbers)
        assert numbers[-1] == len(open_store(here.home).read_records(task_id))


async def listen_and_vanish(
    here: ServerFixture, task_id: str, received: list[dict[str, Any]], frames: int
) -> None:
    """Subscribe, read so many events, then be gone without a word."""
    async with here.peer() as peer:
        await catch_up(peer, task_id, received)
        while len(peer.events) < frames:
            await peer.frame()
        received += peer.events
        peer.socket.transport.abort()


async def catch_up(peer: Peer, task_id: str, received: list[dict[str, Any]]) -> None:
    """Subscribe from the last number; what came before the answer is told again after it."""
    since = max((event["seq"] for event in received), default=0)
    await peer.ask("subscribe", task_id, since=since)
    peer.events.clear()


@pytest.mark.contract("websocket:replay")
async def test_no_event_is_missed_or_repeated_wherever_the_connection_is_cut(
    tmp_path: Path,
) -> None:
    asking = Turn(say("Hm."), call("ask_followup_question", {"question": "?", "follow_up": []}))
    turns = (busy_turn(1), asking, Turn(call("switch_mode", {"mode_slug": "ask"})), done())
    async with open_server(tmp_path, *turns, alwaysAllowWrite=True) as here, here.peer() as live:
        task_id = (await live.ask("startNewTask", text="go"))["taskId"]
        await live.asked("followup")
        await live.ask("sendMessage", message="the red one")
        await live.asked("tool")
        await live.ask("pressPrimaryButton")
        await live.asked("completion_result")
        await live.ask("rewindTask", task_id, messageTs=live.rows()[2]["ts"])
        await live.event("taskRewound")
        events = (await live.ask("getEvents", task_id))["events"]
        sent = list(map(identity, live.events))
        assert sent == sorted(set(sent)), "each event has an identity of its own, in order"
        durable = list(map(identity, events))
        assert [each for each in sent if each in durable] == durable
        assert max(part for _, part in durable) > 1
        for count in range(len(events)):
            async with here.peer() as first, here.peer() as second:
                await first.ask("subscribe", task_id)
                while len(first.events) < count:
                    await first.frame()
                first.socket.transport.abort()
                await continue_after(second, task_id, first.events[:count])
                while len(second.events) < len(events) - count:
                    await second.frame()
                received = [*first.events[:count], *second.events]
                assert list(map(identity, received)) == durable
                assert (await second.ask("ping"))["pong"]
                assert len(second.events) == len(events) - count, "and nothing more"


@pytest.mark.contract("websocket:replay")
async def test_events_keep_their_identity_while_they_stream_and_after_a_restart(
    tmp_path: Path,
) -> None:
    received: list[dict[str, Any]] = []
    cuts = 0

    def until_cut_often_enough(request: Request) -> Turn:
        return busy_turn(cuts) if cuts < CUTS else done()

    turns = [until_cut_often_enough] * CUTS
    async with open_server(tmp_path, *turns, alwaysAllowWrite=True) as here:
        async with here.peer() as starter:
            task_id = (await starter.ask("startNewTask", text="go"))["taskId"]
        for cuts in range(1, CUTS + 1):
            async with here.peer() as peer:
                await continue_after(peer, task_id, received)
                while len(peer.events) <= cuts % 5:
                    await peer.frame()
                received += peer.events
                peer.socket.transport.abort()
        async with here.peer() as peer:
            await continue_after(peer, task_id, received)
            await peer.asked("completion_result")
            received += peer.events
    identities = list(map(identity, received))
    assert identities == sorted(set(identities))
    async with open_server(tmp_path) as here, here.peer() as peer:
        replayed = (await peer.ask("getEvents", task_id))["events"]
        durable = [identity(event) for event in replayed if event["record"] <= identities[-1][0]]
        assert [each for each in identities if each in set(durable)] == durable


async def test_everything_is_sent_from_the_beginning_and_then_live(tmp_path: Path) -> None:
    gate = asyncio.Event()
    turns = (
        Turn(say("first"), call("list_files", {"path": "."})),
        Turn(say("second"), pause(gate), *done().steps),
    )
    async with open_server(tmp_path, *turns) as here, here.peer() as first:
        task_id = (await first.ask("startNewTask", text="go"))["taskId"]
        await first.event(
            "message", where=lambda e: e["payload"]["message"].get("text") == "second"
        )
        async with here.peer() as late:
            answer = await late.ask("subscribe", task_id, since=0)
            assert late.events == [], "the answer comes before what it announces"
            gate.set()
            await late.asked("completion_result")
            await first.asked("completion_result")
            assert answer["taskId"] == task_id
            final = [row for row in first.rows() if not row.get("partial")]
            assert [row for row in late.rows() if not row.get("partial")] == final
            assert late.names()[0] == "taskCreated"
            for event in late.events:
                if event["eventName"] == "message":
                    assert event["payload"]["action"] == "created"
                    break
            everything = await late.ask("subscribe")
            assert everything == {"tasks": {task_id: late.events[-1]["seq"]}}


@pytest.mark.contract("websocket:rows")
async def test_whoever_comes_late_is_shown_a_quiet_row_as_it_stands(tmp_path: Path) -> None:
    gate = asyncio.Event()
    turns = (Turn(say("half of it"), pause(gate), say("and the rest"), *done().steps),)
    async with open_server(tmp_path, *turns) as here, here.peer() as first:
        task_id = (await first.ask("startNewTask", text="go"))["taskId"]
        await first.event("message", where=lambda e: _text(e) == "half of it")
        async with here.peer() as late:
            answer = await late.ask("subscribe", task_id, since=0)
            shown = await late.event("message", where=lambda e: _text(e) == "half of it")
            assert shown["payload"]["action"] == "created"
            assert shown["payload"]["message"]["partial"] is True
            assert shown["seq"] == answer["seq"]
            gate.set()
            grown = await late.event("message", where=lambda e: "the rest" in _text(e))
            assert grown["payload"]["action"] == "updated"
            assert grown["payload"]["message"]["ts"] == shown["payload"]["message"]["ts"]


async def test_a_row_that_is_met_first_is_created_and_then_updated(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
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
    async with open_server(tmp_path, done("one"), done("two")) as here, here.peer() as peer:
        task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
        await peer.asked("completion_result")
        await peer.ask("clearCurrentTask")
        async with here.peer() as late:
            answer = await late.ask("subscribe", task_id, since=0)
            await late.event("taskAborted")
            assert late.events[-1]["seq"] == answer["seq"]
            before = len(late.events)
            await peer.ask("sendMessage", task_id, message="once more")
            await late.asked("completion_result", since=before)
            kept = await late.ask("getMessages", task_id)
            assert [row for row in late.rows() if not row.get("partial")] == kept["messages"]


@pytest.mark.contract("websocket:replay")
async def test_a_client_of_a_server_that_is_killed_ends_with_what_the_journal_has(
    tmp_path: Path,
) -> None:
    chance = random.Random(11)
    received: list[dict[str, Any]] = []
    turns = [*(busy_turn(part) for part in range(3)), done()]
    async with ModelServer(by_conversation(turns)) as model:
        served = Served(tmp_path, model.url, alwaysAllowWrite=True)
        async with served.running() as program, program.peer() as peer:
            task_id = (await peer.ask("startNewTask", text="go"))["taskId"]
            await receive_some_and_kill(program, peer, received, chance)
        for _ in range(KILLS - 1):
            async with served.running() as program, program.peer() as peer:
                await catch_up(peer, task_id, received)
                await peer.ask("sendMessage", task_id, message="go on")
                await receive_some_and_kill(program, peer, received, chance)
        async with served.running() as program, program.peer() as peer:
            await catch_up(peer, task_id, received)
            await peer.ask("sendMessage", task_id, message="go on")
            await peer.asked("completion_result")
            received += peer.events
            await program.kill()
        assert finished(received) == rows_on_disk(served.home, task_id)
        feedback = [row for row in rows_of(received) if row.get("say") == "user_feedback"]
        assert len(feedback) == KILLS


async def receive_some_and_kill(
    program: Program, peer: Peer, received: list[dict[str, Any]], chance: random.Random
) -> None:
    """Wait until it streams, hear some more, and end the server in the middle of it. A slow
    machine joins what grows into fewer events, so that the task may come to its end before."""
    more = 1 + chance.randrange(20)
    while more and "taskIdle" not in peer.names():
        await peer.frame()
        if any(map(_is_transient, peer.events)):
            more -= 1
    await program.kill()
    received += [event for event in peer.events if not _is_transient(event)]


def _text(event: dict[str, Any]) -> str:
    return str(event["payload"]["message"].get("text"))


def _is_transient(event: dict[str, Any]) -> bool:
    return bool(event["payload"].get("message", {}).get("partial"))
