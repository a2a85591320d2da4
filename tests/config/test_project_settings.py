"""`.roo/settings.json` of a project: stricter, never looser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from msgspec import structs

from joey.app.options import PermissionFlags
from joey.app.permission_explanations import PermissionExplainer
from joey.config.customizations import CustomizationPaths, resolve_scopes
from joey.config.settings import read_restrictions, restrict_settings
from joey.config.untrusted_files import UntrustedFileReader
from joey.core.settings import Settings
from tests.harness.config.customization_files import Disk

FILE = ".roo/settings.json"
OPEN = Settings(
    always_allow_write=True,
    always_allow_execute=True,
    allowed_commands=("*",),
    denied_commands=("rm",),
    allowed_max_requests=10,
    sandbox="off",
)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def read(disk: Disk, settings: Settings = OPEN) -> tuple[Settings, tuple[str, ...]]:
    places = CustomizationPaths(disk.work, disk.home, disk.user_home, lambda _: False)
    reader = UntrustedFileReader()
    found = restrict_settings(settings, read_restrictions(resolve_scopes(places), reader))
    return found, reader.warnings


@pytest.mark.contract("permissions:project")
def test_a_project_may_forbid_more(disk: Disk) -> None:
    values = {
        "deniedCommands": ["git push", "rm"],
        "disabledTools": ["browser_action"],
        "alwaysAllowWrite": False,
        "allowedMaxRequests": 5,
        "allowedMaxCost": 2.5,
        "mcpEnabled": False,
        "sandbox": "required",
    }
    disk.write({FILE: json.dumps(values)})
    found, warnings = read(disk)
    assert warnings == ()
    assert found == structs.replace(
        OPEN,
        denied_commands=("rm", "git push"),
        disabled_tools=("browser_action",),
        always_allow_write=False,
        allowed_max_requests=5,
        allowed_max_cost=2.5,
        mcp_enabled=False,
        sandbox="required",
    )


@pytest.mark.contract("permissions:project")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("allowedCommands", ["*"]),
        ("alwaysAllowExecute", True),
        ("autoApprovalEnabled", True),
        ("allowedMcpTools", ["*"]),
        ("sandbox", "off"),
        ("sandboxNetwork", "all"),
        ("sandboxWritable", ["/"]),
        ("hooks", [{"event": "onAsk", "command": "x"}]),
        ("mode", "code"),
        ("commandTimeoutAllowlist", ["x"]),
        ("baseUrl", "https://example.org"),
    ],
)
def test_what_loosens_is_passed_over_and_named(disk: Disk, key: str, value: Any) -> None:
    disk.write({FILE: json.dumps({key: value})})
    found, warnings = read(disk)
    assert found == OPEN
    assert len(warnings) == 1 and f"`{key}` is not used" in warnings[0]
    disk.write({FILE: json.dumps({"allowedMaxRequests": 99})})
    assert read(disk)[0] == OPEN


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 50),
    st.sampled_from(["off", "all", "required", "*"]),
    st.lists(st.sampled_from(["*", "git", "rm"]), max_size=2),
)


@given(st.dictionaries(st.sampled_from(Settings.__struct_encode_fields__), _VALUES, max_size=4))
@examples(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.contract("permissions:project")
def test_no_file_of_a_project_ever_loosens_anything(disk: Disk, values: dict[str, Any]) -> None:
    disk.write({FILE: json.dumps(values)})
    for base in (OPEN, Settings()):
        found, _ = read(disk, base)
        for name in Settings.__struct_fields__:
            before, after = getattr(base, name), getattr(found, name)
            if before == after:
                continue
            match name, after:
                case "denied_commands" | "disabled_tools", tuple():
                    assert set(after) > set(before)
                case "allowed_max_requests" | "allowed_max_cost", _:
                    assert before is None or after < before
                case "sandbox", _:
                    assert after == "required"
                case "sandbox_network", _:
                    assert after == "off"
                case _:
                    assert (before, after) == (True, False), name


@pytest.mark.contract("permissions:unclear")
@pytest.mark.parametrize(
    "text", ["{", "[]", '{"deniedCommands": "rm"}', '{"alwaysAllowWrite": "no"}', "[" * 100_000]
)
def test_a_file_that_cannot_be_understood_makes_everything_asked(disk: Disk, text: str) -> None:
    disk.write({FILE: text})
    found, warnings = read(disk)
    assert not found.auto_approval_enabled
    assert "everything needs approval" in warnings[0]


@pytest.mark.contract("permissions:unclear")
def test_a_link_out_of_the_workspace_makes_everything_asked(disk: Disk) -> None:
    disk.write({"~/other.json": "{}"})
    disk.link(FILE, disk.user_home / "other.json")
    assert not read(disk)[0].auto_approval_enabled


def test_the_users_own_settings_are_not_those_of_a_project(disk: Disk) -> None:
    places = CustomizationPaths(disk.user_home, disk.home, disk.user_home, lambda _: False)
    disk.write({"~/.roo/settings.json": '{"alwaysAllowWrite": false}'})
    assert (
        restrict_settings(OPEN, read_restrictions(resolve_scopes(places), UntrustedFileReader()))
        == OPEN
    )


@pytest.mark.contract("permissions:project")
async def test_flags_do_not_get_around_it(disk: Disk) -> None:
    disk.write({FILE: '{"deniedCommands": ["git push"], "alwaysAllowWrite": false}'})
    flags = PermissionFlags(yes=True, no_sandbox=True)
    explainer = PermissionExplainer(disk.work, flags, disk.home, {"HOME": str(disk.user_home)})
    assert (await explainer.explain_command("git push")).decision == "deny"
    assert (await explainer.explain_write("a.txt")).decision == "ask"
    assert (await explainer.explain_command("git status")).decision == "allow"
