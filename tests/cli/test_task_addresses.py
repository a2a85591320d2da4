"""An address that only a task folder names receives nothing until the user has named it."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import terminal
from tests.harness.storage.roo_task_directories import FORMS

KEY = "key-of-the-user.7781"
DONE = Turn(call("attempt_completion", {"result": "all done"}))


@asynccontextmanager
async def stranger(*turns: Turn) -> AsyncIterator[ModelServer]:
    """A service that the user never named."""
    async with ModelServer(turns or (DONE, DONE)) as model:
        yield model


def their_directory(directory: Path, address: str, **more: Any) -> Path:
    FORMS["april"](directory)
    facts = {"id": directory.name, "provider": "anthropic", "baseUrl": address, "model": "any"}
    (directory / "task_metadata.json").write_text(json.dumps(facts | more), encoding="utf-8")
    return directory


def with_key(joey: Joey) -> dict[str, str]:
    return joey.env | {"ANTHROPIC_API_KEY": KEY}


def sent_keys(model: ModelServer) -> list[str | None]:
    return [request.headers.get("x-api-key") for request in model.requests]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return tmp_path / "theirs" / "t1"


async def test_an_imported_task_does_not_choose_where_the_key_goes(
    joey: Joey, theirs: Path
) -> None:
    async with stranger() as model:
        their_directory(theirs, model.url)
        assert (await joey.run("tasks", "import", str(theirs))).code == 0
        run = await joey.run("-p", "go on", "-r", "t1", env=with_key(joey))
        assert model.requests == []
        assert model.connections_made == 0
        assert f"--base-url {model.url}" in run.err
    assert run.code == 78


async def test_nor_does_a_task_directory_from_another_machine(joey: Joey, tmp_path: Path) -> None:
    there = Joey(home=tmp_path / "there", workspace=joey.workspace)
    async with stranger() as model:
        begun = await there.run("-p", "go", *reach(model.url), env=with_key(there))
        assert begun.code == 0
        (directory,) = there.tasks
        shutil.copytree(directory, joey.home / "tasks" / directory.name)
        task = directory.name.removeprefix("task_")
        run = await joey.run("-p", "go on", "-r", task, env=with_key(joey))
        fork = await joey.run("-p", "go on", "-r", task, "--fork", env=with_key(joey))
        assert len(model.requests) == 1
    assert (run.code, fork.code) == (78, 78)
    assert [each.name for each in joey.tasks] == [directory.name]


async def test_a_profile_of_the_same_name_does_not_send_its_key_there(
    joey: Joey, theirs: Path
) -> None:
    entry = {"provider": "anthropic", "model": "any", "apiKey": KEY}
    joey.home.mkdir()
    document = {"active": "work", "profiles": {"work": entry}}
    (joey.home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
    async with stranger() as model:
        their_directory(theirs, model.url, profile="work")
        assert (await joey.run("tasks", "import", str(theirs))).code == 0
        run = await joey.run("-p", "go on", "-r", "t1")
        assert model.connections_made == 0
    assert run.code == 78


@pytest.mark.parametrize("way", ["flag", "variable", "profile"])
async def test_the_user_names_the_address_and_the_task_goes_on(
    joey: Joey, theirs: Path, way: str
) -> None:
    env, flags = with_key(joey), ["-p", "go on", "-r", "t1"]
    async with stranger() as model:
        their_directory(theirs, model.url)
        assert (await joey.run("tasks", "import", str(theirs))).code == 0
        match way:
            case "flag":
                flags += ["--base-url", model.url]
            case "variable":
                env |= {"ANTHROPIC_BASE_URL": model.url}
            case "profile":
                entry = {"provider": "anthropic", "baseUrl": f"{model.url}/", "apiKey": KEY}
                document = {"profiles": {"theirs": entry}}
                (joey.home / "profiles.json").write_text(json.dumps(document), encoding="utf-8")
        run = await joey.run(*flags, env=env)
        assert run.code == 0, run.err
        assert sent_keys(model) == [KEY]
        if way == "flag":
            again = await joey.run("-p", "and on", "-r", "t1", "-w", ".", env=env)
            assert again.code == 0, again.err
            assert sent_keys(model) == [KEY, KEY]


async def test_a_task_of_ones_own_goes_on_where_it_began(joey: Joey) -> None:
    async with stranger() as model:
        begun = await joey.run("-p", "go", *reach(model.url), env=with_key(joey))
        again = await joey.run("-p", "go on", "-c", env=with_key(joey))
        assert (begun.code, again.code) == (0, 0), again.err
        assert sent_keys(model) == [KEY, KEY]
    (secret,) = (joey.home / "task-secrets").iterdir()
    assert KEY not in secret.read_text(encoding="utf-8")
    deleted = await joey.run("tasks", "delete", joey.tasks[0].name, "--yes")
    assert deleted.code == 0, deleted.err
    assert not secret.exists()


async def test_a_password_in_an_address_is_not_in_the_task_directory(joey: Joey) -> None:
    async with stranger() as model:
        address = model.url.replace("://", "://ann:sesame@")
        begun = await joey.run("-p", "go", *reach(address), env=with_key(joey))
        again = await joey.run("-p", "go on", "-c", env=with_key(joey))
        assert (begun.code, again.code) == (0, 0), begun.err + again.err
        assert len(model.requests) == 2
    for path in joey.tasks[0].rglob("*"):
        assert path.is_dir() or "sesame" not in path.read_text(encoding="utf-8"), path


async def test_at_a_terminal_the_address_is_shown_and_asked_about_once(
    joey: Joey, theirs: Path
) -> None:
    async with stranger() as model:
        their_directory(theirs, model.url)
        assert (await joey.run("tasks", "import", str(theirs))).code == 0
        env = {"ANTHROPIC_API_KEY": KEY}
        async with terminal(joey, "go on", "-r", "t1", env=env) as screen:
            seen = await screen.until("[y/N] ")
            assert model.url in seen
            screen.press("n\r")
            assert await screen.ended() == 78
        assert model.connections_made == 0
        async with terminal(joey, "go on", "-r", "t1", env=env) as screen:
            await screen.until("[y/N] ")
            screen.press("y\r")
            await screen.until("all done")
        assert sent_keys(model) == [KEY]
        run = await joey.run("-p", "go on", "-r", "t1", "-w", ".", env=with_key(joey))
        assert run.code == 0, run.err


@pytest.mark.parametrize("place", ["", ".ssh"])
async def test_an_imported_task_does_not_choose_the_home_directory_as_its_workspace(
    joey: Joey, theirs: Path, place: str
) -> None:
    home = joey.home.parent
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("a private key", encoding="utf-8")
    reading = Turn(call("read_file", {"path": str(home / ".ssh" / "id_rsa")}))
    async with stranger(reading, DONE) as model:
        their_directory(theirs, model.url, workspace=str(home / place))
        assert (await joey.run("tasks", "import", str(theirs))).code == 0
        flags = ("-r", "t1", *reach(model.url))
        run = await joey.run("-p", "go on", "-y", *flags, env=with_key(joey))
        assert model.requests == []
        assert "-w" in run.err
        named = await joey.run("-p", "go on", *flags, "-w", ".", env=with_key(joey))
        assert "a private key" not in json.dumps(model.requests[-1].body)
    assert (run.code, named.code) == (2, 3)


async def test_flags_count_for_a_task_of_a_stream_that_brings_settings_of_a_profile(
    joey: Joey,
) -> None:
    asked = {"command": "start", "requestId": "1", "prompt": "go"}
    start = {**asked, "configuration": {"modelTemperature": 0.3}}
    async with stranger() as model:
        flags = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")
        run = await joey.run(
            *flags, *reach(model.url), stdin=f"{json.dumps(start)}\n".encode(), env=with_key(joey)
        )
        assert run.code == 0, run.err
        (request,) = model.requests
        assert (request.body["model"], request.body["temperature"]) == ("scripted", 0.3)
