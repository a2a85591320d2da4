"""Protected names below the root of a workspace, and names that are links."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from joey.core.settings import Settings
from joey.execution.sandbox.protected_files import find_protected_paths
from joey.execution.sandbox.protected_scan import (
    MAX_SCANNED_DIRECTORIES,
    ProtectedPathScanner,
    ScannedDirectory,
)
from joey.execution.sandbox.restore import NewProtectedFileFinder
from tests.harness.execution.actor import CommandStep
from tests.harness.execution.sandbox import EVIL, SandboxHarness, kill_joey, on_diagonal, tree

MANY = (
    *("packages/a/.vscode/settings.json", "packages/a/AGENTS.md", "packages/b/.npmrc"),
    *("deep/er/and/deeper/.husky/pre-push", "packages/b/src/main.py"),
)


def create_nested_project(workspace: Path) -> None:
    for name in MANY:
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name} as it was", encoding="utf-8")
    make_repository(workspace / "packages/a")


def make_repository(directory: Path, *options: str) -> None:
    subprocess.run(["git", "init", "-q", *options, str(directory)], check=True)


@on_diagonal
@pytest.mark.contract("sandbox:protected")
async def test_what_is_protected_deep_in_the_workspace_is_afterwards_as_it_was(
    harness: SandboxHarness,
) -> None:
    create_nested_project(harness.workspace)
    before = tree(harness.workspace)
    await harness.run(
        f"echo {EVIL} > packages/a/.vscode/settings.json; rm -f packages/a/AGENTS.md",
        f"mv packages/a/.vscode x; mkdir packages/a/.vscode; echo {EVIL} > packages/a/.vscode/a",
        f"echo {EVIL} >> packages/a/.git/config; echo {EVIL} > packages/a/.git/hooks/pre-commit",
        f"echo {EVIL} > packages/b/.npmrc; rm -rf deep/er/and/deeper/.husky",
        f"echo {EVIL} > n; mv -f n packages/b/.npmrc; ln packages/b/.npmrc h; echo {EVIL} >> h",
    )
    own = ("x", "h", "n")
    after = {name: text for name, text in tree(harness.workspace).items() if name[0] not in own}
    assert after == before


@on_diagonal
@pytest.mark.contract("sandbox:protected")
async def test_what_appears_under_a_protected_name_anywhere_is_put_aside(
    harness: SandboxHarness,
) -> None:
    (harness.workspace / "src").mkdir()
    answers = await harness.run(
        f"mkdir -p new/one/.vscode; echo {EVIL} > new/one/.vscode/tasks.json; touch new/one/fine",
        f"mkdir -p src/.git/hooks; echo {EVIL} > src/.git/config; echo {EVIL} > src/Claude.MD",
        f"mkdir t; echo {EVIL} > t/a; mv t src/.idea; ln -s /etc src/.cursor; mkfifo src/.envrc",
        f"mkdir s; chmod 700 s; echo {EVIL} > s/.mcp.json; chmod 0 s",
        "mkdir env; echo 'home = /usr/bin' > env/pyvenv.cfg; touch env/kept",
    )
    assert "new/one/.vscode is protected and was removed again" in answers[0].output
    found = {name for name in tree(harness.workspace) if not name.startswith("env/")}
    assert found == {"src", "new", "new/one", "new/one/fine", "s", "env"}
    assert (harness.workspace / "env/pyvenv.cfg").is_file()
    aside = {path.name for path in (harness.home / ".roo/put-aside").rglob("*")}
    assert {"new-one-.vscode", "src-.git", "src-.idea", "s-.mcp.json"} <= aside


@on_diagonal
@pytest.mark.contract("sandbox:protected")
async def test_a_directory_can_be_moved_with_what_is_protected_in_it_and_not_be_replaced(
    harness: SandboxHarness,
) -> None:
    create_nested_project(harness.workspace)
    await harness.run(
        "mv packages/b packages/c",
        f"mv packages/c packages/b && mkdir packages/c && echo {EVIL} > packages/c/.npmrc",
        f"mv packages/a q; mkdir -p packages/a/.vscode; echo {EVIL} > packages/a/.vscode/a",
    )
    after = tree(harness.workspace)
    assert after["packages/b/.npmrc"] == "packages/b/.npmrc as it was"
    assert EVIL not in "".join(after.values())


@on_diagonal
@pytest.mark.contract("sandbox:protected")
async def test_links_of_protected_names_are_held_with_what_they_lead_to(
    harness: SandboxHarness,
) -> None:
    workspace = harness.workspace
    for name in (
        "docs/rules.md",
        "tools/editor/tasks.json",
        "githooks/pre-commit",
        "web/AGENTS.md",
    ):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(f"{name} as it was", encoding="utf-8")
    make_repository(workspace)
    shutil.rmtree(workspace / ".git/hooks")
    (workspace / "docs/latest").symlink_to("rules.md")
    (workspace / "AGENTS.md").symlink_to("docs/latest")
    (workspace / "CLAUDE.md").symlink_to(workspace / "AGENTS.md")
    (workspace / ".vscode").symlink_to("tools/editor")
    (workspace / ".git/hooks").symlink_to("../githooks")
    (workspace / ".idea").symlink_to("../outside")
    before = {**tree(workspace), **{str(each): str(each.readlink()) for each in links(workspace)}}
    await harness.run(
        f"rm AGENTS.md; echo {EVIL} > AGENTS.md; ln -sf {EVIL} CLAUDE.md",
        f"echo {EVIL} > docs/rules.md; rm -f docs/latest; echo {EVIL} > docs/latest",
        f"echo {EVIL} > tools/editor/tasks.json; rm .vscode; mkdir .vscode; touch .vscode/a",
        f"rm .git/hooks; mkdir .git/hooks; echo {EVIL} > .git/hooks/pre-push",
        f"echo {EVIL} > githooks/pre-commit; rm .idea; mkdir .idea",
    )
    after = {**tree(workspace), **{str(each): str(each.readlink()) for each in links(workspace)}}
    assert after == before


def links(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_symlink())


@on_diagonal
async def test_a_user_can_open_a_protected_name_deep_in_the_workspace(
    harness: SandboxHarness,
) -> None:
    opened = Settings(sandbox_writable=("sub/.vscode", "sub/.git"))
    (harness.workspace / "sub").mkdir()
    (answer,) = await harness.run(
        "cd sub && mkdir .vscode && echo mine > .vscode/a && git init -q && touch AGENTS.md",
        settings=opened,
    )
    assert answer.exit_code == 0, answer.output
    assert (harness.workspace / "sub/.vscode/a").read_text(encoding="utf-8") == "mine\n"
    assert (harness.workspace / "sub/.git/config").exists()
    assert not (harness.workspace / "sub/AGENTS.md").exists()


@on_diagonal
@pytest.mark.parametrize("path", ["sub/AGENTS.md", "sub/.github/workflows/a.yml"])
async def test_what_joey_writes_itself_meanwhile_stays(harness: SandboxHarness, path: str) -> None:
    (harness.workspace / "sub").mkdir()
    wait = f"echo up; until [ -e {path} ]; do sleep 0.05; done; sleep 0.2; touch sub/.npmrc"
    await harness.run(CommandStep(wait, until="up", writes=path))
    assert (harness.workspace / path).read_text(encoding="utf-8") == "by joey"
    assert not (harness.workspace / "sub/.npmrc").exists()


@on_diagonal
async def test_a_repository_of_a_submodule_with_a_long_name_is_held(
    harness: SandboxHarness,
) -> None:
    make_repository(harness.workspace)
    inner = harness.workspace / ".git/modules/libs/inner/one"
    make_repository(inner, "--bare")
    before = (inner / "config").read_text(encoding="utf-8")
    await harness.run(f"echo {EVIL} >> .git/modules/libs/inner/one/config; touch fine")
    assert (inner / "config").read_text(encoding="utf-8") == before
    assert (harness.workspace / "fine").exists()


@on_diagonal
async def test_names_beyond_the_number_that_can_be_held_are_put_back(
    harness: SandboxHarness,
) -> None:
    for number in range(90):
        directory = harness.workspace / f"p{number:03}"
        directory.mkdir()
        (directory / ".npmrc").write_text("as it was", encoding="utf-8")
    await harness.run(f"for each in p*; do echo {EVIL} > $each/.npmrc; done")
    assert {path.read_text() for path in harness.workspace.rglob(".npmrc")} == {"as it was"}


@on_diagonal
async def test_what_was_made_deep_before_joey_was_killed_is_put_aside(
    harness: SandboxHarness,
) -> None:
    step = CommandStep("mkdir -p a/b/.idea; echo up; sleep 300", until="up", then="leave")
    process = await harness.start(step, lingers=True)
    assert process.stdout is not None
    await process.stdout.readline()
    assert (harness.workspace / "a/b/.idea").is_dir()
    assert await kill_joey(process) == []
    assert tree(harness.workspace) == {"a": "", "a/b": ""}


def look(root: Path) -> dict[str, ScannedDirectory]:
    return ProtectedPathScanner(str(root)).scan()


def test_a_survey_reads_again_only_what_was_changed(tmp_path: Path) -> None:
    create_nested_project(tmp_path)
    (tmp_path / "node_modules/x/.vscode").mkdir(parents=True)
    for directory in (tmp_path, *(each for each in tmp_path.rglob("*") if each.is_dir())):
        until_settled(directory)
    survey = ProtectedPathScanner(str(tmp_path))
    first = survey.scan()
    assert [name for name, _, _ in first["packages/a"][3]] == [".git", ".vscode", "AGENTS.md"]
    assert "node_modules" not in first
    (tmp_path / "packages/b/CLAUDE.md").touch()
    second = survey.scan()
    assert [name for name, _, _ in second["packages/b"][3]] == [".npmrc", "CLAUDE.md"]
    assert second["deep"] is first["deep"]
    (tmp_path / "packages/b/CLAUDE.md").unlink()
    assert survey.scan()["packages/b"][3] == first["packages/b"][3]


def until_settled(directory: Path) -> None:
    """A change within a moment after the look could not be seen later."""
    while time.time_ns() - directory.stat().st_ctime_ns < 100_000_000:
        time.sleep(0.01)


def test_a_huge_workspace_is_surveyed_from_above_to_a_bound(tmp_path: Path) -> None:
    (tmp_path / "a/AGENTS.md").mkdir(parents=True)
    for number in range(MAX_SCANNED_DIRECTORIES // 64 + 1):
        for inner in range(64):
            (tmp_path / f"z{number}/{inner}").mkdir(parents=True)
    found = ProtectedPathScanner(str(tmp_path)).scan()
    assert len(found) == MAX_SCANNED_DIRECTORIES
    assert "a/AGENTS.md" in find_protected_paths(tmp_path, found, frozenset()).read_only


def test_an_inode_that_is_used_again_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("old", encoding="utf-8")
    known = look(tmp_path)
    (tmp_path / "AGENTS.md").unlink()
    (tmp_path / "CLAUDE.md").write_text("new", encoding="utf-8")
    assert NewProtectedFileFinder(str(tmp_path), known, {"AGENTS.md"}, set()).find_new_paths() == [
        "CLAUDE.md"
    ]
