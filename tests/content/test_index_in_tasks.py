"""Whole tasks that search the index, over the real wires."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from joey.app import make_options, open_engine
from joey.content.code_index import WorkspaceIndexPool
from joey.core.history.ui import Row
from joey.core.models import ToolProtocol
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.errors import StoreError, ToolError
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from joey.workspace.files import LocalFiles
from joey.workspace.listing import list_indexable_files
from tests.harness.engine.engine_harness import EngineHarness, finish

ENV = {"ANTHROPIC_API_KEY": "key"}
XML = "<codebase_search>\n<query>login check</query>\n<path>src</path>\n</codebase_search>"
DONE = "<attempt_completion>\n<result>ok</result>\n</attempt_completion>"
SEARCH = call("codebase_search", {"query": "login check", "path": "src"})


@pytest.mark.contract("tool:codebase_search:success:in-a-task")
@pytest.mark.parametrize("protocol", list(ToolProtocol))
async def test_a_task_searches_the_index(tmp_path: Path, protocol: ToolProtocol) -> None:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "auth.py").write_text("def login_check(user):\n    return user\n")
    native = protocol is ToolProtocol.NATIVE
    turns = (
        [Turn(SEARCH), Turn(call("attempt_completion", {"result": "ok"}))]
        if native
        else [Turn(say(XML)), Turn(say(DONE))]
    )
    async with ModelServer(turns) as server:
        options = make_options(
            workspace=work,
            home=tmp_path / "home",
            env=ENV,
            provider="anthropic",
            base_url=server.url,
            model="any",
            policy=Unattended(),
            protocol=protocol,
        )
        async with (
            asyncio.timeout(30),
            open_engine(home=tmp_path / "home", env=ENV) as engine,
        ):
            task = await engine.start("find it", options=options)
            assert await task.wait() == Completed("ok")
            rows = [row for row in task.rows if isinstance(row, Row)]
        offered = msgspec.json.encode(server.requests[0].body).decode()
        request = msgspec.json.encode(server.requests[1].body).decode()
    assert "codebase_search" in offered
    assert "File path: src/auth.py" in request
    (result,) = [row for row in rows if row.say == "codebase_search_result"]
    assert '"filePath":"src/auth.py"' in (result.text or "")
    (asked,) = [row for row in rows if row.tool == "codebase_search"]
    assert msgspec.json.decode(asked.text or "") == {
        "tool": "codebaseSearch",
        "query": "login check",
        "path": "src",
        "isOutsideWorkspace": False,
    }
    assert [entry.name for entry in (tmp_path / "home" / "index").iterdir()]


@pytest.mark.contract("index:search")
async def test_an_embedding_profile_that_does_not_exist_is_reported_and_the_text_is_searched(
    tmp_path: Path,
) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (work / "auth.py").write_text("def login_check(user):\n    return user\n")
    (home / "settings.json").write_text('{"embeddingProfile": "vectors"}')
    turns = [
        Turn(call("codebase_search", {"query": "login"})),
        Turn(call("attempt_completion", {"result": "ok"})),
    ]
    async with ModelServer(turns) as server:
        options = make_options(
            workspace=work,
            home=home,
            env=ENV,
            provider="anthropic",
            base_url=server.url,
            model="any",
            policy=Unattended(),
        )
        async with asyncio.timeout(30), open_engine(home=home, env=ENV) as engine:
            task = await engine.start("find it", options=options)
            assert await task.wait() == Completed("ok")
        request = msgspec.json.encode(server.requests[1].body).decode()
    assert "File path: auth.py" in request
    assert "by words only" in request
    assert "There is no profile 'vectors'" in request


@pytest.mark.contract("index:search")
async def test_a_task_that_cannot_be_opened_lets_go_of_the_index(tmp_path: Path) -> None:
    harness = EngineHarness(tmp_path)
    files, indexes = LocalFiles(harness.root), WorkspaceIndexPool(tmp_path / "home")
    harness.use_script(finish())
    async with asyncio.timeout(30), harness.engine as engine:
        await engine.start("do it", task_id="one")
        index = indexes.open(files, lambda stop: list_indexable_files(files, stop))
        harness.capabilities = Capabilities(code_index=index)
        with pytest.raises(StoreError, match="exists already"):
            await engine.start("do it", task_id="one")
        with pytest.raises(ToolError, match="closed"):
            await index.search("anything", None, 1)
