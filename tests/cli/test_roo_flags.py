"""Command lines written for Roo's own program, given to joey as they are."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import PIPE
from typing import Any

import pytest

from joey.testing.script import Turn, call, fail
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Joey, reach
from tests.harness.cli.conversation import ACCEPT, ASK, PROMPT
from tests.harness.cli.terminal import terminal

DONE = Turn(call("attempt_completion", {"result": "Done."}))
NEW_ID = "0f0e8f5a-5a1c-4d59-9d62-6d1f4e6f0a11"


async def test_a_full_command_line_of_roo_runs(joey: Joey) -> None:
    (joey.workspace / "prompt.md").write_text("do it", encoding="utf-8")
    async with ModelServer([DONE]) as server:
        done = await joey.run(
            *("--print", "--output-format", "json", "--oneshot", "--exit-on-error", "--debug"),
            *("--prompt-file", "prompt.md", "--workspace", str(joey.workspace), "--mode", "code"),
            *("--provider", "anthropic", "-m", "any", "-k", "sk-ant-of-the-command-line"),
            *("--reasoning-effort", "high", "--consecutive-mistake-limit", "5"),
            *("--terminal-shell", "/bin/bash", "--extension", "/opt/roo", "--ephemeral"),
            *("--base-url", server.url),
        )
    assert (done.code, done.json["content"]) == (0, "Done.")
    assert server.requests[0].body["output_config"] == {"effort": "high"}


async def test_a_key_of_the_command_line_is_used_and_warned_of_once(joey: Joey) -> None:
    async with ModelServer([DONE]) as server:
        env = joey.env | {"ANTHROPIC_BASE_URL": server.url}
        done = await joey.run("-p", "-k", "sk-ant-of-the-command-line", "do it", env=env)
    assert done.code == 0
    sent = dict(server.requests[0].headers)
    assert "sk-ant-of-the-command-line" in sent.values()
    assert done.err.count("-k") == 1
    assert "other users can see the key" in done.err
    assert "ANTHROPIC_API_KEY" in done.err
    assert "sk-ant-of-the-command-line" not in done.err


async def test_a_key_of_the_command_line_comes_before_that_of_the_profile(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as server:
        profile = {"provider": "anthropic", "apiKey": "stored", "baseUrl": server.url}
        joey.home.mkdir()
        (joey.home / "profiles.json").write_text(
            json.dumps({"active": "mine", "profiles": {"mine": profile}}), encoding="utf-8"
        )
        assert (await joey.run("-p", "-k", "given-for-now", "do it")).code == 0
        resumed = await joey.run("-p", "-c", "--api-key", "given-later", "and that")
    assert resumed.code == 0
    first, second = (dict(request.headers) for request in server.requests)
    assert "given-for-now" in first.values() or "Bearer given-for-now" in first.values()
    assert "given-later" in second.values() or "Bearer given-later" in second.values()
    stored = [path.read_text(errors="replace") for path in joey.home.rglob("*") if path.is_file()]
    assert not any("given-for-now" in text for text in stored)


async def test_a_key_without_a_provider_says_that_one_must_be_named(joey: Joey) -> None:
    done = await joey.run("-p", "-k", "of-some-service", "do it")
    assert done.code == 78
    assert "--provider" in done.err


async def test_a_new_task_has_the_id_that_the_command_line_gives_it(joey: Joey) -> None:
    async with ModelServer([DONE, DONE]) as server:
        done = await joey.run(
            *("-p", "--create-with-session-id", NEW_ID, *reach(server.url), "do it")
        )
        assert done.code == 0
        assert joey.tasks[0].name == f"task_{NEW_ID}"
        again = await joey.run("-p", "--session-id", NEW_ID, "and that")
        assert again.code == 0
        taken = await joey.run(
            *("-p", "--create-with-session-id", NEW_ID, *reach(server.url), "do it")
        )
    assert taken.code != 0
    assert "Traceback" not in taken.err
    assert NEW_ID in taken.err


async def test_in_a_conversation_the_given_id_is_that_of_the_first_task_alone(joey: Joey) -> None:
    flags = ("--create-with-session-id", NEW_ID)
    async with (
        ModelServer([DONE, DONE]) as server,
        terminal(joey, *flags, *reach(server.url), "one") as screen,
    ):
        await screen.until(ACCEPT)
        screen.press("\n")
        await screen.until(PROMPT)
        screen.press("/new\n")
        await screen.until(PROMPT)
        screen.press("two\n")
        await screen.until(ACCEPT)
        screen.press("\n")
        await screen.until(PROMPT)
        screen.press("/exit\n")
        assert await screen.ended() == 0
    assert len(joey.tasks) == 2
    assert f"task_{NEW_ID}" in {task.name for task in joey.tasks}


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--create-with-session-id", "x"), "'x' is not a UUID"),
        (("--create-with-session-id", NEW_ID, "-c"), "--create-with-session-id"),
        (("--session-id", NEW_ID, "-c"), "not allowed with"),
        (("--signal-only-exit",), "--signal-only-exit needs --stdin-prompt-stream"),
        (("--reasoning-effort", "hihg"), "did you mean high?"),
        (("--consecutive-mistake-limit", "many"), "'many'"),
        (("-r", "high"), "--reasoning-effort high"),
    ],
)
async def test_a_wrong_use_of_roos_flags_is_explained(
    joey: Joey, flags: tuple[str, ...], problem: str
) -> None:
    done = await joey.run("-p", *flags, "do it")
    assert done.code == 2
    assert problem in done.err.replace("\n", " ")


async def test_with_exit_on_error_a_failed_request_is_not_tried_again(joey: Joey) -> None:
    async with ModelServer([Turn(fail(529, "overloaded")), DONE]) as server:
        done = await joey.run("-p", "--exit-on-error", *reach(server.url), "do it")
    assert done.code == 75
    assert len(server.requests) == 1


async def test_another_shell_is_refused_with_a_warning_and_the_task_runs(joey: Joey) -> None:
    async with ModelServer([DONE]) as server:
        done = await joey.run(
            "-p", "--terminal-shell", "/usr/bin/fish", *reach(server.url), "do it"
        )
    assert (done.code, done.out) == (0, "Done.\n")
    assert "--terminal-shell /usr/bin/fish is ignored" in done.err


async def test_a_process_that_only_a_signal_ends_outlives_its_commands(joey: Joey) -> None:
    flags = ("-p", "--stdin-prompt-stream", "--signal-only-exit")
    async with ModelServer([DONE]) as server, asyncio.timeout(LIMIT):
        process = await joey.start(*flags, *reach(server.url), stdin=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        start = {"command": "start", "requestId": "1", "prompt": "do it"}
        process.stdin.write(json.dumps(start).encode() + b"\n")
        process.stdin.close()
        last: dict[str, Any] = {}
        while last.get("code") != "task_completed":
            last = json.loads(await process.stdout.readline())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 1.5)
        process.send_signal(signal.SIGTERM)
        rest = await process.stdout.read()
        code = await process.wait()
    assert (code, rest) == (143, b"")


async def test_at_a_terminal_oneshot_asks_and_leaves_when_the_task_is_done(joey: Joey) -> None:
    writing = Turn(call("write_to_file", {"path": "new.txt", "content": "hello\n"}))
    async with ModelServer([writing, DONE]) as server:
        flags = ("--oneshot", *reach(server.url))
        async with terminal(joey, *flags, "do it", env={"JOEY_PLAIN": ""}) as screen:
            await screen.until(ASK)
            screen.press("y\n")
            assert await screen.ended() == 0
    assert "Done." in screen.text
    assert (joey.workspace / "new.txt").read_text(encoding="utf-8") == "hello\n"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("list sessions", "joey tasks list"),
        ("list modes --format json", "joey modes list"),
        ("list models", "joey models"),
        ("list commands", "joey --help"),
        ("auth login", "joey profiles add NAME --provider PROVIDER"),
        ("auth logout", "joey profiles unset NAME apiKey"),
        ("auth status", "joey doctor"),
        ("upgrade", "uv tool upgrade joey"),
    ],
)
async def test_a_command_of_roo_names_the_one_of_joey(joey: Joey, line: str, meant: str) -> None:
    done = await joey.run(*line.split())
    assert done.code == 2
    assert f"did you mean `{meant}`?" in done.err
