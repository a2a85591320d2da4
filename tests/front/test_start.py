"""What is loaded when: help and version must not wait for the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.front.binary import Joey

HEAVY = ("asyncio", "rich", "ssl", "joey.app", "joey.engine", "joey.providers", "joey.stores")


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


def test_help_names_every_command_and_every_exit_code(joey: Joey) -> None:
    text, _ = loaded_by(joey, "--help")
    for word in ("joey tasks", "joey doctor", "joey demo", "53", "55", "75", "78", "JOEY_HOME"):
        assert word in text


def test_version_is_one_line(joey: Joey) -> None:
    text, _ = loaded_by(joey, "--version")
    assert text.startswith("joey ")
    assert text.count("\n") == 1


async def test_wrong_usage_is_one_line_and_code_two(joey: Joey) -> None:
    done = await joey.run("--no-such-flag")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("joey: ")
    assert done.err.count("\n") == 1
