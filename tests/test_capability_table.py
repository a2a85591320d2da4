"""Everything that can be set in motion has a gate, and docs/permissions.md says which. After a
change that is meant, `JOEY_RENEW=1 python -m pytest tests/test_capability_table.py` writes the
tables anew; look at the difference before you commit it."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Struct, structs
from starlette.routing import Route, WebSocketRoute

from joey.app.customizations import apply_project_restrictions, build_config_scopes
from joey.app.options import apply_configuration, make_options
from joey.cli.command_line import build_run_parser, parse_command_line
from joey.cli.commands.command_parsers import COMMAND_PARSERS
from joey.cli.headless.stdin_protocol import COMMAND_NAMES as STDIN_COMMANDS
from joey.config.hooks import read_project_hooks
from joey.core.hooks import HookEvent
from joey.core.permissions.hosts import intersect_hosts
from joey.core.settings import Limits, Profile, Settings
from joey.core.wire.commands import COMMANDS as WIRE_COMMANDS
from joey.server.auth import build_origin_policy
from joey.server.http import SecurityMiddleware, make_application
from joey.server.ipc_protocol import IpcCommand
from joey.tools.registry import build_default_tools
from joey.workspace.files import LocalFiles
from tests import capability_table, run_capabilities
from tests.capability_table import Key, Web
from tests.harness.document_tables import hold
from tests.harness.paths import ROOT
from tests.harness.server.http_requests import get
from tests.harness.server.server_fixture import TOKEN, open_server
from tests.harness.tools.tool_examples import EXAMPLES

DOCUMENT = ROOT / "docs" / "permissions.md"
BEGIN = "<!-- begin: made by tests/test_capability_table.py -->\n"
END = "<!-- end: made by tests/test_capability_table.py -->\n"
VARIABLE = re.compile(r"\"((?:JOEY|ROO)_[A-Z_]+)\"")


# Nothing is without a gate, and no gate is without what it stands before ------------------------


def leaves() -> Iterator[str]:
    """Commands of the command line, with what may follow them."""
    for name, make in COMMAND_PARSERS.items():
        inner = [each for each in make()._actions if isinstance(each, argparse._SubParsersAction)]
        yield from (f"{name} {action}" for each in inner for action in each.choices)
        if not inner:
            yield name


def flags(parser: argparse.ArgumentParser) -> set[str]:
    names = (action.option_strings for action in parser._actions)
    return {each[-1] for each in names if each} - {"--help"}


def tags(union: Any) -> set[str]:
    return {str(kind.__struct_config__.tag) for kind in get_args(union)}


def variables() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "src/joey").rglob("*.py"))
    return {name for text in texts for name in VARIABLE.findall(text)}


def names_of(kind: type[Struct]) -> set[str]:
    return {field.encode_name for field in structs.fields(kind)}


@pytest.mark.contract("permissions:gates")
@pytest.mark.parametrize(
    ("table", "there"),
    [
        (capability_table.TOOLS, {tool.name for tool in build_default_tools()} | {"mcp", "custom"}),
        (capability_table.WEBSOCKET, set(WIRE_COMMANDS)),
        (capability_table.IPC, tags(IpcCommand)),
        (capability_table.COMMANDS, {*leaves(), "(a prompt)"}),
        (capability_table.SETTINGS, names_of(Settings)),
        (capability_table.PROFILE, names_of(Profile)),
        (capability_table.LIMITS, names_of(Limits)),
        (capability_table.SERVE_FLAGS, flags(COMMAND_PARSERS["serve"]())),
        (capability_table.VARIABLES, variables()),
        (run_capabilities.STDIN, set(STDIN_COMMANDS)),
        (run_capabilities.HOOKS, {moment.value for moment in HookEvent}),
        (run_capabilities.RUN_FLAGS, flags(build_run_parser())),
    ],
    ids=[
        *("tools", "websocket", "ipc", "shell", "settings", "profile", "limits", "flags", "env"),
        *("stdin", "hooks", "run"),
    ],
)
def test_everything_has_a_gate(table: Mapping[str, str], there: set[str]) -> None:
    assert there - set(table) == set(), "these have no gate in tests/capability_table.py"
    assert set(table) - there == set(), "these are no longer there"


@pytest.mark.contract("permissions:gates")
def test_the_gate_of_a_tool_is_the_switch_that_its_example_needs() -> None:
    said = {
        name: capability_table.TOOL_SWITCHES[gate] for name, gate in capability_table.TOOLS.items()
    }
    assert said == {name: EXAMPLES[name].required_setting for name in capability_table.TOOLS}


@pytest.mark.contract("permissions:gates")
async def test_every_route_has_the_gate_that_is_said(tmp_path: Path) -> None:
    async with open_server(tmp_path) as here:
        made = make_application(
            here.listening.connections, build_origin_policy("127.0.0.1", 1, tls=False)
        )
        assert isinstance(made, SecurityMiddleware)
        found = set()
        for route in made._application.routes:  # type: ignore[attr-defined]
            match route:
                case WebSocketRoute():
                    found.add(f"WebSocket {route.path}")
                case Route():
                    assert route.methods == {"GET", "HEAD"}
                    found.add(f"GET {route.path}")
        assert found == set(capability_table.ROUTES)
        for name, gate in capability_table.ROUTES.items():
            kind, path = name.split(" ", 1)
            path = path.replace("{path:path}", "x")
            upgrade = UPGRADE if kind == "WebSocket" else {}
            foreign = await get(here, path, **upgrade, host="evil.test")
            assert foreign[0] == 403, name
            page = await get(here, path, **upgrade, origin="http://evil.test")
            assert page[0] == 403, name
            if kind == "GET":
                bare = await get(here, path)
                assert (bare[0] == 401) == (gate is Web.TOKEN), name
            wrong = await get(here, path, **upgrade, authorization=f"Bearer x{TOKEN}")
            assert (wrong[0] == 401) == (gate is Web.TOKEN), name


UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "MDEyMzQ1Njc4OWFiY2RlZg==",
}


# What a project may do about settings ------------------------------------------------------------

STRICT = Settings(auto_approval_enabled=False, always_allow_read_only=False, sandbox="required")
LOOSE = structs.replace(
    Settings(),
    **{
        field.name: True
        for field in structs.fields(Settings)
        if field.name.startswith("always_allow")
    },
    denied_commands=("git push",),
    disabled_tools=("browser_action",),
    allowed_max_requests=10,
    allowed_max_cost=1.5,
    sandbox="off",
    sandbox_network="all",
)
VALUES: tuple[Any, ...] = (True, False, 0, 1, 7, 10**6, -1, 0.5, "", "*", "off", "all", "required")
VALUES += (["packages.example", "*.test.example"],)
VALUES += ("auto", [], ["*"], ["/"], {}, {"*": "sh"}, [{"event": "onAsk", "command": "touch x"}])
PROFILES = {"profiles": {"x": {"provider": "openai", "baseUrl": "http://evil.test", "apiKey": "x"}}}


class Project:
    def __init__(self, root: Path) -> None:
        self.home, self.root = root / "home", root / "work"
        (self.root / ".roo").mkdir(parents=True)
        self.env = {"HOME": str(root), "JOEY_HOME": str(self.home), "ANTHROPIC_API_KEY": "mine"}

    def settings(self, own: Settings, **values: Any) -> Settings:
        """What counts when the project has these."""
        text = json.dumps(values)
        (self.root / ".roo/settings.json").write_text(text, encoding="utf-8")
        return apply_project_restrictions(LocalFiles(self.root), self.home, self.env, own)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def is_stricter(key: Key, before: Any, after: Any) -> bool:
    match key:
        case Key.OFF:
            return after is False
        case Key.ADDED:
            return set(after) >= set(before)
        case Key.LOWERED:
            return before is None or after <= before
        case Key.STRICTEST:
            return after in ("required", "off") and (before, after) != ("required", "off")
        case Key.FEWER:
            return bool(after == intersect_hosts(before, after))
        case Key.YOURS:
            return False


@pytest.mark.contract("models:keys")
@pytest.mark.parametrize("name", capability_table.SETTINGS)
def test_a_project_changes_a_setting_only_to_a_stricter_one(project: Project, name: str) -> None:
    key = capability_table.SETTINGS[name]
    field = {each.encode_name: each.name for each in structs.fields(Settings)}[name]
    changed = False
    for own in (Settings(), LOOSE, STRICT):
        for value in VALUES:
            counts = project.settings(own, **{name: value})
            if counts == own or counts == structs.replace(own, auto_approval_enabled=False):
                continue  # nothing came of it, or it was not understood and everything is asked
            changed = True
            before, after = getattr(own, field), getattr(counts, field)
            assert is_stricter(key, before, after), f"{value!r}: {before!r} became {after!r}"
            assert structs.replace(counts, **{field: before}) == own
    assert changed == (key is not Key.YOURS and name != "autoApprovalEnabled")


@pytest.mark.contract("models:keys")
@pytest.mark.parametrize("place", [".", ".roo", ".joey", ".vscode", ".config/joey"])
def test_no_file_of_a_project_names_a_model_a_key_or_an_address(
    project: Project, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = project.root / place
    directory.mkdir(parents=True, exist_ok=True)
    own = {each.encode_name: "http://evil.test" for each in structs.fields(Profile)}
    roo = {"apiProvider": "openai", "openAiBaseUrl": "http://evil.test", "openAiApiKey": "x"}
    settings = own | roo | {"listen": "0.0.0.0", "storage": "/", "currentApiConfigName": "x"}
    for name in ("settings.json", "profiles.json", "config.json", "providers.json"):
        (directory / name).write_text(json.dumps(settings | PROFILES), encoding="utf-8")
    lines = (f"{name}=http://evil.test" for name in (*capability_table.VARIABLES, *KEYS))
    for name in (".env", ".env.local", ".envrc"):
        (directory / name).write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(project.root)
    options = make_options(workspace=project.root, env=project.env)
    assert options.profile == Profile(
        provider="anthropic", api_key="mine", model=options.profile.model if options.profile else ""
    )
    files = LocalFiles(project.root)
    assert apply_project_restrictions(files, project.home, project.env, Settings()) == Settings()


KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "HTTPS_PROXY",
)


@pytest.mark.contract("models:keys")
def test_a_setting_that_is_sent_along_cannot_take_back_what_is_denied(project: Project) -> None:
    options = make_options(workspace=project.root, env=project.env, deny=("git push",))
    again = apply_configuration(options, {"deniedCommands": []}, project.env)
    assert again.settings.denied_commands == ("git push",)


@pytest.mark.contract("models:keys")
def test_hooks_of_a_project_are_only_ever_wanted(project: Project) -> None:
    """They are asked about as a whole, and are no setting: see tests/execution."""
    hooks = [{"event": "onAsk", "command": "touch x"}]
    assert project.settings(Settings(), hooks=hooks).hooks == ()
    (project.root / ".roo/hooks.json").write_text(json.dumps(hooks), encoding="utf-8")
    files = LocalFiles(project.root)
    found = read_project_hooks(build_config_scopes(files, project.home, project.env))
    assert [item.name for item in found.trust_items] == ["hook:.roo/hooks.json"]
    assert apply_project_restrictions(files, project.home, project.env, Settings()).hooks == ()


def test_a_token_is_no_flag() -> None:
    """What stands on a command line can be read by everybody on the machine."""
    run = set(vars(parse_command_line(["-p", "x"])))
    assert not {name for name in run if "token" in name and name != "max_tokens"}
    # That of Roo's command line, which joey takes with a warning.
    assert {name for name in run if "key" in name} == {"api_key"}
    assert {name for name in capability_table.SERVE_FLAGS if "token" in name} == {"--token-file"}


# The document ------------------------------------------------------------------------------------


def grouped(table: Mapping[str, StrEnum], kind: type[StrEnum]) -> Iterator[tuple[str, str]]:
    """Names that have the same gate on one line."""
    for gate in kind:
        names = [f"`{name}`" for name, each in table.items() if each is gate]
        if names:
            yield ", ".join(names), gate.value


def listed(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = (f"| {name} | {gate} |" for name, gate in (head, ("---", "---"), *rows))
    return "\n".join(lines) + "\n"


def tables() -> str:
    flags = ((f"`{name}`", gate) for name, gate in capability_table.SERVE_FLAGS.items())
    named = ((f"`{name}`", gate) for name, gate in capability_table.VARIABLES.items())
    mine = {f"{name} (profile)": key for name, key in capability_table.PROFILE.items()}
    mine |= {f"{name} (limit)": key for name, key in capability_table.LIMITS.items()}
    return "\n".join(
        (
            listed(("tool", "decided by"), grouped(capability_table.TOOLS, capability_table.Tool)),
            listed(
                ("WebSocket: token, and", "what it can do"),
                grouped(capability_table.WEBSOCKET, capability_table.Wire),
            ),
            listed(
                ("IPC: socket file 0600, and", "what it can do"),
                grouped(capability_table.IPC, capability_table.Wire),
            ),
            listed(
                ("stdin (`--input-format stream-json`)", "what it can do"),
                grouped(run_capabilities.STDIN, capability_table.Wire),
            ),
            listed(
                ("hook", "what it can do"),
                grouped(run_capabilities.HOOKS, run_capabilities.HookEffect),
            ),
            listed(
                ("flag of a run", "what it does"),
                grouped(run_capabilities.RUN_FLAGS, run_capabilities.FlagEffect),
            ),
            listed(("route", "gate"), grouped(capability_table.ROUTES, capability_table.Web)),
            listed(
                ("`joey …`", "what it does"),
                grouped(capability_table.COMMANDS, capability_table.Shell),
            ),
            listed(
                ("setting", "set by"),
                grouped({**capability_table.SETTINGS, **mine}, capability_table.Key),
            ),
            listed(("flag of `joey serve`", "set by"), flags),
            listed(("variable", "set by"), named),
        )
    )


@pytest.mark.contract("permissions:gates")
def test_the_tables_in_the_document_are_up_to_date() -> None:
    hold(DOCUMENT, BEGIN, END, tables(), "tests/test_capability_table.py")
