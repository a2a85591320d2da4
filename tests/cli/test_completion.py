"""Completion: what is offered, and that real shells insert it."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import shutil
import struct
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from joey.cli.command_line import build_run_parser
from joey.cli.commands.command_parsers import COMMAND_PARSERS
from joey.cli.commands.completion import (
    FILE_METAVARS,
    FREE_TEXT_METAVARS,
    VALUE_COMPLETERS,
    FileCompletion,
    complete_words,
    split_command_line,
)
from tests.harness.cli.binary import LIMIT, Joey
from tests.harness.cli.small_web import OLLAMA, small_web
from tests.harness.cli.terminal import Screen

BIN = str(Path(sys.executable).parent)


def parsers() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every parser, with the words that lead to it."""
    yield (), build_run_parser()
    for name, make in COMMAND_PARSERS.items():
        parser = make()
        below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        for each in below:
            yield from (((name, action), inner) for action, inner in each.choices.items())
        if not below:
            yield (name,), parser


EVERY = pytest.mark.parametrize(
    ("arguments", "parser"), [pytest.param(*each, id=" ".join(each[0])) for each in parsers()]
)


def values(*arguments: str) -> list[str]:
    return [each.value for each in complete_words(arguments).candidates]


@pytest.mark.contract("cli:completion")
@EVERY
def test_every_flag_of_every_command_is_offered(
    arguments: tuple[str, ...], parser: argparse.ArgumentParser
) -> None:
    shown = [each for each in parser._actions if each.help != argparse.SUPPRESS]
    flags = {flag for each in shown for flag in each.option_strings if flag.startswith("--")}
    assert set(values(*arguments, "--")) == flags
    about = {each.value: each.description for each in complete_words((*arguments, "--")).candidates}
    assert all(about.values())


@EVERY
def test_every_value_has_choices_or_a_metavar_that_is_known(
    arguments: tuple[str, ...], parser: argparse.ArgumentParser
) -> None:
    for action in parser._actions:
        if action.nargs == 0 or action.choices is not None:
            continue
        assert action.metavar in {*VALUE_COMPLETERS, *FILE_METAVARS, *FREE_TEXT_METAVARS}, (
            f"{arguments}: {action.dest}"
        )
        if action.option_strings:
            flag = action.option_strings[-1]
            assert complete_words((*arguments, flag, "")).file_completion is FILE_METAVARS.get(
                str(action.metavar), FileCompletion.NONE
            )


def test_commands_actions_and_choices_are_offered() -> None:
    assert {*COMMAND_PARSERS, "help"} == set(values(""))
    assert values("ta") == ["tasks"]
    assert "rewind" in values("tasks", "")
    assert values("help", "doc") == ["doctor"]
    assert values("-p", "--output-format", "") == ["text", "json", "stream-json"]
    assert values("--output-format=j") == ["--output-format=json"]
    assert values("tasks", "list", "--status", "f") == ["failed"]
    assert values("completion", "") == ["bash", "zsh", "fish"]


def test_a_flag_is_offered_once_unless_it_may_be_repeated() -> None:
    offered = values("--model", "x", "--allow", "y", "--")
    assert "--model" not in offered
    assert {"--allow", "--mode"} <= set(offered)


@pytest.mark.parametrize(
    "arguments",
    [
        ("fix", "the", "te"),
        ("-p", "--", "--mo"),
        ("tasks", "no-such-action", ""),
        ("--no-such-flag", "x", "y"),
        ("config", "set", "no-such-key", ""),
        ("config", "set", "sandbox", "off", ""),
    ],
)
def test_where_nothing_is_known_nothing_is_offered(arguments: tuple[str, ...]) -> None:
    assert values(*arguments) == []


def task(joey: Joey, task_id: str, title: str, workspace: str | None = None) -> None:
    directory = joey.home / "tasks" / f"task_{task_id}"
    directory.mkdir(parents=True)
    about = {"id": task_id, "title": title, "workspace": workspace or str(joey.workspace)}
    (directory / "task_metadata.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    "arguments",
    [
        ("-r",),
        ("--resume",),
        ("tasks", "show"),
        ("tasks", "rewind"),
        ("tasks", "fork"),
        ("tasks", "delete"),
        ("tasks", "export"),
        ("attach",),
        ("permissions", "report", "--task"),
    ],
)
def test_tasks_of_this_directory_are_offered_with_their_titles(
    joey: Joey, arguments: tuple[str, ...]
) -> None:
    task(joey, "0198a1b2-c3d4-7000-8000-000000000001", "Fix the \x1b[31mtests")
    task(joey, "0198ffff-0000-7000-8000-000000000002", "Elsewhere", "/somewhere")
    found = complete_words((*arguments, "")).candidates
    assert [(each.value, each.description) for each in found] == [
        ("0198a1b2-c3d4", "Fix the \x1b[31mtests")
    ]
    assert values(*arguments, "0198f") == ["0198ffff-0000"]


def test_values_of_this_directory_and_of_yours_are_offered(
    joey: Joey, monkeypatch: pytest.MonkeyPatch
) -> None:
    joey.settings(allowedCommands=["npm test", "git status"])
    profiles = {"work": {"provider": "openai"}, "local": {"provider": "ollama", "model": "x"}}
    (joey.home / "profiles.json").write_text(
        json.dumps({"active": "work", "profiles": profiles}), encoding="utf-8"
    )
    servers = {"mcpServers": {"files": {"command": "true"}}}
    (joey.home / "mcp.json").write_text(json.dumps(servers), encoding="utf-8")
    mode = "customModes:\n  - {slug: my-mode, name: Mine, roleDefinition: r, groups: [read]}\n"
    (joey.workspace / ".roomodes").write_text(mode, encoding="utf-8")
    assert values("--profile", "") == ["work", "local"]
    assert values("profiles", "use", "l") == ["local"]
    assert values("--mode", "my") == ["my-mode"]
    assert values("modes", "show", "my") == ["my-mode"]
    assert "gpt-6.1-sol" in values("-m", "")
    assert "claude-sonnet-5-5" in values("--provider", "anthropic", "--model", "")
    assert values("--provider", "ol") == ["ollama"]
    assert values("mcp", "test", "") == ["files"]
    assert values("config", "set", "sandb")[0] == "sandbox"
    assert values("config", "set", "sandbox", "") == ["auto", "off", "required"]
    assert values("config", "set", "alwaysAllowWrite", "t") == ["true"]
    assert values("config", "set", "imageProfile", "") == ["work", "local"]
    assert values("config", "set", "allowedCommands", "--remove", "n") == ["npm test"]
    assert values("profiles", "set", "work", "prot") == ["protocol"]
    assert values("profiles", "set", "work", "protocol", "") == ["native", "xml"]
    (joey.home / "profiles.json").write_text("{", encoding="utf-8")
    assert values("--profile", "") == []


async def test_models_of_a_local_server_are_those_that_it_has(joey: Joey) -> None:
    async with small_web(OLLAMA) as web:
        env = {**joey.env, "OLLAMA_HOST": web.url}
        done = await joey.run("__complete", "zsh", "--provider", "ollama", "-m", "q", env=env)
    assert done.out == "none\nqwen3-coder:30b\tollama\n"


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("joey ", ["joey", ""]),
        ("joey ta", ["joey", "ta"]),
        ("joey  -p 'a b' --mode ", ["joey", "-p", "a b", "--mode", ""]),
        ("joey 'open quote", ["joey", "open quote"]),
        ("joey --mode=ar", ["joey", "--mode=ar"]),
        ("joey a\\ b", ["joey", "a b"]),
        ("joey # x", ["joey", "#", "x"]),
    ],
)
def test_an_unfinished_line_is_split_as_the_shell_would(line: str, arguments: list[str]) -> None:
    assert split_command_line(line) == arguments


async def test_bash_gets_the_piece_that_it_would_replace(joey: Joey) -> None:
    done = await joey.run("__complete", "bash", "joey --mode=arch", "arch")
    assert done.out.splitlines()[1].split("\t")[0] == "architect"
    async with small_web(OLLAMA) as web:
        env = {**joey.env, "OLLAMA_HOST": web.url}
        line = "joey --provider ollama -m qwen3-coder:3"
        done = await joey.run("__complete", "bash", line, "3", env=env)
    assert done.out.splitlines()[1].split("\t")[0] == "30b"


# Real shells --------------------------------------------------------------------------------------


@asynccontextmanager
async def shell(joey: Joey, *command: str) -> AsyncIterator[Screen]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**joey.env, "PATH": f"{BIN}:{os.environ['PATH']}", "PS1": "$ "},
        cwd=joey.workspace,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    screen = Screen(master, os.ttyname(slave), process, 100)
    os.close(slave)
    try:
        yield screen
    finally:
        process.kill()
        await process.wait()
        os.close(master)


@pytest.mark.contract("cli:completion")
async def test_bash_completes(joey: Joey) -> None:
    task(joey, "0198a1b2-c3d4-7000-8000-000000000001", "Fix the tests")
    task(joey, "0198a1b3-c3d4-7000-8000-000000000002", "Paint it blue")
    (joey.workspace / "a prompt.txt").write_text("x")
    async with shell(joey, "bash", "--norc", "--noprofile", "-i") as screen:
        screen.press("source <(joey completion bash); echo ready''\r")
        await screen.until("ready\n")
        screen.press("joey tas\t")
        await screen.until("joey tasks ")
        screen.press("sho\t")
        await screen.until("show ")
        screen.press("\t")
        await screen.until("0198a1b")
        screen.press("\t\t")
        listed = await screen.until("Paint it blue)")
        assert "0198a1b2-c3d4  (Fix the tests)" in listed
        screen.press("\x15joey --mode=arc\t")
        await screen.until("--mode=architect ")
        screen.press("\x15joey --prompt-file a\t")
        await screen.until("a\\ prompt.txt ")


async def test_zsh_completes(joey: Joey) -> None:
    task(joey, "0198a1b2-c3d4-7000-8000-000000000001", "Fix the tests")
    task(joey, "0198a1b3-c3d4-7000-8000-000000000002", "Paint it blue")
    async with shell(joey, "zsh", "-f", "-i") as screen:
        screen.press("autoload -U compinit; compinit -u; source <(joey completion zsh)\r")
        screen.press("echo ready''\r")
        await screen.until("ready\n")
        screen.press("joey tas\t")
        await screen.until("joey tasks")
        screen.press(" show \t")
        await screen.until("0198a1b")
        screen.press("\t")
        listed = await screen.until("Paint it blue")
        assert "Fix the tests" in listed
        screen.press("\x15joey --mode=arc\t")
        await screen.until("--mode=architect")


async def test_zsh_finds_the_script_in_a_directory_of_its_own(joey: Joey) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = await joey.run("completion", "zsh")
    (joey.workspace / "_joey").write_text(script.out, encoding="utf-8")
    async with shell(joey, "zsh", "-f", "-i") as screen:
        screen.press("fpath=($PWD $fpath); autoload -U compinit; compinit -u; echo ready''\r")
        await screen.until("ready\n")
        screen.press("joey doc\t")
        await screen.until("joey doctor")


async def test_fish_completes(joey: Joey) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    task(joey, "0198a1b2-c3d4-7000-8000-000000000001", "Fix the tests")
    lines = ("joey tas", "joey tasks show ", "joey --mode=arc", "joey --workspace /us")
    asked = "; ".join(f'complete -C "{line}"' for line in lines)
    process = await asyncio.create_subprocess_exec(
        *("fish", "--no-config", "-c", f"joey completion fish | source; {asked}"),
        stdout=asyncio.subprocess.PIPE,
        env={**joey.env, "PATH": f"{BIN}:{os.environ['PATH']}"},
        cwd=joey.workspace,
    )
    async with asyncio.timeout(LIMIT):
        out, _ = await process.communicate()
    found = [line.split("\t")[0] for line in out.decode().splitlines()]
    assert found == ["tasks", "0198a1b2-c3d4", "--mode=architect", "/usr/"]
    assert "\tFix the tests" in out.decode()
