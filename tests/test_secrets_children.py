"""Whatever process is started, it gets neither keys nor tokens: not by its environment, not by
its arguments."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from joey.app.mcp_pool import build_hub_config
from joey.content.browser import Chromium, find_chromium
from joey.ports.content import BrowserStep
from joey.testing.script import Turn, call
from joey.testing.server import ModelServer
from joey.workspace.ripgrep import build_environment
from tests.harness.canary import KEY, OTHER_KEY, SERVERS_SECRET, files_under, traces
from tests.harness.cli.binary import Joey, reach
from tests.harness.server.server_fixture import TOKEN

PLANTED = {
    "ANTHROPIC_API_KEY": KEY,
    "OPENAI_API_KEY": OTHER_KEY,
    "JOEY_TOKEN": TOKEN,
    "https_proxy": f"http://me:{OTHER_KEY}@proxy.test:1",
    "XDG_SOME_TOKEN": OTHER_KEY,
}
SECRETS = (KEY, OTHER_KEY, TOKEN)
SERVER = """
import os, sys
record, secret = sys.argv[1], os.environ["SERVER_SECRET"]
with open(f"{record}/mcp", "w") as file:
    file.write(repr({**os.environ, "SERVER_SECRET": ""}) + repr(sys.argv))
print(f"cannot log in with {secret}", file=sys.stderr)
sys.exit(3)
"""
TOOL = '''"""Says hello."""
import os
def run(record: str) -> str:
    with open(f"{record}/custom", "w") as file:
        file.write(repr(dict(os.environ)) + repr(open("/proc/self/cmdline").read()))
    return "hello"
'''


@pytest.fixture
def joey(tmp_path: Path) -> Joey:
    place = Joey(home=tmp_path / "joey-home", workspace=tmp_path / "work")
    place.workspace.mkdir()
    place.home.mkdir()
    return place


def spying(directory: Path, record: Path, **programs: str) -> None:
    """Programs that note what they were given, and then are what they are called."""
    directory.mkdir()
    for name, real in programs.items():
        script = directory / name
        noted = f"cat /proc/$$/environ /proc/$$/cmdline >> '{record}/{name}'"
        script.write_text(f"#!/bin/sh\n{noted}\nexec '{real}' \"$@\"\n")
        script.chmod(0o755)


@pytest.mark.contract("secrets:children")
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_no_process_of_a_task_is_given_a_key(joey: Joey, tmp_path: Path) -> None:
    record, programs = tmp_path / "record", tmp_path / "programs"
    record.mkdir()
    git, checker = shutil.which("git"), shutil.which("true")
    assert git and checker
    spying(programs, record, git=git, checker=checker)
    (tmp_path / "server.py").write_text(SERVER)
    (joey.home / "tools").mkdir()
    (joey.home / "tools" / "hello.py").write_text(TOOL)
    server = {
        "command": sys.executable,
        "args": [str(tmp_path / "server.py"), str(record)],
        "env": {"SERVER_SECRET": SERVERS_SECRET},
    }
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": {"sad": server}}))
    note = f"cat /proc/$$/environ /proc/$$/cmdline >> {record}/"
    moments = ("beforeTool", "afterTool", "onCompletion")
    joey.settings(
        hooks=[{"event": moment, "command": f"{note}hook"} for moment in moments],
        diagnosticCheckers={"*.txt": f"{programs}/checker {{file}}"},
        sandboxWritable=[str(record)],
    )
    steps = (
        ("write_to_file", {"path": "a.txt", "content": "hello\n"}),
        ("search_files", {"path": ".", "regex": "hello"}),
        ("execute_command", {"command": f"{note}command; true"}),
        ("execute_command", {"command": f"cat /proc/1/environ >> {record}/init; git status"}),
        ("hello", {"record": str(record)}),
        ("use_mcp_tool", {"server_name": "sad", "tool_name": "any", "arguments": {}}),
        ("attempt_completion", {"result": "done"}),
    )
    env = joey.env | PLANTED | {"PATH": f"{programs}:{os.environ['PATH']}"}
    async with ModelServer([Turn(call(name, given)) for name, given in steps]) as model:
        form = ("--output-format", "stream-json", "--debug")
        ran = await joey.run("-p", "-y", *form, *reach(model.url), "go", env=env)
    assert ran.code == 0, ran.err
    assert {path.name for path in record.iterdir()} >= {
        *("git", "checker", "hook", "command", "custom", "mcp")
    }
    assert traces((*SECRETS, SERVERS_SECRET), files_under(record)) == []
    said = {"out": ran.out.encode(), "err": ran.err.encode()}
    said |= files_under(joey.home, joey.workspace, except_for={joey.home / "mcp.json"})
    assert traces((*SECRETS, SERVERS_SECRET), said) == []


@pytest.mark.contract("secrets:children")
async def test_neither_the_browser_nor_what_steers_it_is_given_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = find_chromium(os.environ)
    if executable is None:
        pytest.skip("there is no Chromium here")
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    browser = Chromium(executable)
    before = set(psutil.Process().children(recursive=True))
    try:
        await browser.perform(BrowserStep("launch", url="about:blank"))
        started = set(psutil.Process().children(recursive=True)) - before
        seen: dict[str, bytes] = {}
        for process in started:
            with suppress(psutil.NoSuchProcess):  # some of a browser's live for a moment only
                name = f"{process.name()} {process.pid}"
                seen[name] = repr((process.environ(), process.cmdline())).encode()
    finally:
        await browser.close()
    assert any("node" in name for name in seen), seen.keys()
    assert len(seen) > 2
    assert traces(SECRETS, seen) == []


@pytest.mark.contract("secrets:children")
async def test_looking_whether_all_is_there_gives_no_key_away(joey: Joey, tmp_path: Path) -> None:
    record, programs = tmp_path / "record", tmp_path / "programs"
    record.mkdir()
    git = shutil.which("git")
    assert git
    spying(programs, record, git=git)
    env = joey.env | PLANTED | {"PATH": f"{programs}:{os.environ['PATH']}"}
    looked = await joey.run("doctor", env=env)
    assert (record / "git").exists()
    seen = files_under(record) | {"out": looked.out.encode(), "err": looked.err.encode()}
    assert traces(SECRETS, seen) == []


def test_ripgrep_is_given_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    assert traces(SECRETS, {"environment": repr(build_environment()).encode()}) == []


def test_a_server_of_a_project_gets_no_key_that_it_does_not_name(tmp_path: Path) -> None:
    given = build_hub_config(tmp_path, {"PATH": "/bin", **PLANTED}).server_environment
    assert traces(SECRETS, {"environment": repr(dict(given)).encode()}) == []
