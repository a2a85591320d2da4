"""The programs and files of `examples/` work as they are. `tests/server` runs the one in
TypeScript, `tests/batch` those about batches."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import yaml

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import LIMIT, Finished, Joey
from tests.harness.cli.playing import GIT, play
from tests.harness.paths import EXAMPLES

DONE = Turn(call("attempt_completion", {"result": "Done."}))


async def execute(joey: Joey, url: str, *command: str | Path) -> Finished:
    """A program with a model, and with the commands of this environment on its path."""
    programs = Path(sys.executable).parent
    env = {
        **joey.env,
        "PATH": f"{programs}:{joey.env['PATH']}",
        "RUNNER_TEMP": str(joey.home.parent),
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": url,
    }
    async with asyncio.timeout(LIMIT):
        process = await asyncio.create_subprocess_exec(
            *command, cwd=joey.workspace, env=env, stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


async def test_a_python_program_lets_joey_fix_tests(joey: Joey) -> None:
    edit = Turn(call("write_to_file", {"path": "a.py", "content": "x = 1\n"}))
    async with ModelServer([edit, DONE]) as server:
        done = await execute(joey, server.url, sys.executable, EXAMPLES / "python" / "fix_tests.py")
    assert (done.code, done.out.splitlines()[0]) == (0, "Done."), done
    assert "… write_to_file" in done.err
    assert (joey.workspace / "a.py").exists()


async def test_the_hook_keeps_generated_files(joey: Joey) -> None:
    joey.settings(
        hooks=[{"event": "beforeTool", "command": str(EXAMPLES / "hooks" / "keep_generated.py")}]
    )
    played = await play(
        joey,
        Turn(call("write_to_file", {"path": "generated/a.py", "content": "x\n"})),
        Turn(call("write_to_file", {"path": "a.py", "content": "x\n"})),
        DONE,
    )
    assert "generated/a.py is generated" in played.results(1)[0]
    assert not (joey.workspace / "generated").exists()
    assert (joey.workspace / "a.py").exists()


async def test_the_tool_queries_a_database_and_cannot_change_it(joey: Joey) -> None:
    (joey.home / "tools").mkdir(parents=True)
    shutil.copy(EXAMPLES / "tools" / "query_sqlite.py", joey.home / "tools")
    with sqlite3.connect(joey.workspace / "shop.db") as database:
        database.execute("create table prices (name, cents)")
        database.execute("insert into prices values ('tea', 250)")
    database.close()
    played = await play(
        joey,
        Turn(call("query_sqlite", {"database": "shop.db", "query": "select * from prices"})),
        Turn(call("query_sqlite", {"database": "shop.db", "query": "drop table prices"})),
        DONE,
    )
    assert '[{"name": "tea", "cents": 250}]' in played.results(1)[0]
    assert "readonly database" in played.results(2)[0]


async def test_the_modes_are_listed_without_a_warning(joey: Joey) -> None:
    shutil.copy(EXAMPLES / "modes" / "roomodes.yaml", joey.workspace / ".roomodes")
    listed = await joey.run("modes", "list", "--json")
    assert (listed.code, listed.err) == (0, "")
    assert {"reviewer", "docs-writer"} <= {mode["slug"] for mode in listed.json}


async def test_a_review_in_ci_annotates_and_fails_for_an_error(joey: Joey) -> None:
    program = "git init -q -b main && git add -A"
    commit = f"{GIT} commit -qm change"
    change = "git checkout -q -b work && echo two >> a.txt && git add -A"
    (joey.workspace / "a.txt").write_text("one\n", encoding="utf-8")
    for line in (program, commit, change, commit):
        subprocess.run(line, shell=True, cwd=joey.workspace, check=True)  # noqa: ASYNC221
    review = EXAMPLES / "ci" / "review.sh"
    finding = {"file": "a.txt", "line": 2, "severity": "error", "comment": "wrong\nand 100%"}
    for findings, code in (([finding], 1), ([], 0)):
        reply = Turn(call("attempt_completion", {"result": json.dumps({"findings": findings})}))
        async with ModelServer([reply]) as server:
            done = await execute(joey, server.url, review, "main")
        assert done.code == code, done
        expected = "::error file=a.txt,line=2::wrong%0Aand 100%25\n" if findings else ""
        assert done.out == expected
        assert "+two" in json.dumps(server.requests[0].body["messages"])


def test_the_workflow_runs_the_script() -> None:
    workflow = yaml.safe_load((EXAMPLES / "ci" / "review.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["joey"]["steps"]
    assert any("review.sh" in step.get("run", "") for step in steps)
