"""What `mcp.json` may say, and what is said when it says something else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joey.mcp.config import parse_server, parse_servers
from joey.mcp.config_files import ConfigFiles
from joey.mcp.trust import list_trust_items

VARIABLES = {"NAME": "value", "workspaceFolder": "/work space"}

GOOD: list[tuple[dict[str, Any], str]] = [
    ({"command": "x"}, "stdio"),
    ({"type": "stdio", "command": "x", "args": ["a"], "cwd": "d", "env": {"A": "b"}}, "stdio"),
    ({"type": "sse", "url": "http://h/sse", "headers": {"A": "b"}}, "sse"),
    ({"type": "streamable-http", "url": "https://h/mcp"}, "streamable-http"),
    ({"type": "http", "url": "https://h/mcp"}, "streamable-http"),
    ({"command": "x", "timeout": 3600, "alwaysAllow": ["*"], "watchPaths": ["a"]}, "stdio"),
    ({"command": "x", "somethingNew": True}, "stdio"),
]

BAD: list[tuple[Any, str]] = [
    ([], "must be an object"),
    ({}, "needs `command`, or `url` with `type`"),
    ({"command": ""}, "`command` is empty"),
    ({"command": "x", "url": "http://h"}, "both `command` and `url`"),
    ({"url": "http://h"}, 'needs `type`: "streamable-http" or "sse"'),
    ({"type": "carrier-pigeon", "url": "http://h"}, "unknown `type` 'carrier-pigeon'"),
    ({"type": "sse", "command": "x"}, "type sse needs `url`"),
    ({"type": "stdio", "url": "http://h"}, "type stdio needs `command`"),
    ({"type": "sse", "url": "ftp://h"}, "http:// or https://"),
    ({"type": "sse", "url": "http://"}, "http:// or https://"),
    ({"command": "x", "timeout": 0}, "`timeout`: Expected `float` >= 1"),
    ({"command": "x", "timeout": 3601}, "`timeout`"),
    ({"command": "x", "args": "a b"}, "`args`: Expected `array`"),
    ({"command": "x", "env": {"A": 1}}, "`env[...]`: Expected `str`"),
    ({"command": "x", "alwaysAllow": "*"}, "`alwaysAllow`"),
    ({"command": "x", "disabled": "yes"}, "`disabled`"),
]


@pytest.mark.contract("mcp:config")
@pytest.mark.parametrize(("entry", "transport"), GOOD)
def test_an_entry_in_roos_schema_is_taken(entry: dict[str, Any], transport: str) -> None:
    assert parse_server("name", entry, "global", {}).transport == transport


@pytest.mark.contract("mcp:config")
@pytest.mark.parametrize(("entry", "reason"), BAD)
def test_a_bad_entry_is_left_out_with_its_reason_and_the_others_stay(
    entry: Any, reason: str
) -> None:
    document = {"mcpServers": {"bad": entry, "good": {"command": "x"}}}
    servers = parse_servers(document, "global", Path("mcp.json"), {})
    assert list(servers.configs) == ["good"]
    (problem,) = servers.problems.values()
    assert problem.startswith("mcp.json: the server 'bad' is left out: ")
    assert reason in problem


@pytest.mark.contract("mcp:config")
def test_variables_are_filled_in_everywhere_and_unset_ones_stay() -> None:
    entry = {"command": "${env:NAME}", "args": ["${workspaceFolder}/x", "${env:UNSET}"]}
    config = parse_server("name", entry, "global", VARIABLES)
    assert config.entry.command == "value"
    assert config.entry.args == ("/work space/x", "${env:UNSET}")
    web = {"type": "sse", "url": "http://${env:NAME}/", "headers": {"A": "Bearer ${env:NAME}"}}
    config = parse_server("name", web, "global", VARIABLES)
    assert config.entry.url == "http://value/"
    assert config.entry.headers == {"A": "Bearer value"}


def test_what_is_shown_of_a_server_holds_no_secrets() -> None:
    args = ["--api-key", "hush", "--token=hush", "${env:NAME}", "plain"]
    shown = parse_server("name", {"command": "x", "args": args}, "global", VARIABLES).display_target
    assert "hush" not in shown and "value" not in shown
    assert shown.endswith("plain")
    url = "https://user:hush@h/mcp?key=hush"
    web = parse_server("name", {"type": "sse", "url": url}, "global", {})
    assert web.display_target == "https://h/mcp"


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["command", "url", "type", "args", "env", "timeout", "other"])
    return st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4)


PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@given(st.recursive(PLAIN, nested, max_leaves=8))
def test_nothing_that_can_stand_in_a_file_is_a_crash(value: Any) -> None:
    parse_servers({"mcpServers": value}, "global", Path("f"), {})
    parse_servers({"mcpServers": {"name": value}}, "global", Path("f"), {})


class ConfigHarness:
    def __init__(self, root: Path) -> None:
        self.home, self.workspace = root / "home", root / "work"
        for directory in (self.home, self.workspace / ".roo"):
            directory.mkdir(parents=True)
        self.files = ConfigFiles(self.home, self.workspace, {})
        self.project = self.workspace / ".roo" / "mcp.json"

    def write(self, path: Path, **servers: Any) -> None:
        path.write_text(json.dumps({"mcpServers": servers}))


@pytest.fixture
def harness(tmp_path: Path) -> ConfigHarness:
    return ConfigHarness(tmp_path)


@pytest.mark.contract("mcp:config")
def test_the_projects_server_hides_the_users_of_the_same_name(harness: ConfigHarness) -> None:
    harness.write(harness.home / "mcp_settings.json", a={"command": "roo"}, c={"command": "roo"})
    harness.write(harness.home / "mcp.json", a={"command": "mine"}, b={"command": "mine"})
    harness.write(harness.project, b={"command": "project"})
    assert harness.files.refresh()
    found = {name: (c.entry.command, c.source) for name, c in harness.files.configs.items()}
    assert found == {
        "b": ("project", "project"),
        "a": ("mine", "global"),
        "c": ("roo", "global"),
    }
    assert not harness.files.refresh()


@pytest.mark.contract("mcp:config")
def test_broken_json_keeps_what_was_loaded(harness: ConfigHarness) -> None:
    harness.write(harness.home / "mcp.json", a={"command": "x"})
    harness.files.refresh()
    (harness.home / "mcp.json").write_text('{"mcpServers": {')
    assert harness.files.refresh()
    assert list(harness.files.configs) == ["a"]
    assert "not valid JSON" in harness.files.problems[0]
    harness.write(harness.home / "mcp.json", b={"command": "x"})
    harness.files.refresh()
    assert (list(harness.files.configs), harness.files.problems) == (["b"], ())
    (harness.home / "mcp.json").unlink()
    harness.files.refresh()
    assert harness.files.configs == {}


def test_a_pipe_or_a_giant_in_place_of_the_file_is_a_problem_and_no_wait(
    harness: ConfigHarness,
) -> None:
    os.mkfifo(harness.project)
    (harness.home / "mcp.json").write_bytes(b" " * 2_000_000)
    harness.files.refresh()
    assert len(harness.files.problems) == 2
    assert harness.files.configs == {}


@pytest.mark.contract("mcp:config")
def test_where_the_users_directory_is_the_workspaces_its_servers_are_the_users(
    tmp_path: Path,
) -> None:
    home = tmp_path / ".roo"
    home.mkdir()
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    files = ConfigFiles(home, tmp_path, {})
    files.refresh()
    assert files.configs["a"].source == "global"


@pytest.mark.contract("trust:bytes")
def test_files_of_the_workspace_that_a_server_runs_are_part_of_what_is_trusted(
    harness: ConfigHarness,
) -> None:
    script = harness.workspace / "server.py"
    script.write_text("print(1)")
    (harness.workspace / "elsewhere.py").symlink_to("/etc/passwd")
    entry = {"command": "python3", "args": ["-u", "server.py", "elsewhere.py", "missing.py"]}
    config = parse_server("mine", entry, "project", {})
    names = [item.name for item in list_trust_items(config, harness.workspace, {})]
    assert names == ["mcp:mine", "mcp:mine:server.py", "mcp:mine:elsewhere.py"]
    before = list_trust_items(config, harness.workspace, {})[1].content
    script.write_text("print(2)")
    assert list_trust_items(config, harness.workspace, {})[1].content != before


@pytest.mark.contract("trust:bytes")
def test_what_is_shown_before_trust_is_the_whole_command_its_place_and_names_of_variables() -> None:
    entry = {
        "command": "npx",
        "args": ["-y", "some server", "--token", "abc"],
        "cwd": "sub",
        "env": {"KEY": "${env:MY_KEY}", "PLAIN": "secret"},
        "alwaysAllow": ["look"],
    }
    config = parse_server("mine", entry, "project", {"MY_KEY": "hush"})
    details = "\n".join(list_trust_items(config, Path("/work"), {})[0].details)
    assert "npx -y 'some server' --token abc" in details
    assert "/work/sub" in details
    assert "KEY from ${env:MY_KEY}" in details
    assert "PLAIN" in details and "secret" not in details and "hush" not in details
    assert "without asking: look" in details
