"""Directories that were not surveyed before a command are not judged after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.execution.sandbox.protected_scan import MAX_SCANNED_DIRECTORIES
from tests.harness.counts import daily
from tests.harness.execution.sandbox import DIAGONAL, EVIL, GRID, SandboxHarness, on_diagonal, tree

PER_DIRECTORY = 64
LAST = f"d{MAX_SCANNED_DIRECTORIES // PER_DIRECTORY:02}"
UNSURVEYED = ("d05/e10/z/pkg", f"{LAST}/e63")
HOMES = (UNSURVEYED[0], "d00", ".idea", "new")

# The survey and what is put aside are joey's own work, the same at each level and for each user.
HOMES_ON_DIAGONAL = [(*DIAGONAL[number % 2], home) for number, home in enumerate(HOMES)]
HOMES_ON_GRID = [(*pair, home) for pair in GRID for home in HOMES]


def fill(workspace: Path) -> None:
    """More directories than a survey looks at, with protected names in those beyond its limit."""
    for number in range(MAX_SCANNED_DIRECTORIES // PER_DIRECTORY + 1):
        for inner in range(PER_DIRECTORY):
            (workspace / f"d{number:02}/e{inner:02}").mkdir(parents=True)
    for path in UNSURVEYED:
        for name in ("AGENTS.md", ".npmrc", ".github/ci.yml", ".roo/rules/a.md", ".git/config"):
            file = workspace / path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("mine", encoding="utf-8")


def texts(workspace: Path) -> dict[str, str]:
    return {name: text for name, text in tree(workspace).items() if text}


@pytest.mark.shortened
@pytest.mark.parametrize(("harness", "user"), daily(DIAGONAL[:1], GRID), indirect=True)
@pytest.mark.contract("sandbox:protected")
async def test_existing_names_beyond_the_survey_limit_stay(harness: SandboxHarness) -> None:
    fill(harness.workspace)
    before = texts(harness.workspace)
    answers = await harness.run("true", f"touch d05/e10/x {LAST}/x")
    assert [answer.output for answer in answers] == ["", ""]
    assert texts(harness.workspace) == before
    await harness.run(
        "mv d05 moved; mv moved/e10/z/pkg pkg; touch pkg/.github/new; mv pkg/.github/new pkg/",
        f"mkdir made; mv {LAST}/e63 made/e63",
    )
    assert sorted(texts(harness.workspace)) == sorted(
        name.replace(UNSURVEYED[0], "pkg").replace(UNSURVEYED[1], "made/e63") for name in before
    )
    assert not (harness.home / ".roo/put-aside").exists()


@pytest.mark.shortened
@pytest.mark.parametrize(("harness", "user"), daily(DIAGONAL[1:], GRID), indirect=True)
@pytest.mark.contract("sandbox:protected")
async def test_new_names_within_the_survey_limit_are_put_aside(harness: SandboxHarness) -> None:
    fill(harness.workspace)
    before = texts(harness.workspace)
    (answer,) = await harness.run(
        f"echo {EVIL} > d00/AGENTS.md; mkdir -p d01/n/m; echo {EVIL} > d01/n/m/.npmrc;"
        f"mv d02 moved; echo {EVIL} > moved/e01/.envrc"
    )
    assert texts(harness.workspace) == before
    for name in ("d00/AGENTS.md", "d01/n/m/.npmrc", "moved/e01/.envrc"):
        assert f"{name} is protected and was removed again" in answer.output


@pytest.mark.shortened
@pytest.mark.parametrize(
    ("harness", "user", "where"),
    daily(HOMES_ON_DIAGONAL, HOMES_ON_GRID),
    indirect=["harness", "user"],
)
@pytest.mark.contract("sandbox:protected")
async def test_nothing_is_moved_out_of_a_home_in_the_workspace(
    harness: SandboxHarness, where: str
) -> None:
    fill(harness.workspace)
    harness.home = harness.workspace / where
    file = harness.home / ".roo/tasks/1/AGENTS.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("a task", encoding="utf-8")
    before = texts(harness.workspace)
    await harness.run("true", "mkdir d03/x; echo evil > d03/.npmrc; ln -s . d03/AGENTS.md")
    after = texts(harness.workspace)
    assert {name: after.get(name) for name in before} == before
    assert file.read_text(encoding="utf-8") == "a task"
    aside = [path.name for path in (harness.home / ".roo/put-aside").glob("*/*")]
    assert sorted(aside) == ["d03-.npmrc", "d03-AGENTS.md"]


@on_diagonal
async def test_existing_names_in_a_closed_directory_stay(harness: SandboxHarness) -> None:
    names = ("shut/AGENTS.md", "listed/.npmrc")
    for name in names:
        file = harness.workspace / name
        file.parent.mkdir()
        file.write_text("mine", encoding="utf-8")
    (harness.workspace / "shut").chmod(0)
    (harness.workspace / "listed").chmod(0o400)
    await harness.run("chmod -R u+rwX .; touch x", "chmod 700 shut listed; touch y")
    for name in names:
        assert (harness.workspace / name).read_text(encoding="utf-8") == "mine"


@on_diagonal
async def test_a_protected_directory_with_many_files_stays(harness: SandboxHarness) -> None:
    for directory in ("a/.github", "b/.github"):
        (harness.workspace / directory).mkdir(parents=True)
        for number in range(1500):
            (harness.workspace / directory / f"{number}.yml").write_text("mine", encoding="utf-8")
    before = texts(harness.workspace)
    (answer,) = await harness.run("true")
    assert answer.output == ""
    assert texts(harness.workspace) == before
