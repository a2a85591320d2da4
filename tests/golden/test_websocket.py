"""What a client of `joey serve` hears: the frames of a task, and what `onAsk` hooks read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.golden.golden import check_json
from tests.golden.homes import ModelServer, Turn
from tests.golden.live import Client, serving
from tests.golden.masks import masked, merged, shape
from tests.golden.program import Program
from tests.golden.scripts import turn
from tests.golden.write_corpus import start, work

TASK = "work-native"
ASKED: dict[str, dict[str, Any]] = {
    "getTask": {},
    "getEvents": {},
    "getMessages": {},
    "getTodos": {},
    "getTokenUsage": {},
    "getCheckpoints": {},
    "listTasks": {},
    "searchTasks": {"query": "work"},
    "getModes": {},
    "getProfiles": {},
    "getConfiguration": {},
    "subscribe": {},
    "isReady": {},
    "ping": {},
}


def shapes(frames: list[dict[str, Any]]) -> dict[str, Any]:
    """The keys of frames, by what they are about.

    Rows that still grow are left out: how many frames show them depends on the time they take.
    """
    found: dict[str, list[Any]] = {}
    for frame in frames:
        if frame.get("eventName") == "message" and frame["payload"]["message"].get("partial"):
            continue
        data = dict(frame)
        if frame.get("commandName") in ("getEvents", "getMessages"):
            data["data"] = sorted(frame["data"])  # the frames and rows are told as events too
        name = frame.get("eventName") or f"response to {frame['commandName']}"
        if name == "message":
            row = frame["payload"]["message"]
            name = f"message {row['type']} {row.get('say') or row['ask']}"
        found.setdefault(name, []).append(shape(data))
    return {name: merged(each) for name, each in found.items()}


async def talk(client: Client) -> None:
    _, play = work("native")
    await play(client, TASK)
    for name, arguments in ASKED.items():
        needs_task = name in ("getTask", "getEvents", "getMessages", "getTodos", "getTokenUsage")
        task_id = TASK if needs_task or name == "getCheckpoints" else None
        await client.ask(name, task_id, **arguments)


@asynccontextmanager
async def played(program: Program, turns: list[Turn]) -> AsyncIterator[Client]:
    """A client of a server whose model says this."""
    async with ModelServer(turns) as server:
        profile = {"provider": "anthropic", "baseUrl": server.url, "model": "scripted"}
        document = {"active": TASK, "profiles": {TASK: profile}}
        path = program.home / "profiles.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        path.chmod(0o600)
        async with serving(program) as client:
            yield client


async def test_the_frames_of_a_task_are_the_same(tmp_path: Path) -> None:
    program = Program(tmp_path, deniedCommands=["rm"], sandbox="off")
    async with played(program, work("native")[0]) as client:
        await talk(client)
        frames = client.frames
    events = [each["eventName"] for each in frames if each["type"] == "event"]
    order = [name for name in events if name not in ("message", "taskTokenUsageUpdated")]
    check_json("websocket/frames.json", {"events": order, "frames": shapes(frames)})


async def test_what_a_hook_reads_while_a_task_asks_is_the_same(tmp_path: Path) -> None:
    seen = tmp_path / "asked.jsonl"
    command = """cat >> ../asked.jsonl; printf '{"message": "noted"}'"""
    hooks = [{"event": "onAsk", "command": command}]
    program = Program(tmp_path, sandbox="off", hooks=hooks)
    writing = turn("native", 1, ("write_to_file", {"path": "c.txt", "content": "one\n"}))
    async with played(program, [writing]) as client:
        await start(client, TASK, "Write it.")
        await client.event(
            lambda frame: (
                frame["eventName"] == "message"
                and frame["payload"]["message"].get("say") == "hook_message"
            )
        )
    read = [json.loads(line) for line in seen.read_text(encoding="utf-8").splitlines()]
    check_json("outputs/hook_on_ask.json", masked(read, program.paths))
