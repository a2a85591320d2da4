"""`kill -9` of workers and of the coordinator: every item ends once, and nothing is done twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.batch.fleet import Fleet, judge, open_fleet, signal_one, steps
from tests.harness.counts import daily

ITEMS, KILLS, WORKERS = daily(12, 1000), daily(4, 60), daily(2, 4)
COMMANDS = 3
WIDTH = 2
PAUSE_S = daily(0.2, 0.8)
"""Of the model before each reply."""
KILL_INTERVAL_S = daily((0.5, 1.5), (2.0, 6.0))
SIGNALS = daily((signal.SIGKILL,), (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
"""A worker that is only stopped is found to hang after 20 seconds."""


@pytest.mark.shortened
@pytest.mark.timeout(daily(180, 3600))
async def test_killed_workers_and_coordinators_lose_and_repeat_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(os.environ.get("JOEY_SEED", "kills"))
    async with open_fleet(tmp_path, steps(COMMANDS, pause_s=PAUSE_S)) as fleet:
        items = fleet.write_plain_items(ITEMS)
        options = ("--workers", str(WORKERS), "--width", str(WIDTH), "--attempts", "3")
        command = ("batch", "run", str(items), "-o", str(fleet.out), "-y", *options)
        coordinator = await fleet.start(*command)
        reading = asyncio.create_task(coordinator.communicate())
        kills = 0
        interrupted = 0
        began = time.monotonic()
        while kills < KILLS and not _is_over(fleet):
            await asyncio.sleep(chance.uniform(*KILL_INTERVAL_S))
            pids = fleet.worker_pids
            if not pids or not fleet.query("select 1 from \"joey.item\" where status = 'running'"):
                continue
            if kills % 4 == 2:
                coordinator.kill()
                await reading
                coordinator = await fleet.start(*command)
                reading = asyncio.create_task(coordinator.communicate())
            elif signal_one(pids, chance, chance.choice(SIGNALS)) is None:
                continue
            else:
                interrupted += WIDTH
            kills += 1
        async with asyncio.timeout(daily(120, 1800)):
            await reading
        assert kills == KILLS
        problems = judge(fleet, ITEMS, COMMANDS, interrupted)
        log = (fleet.out / "workers.log").read_text()
        assert problems == [], log
        least = ITEMS * (COMMANDS + 1)
        took = time.monotonic() - began
        record_property(
            "figures",
            f"{ITEMS} items, {WORKERS} workers, {kills} kills in {took:.0f} s:"
            f" {len(fleet.server.requests)} requests ({least} needed)",
        )
        assert coordinator.returncode == 0


def _is_over(fleet: Fleet) -> bool:
    statuses = fleet.statuses.values() if fleet.worker_pids else ()
    return len(statuses) == ITEMS and all(status == "done" for status in statuses)
