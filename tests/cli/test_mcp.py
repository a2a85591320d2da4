"""`joey mcp`, `joey trust`, and tasks that use servers, through the real program."""

from __future__ import annotations

import json
import stat
import sys
from typing import Any

import pytest

from joey.testing.script import Turn, call, say
from joey.testing.server import ModelServer
from tests.harness.cli.binary import Joey, reach
from tests.harness.cli.terminal import terminal
from tests.harness.paths import MCP_SERVER_SCRIPT

DONE = Turn(call("attempt_completion", {"result": "All done."}))
ECHO = Turn(call("mcp--tiny--echo", {"text": "from the server"}))
COMMAND = ("--", sys.executable, str(MCP_SERVER_SCRIPT))


def trust_project(joey: Joey) -> None:
    """The project names a server."""
    directory = joey.workspace / ".roo"
    directory.mkdir(exist_ok=True)
    servers = {"tiny": {"command": sys.executable, "args": [str(MCP_SERVER_SCRIPT)]}}
    (directory / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


@pytest.mark.contract("mcp:command")
async def test_servers_are_added_listed_and_removed(joey: Joey) -> None:
    assert "no MCP servers" in (await joey.run("mcp", "list")).err
    added = await joey.run("mcp", "add", "tiny", "--env", "KEY=a=b", *COMMAND, "--garbage", "-y")
    assert added.code == 0
    file = joey.home / "mcp.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["mcpServers"]["tiny"] == {
        "command": sys.executable,
        "args": [str(MCP_SERVER_SCRIPT), "--garbage", "-y"],
        "env": {"KEY": "a=b"},
    }
    web = await joey.run(
        *("mcp", "add", "--url", "https://h.example/mcp", "--transport", "sse"),
        *("--header", "Authorization: Bearer hush", "--project", "web"),
    )
    assert "joey trust" in web.out
    listed = (await joey.run("mcp", "list")).out.splitlines()
    assert listed[0] == "web\tproject\tsse\tuntrusted\thttps://h.example/mcp"
    assert listed[1].startswith("tiny\tyours\tstdio\tnot started\t")
    shown: list[dict[str, Any]] = (await joey.run("mcp", "list", "--json")).json
    assert [(server["name"], server["state"]) for server in shown] == [
        ("web", "untrusted"),
        ("tiny", "not started"),
    ]
    assert "hush" not in json.dumps(shown)
    assert (await joey.run("mcp", "add", "tiny", *COMMAND)).code == 78
    kept = await joey.run("mcp", "remove", "web")
    assert kept.code == 2
    assert "--project" in kept.err
    assert (await joey.run("mcp", "remove", "--project", "web")).code == 0
    assert (await joey.run("mcp", "remove", "--project", "web")).code == 2
    assert len((await joey.run("mcp", "list")).out.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "x"), "name a program after --"),
        (("add", "x", "--url", "http://h", "--", "y"), "name a program after --"),
        (("add", "x", "--url", "ftp://h"), "http:// or https://"),
        (("add", "x", "--env", "NOVALUE", "--", "y"), "not NAME=VALUE"),
        (("add", "x", "--timeout", "9999", "--", "y"), "timeout"),
        (("test", "ghost"), "no server 'ghost'"),
        (("list", "--", "x"), "takes no command"),
    ],
)
async def test_a_command_line_that_cannot_be_meant_says_what_is_wrong(
    joey: Joey, arguments: tuple[str, ...], message: str
) -> None:
    done = await joey.run("mcp", *arguments)
    assert done.code in (2, 78)
    assert message in " ".join(done.err.split())


@pytest.mark.contract("mcp:command")
async def test_trying_a_server_shows_its_tools_or_what_is_wrong(joey: Joey) -> None:
    await joey.run("mcp", "add", "tiny", *COMMAND)
    await joey.run("mcp", "add", "gone", "--", "surely-not-installed")
    works = await joey.run("mcp", "test", "tiny")
    assert works.code == 0
    assert works.out.startswith("tiny works: ")
    assert "  echo  A tool." in works.out
    broken = await joey.run("mcp", "test", "gone")
    assert broken.code == 1
    assert "surely-not-installed" in broken.out


@pytest.mark.contract("mcp:command")
async def test_unusable_entries_of_a_file_are_reported_and_usable_ones_listed(joey: Joey) -> None:
    joey.home.mkdir()
    servers = {"good": {"command": "x"}, "bad": {"url": "http://h"}}
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    listed = await joey.run("mcp", "list")
    assert listed.out.startswith("good\t")
    assert "'bad' is left out" in listed.err


@pytest.mark.contract("trust:bytes")
async def test_a_projects_server_runs_once_the_user_has_seen_and_trusted_it(joey: Joey) -> None:
    trust_project(joey)
    shown = await joey.run("trust", "--show")
    assert f"{sys.executable} {MCP_SERVER_SCRIPT}" in shown.out
    assert str(joey.workspace) in shown.out
    assert "not all of this is trusted" in shown.out
    assert "--yes" in (await joey.run("trust")).err
    assert (await joey.run("mcp", "test", "tiny")).code == 1
    assert (await joey.run("trust", "--yes")).code == 0
    assert (await joey.run("mcp", "test", "tiny")).code == 0
    assert "all of this is trusted" in (await joey.run("trust")).out
    assert (await joey.run("trust", "--revoke")).code == 0
    assert (await joey.run("mcp", "test", "tiny")).code == 1


async def test_a_directory_that_brings_nothing_along_needs_no_trust(joey: Joey) -> None:
    assert "nothing in this folder needs your trust" in (await joey.run("trust")).out


@pytest.mark.contract("trust:bytes")
async def test_without_a_user_an_untrusted_server_is_left_alone_and_named(joey: Joey) -> None:
    trust_project(joey)
    async with ModelServer([DONE]) as model:
        done = await joey.run("-p", "-y", *reach(model.url), "do it")
    assert done.code == 0
    assert "not trusted this folder (joey trust): MCP server 'tiny'" in done.err


@pytest.mark.contract("mcp:command")
async def test_yes_allows_tools_of_servers_too(joey: Joey) -> None:
    await joey.run("mcp", "add", "tiny", *COMMAND)
    async with ModelServer([ECHO, DONE]) as model:
        done = await joey.run("-p", "-y", *reach(model.url), "do it")
        sent = json.dumps(model.requests[-1].body)
    assert (done.code, done.out) == (0, "All done.\n")
    assert '· MCP tool tiny: echo {"text":"from the server"}' in done.err
    assert "from the server" in sent


@pytest.mark.contract("mcp:command")
async def test_without_a_user_a_tool_that_no_rule_allows_is_not_called(joey: Joey) -> None:
    await joey.run("mcp", "add", "tiny", *COMMAND)
    async with ModelServer([ECHO, DONE]) as model:
        done = await joey.run("-p", *reach(model.url), "do it")
    assert done.code == 3
    assert "tiny" in done.err


@pytest.mark.contract("trust:bytes")
async def test_a_conversation_asks_once_before_it_begins(joey: Joey) -> None:
    trust_project(joey)
    async with ModelServer([DONE, DONE]) as model:
        async with terminal(joey, *reach(model.url), "do it") as screen:
            await screen.until("Trust this, as it is now? [y/N]")
            screen.press("n\n")
            await screen.until("continues without it")
            await screen.until("All done.")
        async with terminal(joey, *reach(model.url), "do it") as screen:
            shown = await screen.until("Trust this, as it is now? [y/N]")
            assert str(MCP_SERVER_SCRIPT) in shown.replace("\n", "")
            screen.press("y\n")
            await screen.until("All done.")
    assert "all of this is trusted" in (await joey.run("trust", "--show")).out


@pytest.mark.contract("mcp:command")
async def test_a_user_sees_server_tool_arguments_and_answer(joey: Joey) -> None:
    await joey.run("mcp", "add", "tiny", *COMMAND)
    async with (
        ModelServer([ECHO, DONE]) as model,
        terminal(joey, *reach(model.url), "do it") as screen,
    ):
        shown = await screen.until("Allow?")
        assert 'tiny: echo {"text":"from the server"}' in shown.replace("\n", "")
        assert "alwaysAllowMcp" in shown
        screen.press("y\n")
        await screen.until("│ from the server")
        await screen.until("All done.")


@pytest.mark.contract("mcp:command")
async def test_programs_read_of_a_servers_call_and_its_end(joey: Joey) -> None:
    await joey.run("mcp", "add", "tiny", *COMMAND)
    async with ModelServer([ECHO, DONE]) as model:
        arguments = ("-p", "-y", "--output-format", "stream-json", *reach(model.url), "do it")
        done = await joey.run(*arguments)
    mcp_lines = [line for line in done.lines if line.get("subtype") == "mcp"]
    use, result = mcp_lines
    assert json.loads(use["tool_use"]["input"]["raw"])["toolName"] == "echo"
    assert result["tool_result"] == {
        "name": "mcp_server",
        "tool": "mcp--tiny--echo",
        "output": "from the server",
    }


async def test_a_run_says_which_servers_are_missing(joey: Joey) -> None:
    await joey.run("mcp", "add", "gone", "--", "surely-not-installed")
    async with ModelServer([DONE]) as model:
        done = await joey.run("-p", *reach(model.url), "do it")
    assert done.code == 0
    assert "joey: the MCP server gone is not ready; its tools are missing: " in done.err
    assert "surely-not-installed" in done.err


async def test_a_conversation_says_which_servers_are_missing(joey: Joey) -> None:
    await joey.run("mcp", "add", "gone", "--", "surely-not-installed")
    async with ModelServer([DONE]) as model, terminal(joey, *reach(model.url), "do it") as screen:
        shown = await screen.until("All done.")
    assert "the MCP server gone is not ready; its tools are missing" in shown


async def test_a_file_of_servers_that_cannot_be_read_is_reported_when_a_task_begins(
    joey: Joey,
) -> None:
    (joey.workspace / ".roo").mkdir()
    (joey.workspace / ".roo/mcp.json").write_text('{"mcpServers": {')
    joey.home.mkdir()
    (joey.home / "mcp.json").write_text('{"mcpServers": {"bad": {"url": "http://h"}}}')
    async with ModelServer([DONE]) as model:
        done = await joey.run("-p", *reach(model.url), "do it")
    assert done.code == 0
    warnings = [line for line in done.err.splitlines() if "mcp.json" in line]
    assert len(warnings) == 2
    assert warnings[0].startswith("joey: ")
    assert "not valid JSON" in warnings[0]
    assert "'bad' is left out" in warnings[1]


async def test_tools_of_a_project_that_are_not_trusted_are_reported_in_one_line(joey: Joey) -> None:
    tools = joey.workspace / ".roo/tools"
    tools.mkdir(parents=True)
    for name in ("one", "two", "three"):
        (tools / f"{name}.py").write_text(f'"""{name}."""\ndef run(): return ""\n')
    await joey.run("trust", "--yes")
    (tools / "two.py").write_text('"""Other."""\ndef run(): return "other"\n')
    async with ModelServer([DONE]) as model:
        done = await joey.run("-p", *reach(model.url), "do it")
    (warning,) = (line for line in done.err.splitlines() if "joey trust" in line)
    assert "3 tools of .roo/tools are not used" in warning


async def test_of_two_servers_with_one_name_ones_own_is_removed_unless_the_project_is_named(
    joey: Joey,
) -> None:
    trust_project(joey)
    await joey.run("mcp", "add", "tiny", *COMMAND)
    assert str(joey.home) in (await joey.run("mcp", "remove", "tiny")).out
    assert "tiny" in (joey.workspace / ".roo/mcp.json").read_text()


async def test_trying_a_server_whose_entry_is_wrong_says_what_is_wrong_with_it(joey: Joey) -> None:
    joey.home.mkdir()
    (joey.home / "mcp.json").write_text('{"mcpServers": {"bad": {"url": "http://h"}}}')
    done = await joey.run("mcp", "test", "bad")
    assert done.code == 78
    assert "the server 'bad' is left out: " in done.err
    (joey.home / "mcp.json").write_text('{"mcpServers": ')
    broken = await joey.run("mcp", "test", "bad")
    assert broken.code == 78
    assert "not valid JSON" in broken.err
    assert (await joey.run("mcp", "test", "ghost", "-w", str(joey.home.parent))).code == 78


async def test_ones_own_server_runs_nothing_of_the_directory_that_is_open(joey: Joey) -> None:
    (joey.workspace / "helper.py").write_text("open('ran', 'w').close()\n", encoding="utf-8")
    script = joey.workspace / "server.sh"
    script.write_text("#!/bin/sh\n: > ran\n", encoding="utf-8")
    script.chmod(0o755)
    joey.home.mkdir(exist_ok=True)
    servers: dict[str, dict[str, Any]] = {
        "module": {"command": sys.executable, "args": ["-m", "helper"]},
        "script": {"command": "./server.sh"},
    }
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    for name in servers:
        assert (await joey.run("mcp", "test", name)).code != 0
    assert not (joey.workspace / "ran").exists()
    servers["module"]["cwd"] = "${workspaceFolder}"
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    await joey.run("mcp", "test", "module")
    assert (joey.workspace / "ran").exists()


async def test_ones_own_server_is_in_an_empty_directory_that_the_error_names(joey: Joey) -> None:
    joey.home.mkdir(exist_ok=True)
    servers = {
        "files": {"command": "sh", "args": ["-c", "ls -A . >&2; pwd >&2; exit 3"]},
        "missing": {"command": "./server.sh"},
        "placed": {"command": "sh", "args": ["-c", "exit 3"], "cwd": "${workspaceFolder}"},
    }
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    directory = joey.home / "mcp"
    remedy = f'It starts in {directory}; "cwd": "${{workspaceFolder}}" starts it in the workspace'
    files = await joey.run("mcp", "test", "files")
    assert f"it said last: {directory}. {remedy}" in " ".join(files.out.split())
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    missing = await joey.run("mcp", "test", "missing")
    assert f"not found, or may not be executed. {remedy}" in " ".join(missing.out.split())
    assert "It starts in" not in (await joey.run("mcp", "test", "placed")).out


async def test_a_relative_directory_of_ones_own_server_is_in_the_home_directory(joey: Joey) -> None:
    here = joey.home.parent
    for directory in (here / "tools", joey.workspace / "tools"):
        directory.mkdir()
        (directory / "server.sh").write_text("#!/bin/sh\npwd > ran\n", encoding="utf-8")
        (directory / "server.sh").chmod(0o755)
    joey.home.mkdir(exist_ok=True)
    ran = here / "tools" / "ran"
    for written in ("tools", "~/tools", "${env:HOME}/tools"):
        server = {"command": "./server.sh", "cwd": written}
        servers = {"mcpServers": {"one": server}}
        (joey.home / "mcp.json").write_text(json.dumps(servers), encoding="utf-8")
        failed = await joey.run("mcp", "test", "one")
        assert ran.read_text(encoding="utf-8").strip() == str(here / "tools"), written
        assert "It starts in" not in failed.out
        ran.unlink()
    assert not (joey.workspace / "tools" / "ran").exists()


async def test_without_its_directory_only_a_server_that_needs_it_fails(joey: Joey) -> None:
    joey.home.mkdir(exist_ok=True)
    (joey.home / "mcp").write_text("in the way", encoding="utf-8")
    tiny = {"command": sys.executable, "args": [str(MCP_SERVER_SCRIPT)]}
    servers = {"bare": tiny, "placed": {**tiny, "cwd": "~"}}
    (joey.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    bare = await joey.run("mcp", "test", "bare")
    assert bare.code != 0
    assert f"its directory {joey.home / 'mcp'} cannot be created: File exists" in bare.out
    assert (await joey.run("mcp", "test", "placed")).code == 0


@pytest.mark.parametrize("protocol", ["native", "xml"])
async def test_arguments_that_do_not_fit_the_schema_of_a_server_are_not_sent(
    joey: Joey, protocol: str
) -> None:
    assert (await joey.run("mcp", "add", "tiny", *COMMAND)).code == 0
    wrong = Turn(call("mcp--tiny--echo", {"text": ["a", "b"]}))
    done = DONE
    if protocol == "xml":
        named = "<server_name>tiny</server_name>\n<tool_name>echo</tool_name>"
        given = '<arguments>{"text": ["a", "b"]}</arguments>'
        wrong = Turn(say(f"<use_mcp_tool>\n{named}\n{given}\n</use_mcp_tool>"))
        done = Turn(say("<attempt_completion>\n<result>ok</result>\n</attempt_completion>"))
    async with ModelServer([wrong, done]) as server:
        finished = await joey.run("-p", "-y", "--protocol", protocol, *reach(server.url), "go")
    assert finished.code == 0, finished.err
    answer = json.dumps(server.requests[1].body["messages"][-1])
    assert "do not fit its schema, so it was not called. $.text: " in answer
    assert "is not of type 'string'" in answer
