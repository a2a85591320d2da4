"""What passes for the value of an option names no file, unless there is such a file outside.

Programs differ: where one takes a value another takes none, or an option before it has taken the
option itself. Then the next word is a file that is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from joey.app.options import PermissionFlags
from joey.app.permission_explanations import PermissionExplainer
from joey.core.permissions.arguments import ProgramSpec
from joey.core.permissions.git_commands import READ_ONLY_SUBCOMMANDS, build_git_spec
from joey.core.permissions.program_tables import (
    BUILD_PROGRAMS,
    MODIFYING_PROGRAMS,
    READ_ONLY_PROGRAMS,
)
from tests.harness.permissions.command_testbed import CommandTestbed

OUTSIDE = ("../outside/secret", "link", "dirlink/secret", "{root}/outside/secret")


def valued(sheet: ProgramSpec) -> Iterator[str]:
    return (word.rstrip("=") for word in sheet.harmless_options.split() if word.endswith("="))


def lines() -> Iterator[str]:
    sheets = {**READ_ONLY_PROGRAMS, **MODIFYING_PROGRAMS, **BUILD_PROGRAMS}
    for name, sheet in sheets.items():
        if sheet.text_operands != "all":
            yield from (f"{name} x {option}" for option in valued(sheet))
    for name in sorted(READ_ONLY_SUBCOMMANDS):
        yield from (f"git {name} x {option}" for option in valued(build_git_spec(name)))


@pytest.mark.contract("permissions:words", "permissions:paths")
@pytest.mark.parametrize("value", OUTSIDE)
async def test_no_option_hides_a_file_outside_as_its_value(tmp_path: Path, value: str) -> None:
    testbed = CommandTestbed(tmp_path, ())
    named = value.replace("{root}", str(testbed.root))
    unasked = []

    @cache
    def build_explainer(program: str) -> PermissionExplainer:
        flags = PermissionFlags(allow=(program,), no_sandbox=True)
        return PermissionExplainer(testbed.work, flags, home=tmp_path / "joey-home", env={})

    for line in lines():
        explainer = build_explainer(line.split()[0])
        for given in (f"{line} {named}", f"{line} {line.split()[-1]} {named}"):
            if (await explainer.explain_command(given)).decision == "allow":
                unasked.append(given)

    assert unasked == []


@pytest.mark.parametrize(
    "line",
    [
        *("grep -e /api/users README.md", "rg -g '*.py' -e /v1 src", "cut -d / -f 1 other"),
        *("git log --grep /nowhere/at/all", "jq --arg name value '.[$name]' package.json"),
        *("rg -r new old src", "rg -rn old src", "git commit -m 'Read /etc/hosts no more'"),
        *("git config user.name Ada", "git config --get core.pager", "git commit -S -m x"),
    ],
)
async def test_a_value_that_is_no_file_outside_is_text(tmp_path: Path, line: str) -> None:
    testbed = CommandTestbed(tmp_path, ())
    rules = ("grep", "rg", "cut", "git", "jq", "git commit", "git config")
    flags = PermissionFlags(allow=rules, no_sandbox=True)
    explainer = PermissionExplainer(testbed.work, flags, home=tmp_path / "joey-home", env={})

    answer = await explainer.explain_command(line)

    assert answer.decision == "allow", answer.reason
