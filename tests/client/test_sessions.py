"""A session is a session: the same tests for a task of this process and one of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from joey.client.remote import RemoteSession
from joey.client.session import Session
from joey.core.events import (
    AskAnswered,
    AskOpened,
    AskWithdrawn,
    Event,
    RequestStarted,
    RowAdded,
    RowDelta,
    RowOpened,
    TaskAborted,
    TaskCompleted,
    TaskCreated,
    TaskFinished,
    TaskRewound,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from joey.core.task_types import Answer, AskKind, Response
from joey.errors import JoeyError
from joey.testing.script import Turn, pause, say
from joey.testing.server import ModelServer
from tests.harness.client.serving import ALLOW_ALL, TIMEOUT_S, done, open_harness, write

Start = Callable[..., Awaitable[Session]]


@asynccontextmanager
async def sessions(
    root: Path, flavour: str, *turns: Turn
) -> AsyncIterator[tuple[Start, ModelServer]]:
    async with asyncio.timeout(TIMEOUT_S), open_harness(root, turns) as (place, model):
        if flavour == "local":
            hub = place.hub()

            async def start(text: str, **configuration: Any) -> Session:
                options = hub.services.build_options(configuration=configuration)
                return await hub.engine.start(text, options=options)

            try:
                yield start, model
            finally:
                await hub.close()
        else:
            async with place.serving() as server, await server.connect() as engine:

                async def start(text: str, **configuration: Any) -> Session:
                    return await engine.start(text, configuration=configuration)

                yield start, model


pytestmark = [
    pytest.mark.parametrize("flavour", ["local", "remote"]),
    pytest.mark.contract("python:sessions"),
]


async def until(session: Session, kind: type[Event], since: int | None = None) -> list[Event]:
    """What happens, up to the first event of a kind."""
    seen: list[Event] = []
    async for event in session.events(since):
        seen.append(event)
        if isinstance(event, kind):
            return seen
    raise AssertionError(f"no {kind.__name__} in {seen}")


async def test_events_come_from_the_beginning_until_the_task_rests(
    tmp_path: Path, flavour: str
) -> None:
    turns = Turn(say("Writing."), write("note", "hi\n")), Turn(done("written"))
    async with sessions(tmp_path, flavour, *turns) as (start, _):
        session = await start("write", **ALLOW_ALL)
        seen: list[Event] = []
        async for event in session.events():
            seen.append(event)
            if isinstance(event, AskOpened):
                assert session.pending == event
                assert await session.answer(event.ts, Answer(Response.YES))
        story = (TaskCreated, UserMessage, TaskStarted, RequestStarted, ToolStarted, ToolFinished)
        story += (RowAdded, TaskCompleted, AskOpened, AskAnswered, TaskFinished)  # type: ignore[assignment]
        assert [type(event) for event in seen if isinstance(event, story)] == [
            *(TaskCreated, UserMessage, TaskStarted, RequestStarted, ToolStarted, ToolFinished),
            *(RequestStarted, RowAdded, TaskCompleted, AskOpened, AskAnswered, TaskFinished),
        ]
        [completed] = [event for event in seen if isinstance(event, TaskCompleted)]
        assert completed.result == "written"
        assert completed.tool_usage["write_to_file"].attempts == 1
        assert session.pending is None
        assert session.usage.total_tokens_in == 20
        assert (tmp_path / "work" / "note").read_text() == "hi\n"


async def test_only_the_first_answer_counts(tmp_path: Path, flavour: str) -> None:
    turns = Turn(write("note", "hi\n")), Turn(done())
    async with sessions(tmp_path, flavour, *turns) as (start, _):
        session = await start("write", autoApprovalEnabled=False)
        ask = (await until(session, AskOpened))[-1]
        assert isinstance(ask, AskOpened)
        assert ask.ask is AskKind.TOOL
        assert ask.path == "note"
        assert await session.answer(ask.ts, Answer(Response.NO, text="leave it"))
        assert not await session.answer(ask.ts, Answer(Response.YES))
        await until(session, TaskCompleted)
        assert not (tmp_path / "work" / "note").exists()


async def test_a_message_answers_a_question(tmp_path: Path, flavour: str) -> None:
    turns = Turn(done("half")), Turn(done("whole"))
    async with sessions(tmp_path, flavour, *turns) as (start, model):
        session = await start("go")
        await until(session, AskOpened)
        await session.send("and the rest", ("data:image/png;base64,AAAA",))
        await until(session, AskAnswered)
        await model.wait_for_requests(2)
        assert "and the rest" in str(model.requests[1].body)
        assert "AAAA" in str(model.requests[1].body)


async def test_a_reply_is_seen_while_it_comes(tmp_path: Path, flavour: str) -> None:
    listening, seen = asyncio.Event(), asyncio.Event()
    turn = Turn(pause(listening), say("Once upon"), pause(seen), say("a time.", chunk=2), done())
    async with sessions(tmp_path, flavour, turn) as (start, _):
        session = await start("tell")
        grown: dict[int, str] = {}
        async for event in session.events():
            match event:
                case RequestStarted():
                    listening.set()
                case RowOpened(say="text", ts=ts):
                    grown[ts] = ""
                case RowDelta(ts=ts, delta=delta) if ts in grown:
                    grown[ts] += delta
                    seen.set()  # the model goes on only when its first words have been seen
                case AskOpened():
                    break
        assert "".join(grown.values()) == "Once upon\na time."


async def test_a_cancelled_task_asks_nothing_and_goes_on_with_a_message(
    tmp_path: Path, flavour: str
) -> None:
    turns = Turn(write("note", "hi\n")), Turn(done("after all"))
    async with sessions(tmp_path, flavour, *turns) as (start, _):
        session = await start("write", autoApprovalEnabled=False)
        await until(session, AskOpened)
        await session.cancel()
        seen = [event async for event in session.events()]
        assert [type(event) for event in seen[-2:]] == [AskWithdrawn, TaskAborted]
        assert session.pending is None
        await session.send("go on")
        await until(session, TaskCompleted)
        assert session.pending is None or session.pending.ask is AskKind.COMPLETION_RESULT


async def test_a_task_at_rest_has_nothing_more_to_tell(tmp_path: Path, flavour: str) -> None:
    turns = Turn(say("I wait."), pause(asyncio.Event())), Turn(done())
    async with sessions(tmp_path, flavour, *turns) as (start, model):
        session = await start("go")
        await model.wait_for_requests(1)
        await session.cancel()
        seen = [event async for event in session.events()]
        assert isinstance(seen[-1], TaskAborted)
        assert [event async for event in session.events(since=10_000)] == []


async def test_events_after_a_number_are_those_of_the_records_after_it(
    tmp_path: Path, flavour: str
) -> None:
    turns = Turn(write("note", "hi\n")), Turn(done())
    async with sessions(tmp_path, flavour, *turns) as (start, _):
        session = await start("write", **ALLOW_ALL)
        ask = (await until(session, AskOpened))[-1]
        await session.answer(ask.ts, Answer(Response.YES))
        whole = [event async for event in session.events()]
        for since in range(1, 9):
            received = [event async for event in session.events(since)]
            assert received == whole[len(whole) - len(received) :]
        assert isinstance(await anext(aiter(session.events(2))), TaskStarted)


async def test_rows_are_those_of_the_history(tmp_path: Path, flavour: str) -> None:
    turns = Turn(say("Writing."), write("note", "hi\n")), Turn(done("written"))
    async with sessions(tmp_path, flavour, *turns) as (start, _):
        session = await start("write", **ALLOW_ALL)
        await until(session, AskOpened)
        rows = [msgspec.to_builtins(row) for row in session.rows]
        assert [row.get("say") or row.get("ask") for row in rows] == [
            *("text", "api_req_started", "text", "tool", "checkpoint_saved", "checkpoint_saved"),
            *("api_req_started", "completion_result", "completion_result"),
        ]
        assert rows[3]["approvalState"] == "approved"
        assert rows[3]["result"] == "Created note: line 1."


@pytest.mark.contract("rewind:any-row")
async def test_a_session_goes_back_and_forth(tmp_path: Path, flavour: str) -> None:
    turns = Turn(say("Writing."), write("note", "hi\n")), Turn(done("written")), Turn(done("anew"))
    async with sessions(tmp_path, flavour, *turns) as (start, _):
        session = await start("write", **ALLOW_ALL)
        await until(session, AskOpened)
        rows = [msgspec.to_builtins(row) for row in session.rows]
        first = rows[0]["ts"]
        preview = await session.preview_rewind(first, files=True)
        assert [(each.path, each.kind) for each in preview.files] == [("note", "removed")]
        assert await session.rewind(first, files=True) == preview
        await came_to(session, TaskRewound, 1)
        assert [row_ts(row) for row in session.rows] == [first]
        assert session.pending is None and not session.is_running
        assert not (tmp_path / "work" / "note").exists()
        undoing = await session.preview_undo()
        assert set(undoing.restored_row_timestamps) == set(preview.removed_row_timestamps)
        await session.undo_rewind()
        await came_to(session, TaskRewound, 2)
        assert [row_ts(row) for row in session.rows] == [row["ts"] for row in rows]
        await session.edit(rows[-1]["ts"], "write it anew")
        while session.pending is None:
            await came_to(session, AskOpened, 2)
        again = [msgspec.to_builtins(row) for row in session.rows]
        assert again[0]["text"] == "write it anew"
        assert not {row["ts"] for row in again} & {row["ts"] for row in rows}
        with pytest.raises(JoeyError, match="no message 7"):
            await session.rewind(7)


async def came_to(session: Session, kind: type[Event], count: int) -> None:
    """Until a session has heard of so many events of a kind."""
    watch = session.watch if isinstance(session, RemoteSession) else session.events
    async for event in watch(0):
        count -= isinstance(event, kind)
        if not count:
            return


def row_ts(row: Any) -> int:
    return int(msgspec.to_builtins(row)["ts"])
