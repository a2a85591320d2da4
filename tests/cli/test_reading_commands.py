"""Without any rule, commands that only read run in the sandbox, unasked, and start no programs."""

from __future__ import annotations

import pytest

from joey.app.sandbox import detect_sandbox
from joey.ports.execution import SandboxLevel
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.replies import last_message
from tests.harness.permissions.hostile_repository import HELPER, make_hostile_repository


@pytest.mark.contract("permissions:reading")
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


async def test_programs_that_a_task_puts_on_the_path_run_in_the_sandbox_alone(joey: Joey) -> None:
    """Such as those of an activated `.venv`: joey runs git, ripgrep and node outside of it."""
    make_hostile_repository(joey.workspace)
    programs, escaped = joey.workspace / ".venv/bin", joey.home.parent / "escaped"
    names = " ".join(str(programs / name) for name in ("git", "rg", "node", "gofmt", "chromium"))
    plant = f"printf '#!/bin/sh\ntouch {escaped}\n' > $each; chmod +x $each"
    turns = [
        Turn(
            call(
                "execute_command",
                {"command": f"mkdir -p .venv/bin; for each in {names}; do {plant}; done"},
            )
        ),
        Turn(call("write_to_file", {"path": "a.js", "content": "let a = 1\n"})),
        Turn(call("list_files", {"path": ".", "recursive": True})),
        Turn(call("search_files", {"path": ".", "regex": "let"})),
        Turn(call("attempt_completion", {"result": "ok"})),
    ]
    async with ModelServer(turns) as server:
        path = f"{programs}:{joey.env['PATH']}"
        done = await joey.run("-p", "-y", *reach(server.url), "go", env={**joey.env, "PATH": path})
        answer = last_message(server.requests[-1])

    assert done.code == 0, done.err
    assert (programs / "git").exists()
    assert "let a = 1" in answer
    assert not escaped.exists()
