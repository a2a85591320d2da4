"""A result that a fact speaks against is sent back once, in the real program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.replies import PROTOCOLS, RUN, last_message, reply
from tests.harness.server.server_fixture import open_server

pytestmark = pytest.mark.contract("completion:facts")

STREAM = ("-p", "-y", "--no-sandbox", "--output-format", "stream-json")


def build_turns(protocol: str, *steps: tuple[str, dict[str, str]]) -> list[Turn]:
    return [reply(protocol, call(name, arguments)) for name, arguments in steps]


def write(path: str, content: str) -> tuple[str, dict[str, str]]:
    return "write_to_file", {"path": path, "content": content}


def run(command: str) -> tuple[str, dict[str, str]]:
    return "execute_command", {"command": command}


FAIL = (write("a.txt", "x"), run("exit 3"))


def done(result: str) -> tuple[str, dict[str, str]]:
    return "attempt_completion", {"result": result}


@pytest.mark.parametrize(
    "limit", [("--max-turns", "3"), ("--max-wall-time", "15s"), ("--max-turns", "9")]
)
async def test_a_result_is_not_sent_back_in_the_last_turn(
    joey: Joey, limit: tuple[str, str]
) -> None:
    turns = build_turns("native", *FAIL, done("Made it."), done("It fails."))
    async with ModelServer(turns) as server:
        finished = await joey.run(*RUN, *limit, *reach(server.url), "try it")
    expected = "It fails." if limit[1] == "9" else "Made it."
    assert (finished.code, finished.json["content"]) == (0, expected)


@pytest.mark.parametrize(
    "command", ["python3 -m flake8_is_not_here .", "cd . && python3 -m pytest_not.here -q"]
)
async def test_a_check_that_is_not_installed_says_nothing_about_the_result(
    joey: Joey, command: str
) -> None:
    turns = build_turns("native", write("a.py", "x = 1\n"), run(command), done("Made it."))
    async with ModelServer(turns) as server:
        finished = await joey.run(*RUN, *reach(server.url), "try it")
        assert len(server.requests) == 3
    assert (finished.code, finished.json["content"]) == (0, "Made it.")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_failed_test_run_is_reported_before_the_result_is_presented(
    joey: Joey, protocol: str
) -> None:
    turns = build_turns(
        protocol,
        write("test.sh", "exit 7\n"),
        run("sh test.sh"),
        done("All tests pass."),
        done("They fail."),
    )
    async with ModelServer(turns) as server:
        finished = await joey.run(*STREAM, "--protocol", protocol, *reach(server.url), "test it")
        assert len(server.requests) == 4
        message = last_message(server.requests[3])
    assert finished.code == 0
    assert "`sh test.sh` failed in its last run (exit code 7)." in message
    assert ("[attempt_completion] Result:" in message) is (protocol == "xml")
    lines = finished.lines
    results = [line["content"] for line in lines if line.get("subtype") == "completion_result"]
    assert results == ["They fail."]
    (error,) = (line["content"] for line in lines if line["type"] == "error")
    assert error == (
        "attempt_completion: The result was sent back to the model once: `sh test.sh` failed in"
        " its last run (exit code 7)."
    )
    assert lines[-1]["content"] == "They fail."


async def test_the_last_line_names_a_command_that_failed_when_the_result_was_accepted(
    joey: Joey,
) -> None:
    write_test, mend_test = write("test.sh", "exit 7\n"), write("test.sh", "exit 0\n")
    failing = build_turns("native", write_test, run("sh test.sh"), done("Done."), done("Done."))
    passing = build_turns("native", mend_test, run("sh test.sh"), done("Done."))
    async with ModelServer([*failing, *passing]) as server:
        flags = ("-p", "-y", "--no-sandbox", *reach(server.url))
        failed = await joey.run(*flags, "test it")
        passed = await joey.run(*flags, "mend it")
    *_, fact, last = failed.err.splitlines()
    assert (failed.code, failed.out) == (0, "Done.\n")
    assert fact == "joey: `sh test.sh` failed in its last run (exit code 7)."
    assert last.startswith("joey: done, but `sh test.sh` failed · ")
    assert passed.err.splitlines()[-1].startswith("joey: done · ")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_failure_that_the_shell_reports_of_a_pipeline_counts(
    joey: Joey, protocol: str
) -> None:
    (joey.workspace / "Makefile").write_text("test:\n\texit 7\n")
    turns = build_turns(
        protocol, write("a.txt", "x"), run("make test 2>&1 | tail -2"), done("1"), done("2")
    )
    async with ModelServer(turns) as server:
        finished = await joey.run(*RUN, "--protocol", protocol, *reach(server.url), "mend it")
        message = last_message(server.requests[3])
    fact = "`make test 2>&1 | tail -2` failed in its last run (exit code 2 of make test)."
    assert fact in message
    assert (finished.code, finished.json["content"]) == (0, "2")


async def test_a_test_run_in_a_pipeline_does_not_settle_a_failed_one(joey: Joey) -> None:
    (joey.workspace / "Makefile").write_text("test:\n\texit 7\n")
    piped = "make test 2>&1 | tail -20"
    turns = build_turns(
        "native", run("make test"), write("a.txt", "x"), run(piped), done("1"), done("2")
    )
    async with ModelServer(turns) as server:
        finished = await joey.run(*RUN, *reach(server.url), "mend the tests")
        message = last_message(server.requests[4])
    assert "`make test 2>&1 | tail -20` failed in its last run (exit code 2 of make" in message
    assert (finished.code, finished.json["content"]) == (0, "2")


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_syntax_error_that_an_edit_left_is_reported(joey: Joey, protocol: str) -> None:
    turns = build_turns(
        protocol,
        write("a.py", "def f(:\n    pass\n"),
        done("Written."),
        write("a.py", "def f():\n    pass\n"),
        done("Fixed."),
    )
    async with ModelServer(turns) as server:
        finished = await joey.run(*RUN, "--protocol", protocol, *reach(server.url), "write it")
        message = last_message(server.requests[2])
    assert "An edit left new errors:\\na.py\\n- [python Error] 1 | " in message
    assert finished.json["content"] == "Fixed."


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_writing_and_completing_takes_no_other_request(joey: Joey, protocol: str) -> None:
    turns = build_turns(
        protocol,
        run("grep -r express ."),
        run("npm-of-another-machine install express"),
        write("server.js", "require('express');\n"),
        done("Written."),
    )
    async with ModelServer(turns) as server:
        finished = await joey.run(*RUN, "--protocol", protocol, *reach(server.url), "a server")
        assert len(server.requests) == 4
    assert finished.json["content"] == "Written."


async def test_the_setting_turns_it_off(joey: Joey) -> None:
    changed = await joey.run("config", "set", "confirmCompletion", "off")
    assert changed.code == 0, changed.err
    async with ModelServer(build_turns("native", *FAIL, done("Done."))) as server:
        finished = await joey.run(*RUN, *reach(server.url), "do it")
    assert finished.json["content"] == "Done."


@pytest.mark.parametrize("setting", ["auto", "off"])
async def test_a_task_of_a_client_has_the_setting_of_its_own(tmp_path: Path, setting: str) -> None:
    turns = build_turns("native", *FAIL, done("1"), done("2"))
    async with open_server(tmp_path, *turns) as here, here.peer() as peer:
        allowed = {
            "alwaysAllowWrite": True,
            "alwaysAllowExecute": True,
            "allowedCommands": ["*"],
            "confirmCompletion": setting,
        }
        task_id = (await peer.ask("startNewTask", text="go", configuration=allowed))["taskId"]
        await peer.asked("completion_result")
        rows = peer.rows(task_id)
        assert not [row for row in rows if row.get("partial")]
        results = [row for row in rows if row.get("say") == "completion_result"]
        presented = [row["text"] for row in results if "tool" not in row]
        assert presented == ["1" if setting == "off" else "2"]
        assert len(results) == (1 if setting == "off" else 2)
        assert peer.names().count("taskCompleted") == 1


async def test_a_killed_run_is_not_sent_back_twice(joey: Joey) -> None:
    turns = build_turns("native", *FAIL, done("1"), run("true"))
    async with ModelServer(turns) as server:
        await joey.run(*RUN, "--max-turns", "4", *reach(server.url), "do it")
    async with ModelServer(build_turns("native", done("2"))) as server:
        finished = await joey.run(*RUN, "-c", *reach(server.url))
        assert "failed in its last run" in json.dumps(server.requests[0].body["messages"])
    assert finished.json["content"] == "2"


async def test_a_test_run_that_failed_in_the_background_counts_after_a_resume(joey: Joey) -> None:
    slow = ("execute_command", {"command": "sh test.sh", "timeout": "0.1"})
    turns = build_turns("native", write("test.sh", "sleep 0.5; exit 7\n"), slow, run("sleep 2"))
    async with ModelServer([*turns, reply("native", call("list_files", {"path": "."}))]) as server:
        await joey.run(*RUN, "--max-turns", "4", *reach(server.url), "test it")
        assert "(exit code 7)" in json.dumps(server.requests[3].body["messages"])
    async with ModelServer(build_turns("native", done("1"), done("2"))) as server:
        finished = await joey.run(*RUN, "-c", *reach(server.url))
        message = last_message(server.requests[1])
    assert "`sh test.sh` failed in its last run (exit code 7)." in message
    assert finished.json["content"] == "2"
    async with ModelServer(build_turns("native", done("3"))) as server:
        await joey.run(*RUN, "-c", *reach(server.url), "and now?")
        messages = json.dumps(server.requests[0].body["messages"])
    assert "The result was presented and the run ended." in messages
    assert "The user accepted this result." not in messages


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_result_is_sent_back_while_tests_run(joey: Joey, protocol: str) -> None:
    (joey.workspace / "Makefile").write_text("test:\n\tsleep 600\n")
    slow = ("execute_command", {"command": "make test", "timeout": "0.5"})
    turns = build_turns(protocol, slow, done("They pass."), done("They run."))
    async with ModelServer(turns) as server:
        finished = await joey.run(
            "-p", "-y", "--no-sandbox", "--protocol", protocol, *reach(server.url), "test it"
        )
        message = last_message(server.requests[2])
    assert "- `make test` is still running in the background." in message
    assert ("<read_command_output>" in message) is (protocol == "xml")
    assert finished.out == "They run.\n"
    assert "joey: ended with the run: `make test`" in finished.err.splitlines()
