"""Programs that are started, cancelled and killed at random leave nothing behind.

`JOEY_PROGRAMS` says how many (`make soak` uses 1,000). Some ignore signals, flood their output,
close their pipes, or leave children behind in sessions of their own. Afterwards there is no
process, no descriptor and no temporary file that was not there before.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
import warnings
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from joey.system.subprocess import STDERR, Process, StartOptions, run

PROGRAM_COUNT = int(os.environ.get("JOEY_PROGRAMS", "60"))
BATCH_SIZE = 6
TAG_VARIABLE = "TAG_OF_THIS_TEST"
LARGE_INPUT = b"x" * 300_000
SCRIPTS = (
    "exit 3",
    "echo out; echo err >&2",
    "cat >/dev/null; echo done",
    "sleep 100",
    "trap '' TERM INT HUP; while :; do sleep 1; done",
    "trap '' TERM; sleep 100 & sleep 100 & wait",
    "setsid sleep 100 & echo left; exit 0",
    "(setsid sh -c \"trap '' TERM HUP; sleep 100\" &); sleep 0.02",
    "yes",
    "yes >&2 & yes",
    "head -c 1000000 /dev/zero",
    "exec <&-; sleep 100",
    "exec >&- 2>&-; sleep 100",
    "sleep 100 & exec >&-",
    "kill -9 $$",
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@pytest.mark.parametrize("first", range(0, PROGRAM_COUNT, BATCH_SIZE))
def test_nothing_is_left_of_programs(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tag = f"{os.getpid()}-{first}"
    options = StartOptions(
        cwd=tmp_path, env={"PATH": os.environ["PATH"], TAG_VARIABLE: tag}, is_marked=True
    )
    before = list_names("/proc/self/fd")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(start_and_give_up(range(first, first + BATCH_SIZE), options))
        gc.collect()
    assert [str(each.message) for each in warned] == []
    assert find_tagged(tag) == []
    assert list_names("/proc/self/fd") == before
    assert list(tmp_path.iterdir()) == []


async def start_and_give_up(seeds: range, options: StartOptions) -> None:
    """Some are still running when this returns: asyncio cancels those."""
    tasks = [asyncio.create_task(start_one(Random(seed), options)) for seed in seeds]
    pairs = zip(seeds, tasks, strict=True)
    await asyncio.gather(*(disturb(Random(f"disturb {seed}"), task) for seed, task in pairs))
    if Random(seeds.start).random() < 0.7:
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends), ends


async def start_one(chance: Random, options: StartOptions) -> None:
    command = ("/bin/sh", "-c", chance.choice(SCRIPTS))
    with suppress(OSError):
        match chance.randrange(4):
            case 0:
                await run(
                    command,
                    input=chance.choice((None, b"", LARGE_INPUT)),
                    timeout_s=chance.choice((0.0, 0.05, 0.3)),
                    max_output_bytes=chance.choice((0, 1000)),
                    max_error_bytes=chance.choice((0, 1000)),
                    output_grace_s=chance.choice((None, 0.0, 0.02)),
                    **options,
                )
            case 1:
                await run(command, max_printed_bytes=200_000, timeout_s=0.5, **options)
            case 2:
                await read_some(chance, Process(command, **options))
            case 3:
                process = Process(command, has_stdin=True, has_stderr=True, **options)
                await exchange(chance, process)


async def read_some(chance: Random, process: Process) -> None:
    try:
        async with asyncio.timeout(0.3):
            while chance.random() < 0.9 and await process.read():
                pass
            await process.wait()
    finally:
        await process.end(grace_s=chance.choice((0.0, 0.05)))


async def exchange(chance: Random, process: Process) -> None:
    reading = asyncio.create_task(process.read())
    process.relay(STDERR, lambda data: None)
    try:
        async with asyncio.timeout(0.3):
            await process.write(LARGE_INPUT)
            process.feed(b"the end", is_last=True)
            await reading
    finally:
        try:
            await process.end(grace_s=chance.choice((0.0, 0.05)))
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def disturb(chance: Random, task: asyncio.Task[None]) -> None:
    """Cancel it, once or twice, or kill all that it has started; or leave it in peace."""
    for _ in range(chance.randrange(3)):
        if chance.random() < 0.3:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(chance.random() * 0.05)
        if chance.random() < 0.8:
            task.cancel()
        else:
            kill_a_child(chance)


def kill_a_child(chance: Random) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    ours = [each for each in children if TAG_VARIABLE.encode() in b"".join(read_process(each)[1])]
    if ours:
        os.kill(int(chance.choice(ours)), chance.choice((signal.SIGKILL, signal.SIGTERM)))


def find_tagged(tag: str) -> list[str]:
    """Command lines of live processes that inherited the tag, unless they are just dying."""
    sought = f"{TAG_VARIABLE}={tag}".encode()
    deadline = time.monotonic() + 10
    while found := [each for each in map(read_process, list_names("/proc")) if sought in each[1]]:
        if time.monotonic() > deadline:
            break
    return [command for command, _ in found]


def list_names(directory: str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


def read_process(name: str) -> tuple[str, list[bytes]]:
    try:
        environment = Path("/proc", name, "environ").read_bytes()  # empty for a zombie
        command = Path("/proc", name, "cmdline").read_bytes()
    except OSError:
        return "", []
    return command.replace(b"\0", b" ").decode(), environment.split(b"\0")
