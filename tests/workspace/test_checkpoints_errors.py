"""Killed processes, damaged shadows, several processes at once."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event

import psutil
import pytest

from joey.errors import CheckpointError
from joey.system.locks import try_lock_file
from joey.workspace.checkpoints import shadow_repo as shadow_repo_module
from tests.harness.workspace.checkpoint_workspace import (
    checkpoints_of,
    is_there,
    shadow_of,
    snapshot,
)

WORKER = """
import asyncio, sys
from pathlib import Path
from joey.workspace.checkpoints.pool import CheckpointStorePool

async def main(root, home, what, checkpoint):
    checkpoints = CheckpointStorePool(Path(home)).lease(Path(root))
    print("begun", flush=True)
    if what == "save":
        print(await checkpoints.save("t"), flush=True)
    else:
        await checkpoints.restore(checkpoint)
    await checkpoints.close()

asyncio.run(main(*sys.argv[1:]))
"""
FILES = 400


def fill(root: Path, text: str) -> None:
    for number in range(FILES):
        path = root / f"{number % 7}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text} {number}\n")


async def killed(root: Path, home: Path, what: str, checkpoint: str, after: float) -> None:
    """A real process, killed so many seconds after it has begun."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKER, str(root), str(home), what, checkpoint), stdout=PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        async with asyncio.timeout(after):
            await process.wait()
    except TimeoutError:
        process.send_signal(signal.SIGKILL)
    await process.wait()


@pytest.mark.contract("checkpoints:killed")
async def test_a_killed_save_leaves_a_usable_shadow(root: Path, home: Path) -> None:
    chance = Random(5)
    for number in range(5):
        fill(root, f"round {number}")
        await killed(root, home, "save", "", chance.uniform(0.01, 0.25))
        async with checkpoints_of(root, home) as checkpoints:
            was = snapshot(root)
            saved = await checkpoints.save("t")
            fill(root, "other")
            await checkpoints.restore(saved)
            assert snapshot(root) == was


@pytest.mark.contract("checkpoints:killed")
async def test_a_killed_restore_can_be_done_again(root: Path, home: Path) -> None:
    chance = Random(6)
    fill(root, "before")
    was = snapshot(root)
    async with checkpoints_of(root, home) as checkpoints:
        saved = await checkpoints.save("t")
    for number in range(5):
        fill(root, f"after {number}")
        await killed(root, home, "restore", saved, chance.uniform(0.02, 0.3))
        async with checkpoints_of(root, home) as checkpoints:
            await checkpoints.restore(saved)
            assert snapshot(root) == was


@pytest.mark.contract("checkpoints:killed")
async def test_what_a_killed_restore_was_writing_is_removed(root: Path, home: Path) -> None:
    fill(root, "before")
    async with checkpoints_of(root, home) as checkpoints:
        saved = await checkpoints.save("t")
        was = snapshot(root)
        shadow = shadow_of(home)
        (root / "3" / ".joey-0011.tmp").write_text("half a fi")
        (shadow / "restoring").write_text(".joey-0011.tmp\n\n3\nmissing\n")
        (shadow / "lock").write_text("1\n")
        for name in ("index.lock", "packed-refs.lock", "refs/joey/t/1.lock"):
            (shadow / "repository" / name).write_text("")
        assert await checkpoints.save("t") == saved
    assert snapshot(root) == was
    assert not is_there(shadow / "restoring")
    assert not list(shadow.rglob("*.lock"))


async def test_giving_up_waiting_does_not_stop_the_first_checkpoint(root: Path, home: Path) -> None:
    fill(root, "before")
    async with checkpoints_of(root, home) as checkpoints:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(checkpoints.save("t"), 0.001)
        saved = await checkpoints.save("t")
        assert await checkpoints.list_changes(saved) == []


async def test_a_cancelled_save_leaves_a_usable_shadow(root: Path, home: Path) -> None:
    chance = Random(7)
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("t")
        for number in range(10):
            fill(root, f"round {number}")
            saving = asyncio.create_task(checkpoints.save("t"))
            await asyncio.wait([saving], timeout=chance.uniform(0, 0.06))
            saving.cancel()
            await asyncio.gather(saving, return_exceptions=True)
        saved = await checkpoints.save("t")
        assert await checkpoints.list_changes(saved) == []


async def test_files_that_come_and_go_meanwhile_are_no_damage(root: Path, home: Path) -> None:
    done = Event()

    def churn() -> None:
        directory = root / "churn"
        while not done.is_set():
            directory.mkdir()
            for number in range(100):
                (directory / str(number)).write_text("x")
            shutil.rmtree(directory)

    fill(root, "before")
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save("t")
        churning = asyncio.create_task(asyncio.to_thread(churn))
        for _ in range(10):
            with suppress(CheckpointError):
                await checkpoints.save("t")
        done.set()
        await churning
        await checkpoints.restore(first)
        assert await checkpoints.list_changes(first) == []
    assert not is_there(shadow_of(home) / "damaged")


async def test_two_processes_take_turns(root: Path, home: Path) -> None:
    fill(root, "before")
    workers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WORKER, str(root), str(home), "save", ""), stdout=PIPE
        )
        for _ in range(3)
    ]
    said = [(await worker.communicate())[0].split() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert len({fields[1] for fields in said}) == 1


async def test_whoever_keeps_the_lock_for_too_long_is_not_waited_for(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_repo_module, "_LOCK_TIMEOUT_S", 0.1)
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("t")
        with (shadow_of(home) / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(CheckpointError, match="another process"):
                await checkpoints.save("t")
        await checkpoints.save("t")


def test_a_git_that_outlives_its_process_keeps_the_lock(
    root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("x")
    pipe, slow = tmp_path / "pipe", tmp_path / "programs" / "git"
    os.mkfifo(pipe)
    slow.parent.mkdir()
    waits = f"case $* in *--others*) read -r _ < {pipe};; esac"
    slow.write_text(f'#!/bin/sh\n{waits}\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    process = psutil.Popen([sys.executable, "-c", WORKER, str(root), str(home), "save", ""])
    children: list[psutil.Process] = []
    try:
        while not any("--others" in command_of(child) for child in children):
            assert process.poll() is None
            children = process.children()
        process.kill()
        process.wait()
        assert try_lock_file(shadow_of(home) / "lock") is None
    finally:
        for one in (process, *children):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()


def command_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


@pytest.mark.contract("checkpoints:killed")
@pytest.mark.parametrize("size", [0, 20, 200])
async def test_a_truncated_index_is_made_anew(
    root: Path, home: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    fill(root, "before")
    async with checkpoints_of(root, home) as checkpoints:
        saved = await checkpoints.save("t")
        shutil.rmtree(shadow_of(home) / "repository/info")
        os.truncate(shadow_of(home) / "repository/index", size)
        assert await checkpoints.save("t") == saved
        fill(root, "after")
        await checkpoints.restore(saved)
        assert await checkpoints.list_changes(saved) == []
    assert size == 0 or "made anew" in caplog.text


@pytest.mark.contract("checkpoints:killed")
async def test_lost_objects_break_what_they_were_of_and_nothing_else(
    root: Path, home: Path
) -> None:
    (root / "a.txt").write_text("lost")
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save("t")
        objects = shadow_of(home) / "repository/objects"
        (root / "a.txt").write_text("after")
        for path in objects.rglob("*"):
            if path.is_file() and path.parent.name + path.name != first:
                path.unlink()
        second = await checkpoints.save("t")
        with pytest.raises(CheckpointError, match="damaged"):
            await checkpoints.restore(first)
        assert (root / "a.txt").read_text() == "after"
        (root / "a.txt").write_text("later")
        await checkpoints.restore(second)
        assert (root / "a.txt").read_text() == "after"


@pytest.mark.contract("checkpoints:killed")
@pytest.mark.parametrize("name", ["HEAD", "config", "objects"])
async def test_a_shadow_that_is_no_repository_any_more_is_put_aside(
    root: Path, home: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    fill(root, "before")
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save("t")
        shadow = shadow_of(home)
        broken = shadow / "repository" / name
        if broken.is_dir():
            broken.rename(shadow / "elsewhere")
        else:
            broken.write_text("[rubbish\n")
        second = await checkpoints.save("t")
        fill(root, "after")
        await checkpoints.restore(second)
        assert await checkpoints.list_changes(second) == []
        if second != first:
            with pytest.raises(CheckpointError, match="no checkpoint"):
                await checkpoints.restore(first)
    assert is_there(shadow / "damaged")
    assert "are now in" in caplog.text


@pytest.fixture
def small_home(home: Path) -> Iterator[Path]:
    """On a disk of its own, which can be filled."""
    home.mkdir(exist_ok=True)
    mount = ("mount", "-t", "tmpfs", "-o", "size=8m", "none", str(home))
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    yield home
    subprocess.run(("umount", "-l", str(home)), check=True)


async def test_no_room_for_the_index_is_no_damage(root: Path, small_home: Path) -> None:
    """Nothing is put aside: what was kept is there when there is room again."""
    for number in range(3000):
        (root / f"{number}-{'long' * 20}").write_text("1\n")
    async with checkpoints_of(root, small_home) as checkpoints:
        first = await checkpoints.save("t")
        free = os.statvfs(small_home)
        (small_home / "fill").write_bytes(bytes((free.f_bavail - 12) * free.f_bsize))
        (root / ".gitignore").write_text("none\n")
        with pytest.raises(CheckpointError, match="Check the free disk space"):
            await checkpoints.save("t")
        (small_home / "fill").unlink()
        (change,) = await checkpoints.list_changes(first)
        assert change.path == ".gitignore"


async def test_a_workspace_that_goes_away_is_an_error_of_its_own(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("t")
        os.rmdir(root)  # noqa: PTH106
        with pytest.raises(CheckpointError, match=f"{root} does not exist"):
            await checkpoints.save("t")


async def test_checkpoints_that_are_deleted_meanwhile_are_begun_anew(
    root: Path, home: Path
) -> None:
    async with checkpoints_of(root, home) as kept:
        for number in range(2):
            await kept.save("task")
            shutil.rmtree(home / "checkpoints")
            again = await kept.save("task")
            (root / "a").write_text(f"{number}\n")
            await kept.restore(again)
            assert snapshot(root) == ({} if number == 0 else {"a": ("file", b"0\n", False)})
            (root / "a").write_text("0\n")


async def test_nothing_is_restored_over_what_somebody_writes_meanwhile(
    root: Path, home: Path
) -> None:
    for name in "abc":
        (root / name).write_text("1\n")
    async with checkpoints_of(root, home) as kept:
        first = await kept.save("task")
        for name in "abc":
            (root / name).write_text("2\n")
        second = await kept.save("task")
        (root / "a").write_text("1\n")  # as far as another process came before it died
        (root / "b").write_text("by hand\n")
        with pytest.raises(CheckpointError, match=r"modified outside joey: b\."):
            await kept.restore(first, second)
        assert [(root / name).read_text() for name in "abc"] == ["1\n", "by hand\n", "2\n"]
        (root / "b").write_text("2\n")
        assert [one.path for one in await kept.restore(first, second)] == ["b", "c"]
