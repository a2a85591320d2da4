"""Workers that die, hang, are refused or attach: nobody else is hurt by it."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from joey.testing.script import Turn, call, pause, usage
from tests.harness.batch.fleet import judge, judge_budget, open_fleet, steps

RESULT = Turn(call("attempt_completion", {"result": "ok"}), usage(input=1000, output=10))


async def test_an_item_that_kills_its_worker_ends_as_error_and_hurts_no_other(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(2, pause_s=0.3)) as fleet:
        rows: list[dict[str, Any]] = [
            {"id": f"item-{n}", "prompt": f"please do item-{n}."} for n in range(3)
        ]
        culprit = {"id": "poison", "prompt": "p", "setup": "kill -9 $PPID"}
        items = fleet.write_items([*rows[:2], culprit, rows[2]])
        ended = await fleet.batch(items, "--workers", "1", "--attempts", "2")
        assert ended.code == 75, ended.stderr
        assert fleet.statuses == {
            **{f"item-{n}": "done" for n in range(3)},
            "poison": "error",
        }
        lines = [line for line in fleet.lines if line["item"] == "poison"]
        assert [(line["attempt"], line["code"]) for line in lines] == [(1, "died")]
        for n in range(3):
            assert fleet.effects(f"item-{n}") == ["step1", "step2"]


@pytest.mark.timeout(180)
async def test_a_worker_that_hangs_is_killed_and_its_items_go_on(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(2, pause_s=1.0)) as fleet:
        items = fleet.write_plain_items(2)
        coordinator = await fleet.start(
            "batch", "run", str(items), "-o", str(fleet.out), "-y", "--workers", "1"
        )
        await fleet.until(lambda: len(fleet.server.requests) >= 2)
        (pid,) = fleet.worker_pids
        os.kill(pid, signal.SIGSTOP)
        async with asyncio.timeout(120):
            _, err = await coordinator.communicate()
        assert coordinator.returncode == 0, err
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert judge(fleet, 2, 2, interrupted=2) == []


async def test_a_second_coordinator_attaches(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(2, pause_s=0.3)) as fleet:
        items = fleet.write_plain_items(4)
        first, second = await asyncio.gather(fleet.batch(items), fleet.batch(items))
        assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
        assert judge(fleet, 4, 2, interrupted=0) == []


async def test_workers_go_on_without_their_coordinator(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(3, pause_s=0.2)) as fleet:
        items = fleet.write_plain_items(4)
        coordinator = await fleet.start("batch", "run", str(items), "-o", str(fleet.out), "-y")
        await fleet.until(lambda: len(fleet.server.requests) >= 2)
        coordinator.kill()
        await coordinator.communicate()
        await fleet.until(lambda: set(fleet.statuses.values()) == {"done"})
        assert judge(fleet, 4, 3, interrupted=0) == []
        again = await fleet.batch(items)
        assert (again.code, len(fleet.lines)) == (0, 4)


async def test_an_interrupted_run_stops_its_workers_and_goes_on_later(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(3, pause_s=0.3)) as fleet:
        items = fleet.write_plain_items(3)
        command = ("batch", "run", str(items), "-o", str(fleet.out), "-y")
        coordinator = await fleet.start(*command)
        await fleet.until(lambda: all(fleet.effects(f"item-{n}") for n in range(3)))
        coordinator.send_signal(signal.SIGINT)
        await coordinator.communicate()
        assert coordinator.returncode == 130
        assert fleet.worker_pids == []
        ended = await fleet.batch(items)
        assert ended.code == 0, ended.stderr
        assert judge(fleet, 3, 3, interrupted=6) == []


async def test_a_running_item_is_cancelled_now_and_continues_in_the_same_attempt(
    tmp_path: Path,
) -> None:
    turns = [steps(2)[0], Turn(pause(30), *steps(2)[1].steps), steps(2)[2]]
    async with open_fleet(tmp_path, turns) as fleet:
        items = fleet.write_plain_items(1)
        coordinator = await fleet.start("batch", "run", str(items), "-o", str(fleet.out), "-y")
        await fleet.until(lambda: len(fleet.server.requests) == 2)
        assert (await fleet.run("batch", "cancel", str(fleet.out), "--now")).code == 0
        await coordinator.communicate()
        assert coordinator.returncode == 1
        assert [(line["status"], line["attempt"]) for line in fleet.lines] == [("cancelled", 1)]
        assert fleet.effects("item-0") == ["step1"]


async def test_a_newer_schema_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_plain_items(1)
        await fleet.batch(items, "--no-wait")
        with closing(sqlite3.connect(fleet.out / "batch.sqlite")) as connection, connection:
            connection.execute('update "joey.schema" set version = 99')
        for ended in (
            await fleet.batch(items),
            await fleet.run("worker", "--store", str(fleet.out), "--until-empty"),
        ):
            assert ended.code == 1
            assert "written by a newer joey (schema 99" in ended.stderr
            assert "Traceback" not in ended.stderr


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


async def test_a_pickled_order_is_never_loaded(tmp_path: Path) -> None:
    import base64

    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_plain_items(2)
        await fleet.batch(items, "--no-wait")
        planted = tmp_path / "planted"
        data = base64.b64encode(pickle.dumps(Planted(str(planted)))).decode()
        with closing(sqlite3.connect(fleet.out / "batch.sqlite")) as connection, connection:
            changed = connection.execute(
                "update workflow_status set inputs = ?, serialization = 'py_pickle'"
                " where workflow_uuid like '%item-0%'",
                (data,),
            ).rowcount
            assert changed == 1
        worker = await fleet.start("worker", "--store", str(fleet.out), "--may", "all")
        await fleet.until(lambda: fleet.statuses["item-1"] == "done")
        worker.terminate()
        await worker.communicate()
        assert not planted.exists()


@pytest.mark.parametrize("arguments", [["--version"], ["doctor", "--offline"], ["tasks", "list"]])
def test_other_commands_do_not_load_the_queue(arguments: list[str]) -> None:
    code = (
        "import sys; from joey.cli.main import main; main(sys.argv[1:]);"
        " sys.exit('dbos' in sys.modules or 'sqlalchemy' in sys.modules)"
    )
    try:
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        assert error.returncode == 0, error.stderr


def test_without_the_extra_batch_says_what_to_install(tmp_path: Path) -> None:
    """A copy of the interpreter's packages without DBOS."""
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('dbos', 'sqlalchemy'):\n"
        "            return None\n"
        "        return real(name, path, target)\n"
        "from importlib.machinery import PathFinder\n"
        "real = PathFinder.find_spec\n"
        "sys.meta_path[:] = [each for each in sys.meta_path if each is not PathFinder]\n"
        "sys.meta_path.append(Hidden())\n"
    )
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    for arguments in (["batch", "status", "out"], ["worker", "--store", "out"]):
        ended = subprocess.run(
            [sys.executable, "-m", "joey", *arguments],
            check=False, capture_output=True, text=True, env=env,
        )  # fmt: skip
        assert ended.returncode == 78
        assert "pip install 'joey[fleet]'" in " ".join(ended.stderr.split())


async def test_the_judge_sees_planted_faults(tmp_path: Path) -> None:
    """A lost row, a double run, a double result, an error counted as done, a wrong cost, a record
    of a stale writer."""
    async with open_fleet(tmp_path, steps(1)) as fleet:
        assert (await fleet.batch(fleet.write_plain_items(2))).code == 0
        assert judge(fleet, 2, 1, interrupted=0) == []
        results = fleet.out / "results.jsonl"
        intact = results.read_text()
        effects = next(fleet.out.glob("work/*item-0-1/effects.log"))
        first, second = intact.splitlines(keepends=True)
        results.write_text(first)
        assert judge(fleet, 2, 1, interrupted=0)
        results.write_text(intact + first)
        assert judge(fleet, 2, 1, interrupted=0)
        changed = json.loads(second) | {"status": "error"}
        results.write_text(first + json.dumps(changed) + "\n")
        assert judge(fleet, 2, 1, interrupted=0)
        changed = json.loads(second) | {"cost": 1.0}
        results.write_text(first + json.dumps(changed) + "\n")
        assert judge(fleet, 2, 1, interrupted=0)
        results.write_text(intact)
        shutil.copy(effects, tmp_path / "kept")
        effects.write_text("step1\nstep1\n")
        assert judge(fleet, 2, 1, interrupted=0)
        shutil.copy(tmp_path / "kept", effects)
        journal = next(fleet.out.glob("home/tasks/*item-0-1/journal.jsonl"))
        records = journal.read_text()
        journal.write_text(records + records.splitlines(keepends=True)[-2])
        assert judge(fleet, 2, 1, interrupted=0)
        journal.write_text(records)
        assert judge(fleet, 2, 1, interrupted=0) == []
        with closing(sqlite3.connect(fleet.out / "batch.sqlite")) as connection, connection:
            connection.execute("delete from \"joey.item\" where id = 'item-0'")
        assert judge(fleet, 2, 1, interrupted=0)


async def test_the_judge_sees_a_budget_that_is_ignored(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(3)) as fleet:
        items, budget = fleet.write_plain_items(4), 0.004
        await fleet.batch(items, "--no-wait", "--total-budget-usd", str(budget), "--width", "1")
        fleet.change(
            'create trigger planted after update of spent on "joey.batch" when new.spent > 0'
            ' begin update "joey.batch" set spent = 0; end'
        )
        worker = ("worker", "--store", str(fleet.out), "--until-empty", "--may", "all")
        assert (await fleet.run(*worker)).code == 0
        assert judge_budget(fleet, budget, at_once=1)
