"""`joey permissions report`: what journals say was decided, and what other rules would decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from joey.config.rule_store import UserRuleStore
from joey.core.settings import Settings
from joey.core.task_types import Answer, Response, RuleScope
from joey.engine.asks import Unattended
from joey.execution.bash_grammar import BashGrammar
from joey.ports.tool_context import Capabilities
from joey.testing.script import Turn, call
from tests.harness.engine.engine_harness import EngineHarness, finish, wait_for_ask, wait_for_ending
from tests.harness.engine.scripted_subtasks import (
    ALLOW_ALL_WITH_SUBTASKS,
    ScriptedSubtasks,
    delegate,
)
from tests.harness.fork_server import run_process


def run_report(engine_harness: EngineHarness, *arguments: str) -> str:
    env = {"JOEY_HOME": str(engine_harness.home), "HOME": str(engine_harness.home)}
    done = run_process("permissions", "report", *arguments, env=env, cwd=engine_harness.root)
    assert done.returncode == 0, done.stderr
    return done.stdout


def load_report(engine_harness: EngineHarness, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_report(engine_harness, "--json", *arguments))
    return found


def command(line: str) -> Turn:
    return Turn(call("execute_command", {"command": line, "cwd": None}))


@pytest.fixture
async def worked(engine_harness: EngineHarness) -> EngineHarness:
    """A task in which something was allowed, refused, rejected, approved and always allowed."""
    engine_harness.home.mkdir()
    engine_harness.capabilities = Capabilities(
        shell_grammar=BashGrammar(),
        rule_store=UserRuleStore(engine_harness.home, engine_harness.root),
    )
    (engine_harness.root / "a.txt").write_text("x\n")
    (engine_harness.root / ".rooignore").write_text("secret\n")
    (engine_harness.root / "secret").write_text("x")
    task = await engine_harness.start(
        Turn(call("read_file", {"path": "a.txt"})),
        command("git push"),
        Turn(call("read_file", {"path": "secret"})),
        Turn(call("write_to_file", {"path": "b.txt", "content": "two\n"})),
        Turn(call("write_to_file", {"path": "c.txt", "content": "three\n"})),
        command("touch d.txt"),
        command("touch d.txt"),
        finish(),
        settings=Settings(denied_commands=("git push",)),
    )
    yes = Answer(Response.YES)
    for answer in (
        Answer(Response.NO),
        yes,
        Answer(Response.YES, always=True, scope=RuleScope.EVERYWHERE),
        yes,
    ):
        ask = await wait_for_ask(task)
        assert await task.answer(ask.ts, answer)
    await wait_for_ending(task)
    await engine_harness.engine.release(task)
    (engine_harness.home / "settings.json").unlink()
    return engine_harness


@pytest.mark.contract("permissions:report")
async def test_each_decision_is_reported_with_its_rule_or_who_made_it(
    worked: EngineHarness,
) -> None:
    (task,) = load_report(worked)["tasks"]
    found = [
        (call["tool"], call["about"], call["decision"], call["outcome"], call.get("rule"))
        for call in task["calls"]
    ]
    assert found == [
        ("read_file", "a.txt", "allow", "ran", "alwaysAllowReadOnly"),
        ("execute_command", "git push", "deny", "refused", "git push"),
        ("read_file", "secret", "deny", "refused", ".rooignore"),
        ("write_to_file", "b.txt", "ask", "rejected", None),
        ("write_to_file", "c.txt", "ask", "ran", None),
        ("execute_command", "touch d.txt", "ask", "ran", None),
        ("execute_command", "touch d.txt", "allow", "ran", "touch d.txt"),
    ]
    asked = [call for call in task["calls"] if call["decision"] == "ask"]
    assert {call["by"] for call in asked} == {"person"}
    assert "alwaysAllowWrite is off" in asked[0]["reason"]
    assert asked[2]["always"] == "touch d.txt"
    assert asked[2]["sandbox"] == task["calls"][6]["sandbox"] == "off"


@pytest.mark.contract("permissions:report")
async def test_people_read_it_as_a_table(worked: EngineHarness) -> None:
    text = run_report(worked)
    assert "by alwaysAllowReadOnly" in text
    assert "you said always `touch d.txt`: commands require confirmation" in text
    assert "refused   $ git push" in text
    assert text.splitlines()[-1] == "1 task: 4 ran, 2 refused, 1 rejected"


@pytest.mark.contract("permissions:report")
async def test_other_rules_show_what_they_would_decide_otherwise(worked: EngineHarness) -> None:
    compared = load_report(worked, "--no-sandbox", "--allow", "touch", "--deny", "touch e.txt")
    changes = [
        (one["call"]["about"], one["call"]["decision"], one["now"]["decision"], one["now"]["rule"])
        for one in compared["differences"]
    ]
    assert ("touch d.txt", "ask", "allow", "touch") in changes
    assert ("git push", "deny", "ask", None) in changes, "the settings of the run are gone"
    assert compared["judged"] == 7 and compared["different"] == len(changes)
    assert all(about != "a.txt" for about, *_ in changes)


@pytest.mark.contract("permissions:report")
async def test_with_everything_allowed_only_what_is_hidden_stays_refused(
    worked: EngineHarness,
) -> None:
    compared = load_report(worked, "--no-sandbox", "-y", "--deny", "git push")
    assert compared["changes"] == {"ask-allow": 3}
    text = run_report(worked, "--no-sandbox", "-y", "--deny", "git push")
    assert text.splitlines()[-1] == ("1 task, 7 calls: 3 would be decided differently, 4 as before")


@pytest.mark.contract("permissions:report")
async def test_the_report_changes_nothing(worked: EngineHarness) -> None:
    def everything() -> dict[str, tuple[int, bytes]]:
        roots = (worked.root, worked.home)
        files = (path for root in roots for path in root.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = everything()
    run_report(worked)
    run_report(worked, "--no-sandbox", "-y")
    assert everything() == before


async def test_one_task_or_the_latest_or_those_of_a_directory(
    worked: EngineHarness, tmp_path: Path
) -> None:
    other = await worked.start(finish(), policy=Unattended())
    await wait_for_ending(other)
    assert len(load_report(worked)["tasks"]) == 2
    assert [task["id"] for task in load_report(worked, "--last", "1")["tasks"]] == [other.id]
    assert [task["id"] for task in load_report(worked, "--task", other.id)["tasks"]] == [other.id]
    assert load_report(worked, "-w", str(tmp_path))["tasks"] == []


async def test_calls_in_a_directory_that_is_gone_are_counted_as_not_judged(
    worked: EngineHarness, tmp_path: Path
) -> None:
    worked.root.rename(tmp_path / "elsewhere")
    worked.root = tmp_path
    assert load_report(worked, "--no-sandbox", "-y")["notJudged"] == 7


@pytest.mark.contract("permissions:report")
async def test_the_completion_of_a_subtask_ran_and_ids_mean_one_task(
    engine_harness: EngineHarness,
) -> None:
    engine_harness.home.mkdir()
    parts = {
        "the whole": [Turn(delegate("part 1"), delegate("part 2")), finish("whole")],
        "part 1": [command("true"), finish("1")],
        "part 2": [command("true"), finish("2")],
    }
    engine_harness.provider = ScriptedSubtasks(parts)
    task = await engine_harness.start(
        text="the whole", settings=ALLOW_ALL_WITH_SUBTASKS, policy=Unattended()
    )
    await wait_for_ending(task)
    tasks = load_report(engine_harness)["tasks"]
    completions = [
        (call["outcome"], call["rule"])
        for each in tasks
        for call in each["calls"]
        if call["tool"] == "attempt_completion"
    ]
    assert completions == [("ran", "alwaysAllowSubtasks")] * 2
    shown = {
        line.split()[0] for line in run_report(engine_harness, "--deny", "true").splitlines()[:-1]
    }
    ids = [each["id"] for each in tasks]
    assert shown
    for short in shown:
        assert sum(each.startswith(short) for each in ids) == 1, short
