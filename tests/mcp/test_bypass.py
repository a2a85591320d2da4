"""Ways around the trust of a workspace, none of which must lead anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest

from joey.config.trust import Trusted, TrustStore
from joey.core.permissions.policy import Access, Allow, Claim, decide
from joey.core.settings import Settings
from joey.errors import ToolError
from joey.mcp.config import parse_server
from joey.mcp.config_files import ConfigFiles
from joey.mcp.process import StderrTail
from joey.mcp.server_admin import ServerAdmin
from joey.mcp.transports import open_stdio_streams
from joey.mcp.trust import list_trust_items
from joey.ports.tool_context import Capabilities
from joey.tools.mcp_tool import prepare_call, run_call
from tests.harness.mcp.hub_harness import TIMEOUT_S, HubHarness, is_alive, server, settled, until
from tests.harness.mcp.misbehaving_server import misbehaving
from tests.harness.tools.tool_context import make_context


def request(method: str, params: dict[str, Any]) -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method=method, params=params))


class TrustedProject:
    """A workspace whose one server was trusted as it was."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "work"
        self.workspace.mkdir()
        self.environment = {"PATH": os.environ["PATH"]}
        self._trust = TrustStore(root / "home")
        self._entry: dict[str, Any] = {}

    def write(self, name: str, text: str = "print(1)") -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def trust(self, **entry: Any) -> None:
        self._entry = entry
        self._trust.grant(self.workspace, self._contents(self.workspace))
        assert self.is_trusted()

    def is_trusted(self, workspace: Path | None = None) -> bool:
        workspace = workspace or self.workspace
        return isinstance(self._trust.check(workspace, self._contents(workspace)), Trusted)

    def _contents(self, workspace: Path) -> dict[str, bytes]:
        config = parse_server("theirs", self._entry, "project", self.environment)
        found = list_trust_items(config, workspace, self.environment)
        return {item.name: item.content for item in found}


@pytest.fixture
def project(tmp_path: Path) -> TrustedProject:
    return TrustedProject(tmp_path)


def to_directory(script: Path) -> None:
    script.unlink()
    script.mkdir()
    (script / "__main__.py").write_text("print('evil')")


def to_pipe(script: Path) -> None:
    script.unlink()
    os.mkfifo(script)


def to_link(script: Path) -> None:
    script.unlink()
    script.symlink_to("/etc/hostname")


@pytest.mark.contract("trust:bytes")
@pytest.mark.parametrize("swap", [to_directory, to_pipe, to_link, Path.unlink])
def test_a_trusted_script_that_becomes_something_else_is_a_new_question(
    project: TrustedProject, swap: Callable[[Path], None]
) -> None:
    script = project.write("server.py")
    project.trust(command="python3", args=["server.py"])
    swap(script)
    assert not project.is_trusted()


@pytest.mark.contract("trust:bytes")
def test_a_link_out_of_the_workspace_that_is_turned_elsewhere_is_a_new_question(
    project: TrustedProject, tmp_path: Path
) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("print(1)")
    link = project.workspace / "server.py"
    link.symlink_to(tmp_path / "one.py")
    project.trust(command="python3", args=["server.py"])
    link.unlink()
    link.symlink_to(tmp_path / "two.py")
    assert not project.is_trusted()


@pytest.mark.contract("trust:bytes")
@pytest.mark.parametrize(
    "entry",
    [
        {"command": "node", "args": ["--import=./run.js", "server"]},
        {"command": "bash", "args": ["-c", "cd . && exec ./run.js --port 1"]},
        {"command": "node", "env": {"NODE_OPTIONS": "--require ./run.js"}},
        {"command": "true", "env": {"LD_PRELOAD": "${workspaceFolder}/run.js"}},
        {"command": "./run.js"},
        {"command": "run.js", "env": {"PATH": "${workspaceFolder}:/usr/bin"}},
        {"command": "run.js", "env": {"PATH": ".:/usr/bin"}},
        {"command": "node", "cwd": "sub", "args": ["../run.js"]},
    ],
)
def test_a_script_counts_however_the_entry_names_it(
    project: TrustedProject, entry: dict[str, Any]
) -> None:
    project.environment["workspaceFolder"] = str(project.workspace)
    script = project.write("run.js")
    project.trust(**entry)
    script.write_text("print('evil')")
    assert not project.is_trusted()


@pytest.mark.contract("trust:bytes")
def test_a_program_of_the_workspace_that_is_found_by_the_users_own_path_counts(
    project: TrustedProject,
) -> None:
    program = project.write("bin/serve")
    project.environment["PATH"] = f"{program.parent}:/usr/bin"
    project.trust(command="serve")
    program.write_text("print('evil')")
    assert not project.is_trusted()


@pytest.mark.contract("trust:bytes")
def test_reaching_the_workspace_by_a_link_leaves_no_script_out(
    project: TrustedProject, tmp_path: Path
) -> None:
    script = project.write("server.py")
    project.trust(command="python3", args=["server.py"])
    link = tmp_path / "link"
    link.symlink_to(project.workspace)
    assert project.is_trusted(link)
    script.write_text("print('evil')")
    assert not project.is_trusted(link)


def test_directories_and_loops_on_a_command_line_are_no_crash(project: TrustedProject) -> None:
    (project.workspace / "loop").symlink_to("loop")
    project.trust(command="npx", args=["files", str(project.workspace), "loop", "a" * 70_000])


@pytest.mark.parametrize("entry", [{"args": ["x\0y"]}, {"cwd": "x\0y"}, {"env": {"A\0": ""}}])
def test_what_no_program_can_be_given_is_no_entry(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="zero byte"):
        parse_server("x", {"command": "x", **entry}, "project", {})


def detail(**entry: Any) -> list[str]:
    config = parse_server("mine", entry, "project", {})
    return list(list_trust_items(config, Path("/work"), {})[0].details)


@pytest.mark.contract("trust:bytes")
def test_no_variable_of_the_user_is_passed_on_unseen() -> None:
    shown = detail(command="x", env={"MODE": "fast ${env:A_KEY} and ${env:OTHER}", "PLAIN": "hush"})
    assert "sets      MODE from ${env:A_KEY}, ${env:OTHER}" in shown
    shown = detail(type="sse", url="https://a/", headers={"Auth": "Bearer hush ${env:A_KEY}"})
    assert "sends     Auth from ${env:A_KEY}" in shown
    assert "hush" not in "".join(shown)


@pytest.mark.contract("trust:bytes")
def test_a_directory_made_of_variables_is_shown_as_it_was_written() -> None:
    assert "in        ${env:HOME}/x" in detail(command="x", cwd="${env:HOME}/x")


@pytest.mark.contract("trust:bytes")
def test_an_entry_cannot_add_lines_of_its_own_to_what_is_shown() -> None:
    details = detail(
        command="evil",
        args=["\n" * 200, "x\r      is switched off"],
        env={"A\n      is switched off": "1"},
        alwaysAllow=["a\nb"],
        cwd="a\n\nb",
    )
    assert not [line for line in details if len(line.splitlines()) > 1]


@pytest.mark.contract("trust:bytes")
def test_a_server_that_takes_the_place_of_ones_own_says_so(harness: HubHarness) -> None:
    harness.write(files={"command": "mine"})
    harness.write(project=True, files={"command": "theirs"}, other={"command": "theirs"})
    server_admin = ServerAdmin(harness.workspace, harness.hub_config)
    details = {item.name: "\n".join(item.details) for item in server_admin.list_trust_items()}
    assert "your own server" in details["mcp:files"]
    assert "your own server" not in details["mcp:other"]


@pytest.mark.contract("trust:bytes")
async def test_a_changed_allow_list_gives_nothing_before_it_is_trusted(
    harness: HubHarness, tmp_path: Path
) -> None:
    """The server is busy not answering, so that stopping it takes a while."""
    harness.write(project=True, theirs=misbehaving("hang-lists", tmp_path))
    lease = harness.hubs.lease(harness.workspace)
    await settled(lease)
    await lease.call_tool("theirs", "change", {})
    await until(lambda: "hanging" in (tmp_path / "log").read_text())
    harness.trusted = False
    harness.write(project=True, theirs=misbehaving("hang-lists", tmp_path, alwaysAllow=["*"]))
    await settled(lease)
    assert not any(tool.always_allowed for tool in server(lease, "theirs").tools)
    with pytest.raises(ToolError):
        await lease.call_tool("theirs", "echo", {"text": "x"})
    await lease.close()


@pytest.mark.contract("trust:bytes")
async def test_trust_that_is_taken_back_stops_a_server_that_is_busy_not_answering(
    harness: HubHarness, tmp_path: Path
) -> None:
    harness.write(project=True, theirs=misbehaving("hang-lists", tmp_path))
    lease = harness.hubs.lease(harness.workspace)
    await settled(lease)
    pid = int((await lease.call_tool("theirs", "pid", {})).text)
    await lease.call_tool("theirs", "change", {})
    await until(lambda: "hanging" in (tmp_path / "log").read_text())
    harness.trusted = False
    (harness.home / "trust.json").write_text("{}")
    await settled(lease)
    with pytest.raises(ToolError):
        await lease.call_tool("theirs", "echo", {"text": "x"})
    async with asyncio.timeout(TIMEOUT_S / 3):
        await until(lambda: not is_alive(pid))
    await lease.close()


@pytest.mark.contract("trust:bytes")
async def test_a_relative_directory_in_the_users_path_runs_nothing_of_the_workspace(
    harness: HubHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = harness.workspace / "bin" / "serve"
    trap.parent.mkdir()
    trap.write_text(f"#!/bin/sh\necho > {tmp_path}/sprung\n")
    trap.chmod(0o755)
    monkeypatch.chdir(harness.workspace)
    for path in ("bin:/usr/bin", "./bin:/usr/bin"):
        harness.environment["PATH"] = path
        lease = await harness.open(mine={"command": "serve"})
        assert "was not found" in server(lease, "mine").error
        await lease.close()
        # Nor does what the server itself starts.
        lease = await harness.open(mine={"command": "/usr/bin/env", "args": ["serve"]})
        await lease.close()
    assert not (tmp_path / "sprung").exists()


def test_a_file_of_settings_that_is_a_directory_is_a_problem_and_no_crash(
    harness: HubHarness,
) -> None:
    for path in (harness.workspace / ".roo" / "mcp.json", harness.home / "mcp.json"):
        path.mkdir()
    files = ConfigFiles(harness.home, harness.workspace, {})
    files.refresh()
    assert len(files.problems) == 2


def test_secrets_on_command_lines_are_not_shown() -> None:
    def shown(**entry: Any) -> str:
        return parse_server("x", entry, "global", {}).display_target

    text = shown(
        command="docker",
        args=[
            *("run", "-e", "GITHUB_TOKEN=hush1", "--header", "Authorization: Bearer hush2"),
            *("postgresql://user:hush3@host/db", "--auth-token", "hush4", "--api-keys=hush5"),
            *("--header=X-Api-Key:hush6", "-H", "x-key: hush7", "--pat", "hush8", "--port", "80"),
        ],
    )
    assert "hush" not in text
    for word in ("GITHUB_TOKEN", "postgresql", "host/db", "--port 80"):
        assert word in text
    assert "hush" not in shown(type="sse", url="https://u:hush@host/x?key=hush#hush")


def test_a_header_that_cannot_be_sent_is_not_quoted() -> None:
    def headers(variables: dict[str, str], **headers: str) -> dict[str, str]:
        entry = {"type": "sse", "url": "https://a/", "headers": headers}
        return parse_server("x", entry, "global", variables).entry.headers

    assert headers({"K": "hush\n"}, Auth="Bearer ${env:K}") == {"Auth": "Bearer hush"}
    for bad in ("hush\nX-Evil: 1", "hüsh", "hu\0sh"):
        with pytest.raises(ValueError, match="value of Auth") as caught:
            headers({"K": bad}, Auth="Bearer ${env:K}")
        assert "sh" not in str(caught.value).partition("value of")[2]
    with pytest.raises(ValueError, match="not a valid header name"):
        headers({}, **{"Auth\n": "x"})


async def test_the_stderr_tail_of_a_server_does_not_show_the_secrets_it_was_given(
    harness: HubHarness,
) -> None:
    program = "import os, sys; sys.exit('cannot log in with ' + os.environ['API_KEY'])"
    entry = {"command": sys.executable, "args": ["-c", program], "env": {"API_KEY": "hush-hush"}}
    lease = await harness.open(mine=entry)
    error = server(lease, "mine").error
    assert "cannot log in with …" in error and "hush" not in error
    await lease.close()


async def test_pins_do_not_grow_without_end(harness: HubHarness, tmp_path: Path) -> None:
    """A server that invents new tools all the time has them asked about, once there are many."""
    lease = await harness.open(r=misbehaving("inventive", tmp_path, alwaysAllow=["*"]))
    for _ in range(4):
        before = {tool.name for tool in server(lease, "r").tools}
        await lease.call_tool("r", "change", {})
        await until(lambda b=before: {t.name for t in server(lease, "r").tools} != b)  # type: ignore[misc]
    pins = json.loads((harness.home / "mcp-pins.json").read_text())
    assert all(len(known) <= 2000 for known in pins.values())
    assert not all(tool.always_allowed for tool in server(lease, "r").tools)
    await lease.close()


@pytest.mark.contract("mcp:pins")
async def test_tools_that_only_the_users_settings_allow_are_pinned_too(
    harness: HubHarness, tmp_path: Path
) -> None:
    lease = await harness.open(r=misbehaving("redescribing", tmp_path))
    assert not any(tool.has_changed for tool in server(lease, "r").tools)
    await lease.call_tool("r", "change", {})
    await until(lambda: all(tool.has_changed for tool in server(lease, "r").tools))
    await lease.close()


@pytest.mark.contract("mcp:pins")
async def test_a_tool_that_changes_while_a_user_decides_is_not_called(
    harness: HubHarness, tmp_path: Path
) -> None:
    lease = await harness.open(r=misbehaving("redescribing", tmp_path))
    ctx = make_context(tmp_path, capabilities=Capabilities(mcp=lease))
    prepared = await prepare_call("r", "echo", {"text": "x"}, ctx)
    await lease.call_tool("r", "change", {})
    await until(lambda: all(tool.has_changed for tool in server(lease, "r").tools))
    with pytest.raises(ToolError, match="has changed its tool"):
        await run_call(prepared, ctx)
    assert all(tool.has_changed for tool in server(lease, "r").tools)
    outcome = await run_call(await prepare_call("r", "echo", {"text": "x"}, ctx), ctx)
    assert outcome.text == "x"
    await lease.close()


@pytest.mark.contract("mcp:pins")
@pytest.mark.parametrize(
    ("subject", "patterns", "changed", "allowed"),
    [
        ("files/read", ("files/*",), False, True),
        ("files/read", ("files/*",), True, False),
        ("files/read", ("files/read",), True, False),
        ("files/read", ("*",), True, True),
        ("files/evil/read", ("files/*",), False, False),
        ("files/evil/read", ("files/evil/read",), False, True),
    ],
)
def test_leave_given_by_name_covers_only_what_was_meant(
    subject: str, patterns: tuple[str, ...], changed: bool, allowed: bool
) -> None:
    settings = Settings(
        auto_approval_enabled=True, always_allow_mcp=True, allowed_mcp_tools=patterns
    )
    claim = Claim(Access.MCP, subject=subject, has_changed_description=changed)
    assert isinstance(decide((claim,), settings), Allow) == allowed


@pytest.mark.contract("mcp:transports")
async def test_cancelling_twice_leaves_no_process_behind(
    harness: HubHarness, tmp_path: Path
) -> None:
    """The second time comes while the first still waits for the last words to be written."""
    noted = tmp_path / "noted"
    noted.touch()
    program = "sleep 3600 & echo $! > $0; sleep 3600"
    entry = {"command": "/bin/sh", "args": ["-c", program, str(noted)]}
    config = parse_server("r", entry, "global", {})
    open_now = asyncio.Event()

    async def use() -> None:
        stderr_tail = StderrTail()
        async with open_stdio_streams(
            config.entry, harness.workspace, {"PATH": os.environ["PATH"]}, stderr_tail
        ) as (_, write):
            await until(noted.read_text)
            await write.send(request("tools/call", {"name": "x" * 3_000_000}))
            open_now.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    async with asyncio.timeout(TIMEOUT_S):
        await open_now.wait()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.wait({task})
    await until(lambda: not is_alive(int(noted.read_text())))
