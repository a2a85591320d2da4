"""`--output-dir`: files about a run for the programs that started it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach

DONE = Turn(call("attempt_completion", {"result": "Done."}))
FILES = {"result.json", "events.jsonl", "usage.json", "patch.diff", "journal.jsonl"}
MAKE_FILES = "printf 'new\\n' > new.txt; printf '\\0\\1' > data.bin; chmod +x run.sh; rm gone.txt"


def list_files(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def test_result_events_patch_journal_and_usage_are_written(
    joey: Joey, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    for directory in (joey.workspace, before):
        directory.mkdir(exist_ok=True)
        (directory / "old.txt").write_bytes(b"caf\xe9\r\none")
        (directory / "run.sh").write_text("true\n", encoding="utf-8")
        (directory / "gone.txt").write_text("bye\n", encoding="utf-8")
    edit = call("execute_command", {"command": f"printf 'two\\n' >> old.txt; {MAKE_FILES}"})
    out = tmp_path / "a" / "out"
    async with ModelServer([Turn(edit), DONE]) as server:
        done = await joey.run(
            *("-p", "-y", "--no-sandbox", "--output-dir", str(out), *reach(server.url), "do it")
        )
    assert (done.code, done.out) == (0, "Done.\n")
    assert list_files(out) == FILES
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    events = [json.loads(line) for line in (out / "events.jsonl").read_bytes().splitlines()]
    assert (result["content"], result["exitCode"]) == ("Done.", 0)
    assert (events[0]["subtype"], events[-1]) == ("init", result)
    task = joey.home / "tasks" / f"task_{result['taskId']}"
    journal = (task / "journal.jsonl").read_bytes()
    assert journal.startswith((out / "journal.jsonl").read_bytes())
    usage = json.loads((out / "usage.json").read_text(encoding="utf-8"))
    assert usage["totalTokensIn"] == result["cost"]["inputTokens"]
    git = await asyncio.create_subprocess_exec("git", "apply", out / "patch.diff", cwd=before)
    assert await git.wait() == 0
    for path in joey.workspace.iterdir():
        assert (before / path.name).read_bytes() == path.read_bytes()
        assert (before / path.name).stat().st_mode == path.stat().st_mode
    assert list_files(before) == list_files(joey.workspace)


async def test_the_patch_of_a_continued_task_is_that_of_its_last_run(
    joey: Joey, tmp_path: Path
) -> None:
    def write(name: str) -> Turn:
        return Turn(call("write_to_file", {"path": name, "content": "x\n"}))

    out = tmp_path / "out"
    async with ModelServer([write("one"), DONE, write("two"), DONE, DONE]) as server:
        flags = ("-p", "-y", "--no-sandbox", "--output-dir", str(out))
        assert (await joey.run(*flags, *reach(server.url), "one")).code == 0
        assert "+++ b/one" in (out / "patch.diff").read_text(encoding="utf-8")
        assert (await joey.run(*flags, "-c", "two")).code == 0
        second = (out / "patch.diff").read_text(encoding="utf-8")
        assert "+++ b/two" in second
        assert "+++ b/one" not in second
        assert (await joey.run(*flags, "-c", "nothing")).code == 0
    assert (out / "patch.diff").read_bytes() == b""


async def test_without_checkpoints_there_is_no_patch_and_stderr_says_why(
    joey: Joey, tmp_path: Path
) -> None:
    joey.settings(enableCheckpoints=False)
    async with ModelServer([DONE]) as server:
        done = await joey.run("-p", "--output-dir", str(tmp_path), *reach(server.url), "do it")
    assert done.code == 0
    assert "no patch was written: there are no checkpoints here (enableCheckpoints)" in done.err
    assert not (tmp_path / "patch.diff").exists()


async def test_a_run_that_cannot_begin_leaves_its_result(joey: Joey, tmp_path: Path) -> None:
    (tmp_path / "patch.diff").write_text("of an earlier run", encoding="utf-8")
    done = await joey.run("-p", "--output-dir", str(tmp_path), "--mode", "nonsense", "do it")
    assert done.code != 0
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert result["exitCode"] == done.code
    assert not (tmp_path / "patch.diff").exists()
    (tmp_path / "file").touch()
    done = await joey.run("-p", "--output-dir", str(tmp_path / "file"), "do it")
    assert done.code == 2
    assert "--output-dir" in done.err


async def test_an_empty_name_is_not_the_working_directory(joey: Joey) -> None:
    """As of a variable that is not set; an earlier patch there would be deleted."""
    patch = joey.workspace / "patch.diff"
    patch.write_text("mine", encoding="utf-8")
    done = await joey.run("-p", "--output-dir", "", *reach("http://127.0.0.1:9"), "do it")
    assert done.code == 2
    assert "--output-dir names no directory" in done.err
    assert patch.read_text(encoding="utf-8") == "mine"
