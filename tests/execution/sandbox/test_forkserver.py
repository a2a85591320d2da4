"""The process that starts the supervisors of a task: one serves all commands, and goes with it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest

from joey.core.settings import Settings
from joey.errors import ToolError
from joey.execution.command import LocalCommand
from joey.execution.sandbox import forkserver_client
from joey.execution.sandbox.forkserver_client import ForkServerClient, ForkServerManager
from joey.execution.sandbox.sandbox import (
    LocalSandbox,
    SandboxBackend,
    SandboxConfig,
)
from joey.execution.sandbox.supervisor_client import ControlGroup, can_limit_processes
from joey.execution.terminal import LocalTerminal
from joey.ports.execution import SandboxLevel
from tests.harness.execution.fork_servers import (
    FixedProber,
    leftovers,
    list_fork_servers,
    made,
    output,
    wait_for_spare,
)
from tests.harness.execution.processes import Listener


def is_there(path: Path) -> bool:
    return path.exists()


async def test_one_fork_server_serves_all_commands(terminal: LocalTerminal, tmp_path: Path) -> None:
    before = list_fork_servers()
    assert await output(terminal, tmp_path, "echo a") == "a\n0"
    (first,) = set(list_fork_servers()) - set(before)
    assert await output(terminal, tmp_path, "echo b; exit 7") == "b\n7"
    assert set(list_fork_servers()) - set(before) == {first}


async def test_a_task_that_goes_on_has_temporary_files_again(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    for _ in range(2):
        assert await output(terminal, tmp_path, "echo 1 > $TMPDIR/f; cat $TMPDIR/f") == "1\n0"
        await terminal.close()


async def test_commands_at_the_same_time_each_see_their_own_end(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    commands = [f"echo {number}; exit {number}" for number in range(8)]
    found = await asyncio.gather(*(output(terminal, tmp_path, each) for each in commands))
    assert found == [f"{number}\n{number}" for number in range(8)]


async def test_the_next_command_runs_when_the_fork_server_was_killed(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    before = list_fork_servers()
    listener = Listener()
    running = await terminal.start("echo on; sleep 1000", tmp_path, None, listener)
    await listener.until("on")
    (fork_server,) = set(list_fork_servers()) - set(before)
    os.kill(fork_server, signal.SIGKILL)
    async with asyncio.timeout(20):
        while fork_server in list_fork_servers():  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)
    assert await output(terminal, tmp_path, "echo again") == "again\n0"
    assert running.exit is None
    async with asyncio.timeout(20):
        end = await running.kill()
    assert end.signal == "SIGTERM"


async def test_commands_get_another_fork_server_when_it_is_stopped_and_run_once(
    terminal: LocalTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forkserver_client, "_ORDER_TIMEOUT_S", 0.3)
    before = list_fork_servers()
    listener = Listener()
    running = await terminal.start("echo on; sleep 1000", tmp_path, None, listener)
    await listener.until("on")
    (first,) = set(list_fork_servers()) - set(before)
    os.kill(first, signal.SIGSTOP)
    commands = (f"echo {number} | tee -a $TMPDIR/ran" for number in range(3))
    found = await asyncio.gather(*(output(terminal, tmp_path, each) for each in commands))
    assert found == ["0\n0", "1\n0", "2\n0"]
    assert await output(terminal, tmp_path, "sort $TMPDIR/ran") == "0\n1\n2\n0"
    assert first not in list_fork_servers()
    assert running.exit is None
    async with asyncio.timeout(20):
        await running.kill()


async def test_a_command_runs_also_when_the_fork_server_that_replaces_a_dead_one_is_stopped(
    terminal: LocalTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forkserver_client, "_ORDER_TIMEOUT_S", 0.3)
    before = list_fork_servers()
    assert await output(terminal, tmp_path, "echo a") == "a\n0"
    (first,) = set(list_fork_servers()) - set(before)
    for each in (await wait_for_spare(), first):
        os.kill(each, signal.SIGKILL)
    running = asyncio.create_task(output(terminal, tmp_path, "echo b"))
    while not (others := set(list_fork_servers()) - {*before, first}):  # noqa: ASYNC110 (another process)
        await asyncio.sleep(0)
    os.kill(others.pop(), signal.SIGSTOP)
    assert await running == "b\n0"


@pytest.mark.parametrize("is_read", [False, True])
async def test_only_what_nobody_has_looked_at_may_be_started_again(is_read: bool) -> None:
    fork_server = ForkServerClient()
    supervisor = fork_server.start_supervisor({})
    supervisor.send_command({})
    with socket.socket(fileno=os.dup(*fork_server.child_fds)) as theirs:
        _, (control, output), *_ = socket.recv_fds(theirs, 1, 2)
    with socket.socket(fileno=control) as orders:
        for _ in range(2):
            _, (plan,), *_ = socket.recv_fds(orders, 1, 1)
            if is_read:
                os.read(plan, 100)
            os.close(plan)
    os.close(output)
    assert await supervisor.wait_until_begun(10) is is_read
    assert supervisor.was_never_started is not is_read
    supervisor.disconnect()
    fork_server.close()


class Deadly(ControlGroup):
    """Its first process does not live."""

    def __init__(self) -> None:
        super().__init__(Path())
        self._has_killed = False

    def add_process(self, pid: int) -> None:
        if not self._has_killed:
            self._has_killed = True
            os.kill(pid, signal.SIGKILL)
            while psutil.pid_exists(pid):
                time.sleep(0.001)


async def test_commands_that_wait_for_a_fork_server_that_is_killed_all_get_the_next_one(
    tmp_path: Path, confinement: SandboxBackend
) -> None:
    session = SandboxConfig(workspace=tmp_path, joey_home=tmp_path / ".roo", env=os.environ)
    sandbox, group = LocalSandbox(session, Settings(), lambda: FixedProber(confinement)), Deadly()
    supervisors_of = ForkServerManager(lambda: group)
    shell = ("/bin/sh", "-c", "true")
    plan = sandbox.prepare_command(
        confinement, shell, tmp_path, os.environ, supervisors_of.start_command
    ).plan
    async with asyncio.timeout(20):
        supervisors = await asyncio.gather(*(supervisors_of.start_command(plan) for _ in range(3)))
        answers = [await supervisor.wait_for_reply(10) for supervisor in supervisors]
        for supervisor in supervisors:
            supervisor.disconnect()
        await supervisors_of.close()
        await sandbox.close()
    assert [answer[:1] for answer, _ in answers] == [b"R"] * 3


async def test_a_supervisor_that_is_killed_takes_its_command_with_it(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    running = await terminal.start("echo on; sleep 1000", tmp_path, None, listener)
    await listener.until("on")
    family = psutil.Process(running.pid).children(recursive=True)
    os.kill(running.pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        end = await running.wait()
    assert end is not None
    assert end.signal == "SIGKILL"
    if await _level(terminal) is SandboxLevel.FULL:
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, 20)
        assert alive == []


async def _level(terminal: LocalTerminal) -> SandboxLevel:
    report = await terminal.get_sandbox_report()
    assert report is not None
    return report.level


async def test_a_lot_of_output_arrives_whole(terminal: LocalTerminal, tmp_path: Path) -> None:
    artifact = tmp_path.parent / "artifact"
    running = await terminal.start("head -c 3000000 /dev/zero", tmp_path, artifact)
    async with asyncio.timeout(20):
        await running.wait()
    assert running.output_bytes == artifact.stat().st_size == 3_000_000


async def test_a_limit_too_low_for_a_supervisor_is_reported(
    tmp_path: Path, confinement: SandboxBackend
) -> None:
    if os.geteuid() != 0 or not can_limit_processes():
        pytest.skip("no control group can be made here")
    terminal = made(tmp_path, confinement, Settings(sandbox_max_processes=1))
    with pytest.raises(ToolError, match=r"was not run: no process could be started: Resource"):
        await terminal.start("true", tmp_path, None)
    await terminal.close()


async def test_a_limit_too_low_for_the_command_is_reported(
    tmp_path: Path, confinement: SandboxBackend
) -> None:
    if os.geteuid() != 0 or not can_limit_processes():
        pytest.skip("no control group can be made here")
    terminal = made(tmp_path, confinement, Settings(sandbox_max_processes=2))
    with pytest.raises(ToolError, match=r"was not run: no process could be started: Resource"):
        await terminal.start("true", tmp_path, None)
    await terminal.close()


async def test_a_command_that_is_given_up_before_its_start_never_starts(
    tmp_path: Path, confinement: SandboxBackend
) -> None:
    session = SandboxConfig(workspace=tmp_path, joey_home=tmp_path / ".roo", env=os.environ)
    sandbox = LocalSandbox(session, Settings(), lambda: FixedProber(confinement))
    shell = ("/bin/sh", "-c", ": > ran")
    fork_server = ForkServerClient()
    handle = sandbox.prepare_command(
        confinement, shell, tmp_path, os.environ, ForkServerManager(lambda: None).start_command
    )
    await fork_server.spawn()
    for _ in range(30):
        supervisor = fork_server.start_supervisor(handle.plan["sandbox"])
        supervisor.send_command(handle.plan["command"])
        supervisor.disconnect()
    await fork_server.stop()
    await sandbox.close()
    assert not is_there(tmp_path / "ran")


async def test_a_directory_for_temporary_files_that_could_not_be_made_is_made_the_next_time(
    tmp_path: Path, confinement: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "gone"
    monkeypatch.setattr("tempfile.tempdir", str(place))
    terminal = made(tmp_path, confinement, Settings())
    with pytest.raises(ToolError, match=r"was not run: .*joey-commands-.*: No such file"):
        await terminal.start("true", tmp_path, None)
    await asyncio.to_thread(place.mkdir)
    assert await output(terminal, tmp_path, "echo again") == "again\n0"
    await terminal.close()
    assert leftovers(place) == []


async def test_at_most_sixteen_wait_however_many_tasks_there_are() -> None:
    before = list_fork_servers()
    many = [ForkServerManager(lambda: None) for _ in range(20)]
    for each in many:
        each.prewarm()
    async with asyncio.timeout(60):
        while len(list_fork_servers()) < len(before) + 16:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)
    await asyncio.gather(*(each.close() for each in many[:16]))
    assert list_fork_servers() == before
    await asyncio.gather(*(each.close() for each in many))


async def test_nothing_stays_when_the_task_closes_while_a_command_starts(
    tmp_path: Path, confinement: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = list_fork_servers()
    terminal = made(tmp_path, confinement, Settings())
    starting = asyncio.ensure_future(terminal.start("true", tmp_path, None))
    while len(list_fork_servers()) == len(before):  # noqa: ASYNC110 (another process)
        await asyncio.sleep(0)
    await terminal.close()
    async with asyncio.timeout(20):
        await asyncio.wait([starting])
        if starting.exception() is None:
            await starting.result().wait()
    await terminal.close()
    assert list_fork_servers() == before
    assert leftovers(tmp_path) == []


async def test_a_command_that_has_ended_before_it_is_killed_ends_as_it_did(
    terminal: LocalTerminal, tmp_path: Path
) -> None:
    listener = Listener()
    command = "echo on; until [ -e go ]; do sleep 0.01; done; exit 7"
    running = await terminal.start(command, tmp_path, None, listener)
    await listener.until("on")
    supervisor = psutil.Process(running.pid)
    (child,) = supervisor.children()
    supervisor.suspend()
    await asyncio.to_thread((tmp_path / "go").touch)
    async with asyncio.timeout(20):
        while child.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.01)
        assert isinstance(running, LocalCommand)
        assert running.confined_process is not None
        running.confined_process.kill()
        supervisor.resume()
        end = await running.wait()
    assert end is not None
    assert end.exit_code == 7
