"""Processes, memory and files of commands: nothing outlives its task, nothing grows for ever."""

from __future__ import annotations

import asyncio
import os
from itertools import count

import psutil
import pytest

from joey.core.settings import Settings
from joey.execution.sandbox.supervisor_client import can_limit_processes
from tests.harness.execution.actor import CommandStep
from tests.harness.execution.sandbox import SandboxHarness, kill_joey

_numbers = count(os.getpid() * 10_000)
"""No other worker's, which runs these tests at the same time."""


class Sleeper:
    """A process that can be told from all others."""

    def __init__(self) -> None:
        self.seconds = f"9{next(_numbers)}"

    @property
    def command(self) -> str:
        return f"sleep {self.seconds}"

    def is_alive(self) -> bool:
        for process in psutil.process_iter(["cmdline", "status"]):
            arguments = process.info["cmdline"] or ()
            if process.info["status"] != psutil.STATUS_ZOMBIE and any(
                self.seconds in word for word in arguments
            ):
                return True
        return False


def detached(sleeper: Sleeper) -> str:
    """Double fork, a session of its own, nothing in its environment, deaf to signals."""
    inner = f"trap '' TERM HUP INT; exec {sleeper.command}"
    return f'(setsid nohup env -i /bin/sh -c "{inner}" >/dev/null 2>&1 </dev/null &)'


@pytest.mark.contract("sandbox:contained")
async def test_what_a_command_leaves_behind_ends_with_its_task(harness: SandboxHarness) -> None:
    sleeper = Sleeper()
    (answer,) = await harness.run(f"{detached(sleeper)}; echo left")
    assert answer.output == "left\n"
    assert answer.left_running
    assert not sleeper.is_alive()


@pytest.mark.contract("sandbox:contained")
async def test_killing_a_command_ends_what_has_detached_itself_from_it(
    harness: SandboxHarness,
) -> None:
    sleeper, other = Sleeper(), Sleeper()
    line = f"trap '' TERM; {detached(sleeper)}; echo up; {other.command}; echo on; sleep 60"
    killed, after = await harness.run(CommandStep(line, until="up", then="kill"), "echo still here")
    assert killed.signal is not None
    assert after.output == "still here\n"
    assert not sleeper.is_alive()
    assert not other.is_alive()


@pytest.mark.contract("sandbox:contained")
async def test_killing_joey_ends_everything_that_it_has_started(harness: SandboxHarness) -> None:
    sleeper = Sleeper()
    step = CommandStep(f"{detached(sleeper)}; echo up; {sleeper.command}", until="up", then="leave")
    process = await harness.start(step, lingers=True)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        said = await process.stdout.readline()
        if b"impossible" in said and b'"impossible":""' not in said:
            pytest.skip(said.decode())
        assert sleeper.is_alive()
        assert await kill_joey(process) == []
    assert not sleeper.is_alive()


async def test_a_command_in_the_background_goes_on_and_its_output_is_seen(
    harness: SandboxHarness,
) -> None:
    line = "(sleep 0.6; echo late > late.txt) & echo early"
    first, second = await harness.run(
        line, "while [ ! -e late.txt ]; do sleep 0.05; done; echo seen"
    )
    assert (first.output, first.left_running) == ("early\n", True)
    assert (second.output, second.left_running) == ("seen\n", False)


async def test_a_polite_end_comes_before_the_hard_one(harness: SandboxHarness) -> None:
    line = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    (answer,) = await harness.run(CommandStep(line, until="up", then="kill"), grace=20)
    assert answer.output.endswith("bye\n")


FORKS = """
import os, time
children = 0
try:
    while children < 400:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        children += 1
except OSError as error:
    print("refused:", error.strerror)
print(children)
"""


@pytest.mark.contract("sandbox:contained")
async def test_the_number_of_processes_is_limited(harness: SandboxHarness) -> None:
    if harness.user == "root" and not can_limit_processes():
        pytest.skip("root's processes cannot be counted: no control group can be made here")
    (harness.workspace / "forks.py").write_text(FORKS, encoding="utf-8")
    few = Settings(sandbox_max_processes=60)
    said, bomb = await harness.run(
        CommandStep("/usr/bin/python3 forks.py", until="refused", then="kill"),
        # Started with one fork: for a second one there may be no room any more.
        CommandStep("b() { b | b & }; b 2>/dev/null & echo up; while :; do :; done", "up", "kill"),
        settings=few,
    )
    assert "refused" in said.output
    assert bomb.signal is not None


@pytest.mark.contract("sandbox:contained")
async def test_files_memory_and_time_are_limited(harness: SandboxHarness) -> None:
    limits = Settings(sandbox_max_file_mb=2, sandbox_max_memory_mb=300, sandbox_max_cpu_seconds=1)
    file, memory, time = await harness.run(
        "head -c 20000000 /dev/zero > big",
        "/usr/bin/python3 -c 'bytearray(500_000_000)'",
        "while :; do :; done",
        settings=limits,
    )
    assert file.exit_code != 0
    assert (harness.workspace / "big").stat().st_size <= 2 * 1024**2
    assert "MemoryError" in memory.output
    assert time.exit_code != 0
