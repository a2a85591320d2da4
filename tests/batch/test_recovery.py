"""What a batch survives, and what it does about it: processes, queues and disks that fail."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call, usage
from joey.testing.server import Request
from tests.harness.batch.fleet import PRICE_PER_REPLY, Fleet, judge, open_fleet, steps


async def kill_coordinator(fleet: Fleet, items: Path, requests: int) -> None:
    """A coordinator that is killed when so many requests have been made; its worker goes on."""
    command = ("batch", "run", str(items), "-o", str(fleet.out), "-y", "--workers", "1")
    coordinator = await fleet.start(*command)
    await fleet.until(lambda: len(fleet.server.requests) >= requests)
    coordinator.kill()
    await coordinator.communicate()


async def test_a_worker_of_a_killed_coordinator_is_replaced_by_the_next_one(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(3, pause_s=0.5)) as fleet:
        items = fleet.write_plain_items(4)
        await kill_coordinator(fleet, items, requests=2)
        (adopted,) = fleet.worker_pids
        again = asyncio.create_task(fleet.batch(items, "--workers", "1"))
        lock = fleet.out / "workers" / "coordinator.lock"
        await fleet.until(lambda: len(fleet.server.requests) >= 6)
        assert fleet.worker_pids == [adopted], "no second worker is started next to it"
        os.kill(adopted, signal.SIGKILL)
        assert (await again).code == 0
        assert judge(fleet, 4, 3, interrupted=4) == []
        assert lock.read_text() == ""


async def test_a_run_that_the_queue_has_lost_is_queued_again(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_plain_items(2)
        await fleet.batch(items, "--no-wait")
        fleet.change("update workflow_status set status = 'ERROR' where workflow_uuid like '%0-0%'")
        assert (await fleet.batch(items)).code == 0
        assert judge(fleet, 2, 1, interrupted=0) == []


async def test_a_limit_per_group_counts_for_items_that_were_queued_without_it(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_items(
            [{"id": f"item-{n}", "prompt": "p", "group": f"g{n % 2}"} for n in range(4)]
        )
        await fleet.batch(items, "--no-wait")
        ended = await fleet.batch(items, "--at-once", "2", "--group-at-once", "5")
        assert ended.code == 0, ended.stderr
        assert judge(fleet, 4, 1, interrupted=0) == []


async def test_an_item_is_cancelled_now_during_its_setup_and_continues_later(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        started, open_file = tmp_path / "started", tmp_path / "open"
        setup = f"touch {started}; test -e {open_file} || sleep 1000"
        rows = [{"id": "item-0", "prompt": "p", "setup": setup}]
        items = fleet.write_items(rows)
        running = asyncio.create_task(fleet.batch(items))
        await fleet.until(started.exists)
        await fleet.run("batch", "cancel", str(fleet.out), "--now")
        assert (await running).code == 1
        assert [(line["status"], line["turns"]) for line in fleet.lines] == [("cancelled", 0)]
        open_file.touch()
        assert (await fleet.batch(items)).code == 0
        assert judge(fleet, 1, 1, interrupted=0) == []


async def test_an_item_that_is_driven_alone_is_cancelled_now(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        once, alone = tmp_path / "once", tmp_path / "alone"
        setup = f"test -e {once} && touch {alone} && sleep 1000; touch {once}; kill -9 $PPID"
        items = fleet.write_items([{"id": "a", "prompt": "p", "setup": setup}])
        running = asyncio.create_task(fleet.batch(items))
        await fleet.until(alone.exists)
        await fleet.run("batch", "cancel", str(fleet.out), "--now")
        assert (await running).code == 1
        assert [(line["status"], line["attempt"]) for line in fleet.lines] == [("cancelled", 1)]


async def test_what_an_item_did_before_it_killed_its_process_counts(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_items([{"id": "a", "prompt": "p", "check": "kill -9 $PPID"}])
        ended = await fleet.batch(items, "--attempts", "1")
        assert ended.code == 75
        (line,) = fleet.lines
        assert (line["status"], line["code"], line["turns"]) == ("error", "died", 2)
        assert line["tokens"] == {"in": 2000, "out": 20, "cacheReads": 0, "cacheWrites": 0}
        assert line["cost"] == pytest.approx(2 * PRICE_PER_REPLY)
        assert "died once (SIGKILL)" in line["result"]


async def test_attempts_count_per_run_of_the_command(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        missing = str(tmp_path / "none")
        items = fleet.write_items([{"id": "a", "prompt": "p", "repo": missing}])
        for attempts in ("2", "1", "2"):
            assert (await fleet.batch(items, "--attempts", attempts)).code == 75
        assert [(line["attempt"], line["status"]) for line in fleet.lines] == [
            (n, "error") for n in range(1, 6)
        ]


async def test_a_cancelled_item_is_not_tried_again_when_it_ends_with_an_error(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        ready, go = tmp_path / "ready", tmp_path / "go"
        os.mkfifo(go)
        setup = f"touch {ready}; cat {go}; false"
        items = fleet.write_items([{"id": "a", "prompt": "p", "setup": setup}])
        running = asyncio.create_task(fleet.batch(items))
        await fleet.until(ready.exists)
        fleet.change("update \"joey.item\" set mark = 'cancel'")
        with go.open("w"):  # what it waits for ends in the moment in which it is cancelled
            pass
        await running
        assert [line["attempt"] for line in fleet.lines] == [1]
        assert fleet.lines[0]["status"] in ("error", "cancelled")


async def test_a_subtask_that_runs_counts_towards_the_total_budget(tmp_path: Path) -> None:
    part = call("new_task", {"mode": "code", "message": "the part", "todos": "[ ] a"})

    def select(request: Request) -> Turn:
        text = json.dumps(request.body)
        if "the part" in text and "please do item-0" not in text:
            return Turn(
                call("execute_command", {"command": "echo x >> effects.log"}),
                usage(input=1000, output=10),
            )
        return Turn(part, usage(input=1000, output=10))

    async with open_fleet(tmp_path, [select] * 50) as fleet:
        budget = 5.5 * PRICE_PER_REPLY
        ended = await fleet.batch(
            fleet.write_plain_items(1), "--total-budget-usd", f"{budget:.6f}", "--max-turns", "30"
        )
        assert ended.code == 55, ended.stderr
        assert len(fleet.server.requests) == 6
        (line,) = fleet.lines
        assert (line["status"], line["requests"]) == ("budget", 6), "one was held back"
        assert line["cost"] == pytest.approx(6 * PRICE_PER_REPLY)


async def test_commands_of_an_item_keep_to_the_ceiling_of_the_worker(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(0)) as fleet:
        mark = tmp_path / "mark"
        rows = [
            {"id": "setup", "prompt": "p", "setup": f"touch {mark}"},
            {"id": "check", "prompt": "p", "check": f"touch {mark}"},
            {"id": "allowed", "prompt": "p", "check": "ls effects.log"},
        ]
        settings = tmp_path / "may.json"
        settings.write_text(
            json.dumps(
                {
                    "autoApprovalEnabled": True,
                    "alwaysAllowExecute": True,
                    "allowedCommands": ["ls"],
                }
            )
        )
        await fleet.batch(fleet.write_items(rows), "--no-wait", "--attempts", "1")
        worker = ("worker", "--store", str(fleet.out), "--until-empty", "--may", str(settings))
        ended = await fleet.run(*worker)
        assert ended.code == 0, ended.stderr
        assert fleet.statuses == {"setup": "error", "check": "error", "allowed": "failed"}
        assert {line["code"] for line in fleet.lines} == {"configuration", "check"}
        assert "--may all" in fleet.lines[0]["result"] or "--may all" in fleet.lines[1]["result"]
        assert not mark.exists()


async def test_what_a_killed_worker_left_at_work_is_ended_before_its_item_starts_again(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        lock, started = tmp_path / "lock", tmp_path / "started"
        once = f"test -e {started} || (touch {started}; sleep 1000)"
        setup = f"exec 9>{lock}; flock -n 9 && ({once})"
        items = fleet.write_items([{"id": "item-0", "prompt": "p", "setup": setup}])
        running = asyncio.create_task(fleet.batch(items, "--attempts", "1"))
        await fleet.until(started.exists)
        os.kill(fleet.worker_pids[0], signal.SIGKILL)
        ended = await running
        assert ended.code == 0, fleet.lines
        assert judge(fleet, 1, 1, interrupted=0) == []


async def test_the_lock_of_a_git_that_was_killed_fails_no_item(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1, pause_s=0.5)) as fleet:
        running = asyncio.create_task(fleet.batch(fleet.write_plain_items(1)))
        await fleet.until(lambda: fleet.server.requests)
        (repository,) = fleet.out.glob("work/*.git")
        (repository / "index.lock").touch()
        ended = await running
        assert ended.code == 0, ended.stderr
        assert judge(fleet, 1, 1, interrupted=0) == []
        assert len(fleet.lines) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)


async def test_a_full_disk_loses_nothing_and_uses_up_no_attempt(
    tmp_path: Path, small_disk: Path
) -> None:
    async with open_fleet(tmp_path, steps(3, pause_s=0.3)) as fleet:
        fleet.out = small_disk / "out"
        items = fleet.write_plain_items(3)
        running = asyncio.create_task(fleet.batch(items))
        await fleet.until(lambda: len(fleet.server.requests) >= 5)
        filler = small_disk / "filler"
        with suppress(OSError):  # others have used some of it meanwhile
            filler.write_bytes(b"x" * shutil.disk_usage(small_disk).free)
        ended = await running
        if ended.code:  # what was reserved in the database may have been enough
            assert "disk is full" in ended.stderr or "No space left" in ended.stderr, ended.stderr
        filler.unlink()
        again = await fleet.batch(items)
        assert again.code == 0, again.stderr
        assert judge(fleet, 3, 3, interrupted=3) == []
        assert {line["attempt"] for line in fleet.lines} == {1}


async def test_a_full_disk_is_reported_before_anything_starts(small_disk: Path) -> None:
    async with open_fleet(small_disk.parent, steps(1)) as fleet:
        fleet.out = small_disk / "out"
        (small_disk / "filler").write_bytes(b"x" * shutil.disk_usage(small_disk).free)
        ended = await fleet.batch(fleet.write_plain_items(1))
        assert ended.code == 1
        assert "full" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert "defect" not in ended.stderr


async def test_a_worker_that_is_stopped_hands_its_items_over(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(3, pause_s=0.3)) as fleet:
        await fleet.batch(fleet.write_plain_items(2), "--no-wait")
        command = ("worker", "--store", str(fleet.out), "--may", "all", "--until-empty")
        first = await fleet.start(*command)
        await fleet.until(lambda: len(fleet.server.requests) >= 3)
        first.terminate()
        await first.communicate()
        assert first.returncode == 143
        second: Any = await fleet.run(*command)
        assert second.code == 0
        assert fleet.query('select distinct alone, deaths from "joey.item"') == [(0, 0)]
        assert judge(fleet, 2, 3, interrupted=2) == []
