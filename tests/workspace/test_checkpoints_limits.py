"""Old checkpoints go, and what only they held."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest

from joey.errors import CheckpointError
from joey.system.locks import try_lock_file
from tests.harness.workspace.checkpoint_workspace import (
    checkpoints_of,
    collect_garbage,
    is_there,
    measure_size,
    shadow_of,
)

DAY = 24 * 60 * 60


def fill(root: Path, seed: int) -> None:
    (root / "data.bin").write_bytes(Random(seed).randbytes(500_000))


def make_older(home: Path, days: float) -> None:
    """As if all checkpoints so far had been made so many days earlier."""
    refs = shadow_of(home) / "repository/refs/joey"
    for ref in list(refs.glob("*/*")):
        ref.rename(ref.with_name(f"{int(ref.name) - int(days * DAY * 1e9):020}"))


@pytest.mark.contract("checkpoints:killed")
async def test_old_checkpoints_go(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home, max_age_days=30) as checkpoints:
        fill(root, 1)
        old = await checkpoints.save("t")
        make_older(home, 31)
        fill(root, 2)
        young = await checkpoints.save("t")
        make_older(home, 1)
        fill(root, 3)
        before = measure_size(checkpoints)
        await collect_garbage(checkpoints)
        assert measure_size(checkpoints) < before - 400_000
        with pytest.raises(CheckpointError, match="any more"):
            await checkpoints.restore(old)
        await checkpoints.restore(young)
        assert await checkpoints.list_changes(young) == []


@pytest.mark.contract("checkpoints:killed")
async def test_too_many_checkpoints_go_the_oldest_first(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home, max_megabytes=3) as checkpoints:
        saved = []
        for number in range(10):
            fill(root, number)
            saved.append(await checkpoints.save("t" if number % 2 else "other"))
        assert measure_size(checkpoints) > 3 * 1024 * 1024
        await collect_garbage(checkpoints)
        assert measure_size(checkpoints) <= 3 * 1024 * 1024
        with pytest.raises(CheckpointError, match="any more"):
            await checkpoints.restore(saved[0])
        for checkpoint in saved[-3:]:
            await checkpoints.restore(checkpoint)
            assert await checkpoints.list_changes(checkpoint) == []


@pytest.mark.contract("checkpoints:exact")
async def test_more_files_than_there_is_room_for_are_refused(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home, max_megabytes=0.4) as checkpoints:
        fill(root, 1)
        with pytest.raises(CheckpointError, match="checkpointMaxMegabytes"):
            await checkpoints.save("t")
        (root / ".gitignore").write_text("*.bin\n")
        await checkpoints.save("t")
        assert measure_size(checkpoints) < 100_000


async def test_the_last_checkpoint_stays_however_small_the_limit(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home, max_megabytes=0.6) as checkpoints:
        fill(root, 1)
        await checkpoints.save("t")
        fill(root, 2)
        last = await checkpoints.save("t")
        await collect_garbage(checkpoints)
        fill(root, 3)
        await checkpoints.restore(last)
        assert await checkpoints.save("t") == last


@pytest.mark.contract("checkpoints:exact")
async def test_a_forgotten_task_leaves_nothing_behind(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home) as checkpoints:
        fill(root, 1)
        gone = await checkpoints.save("gone")
        fill(root, 2)
        kept = await checkpoints.save("kept")
        await checkpoints.discard_task("gone")
        await collect_garbage(checkpoints)
        with pytest.raises(CheckpointError, match="any more"):
            await checkpoints.restore(gone)
        await checkpoints.restore(kept)
        await checkpoints.discard_task("kept")
        assert measure_size(checkpoints) < 50_000
        with pytest.raises(CheckpointError, match="any more"):
            await checkpoints.restore(kept)
        again = await checkpoints.save("kept")
        assert await checkpoints.list_changes(again) == []


async def test_forgetting_where_nothing_was_kept_makes_nothing(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.discard_task("t")
    assert not is_there(home)


@pytest.mark.contract("checkpoints:killed")
async def test_workspaces_without_a_young_checkpoint_are_forgotten(
    root: Path, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with checkpoints_of(other, home) as checkpoints:
        await checkpoints.save("t")
    forsaken = shadow_of(home)
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("t")
        await collect_garbage(checkpoints)
        assert is_there(forsaken)
        then = time.time() - 31 * DAY
        os.utime(forsaken / "lock", (then, then))
        await collect_garbage(checkpoints)
    assert not is_there(forsaken)


async def test_it_is_collected_by_itself_once_a_day(root: Path, home: Path) -> None:
    async with checkpoints_of(root, home) as checkpoints:
        fill(root, 1)
        await checkpoints.save("t")
    async with checkpoints_of(root, home) as checkpoints:
        fill(root, 2)
        await checkpoints.save("t")
        store = checkpoints._store
        assert store._garbage_collection_task is not None
        await store._garbage_collection_task
        stamp = shadow_of(home) / "collected"
        then = time.time() - 2 * DAY
        os.utime(stamp, (then, then))
        fill(root, 3)
        await checkpoints.save("t")
        await store._garbage_collection_task
        assert time.time() - stamp.stat().st_mtime < DAY


@pytest.mark.parametrize("task", ["a/b", "..", "x.lock", "-d", "ü", "a b", "x" * 300])
async def test_a_task_may_have_any_name(root: Path, home: Path, task: str) -> None:
    async with checkpoints_of(root, home) as checkpoints:
        first = await checkpoints.save(task)
        assert await checkpoints.save(task) == first
        other = await checkpoints.save("plain")
        await checkpoints.discard_task(task)
        assert await checkpoints.list_changes(other) == []


async def test_collecting_that_is_broken_off_at_once_lets_others_collect(
    root: Path, home: Path
) -> None:
    async with checkpoints_of(root, home) as checkpoints:
        await checkpoints.save("other")
        fill(root, 1)
        await checkpoints.save("t")
        lock = shadow_of(home) / "collecting"
        await checkpoints.discard_task("t")
        await asyncio.sleep(0)
        wait_for(lock)  # the loop stands still: nobody has heard of the lock when it is closed
    await asyncio.get_running_loop().shutdown_default_executor()
    descriptor = try_lock_file(lock)
    assert descriptor is not None
    os.close(descriptor)


def wait_for(path: Path) -> None:
    until = time.monotonic() + 10
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.001)
