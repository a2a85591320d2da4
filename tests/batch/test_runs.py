"""`joey batch run` and its neighbours, as a user sees them; no service but the model."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from joey.batch.items import Item, WorkspaceKind
from joey.batch.orders import Ceiling, Order, narrow_settings
from joey.core.settings import Settings
from joey.errors import ConfigError
from joey.testing.script import Fail, Turn, call, usage
from joey.testing.server import Request
from tests.harness.batch.fleet import (
    PRICE_PER_REPLY,
    SQLITE_CLOCK,
    judge,
    judge_budget,
    open_fleet,
    steps,
)
from tests.harness.paths import ROOT


def fail_first(count: int, status: int = 500) -> list[object]:
    """A model that refuses the first requests of all, then works."""
    seen = [0]

    def first(request: Request) -> Turn:
        seen[0] += 1
        if seen[0] <= count:
            return Turn(Fail(status, "The service is down."))
        return steps(1)[0]

    return [first, *steps(1)[1:]]


def make_repository(directory: Path) -> Path:
    directory.mkdir()
    (directory / "kept.txt").write_text("kept\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(directory)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
        subprocess.run([*git, *arguments], check=True)
    return directory


@pytest.mark.smoke
async def test_the_same_command_again_does_nothing(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(2)) as fleet:
        items = fleet.write_plain_items(3)
        first = await fleet.batch(items)
        assert first.code == 0, first.stderr
        assert "item-0  done" in first.stdout
        assert judge(fleet, 3, 2, interrupted=0) == []
        before, requests = fleet.lines, len(fleet.server.requests)
        again = await fleet.batch(items)
        assert (again.code, fleet.lines, len(fleet.server.requests)) == (0, before, requests)
        assert "nothing to do" in again.stderr


async def test_the_example_list_runs_without_any_service(tmp_path: Path) -> None:
    programs = {"command": "echo 'print(2)' > hello.py; cp hello.py primes.py"}
    turns = [Turn(call("execute_command", programs), usage(input=1, output=1)), *steps(0)]
    async with open_fleet(tmp_path, turns) as fleet:
        ended = await fleet.batch(ROOT / "examples" / "batch" / "items.jsonl")
        assert ended.code == 0, ended.stderr
        for item in ("greeting", "primes", "notes"):
            assert f"{item}: done" in ended.stderr, "progress"
            assert re.search(rf"^{item} +done", ended.stdout, re.M), "the table"
        requests = len(fleet.server.requests)
        again = await fleet.batch(ROOT / "examples" / "batch" / "items.jsonl")
        assert (again.code, len(fleet.server.requests)) == (0, requests)
        assert "nothing to do" in again.stderr


async def test_a_refused_list_starts_nothing(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_items([{"id": "a", "prompt": "p"}, {"id": "a", "prompt": "q"}])
        ended = await fleet.batch(items)
        assert ended.code == 2
        assert "two items have the id 'a'" in ended.stderr
        assert not fleet.out.exists()


async def test_a_filter_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        ended = await fleet.batch(fleet.write_plain_items(2), "--filter", "^itme")
        assert ended.code == 2
        assert "--filter '^itme' matches the id of no item" in ended.stderr
        assert not fleet.out.exists()


async def test_a_result_line_has_what_programs_rely_on(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_items([{"id": "a.1", "prompt": "p", "check": "cat effects.log"}])
        assert (await fleet.batch(items)).code == 0
        (line,) = fleet.lines
        assert list(line) == [
            *("item", "attempt", "status", "code", "result", "taskId", "host", "started"),
            *("ended", "turns", "requests", "tokens", "cost", "patch", "check", "resumed"),
            "refused",
        ]
        assert line["item"] == "a.1"
        assert (line["status"], line["result"]) == ("done", "finished")
        assert line["tokens"] == {"in": 2000, "out": 20, "cacheReads": 0, "cacheWrites": 0}
        assert line["cost"] == pytest.approx(2 * PRICE_PER_REPLY)
        assert (line["turns"], line["requests"], line["resumed"]) == (2, 2, 0)
        assert line["check"]["exit"] == 0
        assert (fleet.out / "checks" / "a.1.txt").read_text() == "step1\n"
        patch = (fleet.out / line["patch"]["file"]).read_text()
        assert "+step1" in patch
        assert (line["patch"]["files"], line["patch"]["added"]) == (1, 1)
        status = json.loads((await fleet.run("batch", "status", str(fleet.out), "--json")).stdout)
        assert status == {
            "items": 1,
            "done": 1,
            "failed": 0,
            "limit": 0,
            "error": 0,
            "cancelled": 0,
            "budget": 0,
            "running": 0,
            "waiting": 0,
            "cost": line["cost"],
            "workers": [],
            "missing": [],
            "changed": [],
        }


async def test_the_journals_of_a_batch_are_in_its_directory_and_its_settings_are_not(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        assert (await fleet.batch(fleet.write_plain_items(1))).code == 0
        journals = list((fleet.out / "home" / "tasks").glob("*batch-*-item-0-1/journal.jsonl"))
        assert len(journals) == 1
        assert not (fleet.out / "home" / "settings.json").exists()
        assert not (fleet.home / "tasks").exists()


@pytest.mark.parametrize("kind", ["clone", "worktree", "copy", "dir"])
async def test_each_kind_of_workspace_gives_a_patch_against_its_start(
    tmp_path: Path, kind: str
) -> None:
    repo = make_repository(tmp_path / "repo")
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_items([{"id": "a", "prompt": "p", "repo": str(repo)}])
        setup = "test $JOEY_ITEM.$JOEY_ATTEMPT = a.1 && echo made > by-setup.txt"
        ended = await fleet.batch(items, "--workspace", kind, "--setup", setup)
        assert ended.code == 0, ended.stderr
        patch = (fleet.out / "patches" / "a.patch").read_text()
        assert "+step1" in patch
        assert "kept" not in patch
        assert "by-setup" not in patch
        assert (repo / "effects.log").exists() == (kind == "dir")


@pytest.mark.parametrize("kind", ["copy", "dir"])
async def test_an_output_directory_in_the_workspace_is_no_part_of_it(
    tmp_path: Path, kind: str
) -> None:
    repo = make_repository(tmp_path / "repo")
    async with open_fleet(repo, steps(1)) as fleet:
        items = fleet.write_plain_items(1)
        ended = await fleet.batch(items, "--repo", str(repo), "--workspace", kind)
        assert ended.code == 0, ended.stderr
        assert fleet.lines[0]["patch"]["files"] == 1
        assert not list(fleet.out.glob("work/*/out"))


async def test_commands_of_an_item_know_which_it_is(tmp_path: Path) -> None:
    command = call("execute_command", {"command": "echo $JOEY_ITEM/$JOEY_ATTEMPT > effects.log"})
    turns = [Turn(command, usage(input=1, output=1)), *steps(0)]
    async with open_fleet(tmp_path, turns) as fleet:
        assert (await fleet.batch(fleet.write_plain_items(1))).code == 0
        assert fleet.effects("item-0") == ["item-0/1"]


async def test_a_failed_check_fails_the_item_and_is_not_tried_again(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_plain_items(1)
        ended = await fleet.batch(items, "--check", "echo broken; false")
        assert ended.code == 1
        assert [(line["status"], line["code"]) for line in fleet.lines] == [("failed", "check")]
        assert (fleet.out / "checks" / "item-0.txt").read_text() == "broken\n"
        assert (await fleet.batch(items, "--check", "echo broken; false")).code == 1
        assert len(fleet.lines) == 1


async def test_a_limit_of_an_item_is_a_result(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(3)) as fleet:
        short: dict[str, Any] = {"id": "short", "prompt": "p", "limits": {"maxTurns": 1}}
        items = fleet.write_items([short, {"id": "long", "prompt": "p"}])
        assert (await fleet.batch(items)).code == 1
        assert fleet.statuses == {"short": "limit", "long": "done"}
        assert (await fleet.batch(items)).code == 1
        assert len(fleet.lines) == 2


async def test_retry_continues_an_item_after_its_limit_in_the_same_attempt(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(3)) as fleet:
        items = fleet.write_plain_items(1)
        for turns, code in (("1", 1), ("1", 1), ("9", 0)):
            assert (await fleet.batch(items, "--max-turns", turns)).code == code
            await fleet.run("batch", "retry", str(fleet.out), "--status", "limit")
        assert [(line["status"], line["attempt"], line["turns"]) for line in fleet.lines] == [
            *(("limit", 1, 1), ("limit", 1, 2), ("done", 1, 4))
        ]
        assert fleet.effects("item-0") == ["step1", "step2", "step3"]
        assert len(fleet.server.requests) == 4
        assert fleet.lines[-1]["cost"] == pytest.approx(4 * PRICE_PER_REPLY)


async def test_retry_of_a_failed_item_is_another_attempt(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_plain_items(1)
        check = "test $JOEY_ATTEMPT = 2"
        assert (await fleet.batch(items, "--check", check)).code == 1
        await fleet.run("batch", "retry", str(fleet.out), "--status", "failed")
        assert (await fleet.batch(items, "--check", check)).code == 0
        assert [(line["status"], line["attempt"]) for line in fleet.lines] == [
            ("failed", 1),
            ("done", 2),
        ]


async def test_what_nobody_could_allow_is_listed_and_fails_the_item(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_plain_items(1)
        ended = await fleet.run("batch", "run", str(items), "-o", str(fleet.out))
        assert ended.code == 1
        (line,) = fleet.lines
        assert (line["status"], line["code"]) == ("failed", "needs_person")
        assert line["refused"] == [
            {"tool": "execute_command", "argument": "echo step1 >> effects.log"}
        ]


async def test_an_error_is_the_next_attempt_and_both_lines_are_kept(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, fail_first(1, status=401)) as fleet:
        assert (await fleet.batch(fleet.write_plain_items(1))).code == 0
        assert [(line["attempt"], line["status"]) for line in fleet.lines] == [
            (1, "error"),
            (2, "done"),
        ]
        assert fleet.effects("item-0", attempt=2) == ["step1"]


async def test_openhands_771_an_error_is_not_done_and_the_next_run_retries_it(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, fail_first(1, status=401)) as fleet:
        items = fleet.write_plain_items(2)
        ended = await fleet.batch(items, "--attempts", "1", "--at-once", "1")
        assert ended.code == 75
        assert sorted(fleet.statuses.values()) == ["done", "error"]
        assert (await fleet.batch(items, "--attempts", "1")).code == 0
        assert set(fleet.statuses.values()) == {"done"}
        assert len(fleet.lines) == 3


async def test_openhands_479_an_item_without_output_is_counted_and_retried(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        rows = [
            {"id": "good", "prompt": "p"},
            {"id": "bad", "prompt": "p", "repo": str(tmp_path / "none")},
        ]
        items = fleet.write_items(rows)
        assert (await fleet.batch(items, "--attempts", "1")).code == 75
        assert fleet.statuses == {"good": "done", "bad": "error"}
        assert "git failed" in next(x["result"] for x in fleet.lines if x["item"] == "bad")
        make_repository(tmp_path / "none")
        assert (await fleet.batch(items)).code == 0
        assert fleet.statuses == {"good": "done", "bad": "done"}


async def test_openhands_103_a_larger_list_runs_what_is_new(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        assert (await fleet.batch(fleet.write_plain_items(2))).code == 0
        assert (await fleet.batch(fleet.write_plain_items(5))).code == 0
        assert judge(fleet, 5, 1, interrupted=0) == []


async def test_a_list_that_shrank_or_changed_is_reported_and_kept(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        assert (await fleet.batch(fleet.write_plain_items(3))).code == 0
        rows = [{"id": "item-0", "prompt": "please do item-0."}, {"id": "item-1", "prompt": "new"}]
        items = fleet.write_items(rows)
        ended = await fleet.batch(items)
        assert "no longer in the list" in ended.stderr
        assert len(fleet.lines) == 3
        status = json.loads((await fleet.run("batch", "status", str(fleet.out), "--json")).stdout)
        assert (status["missing"], status["changed"]) == (["item-2"], ["item-1"])
        assert status["items"] == 3
        await fleet.run("batch", "retry", str(fleet.out), "item-1", "--anew")
        assert (await fleet.batch(items)).code == 0
        assert [(line["item"], line["attempt"]) for line in fleet.lines[3:]] == [("item-1", 2)]
        assert "new" in json.dumps(fleet.server.requests[-1].body)


async def test_the_total_budget_stops_everything_and_raising_it_goes_on(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(3)) as fleet:
        items = fleet.write_plain_items(6)
        budget = PRICE_PER_REPLY * 9.5
        ended = await fleet.batch(items, "--total-budget-usd", f"{budget:.6f}", "--width", "2")
        assert ended.code == 55
        assert judge_budget(fleet, budget, at_once=2) == []
        assert set(fleet.statuses.values()) == {"done", "budget"}
        assert len({line["item"] for line in fleet.lines}) == len(fleet.lines) == 6
        again = await fleet.batch(items, "--total-budget-usd", f"{budget:.6f}")
        assert again.code == 55
        assert len(fleet.lines) == 6
        raised = await fleet.batch(items, "--total-budget-usd", "10")
        assert raised.code == 0, raised.stderr
        assert judge(fleet, 6, 3, interrupted=0) == []
        assert {line["attempt"] for line in fleet.lines} == {1}


async def test_after_a_429_no_worker_asks_before_its_time_and_no_attempt_is_used(
    tmp_path: Path,
) -> None:
    early: list[Request] = []
    left = f'select until - {SQLITE_CLOCK} from "joey.throttle"'

    def first(request: Request) -> Turn:
        waits = fleet.query(left)
        if not waits or waits[0][0] > 0:
            early.append(request)
            return Turn(Fail(429, "Slow down.", retry_after=3600))
        return steps(1)[0]

    async with open_fleet(tmp_path, [first, *steps(1)[1:]]) as fleet:
        await fleet.batch(fleet.write_plain_items(2), "--no-wait", "--width", "1")
        worker = ("worker", "--store", str(fleet.out), "--until-empty", "--may", "all")
        processes = [await fleet.start(*worker)]
        await fleet.until(lambda: any(wait[0] > 3000 for wait in fleet.query(left)))
        processes.append(await fleet.start(*worker))
        await fleet.until(lambda: list(fleet.statuses.values()).count("running") == 2)
        await fleet.until(lambda: len(fleet.started_tasks) == 2)
        status = json.loads((await fleet.run("batch", "status", str(fleet.out), "--json")).stdout)
        assert status["running"] == 2
        assert len(early) == 1
        fleet.change(f'update "joey.throttle" set until = {SQLITE_CLOCK} + 1')
        for process in processes:
            await process.communicate()
        assert set(fleet.statuses.values()) == {"done"}
        assert len(early) == 1
        assert {line["attempt"] for line in fleet.lines} == {1}
        assert {line["requests"] for line in fleet.lines} == {2, 3}, "one was refused"


async def test_items_are_cancelled_retried_and_continued(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(2)) as fleet:
        items = fleet.write_plain_items(3)
        queued = await fleet.batch(items, "--no-wait")
        assert (queued.code, fleet.lines) == (0, [])
        await fleet.run("batch", "cancel", str(fleet.out), "item-1")
        assert fleet.statuses["item-1"] == "cancelled"
        worker = await fleet.run(
            "worker", "--store", str(fleet.out), "--until-empty", "--may", "all"
        )
        assert worker.code == 0, worker.stderr
        assert fleet.statuses == {"item-0": "done", "item-1": "cancelled", "item-2": "done"}
        ended = await fleet.batch(items)
        assert ended.code == 0, ended.stderr
        assert judge(fleet, 3, 2, interrupted=0) == []
        await fleet.run("batch", "retry", str(fleet.out), "--status", "done")
        assert (await fleet.batch(items)).code == 0
        assert sorted(line["attempt"] for line in fleet.lines if line["status"] == "done") == [
            *(1, 1, 1, 2, 2, 2)
        ]
        assert fleet.effects("item-0", 1) == fleet.effects("item-0", 2) == ["step1", "step2"]


async def test_results_are_shown_and_exported(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        await fleet.batch(fleet.write_plain_items(2))
        out = str(fleet.out)
        lines = (await fleet.run("batch", "results", out, "--format", "jsonl")).stdout.splitlines()
        assert sorted(map(json.loads, lines), key=lambda x: x["item"]) == sorted(
            fleet.lines, key=lambda x: x["item"]
        )
        table = (await fleet.run("batch", "results", out, "--status", "error")).stdout
        assert "item-0" not in table
        shown = (await fleet.run("batch", "show", out, "item-0")).stdout
        assert "please do item-0." in shown
        assert "+step1" in shown
        predictions = tmp_path / "preds.json"
        await fleet.run("batch", "export", out, "--as", "swebench", "-o", str(predictions))
        found = json.loads(predictions.read_text())
        patch = (fleet.out / "patches" / "item-0.patch").read_text()
        assert found["item-0"]["instance_id"] == "item-0"
        assert found["item-0"]["model_patch"] == patch
        assert found["item-0"]["model_name_or_path"]
        missing = await fleet.run("batch", "status", str(tmp_path))
        assert missing.code == 2


async def test_an_attempt_without_a_patch_is_not_given_that_of_the_one_before(
    tmp_path: Path,
) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items, out = fleet.write_plain_items(1), str(fleet.out)
        assert (await fleet.batch(items, "--check", "echo checked")).code == 0
        files = [fleet.out / "patches" / "item-0.patch", fleet.out / "checks" / "item-0.txt"]
        assert [file.exists() for file in files] == [True, True]
        await fleet.run("batch", "retry", out, "item-0", "--anew")
        assert (await fleet.batch(items, "--setup", "false", "--attempts", "1")).code == 75
        assert [file.exists() for file in files] == [False, False]
        shown = (await fleet.run("batch", "show", out, "item-0")).stdout
        assert "attempt 2 of 2" in shown
        assert "+step1" not in shown
        assert "checked" not in shown
        exported = await fleet.run("batch", "export", out, "--as", "swebench", "-o", "preds.json")
        assert exported.stdout == "1 item written to preds.json\n"
        predictions = json.loads((tmp_path / "preds.json").read_text())
        assert predictions["item-0"]["model_patch"] == ""
        exported = await fleet.run("batch", "export", out, "--as", "patches", "-o", "patches")
        assert exported.stdout == "0 items written to patches\n"
        assert list((tmp_path / "patches").iterdir()) == []


async def test_a_terminal_shows_a_bar_with_rate_cost_and_time_left(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        items = fleet.write_plain_items(3)
        command = ("batch", "run", str(items), "-o", str(fleet.out), "-y", "--width", "1")
        master, slave = os.openpty()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "joey", *command,
            env=fleet.env | {"TERM": "xterm", "COLUMNS": "100"}, cwd=tmp_path,
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        shown = await asyncio.to_thread(_read_terminal, master)
        assert await process.wait() == 0, shown
        for text in ("0/3", "running", "$0.0", "/min", "left", "/3 item-0: done", "item-2  done"):
            assert text in shown, shown


def _read_terminal(master: int) -> str:
    data = b""
    with suppress(OSError):  # the other end is closed
        while more := os.read(master, 65536):
            data += more
    os.close(master)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode(errors="replace"))


async def test_a_worker_grants_no_more_than_its_own_settings(tmp_path: Path) -> None:
    async with open_fleet(tmp_path, steps(1)) as fleet:
        await fleet.batch(fleet.write_plain_items(1), "--no-wait")
        worker = await fleet.run("worker", "--store", str(fleet.out), "--until-empty")
        assert worker.code == 0, worker.stderr
        (line,) = fleet.lines
        assert (line["status"], line["code"]) == ("failed", "needs_person")
        assert fleet.effects("item-0") == []


def test_an_order_opens_no_more_network_than_the_ceiling() -> None:
    some, everything = Settings(sandbox_network=("example.org",)), Settings(sandbox_network="all")
    assert narrow_settings(everything, some).sandbox_network == ("example.org",)
    assert narrow_settings(some, everything).sandbox_network == ("example.org",)
    assert narrow_settings(everything, Settings()).sandbox_network == "off"


def test_a_stricter_ceiling_holds_for_every_permission() -> None:
    most = Settings(sandbox="required", disabled_tools=("browser_action",), allowed_max_cost=1.0)
    wanted = Settings(
        always_allow_write_outside_workspace=True,
        always_allow_write_protected=True,
        always_allow_read_only_outside_workspace=True,
        mcp_enabled=True,
        allowed_max_cost=5.0,
    )
    narrowed = narrow_settings(wanted, most)
    assert narrowed.sandbox == "required"
    assert narrowed.disabled_tools == ("browser_action",)
    assert narrowed.allowed_max_cost == 1.0
    assert not narrowed.always_allow_write_outside_workspace
    assert not narrowed.always_allow_write_protected
    assert not narrowed.always_allow_read_only_outside_workspace


def test_a_worker_with_a_ceiling_does_not_open_its_own_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "tasks").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("JOEY_HOME", str(home))
    ceiling, order = Ceiling(Settings()), Order(workspace=WorkspaceKind.COPY)
    for directory in (home, home / "tasks", tmp_path):
        with pytest.raises(ConfigError, match="keys and start-up files"):
            ceiling.check_item(order, Item(id="a", prompt="p", repo=str(directory)))
    ceiling.check_item(order, Item(id="a", prompt="p", repo=str(tmp_path / "project")))
    ceiling.check_item(order, Item(id="a", prompt="p", repo="https://example.org/a.git"))


async def test_a_ref_is_no_option_of_git(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    ref = f'--upload-pack=sh -c "touch {planted}; git-upload-pack"'
    async with open_fleet(tmp_path, steps(1)) as fleet:
        repo = make_repository(tmp_path / "repo")
        items = fleet.write_items([{"id": "a", "prompt": "p", "repo": str(repo), "ref": ref}])
        run = await fleet.batch(items)
        assert run.code == 75, run.stderr
        assert not planted.exists()
        assert "is not a commit or branch" in str(fleet.lines[-1]["result"])
