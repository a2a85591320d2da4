"""What is loaded when: help and version must not wait for the rest."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from joey.cli.commands.command_parsers import COMMAND_PARSERS
from tests.harness.cli.binary import Joey, reach

HELPS = [(), *((name,) for name in COMMAND_PARSERS)]
HELPS += [
    (name, action)
    for name, make in COMMAND_PARSERS.items()
    for each in make()._actions
    if isinstance(each, argparse._SubParsersAction)
    for action in each.choices
]
HEAVY = ("asyncio", "rich", "ssl", "joey.app", "joey.engine", "joey.providers", "joey.storage")
LATER = (
    *("rich", "textual", "acp", "mcp", "pydantic", "httpx2", "websockets", "starlette", "uvicorn"),
    *(
        "tree_sitter",
        "pypdf",
        "python_calamine",
        "watchfiles",
        "playwright",
        "rapidfuzz",
        "pathspec",
        "yaml",
    ),
    *("sqlite3", "zipfile", "email", "http.client", "html", "importlib.resources"),
    *("joey.tui", "joey.acp", "joey.server", "joey.testing", "joey.storage.roo_task_directory"),
    *("joey.core.permissions.programs", "jsonschema"),
)
"""What a run may need, and never before it has sent its first request."""


def loaded_by(joey: Joey, *arguments: str) -> tuple[str, list[str]]:
    program = (
        "import sys\n"
        "from joey.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=joey.env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr.split()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["tasks", "--help"], ["--bad"]])
def test_help_and_version_load_nothing_that_takes_time(joey: Joey, arguments: list[str]) -> None:
    _, modules = loaded_by(joey, *arguments)
    assert [name for name in HEAVY if name in modules] == []


def test_a_run_without_a_screen_does_not_load_the_screen(joey: Joey) -> None:
    _, modules = loaded_by(joey, "-p", "do it")
    assert "joey.app" in modules
    assert "rich" not in modules


def test_the_first_request_waits_for_nothing_that_is_used_after_it(joey: Joey) -> None:
    program = (
        "import os, sys\n"
        "def look(event, _):\n"
        "    if event == 'socket.connect':\n"
        "        print(*sorted(sys.modules), flush=True)\n"
        "        os._exit(0)\n"
        "sys.addaudithook(look)\n"
        "from joey.cli.main import main\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "-p", "-y", *reach("http://127.0.0.1:9"), "do it"],
        env=joey.env,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = done.stdout.split()
    assert "joey.providers.anthropic" in modules
    assert [name for name in LATER if name in modules] == []


def test_help_names_every_command_and_every_exit_code(joey: Joey) -> None:
    text, _ = loaded_by(joey, "--help")
    for command in COMMAND_PARSERS:
        assert f"\n    {command} " in text
    for word in ("53", "55", "75", "78", "JOEY_HOME"):
        assert word in text


@pytest.mark.parametrize("arguments", HELPS, ids=" ".join)
async def test_every_help_fits_eighty_columns_and_explains_every_argument(
    joey: Joey, arguments: tuple[str, ...]
) -> None:
    done = await joey.run(*arguments, "--help", env={**joey.env, "COLUMNS": "80"})
    assert done.code == 0
    assert [line for line in done.out.splitlines() if len(line) > 80] == []
    assert (await joey.run("help", *arguments, env={**joey.env, "COLUMNS": "80"})).out == done.out


async def test_a_cry_for_help_is_a_prompt(joey: Joey) -> None:
    done = await joey.run("-p", "help", "me", "fix", "it")
    assert done.code == 78  # it would have been sent, if there were a model
    done = await joey.run("help", "me", "fix", "it")
    assert done.code == 78


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("tasks lsit", "did you mean list?"),
        ("tasks list --staus x", "did you mean --status?"),
        ("tasks list --status fialed", "did you mean failed?"),
        ("-p --modle x y", "did you mean --model?"),
        ("-p --output-format jsno y", "did you mean json?"),
        ("mcp list --jsn", "did you mean --json?"),
        ("confg", "did you mean `joey config list`?"),
        ("completion powershell", "it can be bash, zsh, fish"),
    ],
)
async def test_what_was_probably_meant_is_named(joey: Joey, line: str, meant: str) -> None:
    done = await joey.run(*line.split())
    assert done.code == 2
    assert meant in done.err


def test_version_is_one_line(joey: Joey) -> None:
    text, _ = loaded_by(joey, "--version")
    assert text.startswith("joey ")
    assert text.count("\n") == 1


async def test_wrong_usage_is_one_line_and_code_two(joey: Joey) -> None:
    done = await joey.run("--no-such-flag")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("joey: ")
    assert done.err.count("\n") == 1
