"""Network of commands at a terminal, with the real sandbox."""

from __future__ import annotations

import json

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import terminal
from tests.harness.execution.site import site

ASK = "say what to do instead › "
ACCEPT = "say what to change › "
DONE = Turn(call("attempt_completion", {"result": "Done."}))


def running(command: str) -> Turn:
    return Turn(call("execute_command", {"command": command}))


def fetching(port: int, path: str) -> Turn:
    return running(f"curl -s http://127.0.0.1:{port}/{path}")


def write_settings(joey: Joey, **settings: object) -> None:
    joey.home.mkdir(parents=True, exist_ok=True)
    (joey.home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


@pytest.fixture(autouse=True)
def _on_disk(on_disk: None) -> None:
    """A tmpfs may be in /dev, of which the sandbox shows another one."""


async def test_the_flag_opens_the_network_for_a_run(joey: Joey) -> None:
    with site() as (port, asked):
        for number, flags in enumerate((("--network", "all"), ("--network", "off"), ())):
            async with ModelServer([fetching(port, str(number)), DONE]) as server:
                await joey.run("-p", "-y", *reach(server.url), *flags, "go")
    assert asked == ["/0"]


async def test_a_changed_setting_counts_for_the_next_command_of_a_running_task(joey: Joey) -> None:
    with site() as (port, asked):
        turns = [fetching(port, name) for name in ("one", "two", "three")]
        async with (
            ModelServer([*turns, DONE]) as server,
            terminal(joey, *reach(server.url), "go") as screen,
        ):
            await screen.until(ASK)
            screen.press("y\n")
            await screen.until(ASK)
            write_settings(joey, sandboxNetwork="all")
            screen.press("y\n")
            await screen.until(ASK)
            write_settings(joey, sandboxNetwork="off")
            screen.press("y\n")
            await screen.until(ACCEPT)
    assert asked == ["/two"]


async def test_a_setting_never_opens_what_a_flag_has_closed(joey: Joey) -> None:
    with site() as (port, asked):
        async with (
            ModelServer([fetching(port, "one"), DONE]) as server,
            terminal(joey, *reach(server.url), "--network", "off", "go") as screen,
        ):
            await screen.until(ASK)
            write_settings(joey, sandboxNetwork="all")
            screen.press("y\n")
            await screen.until(ACCEPT)
    assert asked == []


async def test_a_project_may_keep_commands_off_the_network(joey: Joey) -> None:
    (joey.workspace / ".roo").mkdir()
    restriction = json.dumps({"sandboxNetwork": "off"})
    (joey.workspace / ".roo" / "settings.json").write_text(restriction, encoding="utf-8")
    with site() as (port, asked):
        async with (
            ModelServer([fetching(port, "one"), DONE]) as server,
            terminal(joey, *reach(server.url), "--network", "all", "go") as screen,
        ):
            await screen.until(ASK)
            write_settings(joey, sandboxNetwork="all")
            screen.press("y\n")
            await screen.until(ACCEPT)
    assert asked == []


def fetching_or_failing(port: int, path: str) -> Turn:
    fetch = f"curl -s http://127.0.0.1:{port}/{path}"
    return running(f"{fetch} || {{ echo 'Could not resolve host: x'; exit 6; }}")


@pytest.mark.contract("sandbox:network-answers")
async def test_a_yes_can_open_the_network_for_one_command(joey: Joey) -> None:
    with site() as (port, asked):
        async with (
            ModelServer([fetching(port, "one"), fetching(port, "two"), DONE]) as server,
            terminal(joey, *reach(server.url), "go") as screen,
        ):
            assert "network: off" in await screen.until(ASK)
            screen.press("online\n")
            await screen.until(ASK)
            screen.press("y\n")
            await screen.until(ACCEPT)
    assert asked == ["/one"]


@pytest.mark.contract("sandbox:network-answers")
async def test_a_command_that_lacked_the_network_can_be_run_again_with_it(joey: Joey) -> None:
    with site() as (port, asked):
        async with (
            ModelServer([fetching_or_failing(port, "one"), DONE]) as server,
            terminal(joey, *reach(server.url), "go") as screen,
        ):
            await screen.until(ASK)
            screen.press("y\n")
            text = await screen.until(ASK)
            assert "Could not resolve host" in text
            assert "the command failed for lack of network" in text
            screen.press("y\n")
            await screen.until(ACCEPT)
        result = json.dumps(server.requests[1].body["messages"][-1])
    assert asked == ["/one"]
    assert "Could not resolve host" not in result, "the model reads how the second attempt went"


@pytest.mark.contract("sandbox:network-answers")
async def test_a_no_leaves_the_failure_as_it_was_and_the_run_goes_on(joey: Joey) -> None:
    with site() as (port, asked):
        async with (
            ModelServer([fetching_or_failing(port, "one"), DONE]) as server,
            terminal(joey, *reach(server.url), "go") as screen,
        ):
            await screen.until(ASK)
            screen.press("y\n")
            await screen.until(ASK)
            screen.press("n\n")
            await screen.until(ACCEPT)
        result = json.dumps(server.requests[1].body["messages"][-1])
    assert asked == []
    assert "Could not resolve host" in result and "and said no" in result


@pytest.mark.contract("sandbox:network-answers")
async def test_without_a_user_a_command_that_lacked_the_network_says_so(joey: Joey) -> None:
    with site() as (port, asked):
        async with ModelServer([fetching_or_failing(port, "one"), DONE]) as server:
            run = await joey.run("-p", "-y", *reach(server.url), "go")
    assert asked == [] and run.code == 0
    assert "failed for lack of network" in run.err and "--network all" in run.err
