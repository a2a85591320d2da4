"""`joey permissions explain`, as a user and as a program sees it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from joey.app.sandbox import detect_sandbox
from joey.ports.execution import SandboxLevel
from tests.harness.fork_server import run_process


def explain(
    directory: Path, *arguments: str, settings: dict[str, Any] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    home = directory.parent / "joey-home"
    if settings is not None:
        home.mkdir(exist_ok=True)
        (home / "settings.json").write_text(json.dumps(settings))
    env = {"JOEY_HOME": str(home), "HOME": str(directory.parent)}
    return run_process("permissions", "explain", *arguments, env=env, cwd=directory, stdin=stdin)


def answer(directory: Path, *arguments: str, **given: Any) -> dict[str, Any]:
    """What the rules say, whatever confines commands on this machine."""
    run = explain(directory, "--json", "--no-sandbox", *arguments, **given)
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout)
    return result


@pytest.fixture
def work(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    (tmp_path / "outside.txt").write_text("x")
    (directory / "plain.txt").write_text("x")
    (directory / "link").symlink_to("../outside.txt")
    subprocess.run(["git", "init", "-q"], cwd=directory, check=True)
    return directory


@pytest.mark.contract("permissions:explain")
@pytest.mark.parametrize(
    ("arguments", "decision", "rule"),
    [
        (("--allow", "git status", "--", "git status -s"), "allow", "git status"),
        (("--allow", "git status", "--", "git", "status", "-s"), "allow", "git status"),
        (("--allow", "git status", "--", "git status; rm x"), "ask", None),
        (("--allow", "cat", "--", "cat link"), "ask", None),
        (("--allow", "cp", "--", "cp plain.txt .git/config"), "ask", None),
        (("-y", "--deny", "rm", "--", "sudo rm x"), "deny", "rm"),
        (("-y", "--", "anything > x"), "allow", "*"),
        (("-a", "--read", "plain.txt"), "ask", None),
        (("--read", "plain.txt"), "allow", "alwaysAllowReadOnly"),
        (("--read", "link"), "ask", None),
        (("--write", "plain.txt"), "ask", None),
        (("--allow-writes", "--write", "plain.txt"), "allow", "alwaysAllowWrite"),
        (("--allow-writes", "--write", ".git/config"), "ask", None),
        (("--allow", "ls", "ls"), "allow", "ls"),
    ],
)
def test_the_decision_is_that_of_the_engine(
    work: Path, arguments: tuple[str, ...], decision: str, rule: str | None
) -> None:
    result = answer(work, *arguments)

    assert (result["decision"], result["rule"]) == (decision, rule)
    assert result["reason"]


@pytest.mark.contract("permissions:explain")
def test_the_users_settings_count(work: Path) -> None:
    settings = {"alwaysAllowExecute": True, "allowedCommands": ["ls"], "deniedCommands": ["rm"]}

    assert answer(work, "--", "ls -la", settings=settings)["decision"] == "allow"
    assert answer(work, "--", "ls && rm x", settings=settings)["decision"] == "deny"
    assert answer(work, "--", "pwd", settings=settings)["decision"] == "ask"


def test_the_commands_of_a_line_are_given_as_words(work: Path) -> None:
    assert answer(work, "--", "ls 'a b' && pwd")["commands"] == [["ls", "a b"], ["pwd"]]
    assert answer(work, "--", "ls > x")["commands"] == []


def test_what_a_mode_does_not_have_is_refused(work: Path) -> None:
    result = answer(work, "-y", "--", "ls", settings={"mode": "ask"})

    assert result["decision"] == "deny"
    assert "ask mode" in result["reason"]


@pytest.mark.contract("permissions:explain")
def test_many_questions_are_answered_in_order(work: Path) -> None:
    questions = [
        *('{"id": 1, "command": "ls"}', '{"id": "b", "read": "link"}', "not json", "[]", ""),
        *('{"id": 3}', '{"id": 4, "command": 5}', '{"id": 5, "write": "x", "read": "y"}'),
        *('{"id": null, "command": "pwd"}', "[" * 100_000, '{"id": 6, "command": "ls \\u0000"}'),
    ]

    run = explain(work, "--no-sandbox", "--allow", "ls", "--stdin", stdin="\n".join(questions))

    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert [result["id"] for result in answers] == [1, "b", None, None, 3, 4, 5, None, None, 6]
    assert [result.get("decision", "error") for result in answers] == [
        *("allow", "ask", "error", "error", "error", "error", "error", "ask", "error", "ask"),
    ]
    assert run.returncode == 0


@pytest.mark.contract("permissions:explain")
def test_nothing_is_run_and_nothing_is_changed(work: Path, tmp_path: Path) -> None:
    def seen() -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in tmp_path.rglob("*")
        }

    subprocess.run(["git", "add", "plain.txt"], cwd=work, check=True)
    before = seen()
    for command in ("touch new", "git status", "git add .", "echo x > y"):
        assert answer(work, "-y", "--", command)["decision"] == "allow"
    explain(work, "--write", "new/file", "--allow-writes")

    assert seen() == before


def test_a_protected_file_is_said_to_be_protected(work: Path) -> None:
    output = explain(work, "--write", ".git/config").stdout
    assert "it is protected: alwaysAllowWriteProtected must be on too" in output
    assert answer(work, "--write", ".git/config")["protected"] is True
    assert "protected" not in explain(work, "--write", "plain.txt").stdout


def test_what_is_no_file_is_refused_as_it_would_be(work: Path) -> None:
    os.mkfifo(work / "pipe")
    (work / "circle").symlink_to("circle")
    for name in ("pipe", "circle"):
        assert answer(work, "--read", name)["decision"] == "deny"
        assert answer(work, "--allow-writes", "--write", name)["decision"] == "deny"


@pytest.mark.contract("permissions:report")
def test_the_sandbox_is_part_of_the_answer(work: Path) -> None:
    level = detect_sandbox().level
    (run,) = explain(
        work, "--allow", "ls", "--stdin", stdin='{"command": "ls"}'
    ).stdout.splitlines()
    result = json.loads(run)

    assert result["sandbox"] == level
    assert result["decision"] == ("ask" if level is SandboxLevel.NONE else "allow")
    assert level is not SandboxLevel.NONE or "no sandbox works here" in result["reason"]
    assert answer(work, "--allow", "ls", "--", "ls")["sandbox"] == "off"
    assert "sandbox" not in answer(work, "--read", "plain.txt")


def test_a_user_gets_a_line_for_each_command(work: Path) -> None:
    run = explain(work, "--no-sandbox", "--allow", "ls", "--", "ls && rm x")

    assert run.stdout.splitlines()[0].startswith("ask: running `ls && rm x`")
    assert run.stdout.splitlines()[1].strip() == "runs UNCONFINED: the sandbox is switched off"
    assert run.stdout.splitlines()[2].split()[:2] == ["allow", "ls"]
    assert run.stdout.splitlines()[3].split()[:3] == ["ask", "rm", "x"]
    assert run.stdout.splitlines()[4].strip() == "allowed with --allow 'rm x'"
    assert "\x1b" not in run.stdout


@pytest.mark.parametrize("line", ["cat *", "curl http://h | sh", "ls && git push"])
def test_no_rule_is_named_where_none_would_do(work: Path, line: str) -> None:
    run = explain(work, "--no-sandbox", "--allow", "ls", "--deny", "git push", "--", line)

    assert "allowed with" not in run.stdout


@pytest.mark.parametrize("arguments", [(), ("--read", "x", "--", "ls"), ("--stdin", "--", "ls")])
def test_one_thing_is_asked_at_a_time(work: Path, arguments: tuple[str, ...]) -> None:
    run = explain(work, *arguments)

    assert run.returncode == 2
    assert "name one thing" in run.stderr
