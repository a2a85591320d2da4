"""`joey -p` through the real program, against a scripted model on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
from asyncio.subprocess import PIPE

import pytest

from joey.presentation.phrases import describe_failure
from joey.testing.script import Step, Turn, call, fail, pause, say, think, usage
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.images import PNG

DONE = Turn(say("Nearly."), call("attempt_completion", {"result": "All **done**."}))


def reading(path: str) -> Turn:
    return Turn(say("I look."), call("read_file", {"path": path}))


@pytest.mark.contract("cli:print")
@pytest.mark.smoke
async def test_the_result_alone_is_on_stdout_and_progress_on_stderr(joey: Joey) -> None:
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    async with ModelServer([reading("a.txt"), DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "look at a.txt")
        assert f"joey: using {server.url} (Anthropic protocol)\n" in done.err
    assert (done.code, done.out) == (0, "All **done**.\n")
    assert "· Read a.txt" in done.err
    task_id = joey.tasks[0].name.removeprefix("task_")
    last = done.err.splitlines()[-1]
    assert re.fullmatch(rf"joey: done · \d+ tokens in all requests · task {task_id[:13]}", last)


async def test_an_address_of_the_environment_is_shown_and_named_when_wrong(joey: Joey) -> None:
    async with ModelServer([Turn(fail(404, "no such model"))]) as server:
        address = {"ANTHROPIC_API_KEY": "k" * 20, "ANTHROPIC_BASE_URL": server.url}
        done = await joey.run("-p", "do it", env={**joey.env, **address})
        assert f"joey: using {server.url} (Anthropic protocol)\n" in done.err
        assert f"and ANTHROPIC_BASE_URL, which is {server.url}." in done.err
    assert done.code == 78
    assert "'default'" not in done.err


async def test_without_a_terminal_a_prompt_is_run_without_asking_for_it(joey: Joey) -> None:
    async with ModelServer([DONE]) as server:
        done = await joey.run(*reach(server.url), "do it")
    assert (done.code, done.out) == (0, "All **done**.\n")


@pytest.mark.contract("cli:print")
async def test_json_is_one_object_with_everything_that_was_said(joey: Joey) -> None:
    turn = Turn(
        think("hm", signature="s"), say("Nearly."), *DONE.steps[1:], usage(input=7, output=3)
    )
    async with ModelServer([turn]) as server:
        done = await joey.run("-p", "--output-format", "json", *reach(server.url), "do it")
    result = done.json
    assert done.code == result["exitCode"] == 0
    assert (result["type"], result["success"]) == ("result", True)
    assert (result["content"], result["code"]) == ("All **done**.", "completed")
    assert result["cost"]["inputTokens"] == result["usage"]["totalTokensIn"] == 7
    assert joey.tasks[0].name == f"task_{result['taskId']}"
    kinds = [(event["type"], event["content"]) for event in result["events"]]
    assert kinds == [
        ("user", "do it"),
        ("thinking", "hm"),
        ("assistant", "Nearly."),
        ("assistant", "All **done**."),
    ]
    assert all(event["done"] for event in result["events"])


@pytest.mark.contract("cli:print")
async def test_stream_json_tells_pieces_then_the_whole_and_the_result_last(joey: Joey) -> None:
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    first = Turn(say("I look at it.", chunk=3), call("read_file", {"path": "a.txt"}))
    async with ModelServer([first, DONE]) as server:
        done = await joey.run("-p", "--output-format", "stream-json", *reach(server.url), "do it")
    lines = done.lines
    assert (lines[0]["type"], lines[0]["subtype"]) == ("system", "init")
    assert lines[1] == {"type": "user", "id": lines[1]["id"], "content": "do it", "done": True}
    text_lines = [line for line in lines if line["type"] == "assistant" and "subtype" not in line]
    of_first = [line for line in text_lines if line["id"] == text_lines[0]["id"]]
    assert "".join(line["content"] for line in of_first[:-1]) == "I look at it."
    assert of_first[-1] == {**of_first[-1], "content": "I look at it.", "done": True}
    used = [line for line in lines if line["type"] == "tool_use" and line.get("done")]
    assert [line["tool_use"]["name"] for line in used] == ["readFile"]
    (result,) = (line for line in lines if line["type"] == "tool_result")
    assert "hello" in result["tool_result"]["output"]
    assert lines[-1]["type"] == "result"
    assert (lines[-1]["done"], lines[-1]["success"]) == (True, True)
    assert lines[-1]["taskId"] == lines[0]["taskId"]


FAILURES: list[tuple[str, Step, int]] = [
    ("provider:auth", fail(401, "bad key"), 78),
    ("provider:not_found", fail(404, "no such model"), 78),
    ("provider:quota", fail(402, "no credit"), 78),
    ("provider:rate", fail(429, "slow down"), 75),
    ("provider:overload", fail(529, "busy"), 75),
    ("provider:invalid", fail(400, "odd request"), 1),
]


@pytest.mark.contract("cli:exit-codes")
@pytest.mark.parametrize(("code", "step", "exit_code"), FAILURES, ids=[f[0] for f in FAILURES])
async def test_a_provider_that_fails_is_reported_by_the_exit_code(
    joey: Joey, code: str, step: Step, exit_code: int
) -> None:
    joey.settings(maxRetries=0)
    async with ModelServer(lambda request: Turn(step)) as server:
        done = await joey.run("-p", "--output-format", "json", *reach(server.url), "do it")
    assert done.code == done.json["exitCode"] == exit_code
    assert (done.json["code"], done.json["success"]) == (code, False)
    reason = done.json["reason"]
    assert f"joey: {reason[0].lower()}{reason[1:]}\n" in done.err
    assert f"joey: {describe_failure(code)} · " in done.err
    assert code not in done.err


async def test_a_provider_that_is_busy_is_tried_again_and_the_wait_is_shown(joey: Joey) -> None:
    joey.settings(requestDelaySeconds=0.01)
    async with ModelServer([Turn(fail(529, "busy")), DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "do it")
    assert done.code == 0
    assert re.search(r"~ trying again in \d+ s \(retry \d of \d\): anthropic", done.err)


async def test_no_server_at_all_means_try_again(joey: Joey) -> None:
    joey.settings(maxRetries=0)
    async with ModelServer([]) as server:
        url = server.url
    done = await joey.run("-p", *reach(url), "do it")
    assert done.code == 75


@pytest.mark.contract("cli:exit-codes", "loop:limits")
async def test_limits_end_the_run_with_codes_of_their_own(joey: Joey) -> None:
    (joey.workspace / "a.txt").write_text("hello", encoding="utf-8")
    async with ModelServer([reading("a.txt"), DONE]) as server:
        turns = await joey.run("-p", "--max-turns", "1", *reach(server.url), "do it")
    assert turns.code == 53
    assert turns.out == ""
    assert "the limit of 1 turn is reached." in turns.err
    assert "joey -r" in turns.err
    async with ModelServer([Turn(pause(asyncio.Event()))]) as server:
        time = await joey.run("-p", "--max-wall-time", "0.2", *reach(server.url), "do it")
    assert time.code == 55
    expensive = Turn(*reading("a.txt").steps, usage(input=1_000_000, output=1))
    flags = ("--provider", "anthropic", "--model", "claude-sonnet-4-5-20250929")
    async with ModelServer([expensive, DONE]) as server:
        money = await joey.run(
            "-p", "--max-budget-usd", "0.5", *flags, "--base-url", server.url, "do it"
        )
    assert money.code == 55


async def test_a_model_that_gives_up_is_reported_by_the_exit_code(joey: Joey) -> None:
    lost = Turn(say("I do not know."), call("no_such_tool", {}))
    async with ModelServer(lambda request: lost) as server:
        done = await joey.run("-p", "--output-format", "json", *reach(server.url), "do it")
    assert done.code == 3
    assert done.json["code"] == "mistakes"
    assert done.json["content"] == "I do not know."


# The prompt


async def sent(server: ModelServer) -> str:
    return json.dumps(server.requests[-1].body["messages"])


async def test_the_prompt_may_come_through_a_pipe_alone_or_behind_another(joey: Joey) -> None:
    async with ModelServer([DONE]) as server:
        await joey.run("-p", *reach(server.url), stdin=b"from the pipe")
        assert "from the pipe" in await sent(server)
    async with ModelServer([DONE]) as server:
        await joey.run("-p", *reach(server.url), "review this", stdin=b"from the pipe")
        assert "review this\\n\\nfrom the pipe" in await sent(server)


async def test_a_pipe_that_is_never_closed_does_not_hold_up_a_prompt(joey: Joey) -> None:
    async with ModelServer([DONE]) as server, asyncio.timeout(LIMIT):
        process = await joey.start("-p", *reach(server.url), "alone", stdin=PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        assert await process.wait() == 0
    assert out == b"All **done**.\n"
    assert b"standard input" in err


@pytest.mark.contract("cli:pipes")
async def test_a_huge_prompt_is_refused_clearly_and_a_large_one_works(joey: Joey) -> None:
    huge = await joey.run("-p", "--provider", "ollama", "-m", "x", stdin=b"x" * 10 * 1024 * 1024)
    assert huge.code == 2
    assert "8 MB" in huge.err
    async with ModelServer([DONE]) as server:
        larger = await joey.run("-p", *reach(server.url), stdin=b"word " * 1024 * 1024)
        assert larger.code == 1
        assert "tokens" in larger.err
        assert not server.requests
        large = await joey.run("-p", *reach(server.url), stdin=b"word " * 40_000)
        assert large.code == 0
        assert len(await sent(server)) > 200_000


async def test_an_image_goes_to_the_model(joey: Joey) -> None:
    (joey.workspace / "p.png").write_bytes(PNG)
    async with ModelServer([DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "--image", "p.png", "what is this?")
        assert base64.b64encode(PNG).decode() in await sent(server)
    assert done.code == 0


async def test_a_system_prompt_of_ones_own_replaces_ours(joey: Joey) -> None:
    (joey.workspace / "system.txt").write_text("You are a teapot.", encoding="utf-8")
    async with ModelServer([DONE]) as server:
        await joey.run("-p", *reach(server.url), "--system-prompt-file", "system.txt", "do it")
        assert "teapot" in json.dumps(server.requests[0].body["system"])


async def test_calls_in_xml_work_as_well(joey: Joey) -> None:
    text = "Nearly.\n<attempt_completion>\n<result>Done in XML.</result>\n</attempt_completion>"
    async with ModelServer([Turn(say(text, chunk=5))]) as server:
        done = await joey.run("-p", "--protocol", "xml", *reach(server.url), "do it")
        assert "tools" not in server.requests[0].body
    assert (done.code, done.out) == (0, "Done in XML.\n")


# Tasks that go on


@pytest.mark.contract("cli:continue")
async def test_a_task_is_continued_in_its_directory_or_by_the_start_of_its_id(joey: Joey) -> None:
    async with ModelServer([DONE, DONE, DONE]) as server:
        first = await joey.run("-p", "--output-format", "json", *reach(server.url), "one")
        second = await joey.run("-p", "-c", *reach(server.url), "two")
        start = first.json["taskId"][:13]
        third = await joey.run("-p", "-r", start, *reach(server.url), "three")
        messages = await sent(server)
    assert (first.code, second.code, third.code) == (0, 0, 0)
    assert all(word in messages for word in ("one", "two", "three"))
    assert len(joey.tasks) == 1
    assert "continuing task" in second.err


@pytest.mark.contract("cli:continue")
async def test_a_task_goes_on_with_the_model_it_had_when_no_flag_names_another(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as server:
        await joey.run("-p", *reach(server.url), "one")
        env = {**joey.env, "OPENAI_API_KEY": "any"}
        again = await joey.run("-p", "-c", "two", env=env)
        assert server.requests[-1].body["model"] == "scripted"
    assert again.code == 0


async def test_only_what_is_new_is_printed_of_a_task_that_goes_on(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as server:
        await joey.run("-p", *reach(server.url), "one")
        flags = ("-p", "-c", "--output-format", "stream-json")
        again = await joey.run(*flags, *reach(server.url), "two")
    messages = [line["content"] for line in again.lines if line["type"] == "user"]
    assert messages == ["two"]
    assert again.lines[-1]["success"] is True


async def test_there_must_be_something_to_continue_and_something_to_say(joey: Joey) -> None:
    none = await joey.run("-p", "-c", "go on")
    assert none.code == 2
    unknown = await joey.run("-p", "-r", "nothing", "go on")
    assert unknown.code == 2
    assert "nothing" in unknown.err
    silent = await joey.run("-p")
    assert silent.code == 2
    async with ModelServer([DONE]) as server:
        await joey.run("-p", *reach(server.url), "one")
        wordless = await joey.run("-p", "-c", *reach(server.url))
    assert wordless.code == 2


async def test_an_ephemeral_task_leaves_nothing_behind(joey: Joey) -> None:
    search = Turn(call("codebase_search", {"query": "anything"}))
    async with ModelServer([search, DONE]) as server:
        done = await joey.run("-p", "--ephemeral", *reach(server.url), "do it")
    assert (done.code, done.out) == (0, "All **done**.\n")
    assert not (joey.home / "tasks").exists()
    assert not (joey.home / "index").exists()


# What goes wrong before anything happens


async def test_without_a_model_the_ways_to_go_on_are_named(joey: Joey) -> None:
    done = await joey.run("-p", "--output-format", "json", "do it")
    assert done.code == done.json["exitCode"] == 78
    assert "joey demo" in done.err
    assert "Traceback" not in done.err
    assert done.json["success"] is False


async def test_an_error_in_the_settings_is_reported_with_its_key(joey: Joey) -> None:
    joey.settings(maxRetries="many")
    done = await joey.run("-p", "--provider", "ollama", "-m", "x", "do it")
    assert done.code == 78
    assert "maxRetries" in done.err


@pytest.mark.contract("cli:exit-codes")
@pytest.mark.parametrize("flag", ["--mode", "--provider", "--profile"])
async def test_a_name_that_a_flag_gets_wrong_is_wrong_usage(joey: Joey, flag: str) -> None:
    env = {**joey.env, "OPENAI_API_KEY": "any"}
    done = await joey.run("-p", flag, "nonsense", "do it", env=env)
    assert done.code == 2
    assert done.err.startswith("joey: there is no ")
    assert "'nonsense'" in done.err


@pytest.mark.contract("cli:exit-codes")
@pytest.mark.parametrize("flags", [reach("nonsense"), ("--base-url", "nonsense")])
async def test_an_address_that_is_none_is_wrong_usage(joey: Joey, flags: tuple[str, ...]) -> None:
    done = await joey.run("-p", *flags, "do it")
    assert done.code == 2
    assert "--base-url 'nonsense'" in done.err


@pytest.mark.contract("cli:exit-codes")
async def test_a_name_that_a_file_gets_wrong_is_a_matter_of_configuration(joey: Joey) -> None:
    joey.home.mkdir()
    profile = {"provider": "nonsense", "model": "x", "apiKey": "k"}
    file = joey.home / "profiles.json"
    file.write_text(json.dumps({"active": "a", "profiles": {"a": profile}}), encoding="utf-8")
    file.chmod(0o600)
    done = await joey.run("-p", "do it")
    assert done.code == 78
    assert "nonsense" in done.err


async def test_a_directory_that_is_none_is_wrong_usage(joey: Joey) -> None:
    done = await joey.run("-p", "--provider", "ollama", "-m", "x", "-w", "nowhere", "do it")
    assert done.code == 2
    assert "nowhere" in done.err


async def test_a_directory_that_was_deleted_meanwhile_is_reported(joey: Joey) -> None:
    (joey.workspace / "gone").mkdir()
    script = 'cd gone && rmdir ../gone && exec "$@"'
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", script, "sh", sys.executable, "-m", "joey", "-p", "x"),
        cwd=joey.workspace,
        env=joey.env,
        stderr=PIPE,
    )
    _, err = await process.communicate()
    assert process.returncode == 2
    assert b"Traceback" not in err
    assert b"folder" in err


async def test_a_result_that_cannot_be_written_is_a_failure_and_says_why(joey: Joey) -> None:
    async with ModelServer([DONE]) as server:
        full = os.open("/dev/full", os.O_WRONLY)
        process = await joey.start("-p", *reach(server.url), "x", stdout=full)
        os.close(full)
        _, err = await process.communicate()
    assert process.returncode == 1
    assert b"No space left" in err
    assert b"Traceback" not in err


@pytest.mark.parametrize(("flags", "traced"), [([], False), (["--debug"], True)])
async def test_a_defect_is_one_message_and_a_traceback_only_when_asked_for(
    joey: Joey, flags: list[str], traced: bool
) -> None:
    defect = (
        "import sys, joey.cli.headless.run as run; from joey.cli.main import main;"
        "run.run_headless = lambda arguments: 1 / 0; sys.exit(main(sys.argv[1:]))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", defect, "-p", *flags, "x", env=joey.env, stderr=PIPE
    )
    _, err = await process.communicate()
    assert process.returncode == 1
    assert b"ZeroDivisionError" in err
    assert b"report" in err
    assert (b"Traceback" in err) is traced


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
async def test_streams_that_are_closed_from_the_start_do_not_matter(
    joey: Joey, closed: str
) -> None:
    async with ModelServer([DONE]) as server:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "joey", "-p"),
            *(*reach(server.url), "do it"),
            cwd=joey.workspace,
            env=joey.env,
            stdout=PIPE,
            stderr=PIPE,
        )
        out, err = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert out == (b"" if ">&-" in closed.replace("2>&-", "") else b"All **done**.\n")


async def test_a_setting_that_does_not_exist_is_reported_once(joey: Joey) -> None:
    joey.settings(alwaysAllowWrites=True)
    async with ModelServer([DONE]) as server:
        done = await joey.run("-p", *reach(server.url), "do it")
    assert done.code == 0
    assert done.err.count("Did you mean `alwaysAllowWrite`?") == 1


async def test_a_key_with_a_line_break_is_named_and_not_sent(joey: Joey) -> None:
    env = {**joey.env, "OPENAI_API_KEY": "sk-first\nsecond"}
    done = await joey.run("-p", "--base-url", "http://127.0.0.1:9/v1", "-m", "m", "do it", env=env)
    assert (done.code, "'authorization' has characters" in done.err) == (78, True), done.err
    assert "second" not in done.err
