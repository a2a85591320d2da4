"""Without any rule, commands that only read run in the sandbox, unasked, and start no programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from joey.app.sandbox import detect_sandbox
from joey.ports.execution import SandboxLevel
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.front.binary import Joey, reach
from tests.front.test_run_mistakes import last_message

HELPER = "#!/bin/sh\ntouch ran\n"


def make_hostile_repository(directory: Path) -> None:
    """Whose configuration names a program for each thing that git does while it looks."""
    (directory / "a.txt").write_text("one\n")
    (directory / ".gitattributes").write_text("*.txt diff=evil filter=evil\n")
    helper = directory / "helper.sh"
    helper.write_text(HELPER)
    helper.chmod(0o755)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], cwd=directory, check=True)
    for key in ("diff.external", "diff.evil.textconv", "filter.evil.clean", "core.fsmonitor"):
        subprocess.run(["git", "config", key, str(helper)], cwd=directory, check=True)
    (directory / "a.txt").write_text("one\ntwo\n")


@pytest.mark.requirement("permissions:commands:reading")
async def test_a_diff_of_a_hostile_repository_is_shown_and_runs_nothing(joey: Joey) -> None:
    if detect_sandbox().level is SandboxLevel.NONE:
        pytest.skip("no sandbox works on this machine")
    make_hostile_repository(joey.workspace)
    (joey.workspace / "bin").mkdir()
    lookalike = joey.workspace / "bin/ls"
    lookalike.write_text(HELPER)
    lookalike.chmod(0o755)
    turns = [
        Turn(call("execute_command", {"command": "git status --short && git diff && ls"})),
        Turn(call("attempt_completion", {"result": "ok"})),
    ]
    async with ModelServer(turns) as server:
        path = f"{lookalike.parent}:{joey.env['PATH']}"
        done = await joey.run("-p", *reach(server.url), "look", env={**joey.env, "PATH": path})
        answer = last_message(server.requests[-1])

    assert done.code == 0, done.err
    assert "+two" in answer
    assert " M a.txt" in answer
    assert not (joey.workspace / "ran").exists()
