"""Batches in Postgres: workers and connections fail at random, and every item still ends once."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from joey.batch.cluster_store import open_worker_store
from joey.batch.store import open_batch_store
from joey.errors import ConfigError, StoreError
from joey.testing.script import Turn, call, pause, usage
from tests.harness.batch.cluster import ClusterFleet, open_cluster
from tests.harness.batch.fleet import judge, judge_budget, signal_one, steps
from tests.harness.counts import daily
from tests.harness.postgres import create_batch_url, get_cluster
from tests.harness.storage.tcp_cut import open_relay

ITEMS, FAULTS, WORKERS = daily(12, 1000), daily(6, 60), 4
COMMANDS = 3
WIDTH = 2
STOPPED_S = daily(23, 60)
RESULT = Turn(call("attempt_completion", {"result": "ok"}), usage(input=1000, output=10))
TERMINATE = """select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
    order by random() limit 3"""


async def test_two_workers_that_share_only_the_database_drive_a_list(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, steps(2)) as fleet:
        items = fleet.write_items(
            [{"id": f"item-{n}", "prompt": f"please do item-{n}."} for n in range(5)]
            + [{"id": "item-5", "prompt": "please do item-5.", "check": "cat effects.log"}]
        )
        queued = await fleet.batch(items, "--no-wait")
        assert queued.code == 0, queued.stderr
        homes = [tmp_path / f"home-{n}" for n in range(2)]
        workers = [await fleet.start_worker("--width", "2", home=home) for home in homes]
        ended = await fleet.batch(items, "--workers", "0")
        assert ended.code == 0, ended.stderr
        assert judge(fleet, 6, 2, interrupted=0) == []
        copied = (fleet.out / "results.jsonl").read_text().splitlines()
        assert len(copied) == 6
        assert (fleet.out / "checks" / "item-5.txt").read_text() == "step1\nstep2\n"
        assert "+step2" in (fleet.out / "patches" / "item-0.patch").read_text()
        again = await fleet.batch(items)
        assert (again.code, len(fleet.server.requests)) == (0, 18)
        for worker in workers:
            worker.terminate()
            await worker.communicate()


@pytest.mark.shortened
@pytest.mark.timeout(daily(240, 7200))
async def test_faults_at_random_lose_and_repeat_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(os.environ.get("JOEY_SEED", "faults"))
    async with open_cluster(tmp_path, steps(COMMANDS, pause_s=0.2)) as fleet:
        items = fleet.write_plain_items(ITEMS)
        drive = ("--workers", str(WORKERS), "--width", str(WIDTH), "--attempts", "3")
        options = ("-o", str(fleet.out), "-y", *drive, "--store", fleet.url)
        command = ("batch", "run", str(items), *options)
        coordinator = await fleet.start(*command)
        reading = asyncio.create_task(coordinator.communicate())
        faults = interrupted = 0
        stopped: list[asyncio.Task[None]] = []
        began = time.monotonic()
        while faults < FAULTS and not _is_over(fleet):
            assert not reading.done(), reading.result()
            await asyncio.sleep(chance.uniform(*daily((0.5, 1.5), (3, 10))))
            pids = await asyncio.to_thread(lambda: fleet.worker_pids)
            running = "select 1 from joey.item where status = 'running'"
            if not pids or not await asyncio.to_thread(fleet.query, running):
                continue
            match ("stop", "kill", "connections", "coordinator", "kill")[faults % 5]:
                case "kill":
                    if signal_one(pids, chance, signal.SIGKILL) is None:
                        continue
                    interrupted += WIDTH
                case "stop":
                    if (pid := signal_one(pids, chance, signal.SIGSTOP)) is None:
                        continue
                    interrupted += WIDTH
                    stopped.append(asyncio.create_task(_wake_later(pid)))
                case "connections":
                    interrupted += 3 * WIDTH
                    await asyncio.to_thread(fleet.query, TERMINATE)
                case "coordinator":
                    coordinator.kill()
                    await reading
                    coordinator = await fleet.start(*command)
                    reading = asyncio.create_task(coordinator.communicate())
            faults += 1
        async with asyncio.timeout(daily(180, 3600)):
            await reading
            await asyncio.gather(*stopped)
        took = time.monotonic() - began
        record_property(
            "figures",
            f"{ITEMS} items, {WORKERS} workers, {faults} faults in {took:.0f} s:"
            f" {len(fleet.server.requests)} requests ({ITEMS * (COMMANDS + 1)} needed)",
        )
        log = (fleet.out / "workers.log").read_text()
        assert judge(fleet, ITEMS, COMMANDS, interrupted) == [], log
        text = (fleet.out / "results.jsonl").read_text()
        copied = [json.loads(line) for line in text.splitlines()]
        more = [line for line in copied if (line["attempt"], line["status"]) != (1, "done")]
        assert more == [], "no fault of a worker is one of its item"
        assert len(copied) == ITEMS
        assert faults == FAULTS
        assert coordinator.returncode == 0


async def _wake_later(pid: int) -> None:
    await asyncio.sleep(STOPPED_S)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _is_over(fleet: ClusterFleet) -> bool:
    statuses = fleet.statuses.values()
    return len(statuses) == ITEMS and all(status == "done" for status in statuses)


@pytest.mark.timeout(180)
async def test_a_stopped_worker_runs_and_writes_nothing_when_it_wakes_and_says_why(
    tmp_path: Path,
) -> None:
    turns = [steps(2)[0], Turn(pause(3), *steps(2)[1].steps), steps(2)[2]]
    async with open_cluster(tmp_path, turns) as fleet:
        items = fleet.write_plain_items(2)
        await fleet.batch(items, "--no-wait")
        sleeper = await fleet.start_worker("--width", "2")
        await fleet.until(lambda: len(fleet.server.requests) == 4)
        os.kill(sleeper.pid, signal.SIGSTOP)
        other = await fleet.start_worker("--width", "2", "--until-empty")
        _, log = await other.communicate()
        assert other.returncode == 0, log.decode()
        records = fleet.query("select count(*) from joey.record")
        requests = len(fleet.server.requests)
        os.kill(sleeper.pid, signal.SIGCONT)
        async with asyncio.timeout(60):
            _, why = await sleeper.communicate()
        assert sleeper.returncode == 75
        assert "This process stopped: " in why.decode()
        assert "Traceback" not in why.decode()
        assert "did not stop in time" not in why.decode()
        assert fleet.query("select count(*) from joey.record") == records
        assert len(fleet.server.requests) == requests
        assert judge(fleet, 2, 2, interrupted=2) == []


@pytest.mark.timeout(180)
async def test_a_worker_that_is_cut_off_for_long_ends_its_commands_and_others_continue(
    tmp_path: Path,
) -> None:
    command = "exec 9>lock; flock -n 9 && touch started && sleep 1000"
    turns = [Turn(call("execute_command", {"command": command})), RESULT]
    async with open_cluster(tmp_path, turns) as fleet:
        items = fleet.write_plain_items(1)
        await fleet.batch(items, "--no-wait")
        direct = fleet.url
        with open_relay(direct) as relay:
            fleet.url = relay.url
            worker = await fleet.start_worker()
            fleet.url = direct
            await fleet.until(lambda: [*fleet.home.glob("batch-work/*/work/*/started")])
            relay.cut()
            _, why = await worker.communicate()
        assert worker.returncode == 75
        assert "This process stopped: no contact with" in why.decode()
        assert "did not stop in time" not in why.decode()
        (lock,) = fleet.home.glob("batch-work/*/work/*/lock")
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ended = await fleet.batch(items)
        assert ended.code == 0, ended.stderr
        assert [(line["attempt"], line["status"]) for line in fleet.lines] == [(1, "done")]


async def test_an_item_whose_host_is_gone_starts_again_on_another_and_says_so(
    tmp_path: Path,
) -> None:
    turns = [steps(2)[0], Turn(pause(1), *steps(2)[1].steps), steps(2)[2]]
    async with open_cluster(tmp_path, turns) as fleet:
        items = fleet.write_plain_items(1)
        await fleet.batch(items, "--no-wait", "--attempts", "1")
        first = await fleet.start_worker(home=tmp_path / "home-1")
        await fleet.until(lambda: len(fleet.server.requests) == 2)
        first.kill()
        await first.communicate()
        second = await fleet.start_worker("--until-empty", home=tmp_path / "home-2")
        _, log = await second.communicate()
        assert second.returncode == 0, log.decode()
        lines = [(line["attempt"], line["status"], line["code"]) for line in fleet.lines]
        assert lines == [(1, "error", "workspace_lost"), (2, "done", "completed")]
        assert fleet.effects("item-0", attempt=2) == ["step1", "step2"]


async def test_an_item_that_kills_its_worker_ends_as_error_and_hurts_no_other(
    tmp_path: Path,
) -> None:
    async with open_cluster(tmp_path, steps(2, pause_s=0.3)) as fleet:
        rows: list[dict[str, Any]] = [
            {"id": f"item-{n}", "prompt": f"please do item-{n}."} for n in range(3)
        ]
        culprit = {"id": "poison", "prompt": "p", "setup": "kill -9 $PPID"}
        items = fleet.write_items([*rows[:2], culprit, rows[2]])
        ended = await fleet.batch(items, "--workers", "1", "--attempts", "2")
        assert ended.code == 75, ended.stderr
        assert fleet.statuses == {**{f"item-{n}": "done" for n in range(3)}, "poison": "error"}
        lines = [line for line in fleet.lines if line["item"] == "poison"]
        assert [(line["attempt"], line["code"]) for line in lines] == [(1, "died")]


async def test_a_total_budget_stops_workers_of_all_homes_and_raising_it_goes_on(
    tmp_path: Path,
) -> None:
    async with open_cluster(tmp_path, steps(3)) as fleet:
        items, budget = fleet.write_plain_items(6), 0.012
        options = ("--workers", "2", "--width", "2")
        ended = await fleet.batch(items, *options, "--total-budget-usd", str(budget))
        assert ended.code == 55, ended.stderr
        assert judge_budget(fleet, budget, at_once=4) == []
        ended = await fleet.batch(items, *options, "--total-budget-usd", "1")
        assert ended.code == 0, ended.stderr
        assert judge(fleet, 6, 3, interrupted=0) == []


async def test_a_restart_of_the_server_interrupts_no_item(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, steps(3, pause_s=0.5)) as fleet:
        items = fleet.write_plain_items(4)
        running = asyncio.create_task(fleet.batch(items, "--workers", "2", "--width", "2"))
        await fleet.until(lambda: len(fleet.server.requests) >= 4)
        await asyncio.to_thread(get_cluster().restart, "immediate")
        ended = await running
        log = (fleet.out / "workers.log").read_text()
        assert ended.code == 0, ended.stderr + log
        assert judge(fleet, 4, 3, interrupted=4) == [], log


async def test_a_worker_whose_run_was_replaced_logs_no_traceback(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, steps(1, pause_s=1)) as fleet:
        await fleet.batch(fleet.write_plain_items(1), "--no-wait")
        worker = await fleet.start_worker("--until-empty")
        await fleet.until(lambda: fleet.server.requests)
        fleet.change("update dbos.workflow_status set status = 'CANCELLED'")
        _, log = await worker.communicate()
        assert worker.returncode == 0, log.decode()
        assert "Traceback" not in log.decode()
        assert judge(fleet, 1, 1, interrupted=0) == []


async def test_a_clock_that_is_an_hour_slow_ends_nothing_early(tmp_path: Path) -> None:
    slow = "import time\nright = time.time\ntime.time = lambda: right() - 3600\n"
    (tmp_path / "sitecustomize.py").write_text(slow)
    async with open_cluster(tmp_path, steps(1)) as fleet:
        fleet.env |= {"PYTHONPATH": str(tmp_path)}
        began = time.time()
        ended = await fleet.batch(fleet.write_plain_items(2), "--total-wall-time", "30m")
        assert ended.code == 0, ended.stderr
        assert judge(fleet, 2, 1, interrupted=0) == []
        assert all(began < line["started"] < line["ended"] < time.time() for line in fleet.lines)


async def test_a_total_time_that_is_used_up_ends_a_batch(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, steps(3, pause_s=1)) as fleet:
        items = fleet.write_plain_items(2)
        ended = await fleet.batch(items, "--total-wall-time", "0.1s")
        assert ended.code == 55, ended.stderr
        assert {line["status"] for line in fleet.lines} == {"budget"}
        ended = await fleet.batch(items, "--total-wall-time", "30m")
        assert ended.code == 0, ended.stderr


async def test_an_order_that_an_older_joey_queued_is_carried_out(tmp_path: Path) -> None:
    """Texts as joey 2026.8.31 stores them."""
    async with open_cluster(tmp_path, steps(1)) as fleet:
        await fleet.batch(fleet.write_plain_items(1), "--no-wait")
        with psycopg.connect(fleet.url) as connection:
            connection.execute("""update joey.batch set options = '{"order":{"yes":true}}'""")
            connection.execute("""update joey.item set spec = '{"id":"item-0","prompt":"p"}'""")
        worker = await fleet.start_worker("--until-empty")
        _, log = await worker.communicate()
        assert worker.returncode == 0, log.decode()
        assert judge(fleet, 1, 1, interrupted=0) == []


async def test_a_look_at_a_batch_brings_its_files_up_to_date(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, steps(1)) as fleet:
        await fleet.batch(fleet.write_plain_items(1), "--no-wait")
        worker = await fleet.start_worker("--until-empty")
        _, log = await worker.communicate()
        assert worker.returncode == 0, log.decode()
        assert not (fleet.out / "results.jsonl").exists()
        await fleet.run("batch", "status", str(fleet.out))
        assert len((fleet.out / "results.jsonl").read_text().splitlines()) == 1
        patch = fleet.out / "patches" / "item-0.patch"
        assert "+step1" in patch.read_text()
        await fleet.run("batch", "retry", str(fleet.out), "--status", "done", "--anew")
        again = await fleet.batch(fleet.write_plain_items(1), "--setup", "false", "--attempts", "1")
        assert again.code == 75, again.stderr
        assert not patch.exists(), "it is of an earlier attempt"


async def test_the_command_continues_when_its_statement_is_broken_off(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, steps(2, pause_s=0.5)) as fleet:
        items = fleet.write_plain_items(2)
        running = asyncio.create_task(fleet.batch(items))
        await fleet.until(lambda: len(fleet.server.requests) >= 2)
        waiting = "from pg_stat_activity where wait_event_type = 'Lock'"
        counting = f"select 1 {waiting} and query like 'select status, count%'"
        with psycopg.connect(fleet.url) as connection:
            connection.execute("lock table joey.item in access exclusive mode")
            await fleet.until(lambda: fleet.query(counting))
            fleet.query(f"select pg_terminate_backend(pid) {waiting}")
        ended = await running
        assert ended.code == 0, ended.stderr
        assert judge(fleet, 2, 2, interrupted=2) == []


async def test_a_newer_schema_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with open_cluster(tmp_path, steps(1)) as fleet:
        items = fleet.write_plain_items(1)
        await fleet.batch(items, "--no-wait")
        fleet.change("update joey.schema set version = 99")
        worker = await fleet.start_worker("--until-empty")
        _, refused = await worker.communicate()
        for error in (refused.decode(), (await fleet.batch(items)).stderr):
            assert "written by a newer joey (schema 99" in error
            assert "Traceback" not in error


def test_an_address_that_cannot_be_used_is_refused_and_not_kept(tmp_path: Path) -> None:
    malformed = ("store", "mysql://host/joey", "postgresql://joey@[::1/joey")
    ports = (f"postgresql://joey@127.0.0.1:{port}/joey" for port in ("", "12x", "1"))
    for url in (*malformed, *ports):
        with pytest.raises((ConfigError, StoreError), match=r"store|database"):
            open_batch_store(tmp_path / "out", create=True, url=url)
    open_batch_store(tmp_path / "out", create=True, url=create_batch_url()).close()


async def test_processes_make_the_tables_of_a_new_database_at_once(tmp_path: Path) -> None:
    url = get_cluster().create_database()
    opening = (asyncio.to_thread(open_worker_store, url, tmp_path / str(n)) for n in range(3))
    for store in await asyncio.gather(*opening):
        store.close()
