"""Every test of confinement runs at each level that works here, as root and as somebody else."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import psutil
import pytest

from joey.core.settings import Settings
from tests.conftest import ROOT
from tests.counts import daily
from tests.fork_server import start_module
from tests.sandboxes.actor import Answer, CommandStep, RunnerRequest

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
            "tests.sandboxes.actor",
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


@pytest.fixture(autouse=True)
def _everything_on_disk(on_disk: None) -> None:
    """A tmpfs may be in /dev, of which the sandbox shows another one."""


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not launcher(name):
        pytest.skip(f"nothing can be run as {name} user here")
    return name


@pytest.fixture(params=LEVELS)
def harness(request: pytest.FixtureRequest, user: str) -> Iterator[SandboxHarness]:
    # Not in pytest's own folder, which is closed to other users.
    root = Path(tempfile.mkdtemp(prefix="joey-scene-"))
    root.chmod(0o755)
    yield SandboxHarness(root, str(request.param), user)
    shutil.rmtree(root)
