"""Modes of a project that need the user's trust."""

from __future__ import annotations

import json
from typing import Any

import pytest

from joey.config.customizations import CustomizationPaths, FileCustomizations, list_mode_trust_items
from joey.config.trust import Trusted, TrustStore
from joey.core.modes import BUILT_IN_MODES, ToolGroup, find_mode
from joey.core.settings import Settings
from tests.harness.config.customization_files import Disk, mode_of

UNASKED = Settings(
    always_allow_write=True, always_allow_execute=True, allowed_commands=("git log", "*")
)


@pytest.fixture
def disk(tmp_path: Any) -> Disk:
    return Disk(tmp_path)


def write(disk: Disk, slug: str, *groups: Any, name: str = ".roomodes") -> None:
    mode = {"slug": slug, "name": "Theirs", "roleDefinition": "Obey.", "groups": list(groups)}
    disk.write({name: json.dumps({"customModes": [mode]})})


def places(disk: Disk) -> CustomizationPaths:
    def trusts(wanted: Any) -> bool:
        return isinstance(TrustStore(disk.home).check(disk.work, wanted), Trusted)

    return CustomizationPaths(disk.work, disk.home, disk.user_home, lambda _: False, trusts)


def load_customizations(disk: Disk, settings: Settings | None = None) -> FileCustomizations:
    return FileCustomizations(places(disk), settings or Settings())


def trust(disk: Disk) -> None:
    wanted = {item.name: item.content for item in list_mode_trust_items(places(disk))}
    TrustStore(disk.home).grant(disk.work, wanted)


@pytest.mark.contract("trust:bytes")
@pytest.mark.parametrize(
    ("slug", "groups"),
    [
        ("ask", ["read", "edit"]),
        ("ask", ["command"]),
        ("orchestrator", ["read"]),
        ("architect", ["read", "edit"]),
        ("architect", [["edit", {"fileRegex": ".*"}]]),
    ],
)
def test_a_built_in_mode_that_may_do_more_stays_as_it_is_until_trusted(
    disk: Disk, slug: str, groups: list[Any]
) -> None:
    write(disk, slug, *groups)
    found = load_customizations(disk)
    assert mode_of(found, slug) == find_mode(slug, BUILT_IN_MODES)
    (warning,) = found.warnings
    assert f"mode '{slug}' is not used: it may do more than the built-in mode" in warning
    trust(disk)
    assert found.refresh(), "trust that comes later counts"
    assert mode_of(found, slug).name == "Theirs"
    assert found.warnings == ()


@pytest.mark.contract("trust:bytes")
def test_a_mode_that_was_changed_after_trust_is_not_used(disk: Disk) -> None:
    write(disk, "ask", "read", "command")
    trust(disk)
    assert mode_of(load_customizations(disk), "ask").find_grant(ToolGroup.COMMAND) is not None
    write(disk, "ask", "read", "command", "edit")
    assert mode_of(load_customizations(disk), "ask") == find_mode("ask", BUILT_IN_MODES)


@pytest.mark.contract("trust:bytes")
def test_what_the_user_has_made_stricter_is_not_loosened(disk: Disk) -> None:
    write(disk, "code", "read", name="~/.roo/modes.yaml")
    write(disk, "code", "read", "edit")
    mine = mode_of(load_customizations(disk), "code")
    assert (mine.source, mine.find_grant(ToolGroup.EDIT)) == ("global", None)


@pytest.mark.parametrize(
    ("slug", "groups"),
    [("ask", ["read"]), ("code", ["read", "edit", "command"]), ("poet", ["edit", "command"])],
)
def test_modes_that_are_new_or_may_do_less_are_used_at_once(
    disk: Disk, slug: str, groups: list[str]
) -> None:
    write(disk, slug, *groups)
    found = load_customizations(disk)
    assert mode_of(found, slug).name == "Theirs"
    assert found.warnings == ()


@pytest.mark.contract("trust:bytes")
@pytest.mark.parametrize("slug", ["poet", "ask"])
def test_where_nothing_is_asked_every_mode_of_a_project_needs_trust(disk: Disk, slug: str) -> None:
    write(disk, slug, "read")
    found = load_customizations(disk, UNASKED)
    assert all(mode.source == "built-in" for mode in found.modes)
    assert "nothing needs approval (-y)" in found.warnings[0]
    trust(disk)
    assert mode_of(load_customizations(disk, UNASKED), slug).name == "Theirs"


def test_a_user_is_asked_at_once_about_modes_that_loosen_alone(disk: Disk) -> None:
    modes = [
        {"slug": slug, "name": "X", "roleDefinition": "x", "groups": ["read", "command"]}
        for slug in ("ask", "poet")
    ]
    disk.write({".roomodes": json.dumps({"customModes": modes})})
    ask, poet = list_mode_trust_items(places(disk))
    assert (ask.needs_trust_only_unattended, poet.needs_trust_only_unattended) == (False, True)
    assert ask.details == ("may use   read, command", "in place of the built-in mode of this name")
