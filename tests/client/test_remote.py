"""A server from afar: refusals, lists, lost connections, and servers that come back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve

from joey.client.event_decoder import is_transient_frame
from joey.client.remote import RemoteEngine, RemoteError, RemoteSession
from joey.core.events import AskOpened, RowDelta, RowOpened, TaskFinished
from joey.core.task_types import AskKind
from joey.core.wire.frames import EventFrame
from joey.testing.script import Turn, call, pause, say, usage
from tests.harness.client.serving import (
    ALLOW_ALL,
    TIMEOUT_S,
    TOKEN,
    Server,
    done,
    open_harness,
    write,
)


class CuttingProxy:
    """A way to a server that breaks: after some bytes, or when told to."""

    def __init__(
        self, port: int, seed: int | None = None, bytes_at_once: tuple[int, int] = (2_500, 15_000)
    ) -> None:
        self._to = port
        self._random = random.Random(seed) if seed is not None else None
        self._bytes_at_once = bytes_at_once
        self._open: set[asyncio.StreamWriter] = set()
        self._talks: set[asyncio.Task[None]] = set()
        self.cuts = 0
        self.lets_in = True

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._welcome, "127.0.0.1", 0)
        try:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._talks)

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._talks.add(connection)
        try:
            if self.lets_in:
                await self._relay(reader, writer)
        finally:
            writer.transport.abort()
            self._talks.discard(connection)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._open |= {writer, far_writer}
        budget = self._random.randint(*self._bytes_at_once) if self._random else None
        up = asyncio.create_task(_pump(reader, far_writer, None))
        down = asyncio.create_task(_pump(far_reader, writer, budget))
        await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
        self.cuts += down.done()
        for end in (writer, far_writer):
            end.transport.abort()
        self._open -= {writer, far_writer}
        await asyncio.wait([up, down])


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: int | None
) -> None:
    try:
        while data := await reader.read(1000):
            writer.write(data if budget is None else data[:budget])
            await writer.drain()
            if budget is not None:
                budget -= len(data)
                if budget <= 0:
                    return
    except ConnectionError:
        return


@asynccontextmanager
async def a_server(root: Path, *turns: Turn) -> AsyncIterator[Server]:
    async with (
        asyncio.timeout(TIMEOUT_S),
        open_harness(root, turns) as (place, _),
        place.serving() as server,
    ):
        yield server


async def lasting(session: RemoteSession) -> list[EventFrame]:
    return [frame async for frame in session.frames() if not is_transient_frame(frame)]


def bare(frames: list[EventFrame]) -> list[Any]:
    return [
        (f.seq, f.event_name, f.payload["message"] if f.event_name == "message" else f.payload)
        for f in frames
    ]


@pytest.mark.contract("python:reconnect")
@pytest.mark.parametrize("seed", range(6))
async def test_random_cuts_leave_no_gap_and_no_repeat(tmp_path: Path, seed: int) -> None:
    turns = [
        Turn(say("Word after word. " * 60, chunk=10), write(f"note{number}", "x\n" * 50), pace=400)
        for number in range(4)
    ]
    async with a_server(tmp_path, *turns, Turn(done())) as server, await server.connect() as near:
        way = CuttingProxy(server.port, seed)
        async with way.serving() as url:
            task = await near.start("go", configuration=ALLOW_ALL)
            async with await _patiently(url) as far:
                session = await far.attach(task.id)
                receiving = asyncio.create_task(lasting(session))
                async for event in task.events():
                    if isinstance(event, AskOpened):
                        await task.approve()
                got = await receiving
                assert list(session.rows) == await task.messages()
                assert session.pending is None
            truth = await near.command("getEvents", task.id, since=0)
        assert bare(got) == bare([_frame(event) for event in truth["events"]])
        assert way.cuts > 1


@pytest.mark.contract("python:reconnect")
async def test_a_history_is_read_over_a_line_that_never_lasts_for_all_of_it(tmp_path: Path) -> None:
    turns = [
        Turn(call("update_todo_list", {"todos": f"[x] {number}"}), usage(input=1, output=1))
        for number in range(20)
    ]
    async with a_server(tmp_path, *turns, Turn(done())) as server, await server.connect() as near:
        task = await near.start("go")
        await anext(_asks_until_done(task))
        whole = await near.command("getEvents", task.id)
        least = len(msgspec.json.encode(await task.messages())) + 3_000
        assert len(msgspec.json.encode(whole)) > 2 * least
        way = CuttingProxy(server.port, 1, (least, least))
        async with way.serving() as url, await _patiently(url) as far:
            session = await far.attach(task.id)
            receiving = asyncio.create_task(lasting(session))
            await task.approve()
            got = await receiving
        assert way.cuts > 1
        truth = await near.command("getEvents", task.id)
        assert bare(got) == bare([_frame(event) for event in truth["events"]])
        rows = [frame.payload for frame in got if frame.event_name == "message"]
        created = [row["message"]["ts"] for row in rows if row["action"] == "created"]
        assert created == sorted({row["message"]["ts"] for row in rows}), "each row once"


async def _patiently(url: str) -> RemoteEngine:
    """Connect over a way that may break at once."""
    while True:
        try:
            return await RemoteEngine.connect(url, TOKEN)
        except RemoteError as error:
            assert error.code == "CONNECTION_LOST"


def _frame(event: dict[str, Any]) -> EventFrame:
    return EventFrame(
        event_name=event["eventName"],
        task_id=event["taskId"],
        payload=event["payload"],
        seq=event["seq"],
    )


@pytest.mark.contract("python:sessions")
async def test_a_quiet_row_is_shown_to_whoever_attaches_reads_again_or_comes_back(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    turns = (Turn(say("half of it"), pause(gate), say("and the rest"), done()),)
    async with a_server(tmp_path, *turns) as server, await server.connect() as near:
        task = await near.start("go")
        await _shown(task, "half of it")
        way = CuttingProxy(server.port)
        async with way.serving() as url, await RemoteEngine.connect(url, TOKEN) as far:
            session = await far.attach(task.id)
            await _shown(session, "half of it")
            await _shown(session, "half of it")
            watching = session.watch(session.opened_at_seq)
            assert [type(await anext(watching)) for _ in range(2)] == [RowOpened, RowDelta]
            way.cut()
            await _shown(session, "half of it")
            gate.set()
            assert isinstance(await anext(watching), RowDelta), (
                "the words before are not told twice"
            )


async def _shown(session: RemoteSession, text: str) -> None:
    async for frame in session.frames():
        if is_transient_frame(frame) and frame.payload["message"].get("text") == text:
            return


@pytest.mark.contract("python:reconnect")
async def test_a_question_that_opened_while_the_line_was_down_is_there_afterwards(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    turns = Turn(pause(gate), write("note", "x")), Turn(done())
    async with a_server(tmp_path, *turns) as server, await server.connect() as near:
        way = CuttingProxy(server.port)
        async with way.serving() as url, await RemoteEngine.connect(url, TOKEN) as far:
            task = await near.start("go", configuration={"autoApprovalEnabled": False})
            session = await far.attach(task.id)
            way.lets_in = False
            way.cut()
            gate.set()
            await anext(_asks(task))
            assert session.pending is None
            way.lets_in = True
            ask = await anext(_asks(session))
            assert session.pending == ask
            assert await session.approve()


async def _asks(session: RemoteSession) -> AsyncIterator[AskOpened]:
    async for event in session.events():
        if isinstance(event, AskOpened):
            yield event


@pytest.mark.contract("python:reconnect")
async def test_a_task_goes_on_after_the_server_was_restarted(tmp_path: Path) -> None:
    turns = Turn(write("note", "x")), Turn(done("after the restart"))
    async with asyncio.timeout(TIMEOUT_S), open_harness(tmp_path, turns) as (place, _):
        async with place.serving() as first:
            port = first.port
            engine = await first.connect()
            session = await engine.start("go", configuration={"autoApprovalEnabled": False})
            await anext(_asks(session))
        async with place.serving(port):
            await session.send("go on")
            events = session.events()
            async for event in events:
                if isinstance(event, AskOpened) and event.ask is AskKind.COMPLETION_RESULT:
                    await session.approve()
            assert isinstance(event, TaskFinished)
            rows = list(session.rows)
            assert rows == await session.messages()
            assert [row["ts"] for row in rows] == sorted({row["ts"] for row in rows})
        await engine.close()


@pytest.mark.contract("python:reconnect")
async def test_a_server_on_its_way_down_is_waited_for(tmp_path: Path) -> None:
    turns = (Turn(call("ask_followup_question", {"question": "Sure?", "follow_up": []})),)
    async with a_server(tmp_path, *turns) as server, await server.connect() as near:
        task = await near.start("go")
        await anext(_asks(task))
        way = CuttingProxy(server.port)
        async with way.serving() as url, await RemoteEngine.connect(url, TOKEN) as far:
            server.hub.is_ready = False
            attaching = asyncio.create_task(far.attach(task.id))
            while not server.hub.counters.commands_by_outcome["getMessages", "API_NOT_READY"]:
                await near.command("ping")
            refused = server.hub.counters.refused_count
            way.cut()
            while server.hub.counters.refused_count == refused:
                await near.command("ping")
            server.hub.is_ready = True
            session = await attaching
            assert session.pending is not None


@pytest.mark.contract("python:reconnect")
async def test_a_server_that_does_not_come_back_is_given_up(tmp_path: Path) -> None:
    turns = (Turn(pause(asyncio.Event())),)
    async with a_server(tmp_path, *turns) as server:
        way = CuttingProxy(server.port)
        async with way.serving() as url:
            engine = await RemoteEngine.connect(url, TOKEN, patience=0.5)
            session = await engine.start("go")
            reading = asyncio.create_task(lasting(session))
            way.lets_in = False
            way.cut()
            with pytest.raises(RemoteError, match="did not come back"):
                await reading
            with pytest.raises(RemoteError, match="did not come back"):
                await session.send("hello?")
            with pytest.raises(RemoteError, match="did not come back"):
                await lasting(session)
            await engine.close()


async def test_nobody_is_there(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(RemoteError, match="there is no joey server"):
            await RemoteEngine.connect("ws://127.0.0.1:1/ws", TOKEN)


@pytest.mark.contract("python:sessions")
def is_kept() -> bool:
    return any(each.get_name() == "joey-connection" for each in asyncio.all_tasks())


async def test_who_gives_up_connecting_leaves_no_connection() -> None:
    met, left = asyncio.Event(), asyncio.Event()

    async def say_nothing(socket: ServerConnection) -> None:
        met.set()
        await socket.wait_closed()
        left.set()

    async with serve(say_nothing, "127.0.0.1", 0) as server, asyncio.timeout(TIMEOUT_S):
        port = next(iter(server.sockets)).getsockname()[1]
        url = f"ws://127.0.0.1:{port}/ws"
        connecting = asyncio.ensure_future(RemoteEngine.connect(url, TOKEN))
        await met.wait()
        while not is_kept():  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0)
        connecting.cancel()
        await left.wait()
    assert connecting.cancelled()


async def test_a_wrong_token_is_reported_at_once(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server:
        with pytest.raises(RemoteError, match="wants another token") as refused:
            await RemoteEngine.connect(server.url, "wrong")
        assert refused.value.code == "PERMISSION_DENIED"
        with pytest.raises(RemoteError, match="there is no token"):
            await RemoteEngine.connect(server.url)


@pytest.mark.contract("python:sessions")
async def test_a_refusal_carries_its_code(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, await server.connect() as engine:
        for command in (engine.attach("nobody"), engine.command("cancelTask", "nobody")):
            with pytest.raises(RemoteError, match="Task with ID 'nobody' not found") as missing:
                await command
            assert missing.value.code == "TASK_NOT_FOUND"
        with pytest.raises(RemoteError) as unknown:
            await engine.command("fly")
        assert unknown.value.code == "INVALID_COMMAND"


async def test_tasks_of_a_server_are_listed_and_attached_to(tmp_path: Path) -> None:
    turns = (
        Turn(call("ask_followup_question", {"question": "Sure?", "follow_up": []})),
        Turn(done()),
    )
    async with a_server(tmp_path, *turns) as server, await server.connect() as one:
        started = await one.start("a question")
        await anext(_asks(started))
        async with await server.connect() as two:
            [info] = await two.tasks(str(tmp_path / "work"))
            assert (info.id, info.title, info.live) == (started.id, "a question", True)
            assert await two.tasks("/elsewhere") == []
            session = await two.attach(info.id)
            assert session is await two.attach(info.id)
            assert session.pending is not None
            assert session.pending.ask is AskKind.FOLLOWUP
            assert session.rows == started.rows
            await session.send("sure")
            asks = [ask async for ask in _asks_until(session, AskKind.COMPLETION_RESULT)]
            assert [ask.ask for ask in asks] == [AskKind.FOLLOWUP, AskKind.COMPLETION_RESULT]
            two.detach(session)
            assert [frame async for frame in session.frames()][-1].event_name == "taskIdle"


async def _asks_until(session: RemoteSession, kind: AskKind) -> AsyncIterator[AskOpened]:
    async for ask in _asks(session):
        yield ask
        if ask.ask is kind:
            return


@pytest.mark.contract("python:reconnect")
async def test_all_who_attach_at_once_see_how_it_goes_on(tmp_path: Path) -> None:
    turns = (
        Turn(call("ask_followup_question", {"question": "Sure?", "follow_up": []})),
        Turn(done()),
    )
    async with a_server(tmp_path, *turns) as server, await server.connect() as one:
        started = await one.start("a question")
        await anext(_asks(started))
        async with await server.connect() as two, asyncio.timeout(TIMEOUT_S):
            sessions = await asyncio.gather(*(two.attach(started.id) for _ in range(3)))
            await sessions[-1].send("sure")
            for session in sessions:
                asks = [ask.ask async for ask in _asks_until(session, AskKind.COMPLETION_RESULT)]
                assert asks == [AskKind.FOLLOWUP, AskKind.COMPLETION_RESULT]


async def test_who_gives_up_attaching_and_attaches_again_sees_how_it_goes_on(
    tmp_path: Path,
) -> None:
    turns = (
        Turn(call("ask_followup_question", {"question": "Sure?", "follow_up": []})),
        Turn(done()),
    )
    async with a_server(tmp_path, *turns) as server, await server.connect() as one:
        started = await one.start("a question")
        await anext(_asks(started))
        async with await server.connect() as two, asyncio.timeout(TIMEOUT_S):
            attaching = asyncio.ensure_future(two.attach(started.id))
            while started.id not in two._sessions:  # noqa: ASYNC110 (it begins to follow)
                await asyncio.sleep(0)
            attaching.cancel()
            await asyncio.wait([attaching])
            session = await two.attach(started.id)
            await session.send("sure")
            asks = [ask.ask async for ask in _asks_until(session, AskKind.COMPLETION_RESULT)]
            assert asks == [AskKind.FOLLOWUP, AskKind.COMPLETION_RESULT]


async def test_a_slow_reader_keeps_all_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joey.client.remote.MAX_UNREAD_FRAMES", 5)
    turns = [Turn(say("a b c d e f g h i j", chunk=1), write("note", "x"), pace=300), Turn(done())]
    async with a_server(tmp_path, *turns) as server, await server.connect() as engine:
        session = await engine.start("go", configuration=ALLOW_ALL)
        slow = session.frames()
        read = [await anext(slow)]
        await anext(_asks_until_done(session))
        await session.approve()
        read += [frame async for frame in slow]
        truth = await engine.command("getEvents", session.id, since=0)
        kept = [frame for frame in read if not is_transient_frame(frame)]
        assert bare(kept) == bare([_frame(event) for event in truth["events"]])


async def _asks_until_done(session: RemoteSession) -> AsyncIterator[AskOpened]:
    async for ask in _asks(session):
        if ask.ask is AskKind.COMPLETION_RESULT:
            yield ask
