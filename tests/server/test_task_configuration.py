"""What a client gives with a task stays with it: settings, an address, a key."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from joey.core.events import Record, TaskConfigured
from joey.storage.journal import encode_record
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.canary import files_under, traces
from tests.harness.server.binary import Served
from tests.harness.server.server_fixture import (
    CommandFailedError,
    Peer,
    ServerFixture,
    done,
    open_server,
)

WRITE = Turn(call("write_to_file", {"path": "a.txt", "content": "x\n"}))
SECOND = Turn(call("write_to_file", {"path": "b.txt", "content": "y\n"}))
OWN_KEY = "key-given-with-the-task.5521"
PIRATE = "Answer like a pirate."
STRICT = {"alwaysAllowWrite": False, "customInstructions": PIRATE}


async def begin(peer: Peer, **arguments: Any) -> str:
    task = await peer.ask("startNewTask", text="go", **arguments)
    return str(task["taskId"])


async def let_go_of(peer: Peer) -> None:
    await peer.ask("clearCurrentTask")


def prompt(here: ServerFixture) -> str:
    return json.dumps(here.model.requests[-1].body["system"])


async def test_a_task_that_was_let_go_of_keeps_its_settings(tmp_path: Path) -> None:
    turns = (done(), WRITE, done())
    async with open_server(tmp_path, *turns, alwaysAllowWrite=True) as here, here.peer() as peer:
        task = await begin(peer, configuration=STRICT)
        await peer.asked("completion_result")
        await let_go_of(peer)
        since = len(peer.events)
        await peer.ask("sendMessage", task, message="now write")
        await peer.asked("tool", since=since)
        assert PIRATE in prompt(here)
        assert not (here.workspace / "a.txt").exists()


async def test_a_fork_has_the_settings_of_its_source(tmp_path: Path) -> None:
    turns = (done(), WRITE, done())
    async with open_server(tmp_path, *turns, alwaysAllowWrite=True) as here, here.peer() as peer:
        task = await begin(peer, configuration=STRICT)
        await peer.asked("completion_result")
        since = len(peer.events)
        fork = await peer.ask("forkTask", task, text="now write")
        await peer.event(
            "taskInteractive", since=since, where=lambda event: event["taskId"] == fork["taskId"]
        )
        assert PIRATE in prompt(here)
        assert not (here.workspace / "a.txt").exists()


@pytest.mark.parametrize("row", [0, 1, -1])
async def test_a_fork_at_any_row_keeps_provider_address_and_key(tmp_path: Path, row: int) -> None:
    async with (
        ModelServer([done()] * 3) as model,
        open_server(tmp_path) as here,
        here.peer() as peer,
    ):
        own = {"openAiBaseUrl": f"{model.url}/v1", "openAiModelId": "any", "openAiApiKey": OWN_KEY}
        task = await begin(peer, configuration={"apiProvider": "openai", **own})
        await peer.asked("completion_result")
        rows = (await peer.ask("getMessages", task))["messages"]
        since = len(peer.events)
        fork = await peer.ask("forkTask", task, messageTs=rows[row]["ts"], text="again")
        await peer.event(
            "taskIdle", since=since, where=lambda event: event["taskId"] == fork["taskId"]
        )
        assert here.model.requests == []
        assert model.requests[-1].headers["authorization"] == f"Bearer {OWN_KEY}"
        await peer.ask("rewindTask", task, messageTs=rows[row]["ts"])
        await peer.ask("clearCurrentTask", task)
        since = len(peer.events)
        await peer.ask("sendMessage", task, message="once more")
        await peer.event("taskIdle", since=since, where=lambda event: event["taskId"] == task)
        assert here.model.requests == []
        assert len(model.requests) == 3


async def test_a_rewind_takes_no_settings_away(tmp_path: Path) -> None:
    turns = (done("one"), WRITE, done())
    async with open_server(tmp_path, *turns, alwaysAllowWrite=True) as here, here.peer() as peer:
        task = await begin(peer)
        ts = await peer.asked("completion_result")
        await let_go_of(peer)
        await peer.ask("resumeTask", task, configuration=STRICT)
        await peer.asked("resume_task")
        await peer.ask("rewindTask", task, messageTs=ts)
        await let_go_of(peer)
        since = len(peer.events)
        await peer.ask("sendMessage", task, message="now write")
        await peer.asked("tool", since=since)
        assert PIRATE in prompt(here)


async def test_a_server_that_was_killed_keeps_the_settings_of_its_tasks(tmp_path: Path) -> None:
    async with ModelServer([done(), WRITE, done()]) as model:
        served = Served(tmp_path, model.url, alwaysAllowWrite=True)
        async with served.running() as program:
            async with program.peer() as peer:
                task = await begin(peer, configuration=STRICT)
                await peer.asked("completion_result")
            await program.kill()
        async with served.running() as program, program.peer() as peer:
            await peer.ask("sendMessage", task, message="now write")
            await peer.asked("tool")
        assert PIRATE in json.dumps(model.requests[-1].body["system"])
        assert not (served.workspace / "a.txt").exists()


async def test_a_task_that_is_opened_again_may_do_no_more_than_the_user_allows(
    tmp_path: Path,
) -> None:
    loose = {
        "alwaysAllowWrite": True,
        "alwaysAllowExecute": True,
        "allowedCommands": ["*"],
        "sandbox": "off",
    }
    turns = (WRITE, done(), SECOND, done())
    async with open_server(tmp_path, *turns, deniedCommands=["rm"]) as here, here.peer() as peer:
        task = await begin(peer, configuration=loose | {"deniedCommands": []})
        await peer.asked("completion_result")
        assert (here.workspace / "a.txt").exists()
        assert here.hub.engine.find_open_task(task).runtime.settings.denied_commands == ("rm",)  # type: ignore[union-attr]
        await let_go_of(peer)
        since = len(peer.events)
        await peer.ask("sendMessage", task, message="more")
        await peer.asked("tool", since=since)
        assert not (here.workspace / "b.txt").exists()
        opened = here.hub.engine.find_open_task(task)
        assert opened is not None
        settings = opened.runtime.settings
        assert (settings.allowed_commands, settings.sandbox) == ((), "auto")
        assert not settings.always_allow_execute


async def test_a_subtask_has_the_settings_of_its_parent_for_good(tmp_path: Path) -> None:
    delegate = Turn(call("new_task", {"mode": "code", "message": "the part"}))
    turns = (delegate, done("part"), done("whole"), WRITE)
    async with ModelServer(turns) as model:
        async with (
            open_server(tmp_path, alwaysAllowWrite=True, alwaysAllowSubtasks=True) as here,
            here.peer() as peer,
        ):
            own = {"apiProvider": "anthropic", "anthropicBaseUrl": model.url, "apiKey": OWN_KEY}
            await begin(peer, configuration=STRICT | own)
            child = (await peer.event("taskSpawned"))["payload"]["childTaskId"]
            await peer.asked("completion_result")
            await let_go_of(peer)
            since = len(peer.events)
            await peer.ask("sendMessage", child, message="again")
            await peer.asked("tool", since=since)
        keys = {request.headers.get("x-api-key") for request in model.requests}
    assert keys == {OWN_KEY}


@asynccontextmanager
async def elsewhere(
    tmp_path: Path, *turns: Turn
) -> AsyncIterator[tuple[ServerFixture, ModelServer]]:
    """A server with a key of its own, and a model at an address that it has not been told."""
    async with ModelServer(turns) as model, open_server(tmp_path, done()) as here:
        yield here, model


def own_model(model: ModelServer, **keys: str) -> dict[str, str]:
    address = {"apiProvider": "anthropic", "anthropicBaseUrl": model.url, "apiModelId": "any"}
    return address | keys


def keys_sent(model: ModelServer) -> list[str | None]:
    return [
        request.headers.get("x-api-key") or request.headers.get("authorization")
        for request in model.requests
    ]


async def test_a_key_given_with_a_task_is_kept_for_it_and_nowhere_in_its_directory(
    tmp_path: Path,
) -> None:
    async with elsewhere(tmp_path, done(), done()) as (here, model), here.peer() as peer:
        task = await begin(peer, configuration=own_model(model, apiKey=OWN_KEY))
        await peer.asked("completion_result")
        await let_go_of(peer)
        since = len(peer.events)
        await peer.ask("sendMessage", task, message="go on")
        await peer.asked("completion_result", since=since)
        assert keys_sent(model) == [OWN_KEY, OWN_KEY]
        (secret,) = (path for path in here.home.rglob("*secret*") if path.is_file())
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert not secret.is_relative_to(here.home / "tasks")
        assert traces((OWN_KEY,), files_under(here.home, except_for={secret})) == []
        await peer.ask("deleteTask", task)
        assert not secret.exists()


async def test_where_the_key_of_a_task_is_missing_no_other_is_sent(tmp_path: Path) -> None:
    async with open_server(tmp_path, done(), done()) as here, here.peer() as peer:
        own = own_model(here.model, apiKey=OWN_KEY)
        task = await begin(peer, configuration=own)
        await peer.asked("completion_result")
        await let_go_of(peer)
        shutil.rmtree(here.home / "task-secrets")
        with pytest.raises(CommandFailedError, match="key that was given with this task for"):
            await peer.ask("sendMessage", task, message="go on")
        assert keys_sent(here.model) == [OWN_KEY]
        since = len(peer.events)
        await peer.ask("resumeTask", task, configuration=own | {"apiKey": "another"})
        await peer.asked("resume_task", since=since)
        await peer.ask("sendMessage", task, message="go on")
        await peer.asked("completion_result", since=since)
        assert keys_sent(here.model) == [OWN_KEY, "another"]


async def test_an_address_that_a_client_names_gets_no_key_but_the_one_given_with_it(
    tmp_path: Path,
) -> None:
    async with elsewhere(tmp_path, done(), done()) as (here, model), here.peer() as peer:
        profile = {"apiProvider": "anthropic", "apiKey": "key-of-the-profile"}
        await peer.ask("createProfile", name="mine", profile=profile)
        await peer.ask("setActiveProfile", name="mine")
        task = await begin(peer, configuration=own_model(model))
        await peer.asked("completion_result")
        await let_go_of(peer)
        since = len(peer.events)
        await peer.ask("sendMessage", task, message="go on")
        await peer.asked("completion_result", since=since)
        assert keys_sent(model) == [None, None]


async def test_naming_the_address_of_the_user_keeps_the_key_of_the_user(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        await begin(peer, configuration=own_model(here.model))
        await peer.asked("completion_result")
        assert keys_sent(here.model) == ["key-of-the-environment"]


async def test_resuming_with_a_configuration_applies_it(tmp_path: Path) -> None:
    turns = (done(), WRITE, done())
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        task = await begin(peer)
        await peer.asked("completion_result")
        with pytest.raises(CommandFailedError, match=r"EXECUTION_ERROR.*cancel it before"):
            await peer.ask("resumeTask", task, configuration={"alwaysAllowWrite": True})
        await peer.ask("cancelTask", task)
        with pytest.raises(CommandFailedError, match=r"INVALID_PARAMETER.*alwaysAllowWrite"):
            await peer.ask("resumeTask", task, configuration={"alwaysAllowWrite": "perhaps"})
        since = len(peer.events)
        await peer.ask("resumeTask", task, configuration={"alwaysAllowWrite": True})
        await peer.asked("resume_task", since=since)
        await peer.ask("sendMessage", task, message="write")
        await peer.asked("completion_result", since=since)
        assert (here.workspace / "a.txt").exists()


async def test_settings_in_a_task_directory_from_elsewhere_only_tighten(tmp_path: Path) -> None:
    hook = {"event": "beforeTool", "command": f"touch {tmp_path}/HOOK"}
    theirs = STRICT | {
        "alwaysAllowExecute": True,
        "allowedCommands": ["*"],
        "hooks": [hook],
        "diagnosticCheckers": {"*.txt": f"touch {tmp_path}/CHECKER"},
        "temperature": 0.5,
        "extraBody": {"metadata": {"user_id": "theirs"}},
    }
    run = Turn(call("execute_command", {"command": "touch RUN"}))
    turns = (done(), WRITE, run, done())
    async with open_server(tmp_path, *turns, alwaysAllowWrite=True) as here, here.peer() as peer:
        task = await begin(peer)
        await peer.asked("completion_result")
        await let_go_of(peer)
        directory = here.home / "tasks" / f"task_{task}"
        journal = directory / "journal.jsonl"
        last = json.loads(journal.read_text().splitlines()[-1])
        planted = TaskConfigured(ts=last["event"]["ts"] + 1, configuration=theirs)
        with journal.open("ab") as file:
            file.write(encode_record(Record(last["seq"] + 1, planted)))
        since = len(peer.events)
        await peer.ask("sendMessage", task, message="write and run")
        await peer.asked("tool", since=since)
        assert PIRATE in prompt(here)
        assert "metadata" not in here.model.requests[-1].body
        await peer.ask("pressPrimaryButton", task)
        await peer.asked("command", since=since)
        assert not (tmp_path / "HOOK").exists()
        assert not (tmp_path / "CHECKER").exists()
        assert not (here.workspace / "RUN").exists()


async def test_a_new_task_with_the_id_of_another_does_not_touch_its_key(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, done(), done()) as (here, model), here.peer() as peer:
        task = await begin(peer, configuration=own_model(model, apiKey=OWN_KEY))
        await peer.asked("completion_result")
        with pytest.raises(CommandFailedError, match="exists already"):
            await begin(peer, taskId=task, configuration=own_model(here.model, apiKey="other"))
        await let_go_of(peer)
        since = len(peer.events)
        await peer.ask("sendMessage", task, message="go on")
        await peer.asked("completion_result", since=since)
        assert keys_sent(model) == [OWN_KEY, OWN_KEY]


async def test_keys_of_other_providers_in_a_profile_of_roo_stay_where_they_are(
    tmp_path: Path,
) -> None:
    async with elsewhere(tmp_path, done()) as (here, model), here.peer() as peer:
        stored = {"apiProvider": "anthropic", "apiKey": "one", "openAiApiKey": "another"}
        headers = {"openAiHeaders": {"x-team": "mine"}}
        await peer.ask("createProfile", name="mine", profile=stored | headers)
        await peer.ask("setActiveProfile", name="mine")
        address = {"openAiBaseUrl": f"{model.url}/v1", "openAiModelId": "any"}
        await begin(peer, configuration={"apiProvider": "openai"} | address)
        await peer.asked("completion_result")
        assert keys_sent(model) == [None]
        assert "x-team" not in model.requests[0].headers


@pytest.mark.parametrize("more", [{"headers": {"x-a": "b"}}, {"modelTemperature": 0.5}])
async def test_resuming_with_other_keys_of_a_profile_brings_no_key_of_the_user(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    async with elsewhere(tmp_path, *[done()] * 3) as (here, model), here.peer() as peer:
        task = await begin(peer, configuration=own_model(model, apiKey=OWN_KEY))
        await peer.asked("completion_result")
        for configuration in (more, {}):
            await let_go_of(peer)
            since = len(peer.events)
            if configuration:
                await peer.ask("resumeTask", task, configuration=configuration)
                await peer.asked("resume_task", since=since)
            await peer.ask("sendMessage", task, message="go on")
            await peer.asked("completion_result", since=since)
        assert keys_sent(model) == [OWN_KEY] * 3


async def test_a_missing_key_is_not_made_up_for_by_other_keys_of_a_profile(tmp_path: Path) -> None:
    async with open_server(tmp_path, done()) as here, here.peer() as peer:
        task = await begin(peer, configuration=own_model(here.model, apiKey=OWN_KEY))
        await peer.asked("completion_result")
        await let_go_of(peer)
        shutil.rmtree(here.home / "task-secrets")
        with pytest.raises(CommandFailedError, match="key that was given with this task"):
            await peer.ask("resumeTask", task, configuration={"temperature": 0.5})
        assert keys_sent(here.model) == [OWN_KEY]


@pytest.mark.parametrize("configuration", [{}, {"language": "French"}])
async def test_a_task_directory_does_not_choose_a_workspace_around_joeys_home(
    tmp_path: Path, configuration: dict[str, str]
) -> None:
    async with open_server(tmp_path, done(), done()) as here, here.peer() as peer:
        task = await begin(peer)
        await peer.asked("completion_result")
        await let_go_of(peer)
        directory = here.home / "tasks" / f"task_{task}"
        for name in ("journal.jsonl", "task_metadata.json"):
            text = (directory / name).read_text().replace(f'"{here.workspace}"', f'"{tmp_path}"')
            (directory / name).write_text(text)
        with pytest.raises(CommandFailedError, match=f"This task works in {tmp_path}"):
            await peer.ask("resumeTask", task, configuration=configuration)


async def test_a_key_goes_to_the_address_that_is_given_with_it(tmp_path: Path) -> None:
    async with elsewhere(tmp_path, done()) as (here, model), here.peer() as peer:
        stored = {"provider": "anthropic", "baseUrl": here.model.url, "apiKey": "mine"}
        own_headers = {"headers": {"x-team": "mine"}}
        await peer.ask("createProfile", name="mine", profile=stored | own_headers)
        await peer.ask("setActiveProfile", name="mine")
        await begin(peer, configuration=own_model(model, apiKey=OWN_KEY))
        await peer.asked("completion_result")
        assert keys_sent(model) == [OWN_KEY]
        assert "x-team" not in model.requests[0].headers
        assert here.model.requests == []
