from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from joey.config.customizations import FileCustomizations
from joey.core.modes import BUILT_IN_MODES, Instructions
from tests.harness.config.customization_files import Disk, mode_of, rules_of

MODE = "customModes: [{slug: poet, name: Poet, roleDefinition: You rhyme., groups: []}]"
SKILL = "---\nname: a\ndescription: x\n---\n"


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    disk = Disk(tmp_path)
    disk.write(
        {
            ".roo/rules/a.md": "a",
            ".roo/commands/a.md": "a",
            ".roo/skills/a/SKILL.md": SKILL,
            ".roomodes": MODE,
            "AGENTS.md": "a",
            "deep/.roo/rules/a.md": "a",
        }
    )
    return disk


CHANGES: dict[str, Callable[[Disk], object]] = {
    "a rule is edited": lambda disk: disk.write({".roo/rules/a.md": "b"}),
    "a rule is added": lambda disk: disk.write({".roo/rules/b.md": "b"}),
    "a rule is removed": lambda disk: disk.path(".roo/rules/a.md").unlink(),
    "rules of a mode appear": lambda disk: disk.write({".roo/rules-code/a.md": "a"}),
    "rules of the person appear": lambda disk: disk.write({"~/.roo/rules/a.md": "a"}),
    "a fallback appears": lambda disk: disk.write({".roorules-ask": "a"}),
    "AGENTS.md is edited": lambda disk: disk.write({"AGENTS.md": "other"}),
    "AGENTS.local.md appears": lambda disk: disk.write({"AGENTS.local.md": "mine"}),
    "something is hidden": lambda disk: disk.write({".rooignore": "x"}),
    "a mode is renamed": lambda disk: disk.write({".roomodes": MODE.replace("Poet", "Bard")}),
    "modes of the person appear": lambda disk: disk.write(
        {"~/.roo/modes.yaml": MODE.replace("poet", "x")}
    ),
    "a command appears": lambda disk: disk.write({"~/.roo/commands/x.md": "x"}),
    "a skill appears": lambda disk: disk.write({".agents/skills-ask/a/SKILL.md": SKILL}),
    "a skill says more": lambda disk: disk.write(
        {".roo/skills/a/SKILL.md": SKILL.replace("x", "y")}
    ),
    "a folder below gets rules": lambda disk: disk.write({"other/.roo/rules/a.md": "a"}),
    "a prompt appears": lambda disk: disk.write({".roo/system-prompt-code": "x"}),
}


@pytest.mark.contract("context:stable-prefix")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_counts_after_a_refresh_and_not_before(
    disk: Disk, change: Callable[[Disk], object]
) -> None:
    customizations = disk.load_customizations(enable_subfolder_rules=True)
    before = describe_customizations(customizations)
    assert not customizations.refresh()
    change(disk)
    assert describe_customizations(customizations) == before
    assert customizations.refresh()
    assert (
        describe_customizations(customizations)
        == describe_customizations(disk.load_customizations(enable_subfolder_rules=True))
        != before
    )
    assert not customizations.refresh()


def test_a_file_that_is_saved_unchanged_changes_nothing(disk: Disk) -> None:
    customizations = disk.load_customizations()
    modes, rules = customizations.modes, rules_of(customizations)
    os.utime(disk.path(".roo/rules/a.md"), ns=(1, 1))
    os.utime(disk.path(".roomodes"), ns=(1, 1))
    assert not customizations.refresh()
    assert customizations.modes is modes
    assert rules_of(customizations) is rules


def test_without_files_there_is_what_is_built_in(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.home.rmdir()
    customizations = disk.load_customizations()
    assert customizations.modes == BUILT_IN_MODES
    assert rules_of(customizations) == Instructions()
    assert customizations.list_skills(mode_of(customizations)) == ()
    assert [command.name for command in customizations.list_commands()] == ["init", "review"]
    assert (customizations.warnings, customizations.refresh()) == ((), False)


def describe_customizations(customizations: FileCustomizations) -> object:
    return (
        customizations.modes,
        [
            (customizations.get_instructions(mode), customizations.list_skills(mode))
            for mode in customizations.modes
        ],
        customizations.list_commands(),
        customizations.warnings,
    )
