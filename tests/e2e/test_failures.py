"""When things go wrong: a clear sentence, the right exit code, and nothing lost or half-done."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import psutil
import pytest

from joey.app import make_options
from joey.cli.exit_codes import error_to_exit_code
from joey.errors import WorkspaceError
from joey.testing.script import Turn, call, fail, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Finished, Joey, reach

KEY = "sk-ant-very-secret-0123456789"


@pytest.fixture
def joey(tmp_path: Path) -> Joey:
    place = Joey(home=tmp_path / "joey-home", workspace=tmp_path / "work")
    place.workspace.mkdir()
    return place


def done(result: str = "all done") -> Turn:
    return Turn(call("attempt_completion", {"result": result}))


def check_clean(finished: Finished) -> None:
    assert "Traceback" not in finished.err
    assert "Traceback" not in finished.out


@pytest.mark.contract("cli:errors", "services:errors")
async def test_a_wrong_key_names_the_variable_and_never_the_key(joey: Joey) -> None:
    async with ModelServer([Turn(fail(401, "invalid x-api-key"))]) as server:
        env = joey.env | {"ANTHROPIC_API_KEY": KEY}
        finished = await joey.run("-p", "hi", *reach(server.url), env=env)
    assert finished.code == 78
    assert "ANTHROPIC_API_KEY" in finished.err
    assert KEY not in finished.err + finished.out
    check_clean(finished)


@pytest.mark.contract("cli:errors")
async def test_a_wrong_model_is_named(joey: Joey) -> None:
    async with ModelServer([Turn(fail(404, "model: scripted"))]) as server:
        finished = await joey.run("-p", "hi", *reach(server.url))
    assert finished.code == 78
    assert "scripted" in finished.err
    check_clean(finished)


@pytest.mark.contract("cli:errors")
async def test_no_network_says_which_address_and_to_try_again(joey: Joey) -> None:
    joey.settings(requestDelaySeconds=0.01, maxRetries=2)
    finished = await joey.run("-p", "hi", *reach("http://127.0.0.1:9"))
    assert finished.code == 75
    assert "127.0.0.1:9" in finished.err
    check_clean(finished)
    (task,) = joey.tasks
    assert "hi" in (task / "ui_messages.json").read_text()


@pytest.mark.contract("models:keys")
async def test_without_any_model_the_three_ways_to_go_on_are_said(joey: Joey) -> None:
    finished = await joey.run("-p", "hi")
    assert finished.code == 78
    for way in ("ANTHROPIC_API_KEY", "Ollama", "joey demo"):
        assert way in finished.err
    check_clean(finished)


@pytest.mark.contract("cli:errors")
@pytest.mark.parametrize("kind", ["missing", "file"])
async def test_a_workspace_that_is_no_directory_is_refused(joey: Joey, kind: str) -> None:
    target = joey.workspace / "there"
    if kind == "file":
        target.write_text("x")
    finished = await joey.run("-p", "hi", "-w", str(target), *reach("http://127.0.0.1:9"))
    assert finished.code == 2
    assert str(target) in finished.err
    check_clean(finished)


@pytest.mark.contract("cli:errors")
def test_a_workspace_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o000)
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            # Nothing is closed to root: be somebody else, from below the folders of this user.
            os.chdir(tmp_path)
            os.setresuid(65534, 65534, 65534)
        os._exit(_refusal_code(Path("locked")))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 2


def _refusal_code(workspace: Path) -> int:
    try:
        make_options(workspace=workspace, env={"OLLAMA_HOST": "x"}, model="any")
    except WorkspaceError as error:
        return error_to_exit_code(error) if str(workspace) in str(error) else 99
    except BaseException:
        return 98
    return 0


@pytest.mark.contract("store:journal")
@pytest.mark.usefixtures("on_disk")
async def test_a_full_disk_is_reported_and_what_was_written_stays_whole(joey: Joey) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    big = Turn(
        say(" ".join(map(str, range(7_000)))), call("attempt_completion", {"result": "never"})
    )
    async with ModelServer([big]) as server:
        process = await joey.start("-p", "hi", *reach(server.url), preexec_fn=little_room)
        out, err = await process.communicate()
    finished = Finished(process.returncode or 0, out.decode(), err.decode())
    assert finished.code == 1
    assert "space" in finished.err or "large" in finished.err
    assert str(joey.home) in finished.err
    check_clean(finished)
    (task,) = joey.tasks
    for line in (task / "journal.jsonl").read_bytes().splitlines():
        json.loads(line)
    async with ModelServer([done("after all")]) as server:
        again = await joey.run("-p", "go on", "-c", *reach(server.url))
    assert again.code == 0
    assert "after all" in again.out


@pytest.mark.contract("cli:config")
async def test_corrupt_settings_are_named_with_their_file(joey: Joey) -> None:
    joey.home.mkdir()
    (joey.home / "settings.json").write_text('{"alwaysAllowWrite": tru')
    finished = await joey.run("-p", "hi", *reach("http://127.0.0.1:9"))
    assert finished.code == 78
    assert str(joey.home / "settings.json") in finished.err
    check_clean(finished)


@pytest.mark.contract("store:journal")
async def test_a_corrupt_history_is_named_and_kept(joey: Joey) -> None:
    async with ModelServer([done()]) as server:
        assert (await joey.run("-p", "hi", *reach(server.url))).code == 0
        (task,) = joey.tasks
        for file in task.glob("*.json*"):
            file.write_bytes(b"\x00 not json\n")
        task_id = task.name.removeprefix("task_")
        finished = await joey.run("-p", "go on", "-r", task_id, *reach(server.url))
    assert finished.code == 1
    assert "journal" in finished.err
    assert str(task) in finished.err
    assert any(b"not json" in file.read_bytes() for file in task.iterdir() if file.is_file())
    check_clean(finished)


@pytest.mark.contract("cli:errors")
async def test_resuming_a_task_that_does_not_exist_says_so(joey: Joey) -> None:
    finished = await joey.run("-p", "hi", "-r", "nope", *reach("http://127.0.0.1:9"))
    assert finished.code == 2
    assert "nope" in finished.err
    check_clean(finished)


@pytest.mark.contract("cli:pipes")
async def test_a_prompt_of_ten_megabytes_is_refused_with_what_to_do_instead(joey: Joey) -> None:
    async with ModelServer([done()]) as server:
        finished = await joey.run("-p", *reach(server.url), stdin=b"word " * 2_000_000)
        asked = len(server.requests)
    assert finished.code == 2
    assert "MB" in finished.err
    assert "file" in finished.err
    assert asked == 0
    check_clean(finished)


@pytest.mark.contract("tool:execute_command:success:large-output")
async def test_a_command_that_prints_100_mb_leaves_memory_small_and_its_output_on_disk(
    joey: Joey,
) -> None:
    flood = "head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo THE END"
    async with ModelServer([Turn(call("execute_command", {"command": flood})), done()]) as server:
        finished = await joey.run("-p", "hi", "-y", *reach(server.url))
        tool_result = server.requests[1].body["messages"][-1]["content"][0]["content"]
    assert finished.code == 0
    (artifact,) = next(iter(joey.tasks)).glob("command-output/cmd-*.txt")
    assert artifact.stat().st_size > 100_000_000
    assert artifact.name in tool_result
    assert "THE END" in tool_result
    assert len(tool_result) < 30_000


@pytest.mark.contract("tool:execute_command:success:binary-output")
async def test_a_command_that_prints_binary_is_shown_as_text(joey: Joey) -> None:
    noise = "head -c 5000 /dev/urandom; printf '\\033[31mred\\033[0m'"
    async with ModelServer([Turn(call("execute_command", {"command": noise})), done()]) as server:
        finished = await joey.run("-p", "hi", "-y", *reach(server.url))
    assert finished.code == 0
    assert "\x1b" not in finished.err
    (task,) = joey.tasks
    json.loads((task / "ui_messages.json").read_bytes())


@pytest.mark.contract("tool:execute_command:success:group")
async def test_a_command_that_ignores_sigterm_is_killed_when_its_time_is_up(joey: Joey) -> None:
    joey.settings(commandExecutionTimeout=1)
    stubborn = "trap '' TERM; echo started; while true; do sleep 987.25; done"
    async with ModelServer(
        [Turn(call("execute_command", {"command": stubborn})), done()]
    ) as server:
        finished = await joey.run("-p", "hi", "-y", *reach(server.url))
        tool_result = server.requests[1].body["messages"][-1]["content"][0]["content"]
    assert finished.code == 0
    assert "1 s" in tool_result or "1 second" in tool_result
    left = [p for p in psutil.process_iter(["cmdline"]) if "987.25" in (p.info["cmdline"] or [])]
    assert left == []


@pytest.mark.contract("cli:errors")
async def test_a_wrong_key_of_a_profile_is_not_blamed_on_the_variable(joey: Joey) -> None:
    async with ModelServer([Turn(fail(401, "invalid x-api-key"))]) as server:
        profile = {"provider": "anthropic", "model": "m", "baseUrl": server.url, "apiKey": KEY}
        joey.home.mkdir(exist_ok=True)
        (joey.home / "profiles.json").write_text(json.dumps({"profiles": {"work": profile}}))
        env = joey.env | {"ANTHROPIC_API_KEY": "another-key"}
        finished = await joey.run("-p", "hi", env=env)
    assert finished.code == 78
    assert "`apiKey` of the profile 'work'" in finished.err
    assert "joey profiles set work apiKey" in finished.err
    assert "ANTHROPIC_API_KEY" not in finished.err


@pytest.mark.contract("cli:errors")
async def test_the_variable_that_had_the_wrong_key_is_named(joey: Joey) -> None:
    async with ModelServer([Turn(fail(401, "API key not valid"))]) as server:
        env = joey.env | {"GOOGLE_API_KEY": KEY}
        flags = ("--provider", "gemini", "--base-url", f"{server.url}/v1", "-m", "m")
        finished = await joey.run("-p", "hi", *flags, env=env)
    assert finished.code == 78
    assert "It comes from the variable GOOGLE_API_KEY" in finished.err
