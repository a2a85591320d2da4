"""A folder of Roo's is listed, shown, searched, exported, forked and looked back in, and stays as
Roo has left it until somebody goes on with the task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from joey.app import make_options, open_engine
from joey.cli.task_views import read_rows, render_markdown
from joey.core.history.api import ApiHistory
from joey.core.history.ui import get_ts
from joey.core.models import ToolProtocol
from joey.engine.asks import Unattended
from joey.engine.engine import Engine, TaskOptions
from joey.ports.storage import TaskQuery
from joey.storage.roo_task_directory import write_roo_directory
from joey.storage.task_index import SqliteTaskIndex
from joey.storage.task_store import JsonFileStore
from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.storage import roo_task_directories
from tests.harness.storage.adoption import look
from tests.harness.storage.roo_sessions import Condense, Form, RooSession, Truncate
from tests.harness.storage.roo_sessions import Turn as RooTurn
from tests.harness.storage.roo_task_directories import API, FORMS, UI, XML_FORMS
from tests.service_rules import check_anthropic

DONE = Turn(call("attempt_completion", {"result": "Now it is."}))
XML_DONE = Turn(say("<attempt_completion><result>Now it is.</result></attempt_completion>"))


@asynccontextmanager
async def at_work(
    home: Path, url: str = "http://127.0.0.1:9"
) -> AsyncIterator[tuple[Engine, TaskOptions]]:
    env = {"HOME": str(home)}
    options = make_options(
        workspace=home,
        home=home,
        env=env,
        provider="anthropic",
        base_url=url,
        model="scripted",
        policy=Unattended(),
    )
    async with asyncio.timeout(60), open_engine(home=home, env=env) as engine:
        yield engine, options


async def look_everywhere(home: Path, task_id: str) -> None:
    store = JsonFileStore(home)
    (task,) = store.list_tasks()
    with closing(SqliteTaskIndex(home)) as index:
        assert [each.task.id for each in index.search(TaskQuery(), refresh=True).matches] == [
            task_id
        ]
        index.search(TaskQuery(text="shop"))
    assert "shop" in render_markdown(task, read_rows(store, task_id), [])
    write_roo_directory(task, store.read_records(task_id), home / "out")
    async with at_work(home) as (engine, options):
        opened = await engine.open(task_id, options=options)
        for row in opened.rows:
            preview = await opened.preview_rewind(get_ts(row), keep=True, files=False)
            assert preview.last_row_ts == get_ts(row)
        await engine.release(opened)
        fork = await engine.fork(task_id, options=options)
        await engine.release(fork)


@pytest.mark.contract("adoption:read")
@pytest.mark.parametrize("form", FORMS)
async def test_nothing_is_altered_by_looking(tmp_path: Path, form: str) -> None:
    directory = tmp_path / "tasks" / form
    FORMS[form](directory)
    directory.chmod(0o755)
    before = look(directory)
    await look_everywhere(tmp_path, form)
    after = look(directory)
    after.pop("lock")
    assert after == before
    assert directory.stat().st_mode & 0o777 == 0o755


@pytest.mark.contract("adoption:read", "adoption:resumed")
@pytest.mark.parametrize("form", FORMS)
async def test_a_task_goes_on_where_roo_has_left_it_and_its_files_are_kept(
    tmp_path: Path, form: str
) -> None:
    directory = tmp_path / "tasks" / form
    FORMS[form](directory)
    before = look(directory)
    turn = XML_DONE if form in XML_FORMS else DONE
    async with ModelServer([turn]) as server, at_work(tmp_path, server.url) as (engine, options):
        task = await engine.resume(form, "Is it mended?", options=options)
        await task.wait()
        (request,) = server.requests
    check_anthropic(request.body)
    assert ("tools" in request.body) is (form not in XML_FORMS)
    after = look(directory)
    for name in (UI, API):
        if name in before:
            assert after[name.replace(".json", ".roo.json")][0] == before[name][0]
    for name in before.keys() - {UI, API, "task_metadata.json"}:
        assert after[name] == before[name]


@pytest.mark.contract("adoption:resumed")
@pytest.mark.parametrize("protocol", ToolProtocol)
@pytest.mark.parametrize("form", ["january", "april"])
async def test_a_condensed_task_goes_back_before_its_summary_and_goes_on(
    tmp_path: Path, form: Form, protocol: ToolProtocol
) -> None:
    session = RooSession(form, protocol)
    turns = [RooTurn()] * 6
    session.play([*turns, Condense(), *turns, Truncate(), *turns, Condense()])
    known = roo_task_directories.item("t1", toolProtocol=protocol.value)
    roo_task_directories.write(tmp_path / "tasks" / "t1", session.ui, session.api, item=known)
    early = next(row["ts"] for row in session.ui if row.get("text") == "Reply 6")
    turn = XML_DONE if protocol is ToolProtocol.XML else DONE
    async with ModelServer([turn]) as server, at_work(tmp_path, server.url) as (engine, options):
        task = await engine.open("t1", options=options)
        shown = len(task.recorder.api_history.request_messages)
        await task.rewind(early, keep=True, files=False)
        assert "Reply 2" in str(task.recorder.api_history.request_messages)
        await task.undo_rewind(force=False)
        assert len(task.recorder.api_history.request_messages) == shown
        await task.rewind(early, keep=True, files=False)
        await engine.release(task)
        task = await engine.resume("t1", "Is it mended?", options=options)
        await task.wait()
        (request,) = server.requests
    check_anthropic(request.body)
    sent = str(request.body["messages"])
    assert "Reply 2" in sent and "Summary" not in sent and "Reply 7" not in sent


@pytest.mark.contract("adoption:read")
async def test_cost_and_task_tree_of_a_task_go_on_with_it(tmp_path: Path) -> None:
    known = roo_task_directories.item("t1", parentTaskId="above", childIds=["below"])
    condensed = {"cost": 0.25, "newContextTokens": 55, "summary": "", "prevContextTokens": 9}
    rows = [*roo_task_directories.rows(), roo_task_directories.say(9, "condense_context", "")]
    rows[-1] |= {"contextCondense": condensed}
    roo_task_directories.write(
        tmp_path / "tasks" / "t1", rows, roo_task_directories.native(), item=known
    )
    async with ModelServer([DONE]) as server, at_work(tmp_path, server.url) as (engine, options):
        task = await engine.open("t1", options=options)
        assert (task.usage.total_cost, task.usage.context_tokens) == (0.75, 55)
        assert (task.usage.total_tokens_in, task.usage.total_tokens_out) == (200, 14)
        await engine.release(task)
        task = await engine.resume("t1", "Is it mended?", options=options)
        await task.wait()
        spent = task.usage
    (listed,) = JsonFileStore(tmp_path).list_tasks()
    assert listed.total_cost == spent.total_cost >= 0.75
    assert listed.tokens_in == spent.total_tokens_in > 200
    assert (listed.parent_id, listed.child_ids) == ("above", ("below",))


async def test_a_fork_of_an_adopted_task_has_cost_nothing_and_has_no_task_tree(
    tmp_path: Path,
) -> None:
    known = roo_task_directories.item("t1", parentTaskId="above", childIds=["below"])
    roo_task_directories.write(
        tmp_path / "tasks" / "t1",
        roo_task_directories.rows(),
        roo_task_directories.native(),
        item=known,
    )
    async with at_work(tmp_path) as (engine, options):
        fork = await engine.fork("t1", options=options)
        metadata = fork.recorder.build_metadata()
    assert (metadata.parent_id, metadata.child_ids, metadata.total_cost) == (None, (), 0.0)
    history = ApiHistory(fork.protocol)
    history.apply(JsonFileStore(tmp_path).read_records("t1")[0].event)
    assert [m.content for m in fork.recorder.api_history.request_messages] == [
        m.content for m in history.request_messages
    ]
