"""Commands in a sandbox, at each level, as root and as an ordinary user."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import psutil
import pytest

from joey.core.settings import Settings
from tests.harness.counts import daily
from tests.harness.execution.actor import Answer, CommandStep, RunnerRequest
from tests.harness.fork_server import start_module
from tests.harness.paths import ROOT

NOBODY = 65534


CANARY = "canary-of-a-secret"


_TRIAL = "import joey.ports, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=1)"


LEVELS = ("full", "landlock")


USERS = ("root", "ordinary")


DIAGONAL = (("full", "ordinary"), ("landlock", "root"))


GRID = tuple((level, user) for level in LEVELS for user in USERS)


def on_diagonal(test: Any) -> Any:
    """For what depends on level or user, if at all: each of them once, all pairs in `make soak`."""
    rows = daily(DIAGONAL, GRID)
    return pytest.mark.shortened(
        pytest.mark.parametrize(("harness", "user"), rows, indirect=True)(test)
    )


class SandboxHarness:
    """A workspace, a home with secrets, a place outside, and who acts there."""

    def __init__(self, root: Path, kind: str, user: str) -> None:
        self.root = root
        self.kind = kind
        self.user = user
        self.workspace = root / "workspace"
        self.outside = root / "outside"
        self.home = root / "home"
        for directory in (self.workspace, self.outside, self.home / ".roo"):
            directory.mkdir(parents=True)

    @property
    def is_full(self) -> bool:
        return self.kind == "full"

    def chown_to_user(self) -> None:
        """Let the one who acts own all of it."""
        if self.user == "ordinary" and os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(self.root)], check=True)

    async def run(
        self,
        *commands: str | CommandStep,
        settings: Settings | None = None,
        grace: float = 0.5,
        added: tuple[Path, ...] = (),
    ) -> list[Answer]:
        process = await self.start(*commands, settings=settings, grace=grace, added=added)
        assert process.stdout is not None
        async with asyncio.timeout(120):
            said = await process.stdout.read()
            assert await process.wait() == 0
        answers = [msgspec.json.decode(line, type=Answer) for line in said.splitlines()]
        if answers[0].impossible:
            assert "timed out" not in answers[0].impossible
            pytest.skip(f"{self.kind} as {self.user}: {answers[0].impossible}")
        assert len(answers) == len(commands)
        return answers

    async def output(self, command: str, settings: Settings | None = None) -> str:
        (answer,) = await self.run(command, settings=settings)
        assert not answer.error, answer.error
        return answer.output

    async def start(
        self,
        *commands: str | CommandStep,
        settings: Settings | None = None,
        grace: float = 0.5,
        lingers: bool = False,
        added: tuple[Path, ...] = (),
    ) -> Process:
        """An actor at work."""
        self.chown_to_user()
        request = RunnerRequest(
            kind=cast(Any, self.kind),
            workspace=str(self.workspace),
            home=str(self.home),
            steps=[CommandStep(each) if isinstance(each, str) else each for each in commands],
            settings=settings or Settings(),
            added=tuple(map(str, added)),
            grace=grace,
            waits_for_kill=lingers,
        )
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"), *packages())),
            "PYTHONDONTWRITEBYTECODE": "1",
            "ANTHROPIC_API_KEY": CANARY,
            "JOEY_TOKEN": CANARY,
        }
        process = await start_module(
            "tests.harness.execution.actor",
            env={**env, "HOME": str(self.home)},
            python=launcher(self.user),
            visible_env=env,
            stdin=PIPE,
            stdout=PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(request))
        process.stdin.close()
        return process


async def kill_joey(process: Process) -> list[psutil.Process]:
    """SIGKILL, as the worst that can happen to joey; what of its family still lives after that."""
    assert process.stdout is not None
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.kill()
    await process.stdout.read()
    await process.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, family, 30)
    return list(alive)


def packages() -> tuple[str, ...]:
    return tuple(each for each in sys.path if each.endswith("site-packages"))


@cache
def launcher(user: str) -> tuple[str, ...]:
    """How Python is started as a user; empty when it cannot be."""
    if user == "root":
        return (sys.executable,) if os.geteuid() == 0 else ()
    if os.geteuid() != 0:
        return (sys.executable,)
    become = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if shutil.which("setpriv") is None:
        return ()
    env = {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), *packages())), "PATH": "/usr/bin:/bin"}
    for python in (sys.executable, "/usr/bin/python3"):
        tried = subprocess.run(
            [*become, python, "-c", _TRIAL], env=env, cwd="/", check=False, capture_output=True
        )
        if tried.returncode == 0:
            return (*become, python)
    return ()


def there(*paths: str) -> list[str]:
    return [path for path in paths if os.path.lexists(path)]


EVIL = "evil"


def tree(root: Path) -> dict[str, str]:
    """Paths and contents of everything but git's own records."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if not name.startswith((".git/objects", ".git/logs", ".git/index", ".git/COMMIT")):
            found[name] = path.read_text(encoding="utf-8") if path.is_file() else ""
    return found
