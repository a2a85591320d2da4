"""Everything under `JOEY_HOME` is closed to others, even where a umask closes nothing."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from joey.config.json_documents import write_document
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer, Request
from tests.harness.cli.binary import LIMIT, Finished, Joey, reach
from tests.harness.server.binary import Served
from tests.harness.server.server_fixture import done
from tests.harness.workspace.git import git

TALKS = f"{shlex.quote(sys.executable)} -c \"print('word ' * 40000)\""


def open_to_others(directory: Path) -> list[str]:
    """What others may read, write or enter."""
    found = []
    for path in (directory, *directory.rglob("*")):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue  # it went meanwhile
        if "worktrees" in path.parts[:-2]:
            continue  # what a closed folder holds of the project is as the project has it
        if mode & (stat.S_IRWXG | stat.S_IRWXO) and not stat.S_ISLNK(mode):
            found.append(f"{stat.filemode(mode)} {path.relative_to(directory)}")
    return found


@pytest.fixture
def unmasked() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


async def unmasked_run(joey: Joey, *arguments: str, **env: str) -> Finished:
    process = await joey.start(*arguments, env=joey.env | env, umask=0)
    async with asyncio.timeout(LIMIT):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


def repository(root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")


@pytest.mark.contract("store:layout")
async def test_a_task_leaves_nothing_that_others_may_read(tmp_path: Path) -> None:
    joey = Joey(home=tmp_path / "some" / "where" / "joey-home", workspace=tmp_path / "work")
    joey.workspace.mkdir(mode=0o755)
    repository(joey.workspace)
    child = {"mode": "code", "message": "the part", "worktree": True}
    turns = [
        Turn(call("write_to_file", {"path": "b.txt", "content": "two\n"})),
        Turn(call("execute_command", {"command": TALKS})),
        Turn(call("codebase_search", {"query": "one"})),
        Turn(call("new_task", child)),
        Turn(call("write_to_file", {"path": "c.txt", "content": "3\n"})),
        done(),
        done(),
    ]
    open_, seen = list[str](), set[str]()

    def look(_: Request) -> None:
        open_.extend(open_to_others(tmp_path / "some"))
        seen.update(path.name for path in joey.home.glob("*"))

    async with ModelServer(turns) as model:
        model.on_request = look
        ran = await unmasked_run(joey, "-p", "-y", *reach(model.url), "the whole")
    assert ran.code == 0, ran.err
    assert (await unmasked_run(joey, "tasks", "list")).code == 0
    names = seen | {path.name for path in joey.home.rglob("*")}
    expected = {"tasks", "checkpoints", "code.sqlite", "index.sqlite", "command-output"}
    assert names >= expected | {"worktrees"}, sorted(names)
    assert (open_, open_to_others(tmp_path / "some")) == ([], [])


@pytest.mark.contract("store:layout")
async def test_a_server_leaves_nothing_that_others_may_read(tmp_path: Path, unmasked: None) -> None:
    async with ModelServer([done()]) as model:
        served = Served(tmp_path, model.url)
        served.home.joinpath("settings.json").unlink()
        served.home.rmdir()
        del served.env["JOEY_TOKEN"]
        socket = tmp_path / "made" / "here" / "ipc.sock"
        async with served.running("--ipc", str(socket)) as program:
            assert open_to_others(tmp_path / "made") == []
            token = (served.home / "server.token").read_text().strip()
            assert token in program.link
        assert open_to_others(served.home) == []


@pytest.mark.contract("store:layout")
async def test_what_commands_of_the_shell_keep_is_closed(tmp_path: Path) -> None:
    joey = Joey(home=tmp_path / "deep" / "joey-home", workspace=tmp_path / "work")
    joey.workspace.mkdir()
    (joey.workspace / ".roo").mkdir()
    server = {"mcpServers": {"s": {"command": "true"}}}
    (joey.workspace / ".roo/mcp.json").write_text(json.dumps(server))
    for arguments in (("mcp", "add", "mine", "--", "true"), ("trust", "--yes")):
        ran = await unmasked_run(joey, *arguments)
        assert ran.code == 0, ran.err
    assert {path.name for path in joey.home.iterdir()} >= {"mcp.json", "trust.json"}
    assert open_to_others(tmp_path / "deep") == []


@pytest.mark.contract("store:layout")
def test_every_directory_above_a_file_that_is_written_is_closed(
    tmp_path: Path, unmasked: None
) -> None:
    write_document(tmp_path / "a" / "b" / "settings.json", {})
    assert open_to_others(tmp_path / "a") == []


@pytest.mark.contract("store:layout")
async def test_temporary_directories_are_closed_and_cannot_be_guessed(tmp_path: Path) -> None:
    joey = Joey(home=tmp_path / "joey-home", workspace=tmp_path / "work")
    joey.workspace.mkdir()
    scratch = tmp_path / "tmp"
    scratch.mkdir(mode=0o700)
    runs: list[set[str]] = []
    open_: list[str] = []

    def look(_: Request) -> None:
        runs[-1].update(path.name for path in scratch.iterdir())
        modes = {path.name: path.lstat().st_mode for path in scratch.iterdir()}
        open_.extend(name for name, mode in modes.items() if mode & 0o077)

    turns = [
        Turn(call("write_to_file", {"path": "a.sh", "content": "echo hello\n"})),
        Turn(call("execute_command", {"command": "echo hello"})),
        done(),
    ]
    async with ModelServer(turns * 2) as model:
        model.on_request = look
        for _ in range(2):
            runs.append(set())
            flags = ("-p", "-y", "--ephemeral", *reach(model.url))
            ran = await unmasked_run(joey, *flags, "go", TMPDIR=str(scratch))
            assert ran.code == 0, ran.err
    assert open_ == []
    assert all(runs)
    assert runs[0].isdisjoint(runs[1])
    assert list(scratch.iterdir()) == []
