"""Clients that do not read: they lose events before anybody else loses time."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

from websockets.frames import Frame as Packet
from websockets.frames import Opcode

from joey.core.wire.commands import Pong
from joey.core.wire.events import MessagePayload, ModePayload
from joey.core.wire.frames import EventFrame, build_success
from joey.server.feed import (
    MAX_QUEUED_EVENTS,
    Broadcast,
    ReplaySource,
    SendQueue,
    StoredTaskFrames,
)
from joey.server.serve import ServeOptions
from joey.server.websocket import ConnectionLimits
from tests.harness.server.server_fixture import open_server


class Pipe:
    """A way to a client that can be shut and opened."""

    def __init__(self) -> None:
        self.can_write = True
        self.sent: list[dict[str, Any]] = []
        self.cut_with: int | None = None
        self.was_cut = asyncio.Event()
        self._last: str | None = None

    def shut_after(self, text: str) -> None:
        """Take nothing more once a row with this text was taken."""
        self._last = text

    def write(self, packet: bytes) -> None:
        header = 2 if packet[1] < 126 else 4 if packet[1] == 126 else 10
        assert packet == Packet(Opcode.TEXT, packet[header:]).serialize(mask=False)
        self.sent.append(json.loads(packet[header:]))
        if self._last is not None and self.sent_texts[-1:] == [self._last]:
            self.can_write, self._last = False, None

    def force_close(self, code: int, reason: str) -> None:
        self.cut_with = code
        self.was_cut.set()

    @property
    def sent_texts(self) -> list[Any]:
        return [frame["payload"]["message"]["text"] for frame in self.sent if "payload" in frame]


class Open(StoredTaskFrames, frozen=True):
    """A task with two rows that have not ended."""

    def build_partial_frames(self) -> list[EventFrame]:
        return [frame("growing", self.seq, ts=8), frame("growing too", self.seq, ts=9)]


def frame(text: str, seq: int, task_id: str = "t", ts: int = 1) -> EventFrame:
    payload = MessagePayload(action="updated", message={"ts": ts, "text": text})
    return EventFrame(event_name="message", task_id=task_id, payload=payload, seq=seq)


def outbox(
    pipe: Pipe, source: ReplaySource | None = None, drain_seconds: float = 60.0
) -> SendQueue:
    return SendQueue(pipe, lambda task_id: source, lambda: None, drain_seconds)


async def test_a_growing_row_is_sent_once_it_can_be_and_as_it_looks_then() -> None:
    pipe = Pipe()
    box = outbox(pipe)
    pipe.can_write = False
    box.send_event(Broadcast(frame("gro", 3), row_ts=1))
    box.send_event(Broadcast(frame("durable", 4, ts=2)))
    box.send_event(Broadcast(frame("growing", 4), row_ts=1))
    pipe.can_write = True
    box.flush()
    assert pipe.sent_texts == ["durable", "growing"], (
        "a look must not overtake what was told before it"
    )


async def test_a_slow_client_receives_of_a_new_row_before_its_changes() -> None:
    pipe = Pipe()
    box = outbox(pipe)
    pipe.can_write = False
    created = MessagePayload(action="created", message={"ts": 1, "text": ""})
    new = EventFrame(event_name="message", task_id="t", payload=created, seq=3)
    box.send_event(Broadcast(new, row_ts=1))
    box.send_event(Broadcast(frame("gro", 3), row_ts=1))
    box.send_event(Broadcast(frame("growing", 3), row_ts=1))
    pipe.can_write = True
    box.flush()
    assert [f["payload"]["action"] for f in pipe.sent] == ["created"]
    assert pipe.sent_texts == ["growing"]


async def test_whoever_lags_is_asked_to_subscribe_again_and_then_misses_nothing() -> None:
    pipe = Pipe()
    count = MAX_QUEUED_EVENTS + 50
    frames = [frame(str(n), n) for n in range(1, count + 1)]
    source = StoredTaskFrames(frames, list(range(1, count + 1)), count)
    box = outbox(pipe, source)
    box.send_event(Broadcast(frames[0]))
    pipe.can_write = False
    for each in frames[1:]:
        box.send_event(Broadcast(each))
    box.send_response(build_success("1", "ping", Pong(pong=1)))
    pipe.can_write = True
    box.flush()
    assert [f.get("eventName", "response") for f in pipe.sent] == ["message", "resync", "response"]
    assert pipe.sent[1]["payload"] == {"taskId": "t"}
    box.send_event(Broadcast(frame("unheard", count + 1)))
    assert len(pipe.sent) == 3, "nothing of the task until it is subscribed to again"
    box.send_response(build_success("2", "ping", Pong(pong=1)), (source, "t", 1))
    assert pipe.sent[3]["requestId"] == "2"
    texts = [f["payload"]["message"]["text"] for f in pipe.sent[4:]]
    assert texts == [str(n) for n in range(2, count + 1)]
    box.send_event(Broadcast(frame("live", count + 1)))
    assert pipe.sent[-1]["payload"]["message"]["text"] == "live"
    box.close()


async def test_a_long_task_is_read_back_no_faster_than_it_is_read() -> None:
    pipe = Pipe()
    frames = [frame(str(n), n, ts=n) for n in range(1, 5001)]
    source = StoredTaskFrames(frames, list(range(1, 5001)), 5000)
    box = outbox(pipe, source)
    pipe.can_write = False
    box.send_response(build_success("1", "ping", Pong(pong=1)), (source, "t", 0))
    assert pipe.sent == []
    pipe.can_write = True
    box.flush()
    assert len(pipe.sent) == 5001


async def test_what_grows_is_sent_after_a_task_was_read_back_and_before_it_grows_on() -> None:
    pipe = Pipe()
    source = Open([frame(str(n), n, ts=n) for n in range(1, 4)], [1, 2, 3], 3)
    box = outbox(pipe, source)
    pipe.can_write = False
    box.send_response(build_success("1", "ping", Pong(pong=1)), (source, "t", 1))
    box.send_event(Broadcast(frame("unheard", 3, ts=9), row_ts=9))
    pipe.can_write = True
    box.flush()
    assert pipe.sent_texts == ["2", "3", "growing", "growing too"]
    assert [f["payload"]["action"] for f in pipe.sent[-2:]] == ["created", "created"]
    box.send_event(Broadcast(frame("growing on", 3, ts=8), row_ts=8))
    assert pipe.sent_texts[-1] == "growing on"


async def test_what_grows_waits_for_a_slow_reader_and_is_sent_as_it_looks_then() -> None:
    pipe = Pipe()
    source = Open([], [], 0)
    box = outbox(pipe, source)
    pipe.shut_after("growing")
    box.send_response(build_success("1", "ping", Pong(pong=1)), (source, "t", 0))
    assert pipe.sent_texts == ["growing"]
    box.send_event(Broadcast(frame("growing on too", 0, ts=9), row_ts=9))
    pipe.can_write = True
    box.flush()
    assert pipe.sent_texts == ["growing", "growing on too"]
    assert [f["payload"]["action"] for f in pipe.sent[-2:]] == ["created", "created"]


async def test_whoever_does_not_even_read_that_is_cut() -> None:
    pipe = Pipe()
    box = outbox(pipe, drain_seconds=0.0)
    pipe.can_write = False
    for number in range(MAX_QUEUED_EVENTS + 1):
        box.send_event(Broadcast(frame("x", number)))
    async with asyncio.timeout(60):
        await pipe.was_cut.wait()
    assert pipe.cut_with == 1013


async def test_a_client_that_never_reads_is_cut_and_disturbs_nobody(tmp_path: Path) -> None:
    options = ServeOptions(port=0, limits=ConnectionLimits(drain_timeout_s=0.1))
    async with open_server(tmp_path, options=options) as here, here.peer() as reader:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", here.listening.port))
        async with here.socket(sock=deaf, close_timeout=0.1) as silent:
            silent.transport.pause_reading()
            await reader.ask("ping")
            assert len(here.listening.connections) == 2
            payload = ModePayload(mode="x" * 65_536)
            sent = 0
            async with asyncio.timeout(30):
                while len(here.listening.connections) > 1:
                    here.hub.announce("modeChanged", payload)
                    sent += 1
                    await reader.event("modeChanged", since=sent - 1)
            assert here.hub.counters.resync_count == 1
            assert len(reader.events) == sent
            silent.transport.abort()
