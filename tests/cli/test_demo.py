from __future__ import annotations

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from joey.cli.commands.demo import DEMO_PROMPT, RESULT_TEXT, SERVER_JS
from tests.harness.cli.binary import Joey
from tests.harness.paths import ROOT


@pytest.mark.contract("cli:demo")
@pytest.mark.parametrize("wire", ["anthropic", "openai"])
@pytest.mark.parametrize("protocol", ["native", "xml"])
async def test_the_demonstration_does_real_work_in_either_protocol_on_either_wire(
    joey: Joey, tmp_path: Path, protocol: str, wire: str
) -> None:
    kept = tmp_path / "kept"
    flags = ("--protocol", protocol, "--wire", wire, "--keep", str(kept))
    done = await joey.run("demo", "--fast", *flags)
    assert done.code == 0, done.err
    assert done.err == ""
    assert f"› {DEMO_PROMPT}" in done.out
    assert done.out.count("› y (demo)") == 3
    assert "│ added 64 packages" in done.out
    assert (kept / "project/src/server.js").read_text(encoding="utf-8").strip() == SERVER_JS
    package = json.loads((kept / "project/package.json").read_text(encoding="utf-8"))
    assert "express" in package["dependencies"]
    (directory,) = (kept / "joey-home/tasks").iterdir()
    ui = json.loads((directory / "ui_messages.json").read_text(encoding="utf-8"))
    api = json.loads((directory / "api_conversation_history.json").read_text(encoding="utf-8"))
    assert str(directory / "ui_messages.json") in done.out
    assert str(directory / "api_conversation_history.json") in done.out
    assert [message["role"] for message in api] == ["user", "assistant"] * 4
    assert any(row.get("say") == "completion_result" and row["text"] == RESULT_TEXT for row in ui)
    assert not (joey.home).exists()


async def test_the_pace_of_a_user_changes_nothing(joey: Joey, tmp_path: Path) -> None:
    env = {**joey.env, "TMPDIR": str(tmp_path)}
    done = await joey.run("demo", env=env)
    assert done.code == 0
    assert "joey tasks show" in done.out
    (where,) = re.findall(r"The workspace: +(.+)", done.out)
    assert (Path(where) / "src/server.js").exists()


async def test_what_is_already_there_is_not_touched(joey: Joey) -> None:
    (joey.workspace / "mine.txt").write_text("mine", encoding="utf-8")
    done = await joey.run("demo", "--keep", str(joey.workspace))
    assert done.code == 2
    assert "not empty" in done.err
    assert [path.name for path in joey.workspace.iterdir()] == ["mine.txt"]


async def test_the_sample_in_the_readme_is_what_the_demonstration_prints(
    joey: Joey, tmp_path: Path
) -> None:
    done = await joey.run("demo", "--fast", "--keep", str(tmp_path / "kept"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sample = readme.partition("```text\n")[2].partition("```")[0].splitlines()
    printed = iter(done.out.splitlines())
    for line in filter(None, sample):
        shortened = line.endswith("…")
        start = line.removesuffix("…").rstrip()
        assert any(seen.startswith(start) if shortened else seen == line for seen in printed), (
            f"not printed, or not in this order: {line}"
        )


async def test_the_command_to_look_again_starts_the_same_joey(joey: Joey, tmp_path: Path) -> None:
    done = await joey.run("demo", "--fast", "--keep", str(tmp_path / "kept"))
    (command,) = re.findall(r"To show it again: +(.+)", done.out)
    assert f" {sys.executable} -m joey tasks show " in command
    process = await asyncio.create_subprocess_shell(command, env=joey.env, stdout=PIPE)
    shown, _ = await process.communicate()
    assert process.returncode == 0
    assert DEMO_PROMPT in shown.decode()
