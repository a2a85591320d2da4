"""File tools with `-y` and sandboxed commands see the same of the machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from joey.app.sandbox import build_boundary
from joey.core.path_access import FileScope, ResolvedPath
from joey.core.settings import Settings
from joey.workspace.files import LocalFiles
from tests.harness.execution.sandbox import SandboxHarness


def open_files(harness: SandboxHarness, settings: Settings, *added: Path, **env: str) -> LocalFiles:
    scope = FileScope(added_directories=added, matches_sandbox=True)
    env = {"HOME": str(harness.home), "PATH": os.environ["PATH"], **env}
    joey_home = harness.home / ".roo"
    boundary = build_boundary(harness.workspace, joey_home, env, settings, scope)
    return LocalFiles(harness.workspace, boundary=boundary)


def may_read(place: ResolvedPath) -> bool:
    return place.is_inside or place.can_read_without_approval


@pytest.fixture
def shared() -> Iterator[Path]:
    """A file in memory that programs share, and that anybody may read."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="joey-test-") as file:
        file.write(b"words")
        file.flush()
        Path(file.name).chmod(0o644)
        yield Path(file.name)


@pytest.mark.contract("permissions:yes")
@pytest.mark.smoke
async def test_tools_read_what_commands_can_read(harness: SandboxHarness, shared: Path) -> None:
    home, tools = harness.home, harness.home / ".cargo"
    paths = [
        home / ".ssh/id_rsa",
        home / ".bashrc",
        home / "notes.txt",
        home / ".roo/profiles.json",
        tools / "bin/tool",
        tools / "credentials",
        harness.outside / "a.txt",
        harness.workspace / "a.txt",
        harness.workspace / "deep/er/a.txt",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("words", encoding="utf-8")
    (harness.workspace / "link").symlink_to(home / ".ssh/id_rsa")
    settings = Settings(sandbox_readable=(str(harness.outside),))
    seen = [*map(str, paths), "/etc/passwd", "/usr/bin/env", str(harness.workspace / "link")]
    seen.append(str(shared))
    (answer,) = await harness.run(
        "; ".join(f"head -c 5 {path} >/dev/null 2>&1 && echo {path}" for path in seen) + "; true",
        settings=settings,
    )
    files = open_files(harness, settings)
    read = [path for path in seen if may_read(files.resolve(path))]
    assert answer.output.split() == read
    assert str(home / ".ssh/id_rsa") not in read
    assert str(tools / "bin/tool") in read


def test_secrets_in_the_workspace_count_as_outside(harness: SandboxHarness) -> None:
    (harness.workspace / ".roo").mkdir()
    boundary = build_boundary(
        harness.home,
        harness.home / ".roo",
        {"HOME": str(harness.home)},
        Settings(),
        FileScope(matches_sandbox=True),
    )
    files = LocalFiles(harness.home, boundary=boundary)
    assert not files.resolve(".roo/settings.json").is_inside
    assert not files.resolve(".roo/settings.json").can_read_without_approval
    assert files.resolve("project/.roo/settings.json").is_inside


def test_the_temporary_directory_is_for_writing_and_not_for_joeys_own_files(
    harness: SandboxHarness,
) -> None:
    temp = harness.outside
    files = open_files(harness, Settings(), TMPDIR=str(temp))
    made = files.resolve(str(temp / "new.txt"))
    assert (made.is_inside, made.can_read_without_approval, made.can_write_without_approval) == (
        False,
        False,
        True,
    )
    assert not files.resolve(str(temp / "joey-commands-1-abc/written")).can_write_without_approval
    assert not files.resolve(str(temp)).can_write_without_approval
    assert files.resolve(str(temp / ".bashrc")).is_protected


def test_names_are_protected_as_seen_from_an_added_directory(harness: SandboxHarness) -> None:
    added = harness.home / ".config" / "tool"
    added.mkdir(parents=True)
    files = open_files(harness, Settings(), added)
    assert not files.resolve(str(added / "x.toml")).is_protected
    assert files.resolve(str(added / ".git/hooks/pre-commit")).is_protected
    assert files.resolve(str(harness.home / ".config/other")).is_protected
    (harness.workspace / ".roo").symlink_to(added)
    assert files.resolve(".roo/x.toml").is_protected


def test_settings_that_allow_reading_everywhere_hide_nothing_from_searches(
    harness: SandboxHarness,
) -> None:
    (harness.home / ".ssh").mkdir()
    key = harness.home / ".ssh/id_rsa"
    root = ResolvedPath(
        path_as_given="/",
        path=Path("/"),
        display_path="/",
        is_inside=False,
        can_read_without_approval=True,
    )
    assert not open_files(harness, Settings()).can_show(root, key)
    everywhere = Settings(always_allow_read_only_outside_workspace=True)
    assert open_files(harness, everywhere).can_show(root, key)


@pytest.mark.contract("permissions:yes")
async def test_commands_write_in_added_directories_and_nowhere_else(
    harness: SandboxHarness,
) -> None:
    other = harness.root / "other"
    other.mkdir()
    command = f"touch {harness.outside}/made; touch {other}/made 2>/dev/null; true"
    await harness.run(command, added=(harness.outside,))
    assert (harness.outside / "made").exists()
    assert not (other / "made").exists()
