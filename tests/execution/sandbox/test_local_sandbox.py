"""What becomes of a command when the sandbox is missing, fails or is switched off."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import psutil
import pytest

from joey.app import make_options
from joey.app import sandbox as sandbox_module
from joey.app.sandbox import build_sandbox, check_unattended_sandbox
from joey.cli.main import main
from joey.core.settings import Settings
from joey.core.task_types import AskKind
from joey.errors import ConfigError, ToolError
from joey.execution.sandbox.bubblewrap import Bubblewrap
from joey.execution.sandbox.filesystem import FilesystemLayout
from joey.execution.sandbox.landlock import Landlock
from joey.execution.sandbox.probe import CanaryProbe, probe_backend
from joey.execution.sandbox.protected_files import ProtectedPaths
from joey.execution.sandbox.sandbox import (
    LocalSandbox,
    SandboxBackend,
    SandboxConfig,
    SandboxProbeResult,
)
from joey.execution.sandbox.supervisor_client import SupervisorTransport
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import SandboxLevel, SandboxReport
from joey.testing.script import Turn, call
from joey.tools.base import Outcome
from joey.tools.execute_command import add_sandbox_note
from tests.harness.engine.engine_harness import EngineHarness, finish, wait_for_ask


class FixedProber:
    """A prober that believes what it is told."""

    def __init__(self, confinement: SandboxBackend) -> None:
        self._confinement = confinement

    def find_likely_level(self) -> SandboxLevel:
        return SandboxLevel.FULL

    def find_available(self) -> SandboxProbeResult:
        return SandboxProbeResult(SandboxReport(self._confinement.level), self._confinement)


def sandbox(workspace: Path, prober: CanaryProbe | FixedProber, settings: Settings) -> LocalSandbox:
    session = SandboxConfig(
        workspace=workspace,
        joey_home=workspace.parent / "home",
        env=os.environ,
    )
    return LocalSandbox(session, settings, lambda: prober)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


NOTHING = CanaryProbe(())


@pytest.mark.contract("sandbox:missing")
@pytest.mark.parametrize("binary", ["/bin/false", "/bin/cat"])
async def test_a_sandbox_that_fails_is_not_a_command_that_fails(
    workspace: Path, binary: str
) -> None:
    terminal = LocalTerminal(
        sandbox=sandbox(workspace, FixedProber(Bubblewrap((binary,))), Settings())
    )
    with pytest.raises(ToolError, match=r"could not be set up, and the command was not run"):
        await terminal.start("touch ran", workspace, None)
    await terminal.close()
    assert names(workspace) == []


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.mark.contract("sandbox:missing")
async def test_commands_that_no_system_can_run_are_refused_with_a_reason(workspace: Path) -> None:
    terminal = LocalTerminal(sandbox=sandbox(workspace, FixedProber(Landlock()), Settings()))
    for command in ("echo \0", "echo \ud800", "echo " + "x" * 300_000):
        with pytest.raises(ToolError, match="command"):
            await terminal.start(command, workspace, None)
    with pytest.raises(ToolError, match="does not exist"):
        await terminal.start("true", workspace / "gone", None)
    with pytest.raises(ToolError, match="sandboxReadable"):
        await terminal.start("true", Path("/run"), None)
    await terminal.close()


async def test_what_is_missing_is_named(workspace: Path) -> None:
    prober = CanaryProbe((Bubblewrap(("/nowhere/bwrap",)), Landlock(2)))
    report = await sandbox(workspace, prober, Settings()).probe()
    assert report.level is SandboxLevel.NONE
    assert "not installed" in report.unavailable_reasons["full"]
    assert (
        "3 is needed" in report.unavailable_reasons["landlock"]
        or "no Landlock" in report.unavailable_reasons["landlock"]
    )


def test_a_binary_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\n", encoding="utf-8")
    fake.chmod(0o777)
    assert Bubblewrap((str(fake),)).explain_unavailable() is not None


class Sieve(Landlock):
    """Confines nothing: what the canary is there to notice."""

    def build_plan(
        self,
        layout: FilesystemLayout,
        protected_paths: ProtectedPaths,
        shell: Sequence[bytes],
        has_network: bool,
    ) -> dict[str, Any]:
        plan = super().build_plan(layout, protected_paths, shell, has_network)
        plan["sandbox"] |= {"rules": [("/", plan["sandbox"]["files"])], "tcp": 0}
        plan["command"] |= {"guarded": []}
        return plan


def test_the_canary_notices_a_sandbox_that_holds_nothing() -> None:
    if Landlock().explain_unavailable() is not None:
        pytest.skip(str(Landlock().explain_unavailable()))
    assert probe_backend(Sieve()) == "a command could write outside of its workspace"


async def test_without_a_sandbox_commands_run_plainly_or_not_at_all(workspace: Path) -> None:
    plain = LocalTerminal(sandbox=sandbox(workspace, NOTHING, Settings()))
    running = await plain.start("echo fine", workspace, None)
    async with asyncio.timeout(10):
        await running.wait()
    assert running.render_truncated(100) == "fine\n"
    await plain.close()
    strict = LocalTerminal(sandbox=sandbox(workspace, NOTHING, Settings(sandbox="required")))
    with pytest.raises(ToolError, match="in a sandbox only"):
        await strict.start("echo fine", workspace, None)
    await strict.close()


@pytest.mark.contract("sandbox:missing")
async def test_without_a_sandbox_each_command_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = EngineHarness(tmp_path)
    held = sandbox(harness.root, NOTHING, Settings())
    monkeypatch.setattr(
        "tests.harness.engine.engine_harness.LocalTerminal", lambda: LocalTerminal(sandbox=held)
    )
    task = await harness.start(Turn(call("execute_command", {"command": "echo hi"})), finish())
    ask = await wait_for_ask(task)
    assert ask.ask is AskKind.COMMAND
    assert "no sandbox works here" in (ask.reason or "")
    await task.cancel()
    await harness.engine.close()


@pytest.mark.contract("sandbox:missing")
def test_yes_without_a_sandbox_needs_a_second_flag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox_module, "get_prober", lambda: NOTHING)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    assert main(["-p", "-y", "hi"]) == 78
    message = " ".join(capsys.readouterr().err.split())
    assert "No sandbox works on this machine" in message
    assert "--no-sandbox" in message


@pytest.mark.contract("sandbox:missing")
async def test_the_second_flag_and_the_setting_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_module, "get_prober", lambda: NOTHING)
    env = {"ANTHROPIC_API_KEY": "key", "HOME": str(tmp_path)}
    options = make_options(workspace=tmp_path, home=tmp_path, env=env, yes=True, no_sandbox=True)
    await check_unattended_sandbox(options.settings)
    assert build_sandbox(tmp_path, tmp_path, env, options.settings) is None
    with pytest.raises(ConfigError):
        await check_unattended_sandbox(Settings())


@pytest.mark.parametrize(
    ("text", "code", "level", "is_mentioned"),
    [
        ("touch: /etc/x: Read-only file system", 1, SandboxLevel.FULL, True),
        ("touch: /etc/x: Read-only file system", 1, SandboxLevel.NONE, False),
        ("touch: /etc/x: Read-only file system", 0, SandboxLevel.FULL, False),
        ("npm error code EAI_AGAIN", 0, SandboxLevel.FULL, True),
        ("npm error code EAI_AGAIN", 0, SandboxLevel.NONE, False),
        ("1 test failed", 1, SandboxLevel.FULL, False),
        ("/tmp/x/python: No such file or directory", 127, SandboxLevel.FULL, False),
    ],
)
def test_the_model_is_informed_when_the_sandbox_may_be_the_reason(
    text: str, code: int, level: SandboxLevel, is_mentioned: bool
) -> None:
    outcome = add_sandbox_note(Outcome(text, exit_code=code), SandboxReport(level), "off")
    assert ("ran in a sandbox" in outcome.text) is is_mentioned


def test_the_sandbox_is_explained_once_and_then_only_the_failure_is_named() -> None:
    outcome = Outcome("Exit code: 6\nOutput:\ncurl: (6) Could not resolve host: a.org", exit_code=6)
    report = SandboxReport(SandboxLevel.FULL)
    first = add_sandbox_note(outcome, report, "off")
    again = add_sandbox_note(outcome, report, "off", is_known=True)
    assert "reaches no network but 127.0.0.1" in first.text
    assert again.text.removeprefix(outcome.text) == (
        "\n\nThe sandbox has no such network access: curl: (6) Could not resolve host: a.org"
    )


async def none_needed(plan: dict[str, Any]) -> SupervisorTransport:
    raise AssertionError("nothing is started")


class Slow(dict[str, str]):
    """An environment that nobody gets a look at before `may_go`."""

    def __init__(self) -> None:
        super().__init__(os.environ)
        self.is_met, self.may_go = Event(), Event()

    def get(self, name: str, default: Any = None) -> Any:
        self.is_met.set()
        self.may_go.wait(60)
        return super().get(name, default)


async def test_a_command_that_is_given_up_while_it_is_prepared_leaves_no_temporary_directory(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env = Slow()
    session = SandboxConfig(workspace=workspace, joey_home=tmp_path / ".roo", env=env)
    held = LocalSandbox(session, Settings(), lambda: FixedProber(Landlock()))
    starting = asyncio.ensure_future(held.confine(("/bin/true",), workspace, {}))
    await asyncio.to_thread(env.is_met.wait, 60)
    starting.cancel()
    await asyncio.wait([starting])
    before = len(psutil.Process().children())
    closing = asyncio.ensure_future(held.close())
    async with asyncio.timeout(60):
        while len(psutil.Process().children()) >= before:  # noqa: ASYNC110 (a process that ends)
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        env.may_go.set()
        await closing
    await asyncio.get_running_loop().shutdown_default_executor()
    assert left_in(tmp_path) == []


def left_in(directory: Path) -> list[Path]:
    return list(directory.glob("joey-commands-*"))


def test_first_commands_that_come_together_share_one_temporary_directory(
    workspace: Path, eager_threads: None
) -> None:
    for _ in range(20):
        held, together = sandbox(workspace, NOTHING, Settings()), Barrier(8)

        def led(_: int, held: LocalSandbox = held, together: Barrier = together) -> Path:
            together.wait()
            handle = held.prepare_command(Landlock(), ("/bin/true",), workspace, {}, none_needed)
            handle.close()
            return Path(handle.plan["command"]["written"]).parent

        with ThreadPoolExecutor(8) as pool:
            [directory] = set(pool.map(led, range(8)))
        assert directory.is_dir()
        held.remove_resources()


def test_what_a_killed_joey_has_left_among_temporary_files_is_removed_in_time(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone, fresh, ours = (
        tmp_path / f"joey-commands-{name}-x" for name in ("4999999", "4999998", str(os.getpid()))
    )
    canary = tmp_path / "joey-canary-4999999-x"
    for directory in (gone, canary, fresh, ours):
        directory.mkdir()
    for directory in (gone, canary, ours):
        os.utime(directory, (1, 1))
    held = sandbox(workspace, NOTHING, Settings())
    handle = held.prepare_command(Landlock(), ("/bin/true",), workspace, {}, none_needed)
    handle.close()
    held.remove_resources()
    assert [directory.exists() for directory in (gone, fresh, ours)] == [False, True, True]
    assert sorted(path.name for path in tmp_path.glob("joey-*")) == sorted((fresh.name, ours.name))
