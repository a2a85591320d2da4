"""Subtasks of the whole program: eight at the same time, and what worktrees are trusted with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from joey.app import make_options, open_engine
from joey.app.mcp_pool import McpServerPool
from joey.app.trust import WorkspaceTrust
from joey.config.trust import TrustStore
from joey.engine.asks import Unattended
from joey.engine.outcomes import Completed
from joey.testing.script import Turn, call, pause
from joey.testing.server import ModelServer
from tests.harness.scripted_conversations import by_first_message
from tests.harness.workspace.git import git

CHILDREN = 8
LIMIT = 60.0


@pytest.mark.contract("subtasks:result")
@pytest.mark.parametrize("worktree", [False, True])
async def test_the_requests_of_eight_subtasks_are_in_flight_together(
    tmp_path: Path, worktree: bool
) -> None:
    """None is answered before all are asked."""
    asked = asyncio.Event()
    hands = [
        call("new_task", {"mode": "code", "message": f"part {n}.", "worktree": worktree or None})
        for n in range(CHILDREN)
    ]
    done = call("attempt_completion", {"result": "done"})
    parts = {"the whole": [Turn(*hands), Turn(done)]}
    parts |= {f"part {n}.": [Turn(pause(asked), done)] for n in range(CHILDREN)}
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    async with ModelServer(by_first_message(parts)) as server, asyncio.timeout(LIMIT):
        options = make_options(
            workspace=work, home=tmp_path / "home", env={}, provider="anthropic",
            base_url=server.url, model="test", yes=True, policy=Unattended(),
        )  # fmt: skip
        async with open_engine(home=tmp_path / "home", env={}) as engine:
            task = await engine.start("do the whole", options=options)
            await server.wait_for_requests(1 + CHILDREN)
            asked.set()
            assert await task.wait() == Completed("done")
            assert len(server.requests) == 2 + CHILDREN


@pytest.mark.contract("worktrees:changes")
@pytest.mark.parametrize("trusted", [True, False])
async def test_tools_of_a_project_are_trusted_in_a_worktree_as_they_are_in_the_workspace(
    tmp_path: Path, trusted: bool
) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    (work / ".roo/tools").mkdir(parents=True)
    (work / ".roo/tools/hello.py").write_text('"""Says hello."""\n\ndef run() -> str: ...\n')
    home.mkdir()
    (home / "settings.json").write_text('{"alwaysAllowWriteProtected": true}')
    git(work, "init", "-q")
    if trusted:
        WorkspaceTrust(work, home, {}).grant()
    apart = call("new_task", {"mode": "code", "message": "a part", "worktree": True})
    changed = {"path": ".roo/tools/hello.py", "content": "def run() -> str: ...\n"}
    done = call("attempt_completion", {"result": "done"})
    parts = {
        "the whole": [Turn(apart), Turn(done)],
        "a part": [Turn(call("write_to_file", changed)), Turn(done)],
    }
    async with ModelServer(by_first_message(parts)) as server, asyncio.timeout(LIMIT):
        options = make_options(
            workspace=work, home=home, env={}, provider="anthropic",
            base_url=server.url, model="test", yes=True, policy=Unattended(),
        )  # fmt: skip
        async with open_engine(home=home, env={}) as engine:
            task = await engine.start("do the whole", options=options)
            assert await task.wait() == Completed("done")
        offered = [
            any(tool["name"] == "hello" for tool in request.body["tools"])
            for request in server.requests[:2]
        ]
    assert offered == [trusted, trusted]
    assert WorkspaceTrust(work, home, {}).untrusted_items  # it came back changed


def test_servers_of_a_worktree_are_trusted_only_as_they_were_in_the_workspace(
    tmp_path: Path,
) -> None:
    wanted = {"mcp:x": b"its entry"}
    TrustStore(tmp_path / "home").grant(tmp_path / "work", wanted)
    servers = McpServerPool(tmp_path / "home", {})
    servers.lease(tmp_path / "worktree", tmp_path / "work")
    assert servers._is_trusted(tmp_path / "worktree", wanted)
    assert not servers._is_trusted(tmp_path / "worktree", {"mcp:x": b"another"})
    assert not servers._is_trusted(tmp_path / "elsewhere", wanted)
