"""Directories whose names are not UTF-8: as a workspace, and in one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.acp.editor import done
from tests.harness.cli.binary import Joey, reach

COMMANDS = [
    ("tasks", "list"),
    ("tasks", "search", "word"),
    ("permissions", "explain", "--", "ls"),
    ("modes", "list"),
    ("-p", "go"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
async def test_a_workspace_whose_name_is_not_utf_8_is_refused_by_name(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    workspace = tmp_path / os.fsdecode(b"w\xff")
    workspace.mkdir()
    joey = Joey(tmp_path / "home", workspace)
    (tmp_path / "home").mkdir()
    finished = await joey.run(*arguments, env={**joey.env, "ANTHROPIC_API_KEY": "x"})
    assert finished.code == 2
    assert "cannot be used as a workspace: its name is not UTF-8" in finished.err
    assert "PosixPath" not in finished.err


async def test_a_task_lists_and_asks_about_a_directory_whose_name_is_not_utf_8(
    tmp_path: Path,
) -> None:
    workspace, name = tmp_path / "work", os.fsdecode(b"s\xfe")
    (workspace / name).mkdir(parents=True)
    (workspace / name / "a.txt").write_text("x\n")
    joey = Joey(tmp_path / "home", workspace)
    turns = [
        Turn(call("list_files", {"path": ".", "recursive": True})),
        Turn(call("execute_command", {"command": "ls", "cwd": "s\ufffd"})),
        Turn(call("execute_command", {"command": "touch c.txt"})),
        done(),
    ]
    async with ModelServer(turns) as server:
        env = {**joey.env, "ANTHROPIC_API_KEY": "x"}
        finished = await joey.run(*reach(server.url), "-p", "--allow", "touch", "go", env=env)
        messages = [str(request.body["messages"][-1]) for request in server.requests]
    assert finished.code == 0, finished.err
    assert "a.txt" in messages[1]
    assert (workspace / "c.txt").exists()
    (task,) = joey.tasks
    shown = await joey.run("tasks", "show", task.name.removeprefix("task_"))
    assert shown.code == 0, shown.err
    assert "touch c.txt" in shown.out
