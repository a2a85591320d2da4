"""A task and its subtasks, followed together: here in the process and over the wire alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.client.session import Session
from joey.client.task_tree_events import TaskTreeEvent, follow_task_tree
from joey.core.events import (
    AskOpened,
    RowAdded,
    TaskAborted,
    TaskCreated,
    TaskFinished,
    TaskPaused,
    TaskStarted,
)
from joey.core.task_types import Answer, AskKind, Response
from joey.testing.script import Turn, call, pause
from joey.testing.server import ModelServer
from tests.harness.client.serving import ALLOW_ALL, TIMEOUT_S, ServerHarness, done
from tests.harness.scripted_conversations import by_first_message

Start = Callable[..., Awaitable[Session]]
ALLOW = ALLOW_ALL | {"alwaysAllowSubtasks": True}

pytestmark = [
    pytest.mark.parametrize("flavour", ["local", "remote"]),
    pytest.mark.contract("subtasks:events"),
]


def hand(*messages: str) -> Turn:
    return Turn(*(call("new_task", {"mode": "code", "message": text}) for text in messages))


@asynccontextmanager
async def open_sessions(
    root: Path, flavour: str, parts: Mapping[str, Sequence[Turn]]
) -> AsyncIterator[Start]:
    async with asyncio.timeout(TIMEOUT_S), ModelServer(by_first_message(parts)) as model:
        place = ServerHarness(root, model.url)
        if flavour == "local":
            hub = place.hub()

            async def start(text: str, **configuration: Any) -> Session:
                options = hub.services.build_options(configuration=configuration)
                return await hub.engine.start(text, options=options)

            try:
                yield start
            finally:
                await hub.close()
        else:
            async with place.serving() as server, await server.connect() as engine:

                async def start(text: str, **configuration: Any) -> Session:
                    return await engine.start(text, configuration=configuration)

                yield start


async def all_of(session: Session, since: int | None = None) -> list[TaskTreeEvent]:
    """Everything, every question answered with yes as it is met."""
    seen: list[TaskTreeEvent] = []
    async with follow_task_tree(
        session, session.events(since), from_start=not since
    ) as tree_events:
        async for each in tree_events:
            seen.append(each)
            if isinstance(each.event, AskOpened):
                assert await each.session.answer(each.event.ts, Answer(Response.YES))
    return seen


def kinds(
    seen: Sequence[TaskTreeEvent], session_id: str, *wanted: type[object]
) -> list[type[object]]:
    return [type(t.event) for t in seen if t.session.id == session_id and type(t.event) in wanted]


async def test_a_tree_is_followed_from_the_beginning_to_the_end(
    tmp_path: Path, flavour: str
) -> None:
    parts = {
        "the whole": [hand("part one", "part two"), Turn(done("whole"))],
        "part one": [hand("part three"), Turn(done("one"))],
        "part two": [Turn(done("two"))],
        "part three": [Turn(done("three"))],
    }
    async with open_sessions(tmp_path, flavour, parts) as start:
        session = await start("the whole", **ALLOW)
        seen = await all_of(session)
    tellers = list(dict.fromkeys(each.session.id for each in seen))
    assert tellers[0] == session.id
    assert len(tellers) == 4
    for task_id in tellers:
        story = kinds(seen, task_id, TaskCreated, TaskStarted, TaskFinished)
        assert story == [TaskCreated, TaskStarted, TaskFinished]
    results = [
        t.event.text
        for t in seen
        if isinstance(t.event, RowAdded) and t.event.say == "completion_result"
    ]
    assert sorted(results) == ["one", "three", "two", "whole"]


async def test_questions_of_subtasks_are_answered_through_their_own_session(
    tmp_path: Path, flavour: str
) -> None:
    parts = {
        "the whole": [hand("part one", "part two"), Turn(done("whole"))],
        "part one": [Turn(done("one"))],
        "part two": [Turn(done("two"))],
    }
    async with open_sessions(tmp_path, flavour, parts) as start:
        session = await start("the whole")
        seen = await all_of(session)
    asks = [
        (t.session.id == session.id, t.event.ask) for t in seen if isinstance(t.event, AskOpened)
    ]
    assert asks.count((True, AskKind.TOOL)) == 2
    assert asks.count((False, AskKind.TOOL)) == 2
    assert asks.count((True, AskKind.COMPLETION_RESULT)) == 1


async def test_whoever_comes_later_finds_the_subtask_and_its_question(
    tmp_path: Path, flavour: str
) -> None:
    write = call("write_to_file", {"path": "a.txt", "content": "a\n"})
    parts = {
        "the whole": [hand("a part"), Turn(done("whole"))],
        "a part": [Turn(write), Turn(done("part"))],
    }
    async with open_sessions(tmp_path, flavour, parts) as start:
        session = await start("the whole", **ALLOW | {"alwaysAllowWrite": False})
        async with follow_task_tree(session, session.events(), from_start=True) as tree_events:
            async for each in tree_events:
                if isinstance(each.event, AskOpened):
                    break
        seen = await all_of(session, session.seq)
    assert [t.event.ask for t in seen if isinstance(t.event, AskOpened)] == [
        AskKind.TOOL,
        AskKind.COMPLETION_RESULT,
    ]
    assert (tmp_path / "work" / "a.txt").read_text() == "a\n"


async def test_a_subtask_that_goes_on_is_not_replayed_from_its_beginning(
    tmp_path: Path, flavour: str
) -> None:
    parts = {
        "the whole": [hand("a part"), Turn(done("whole"))],
        "a part": [Turn(pause(600.0))],
    }
    async with open_sessions(tmp_path, flavour, parts) as start:
        session = await start("the whole", **ALLOW)
        async with follow_task_tree(session, session.events(), from_start=True) as tree_events:
            async for each in tree_events:
                if isinstance(each.event, TaskStarted) and each.session is not session:
                    break
        await session.cancel()
        before = session.seq
        parts["a part"] = [Turn(done("part"))]
        await session.send("go on")
        seen = await all_of(session, before)
    assert kinds(seen, session.id, TaskAborted, TaskPaused, TaskFinished)[-2:] == [
        TaskPaused,
        TaskFinished,
    ]
    [child_id] = {each.session.id for each in seen} - {session.id}
    assert kinds(seen, child_id, TaskCreated, TaskFinished) == [TaskFinished]
