"""File tools with `-y` and sandboxed commands see the same of the machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from joey.app.sandbox import boundary_for
from joey.core.paths import FileScope, Place
from joey.core.settings import Settings
from joey.workspace.files import LocalFiles
from tests.sandboxes.conftest import Scene


def gate(scene: Scene, settings: Settings, *added: Path, **env: str) -> LocalFiles:
    scope = FileScope(added=added, as_sandboxed=True)
    env = {"HOME": str(scene.home), "PATH": os.environ["PATH"], **env}
    joey_home = scene.home / ".roo"
    boundary = boundary_for(scene.workspace, joey_home, env, settings, scope)
    return LocalFiles(scene.workspace, boundary=boundary)


def may_read(place: Place) -> bool:
    return place.inside or place.readable


@pytest.fixture
def shared() -> Iterator[Path]:
    """A file in memory that programs share, and that anybody may read."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="joey-test-") as file:
        file.write(b"words")
        file.flush()
        Path(file.name).chmod(0o644)
        yield Path(file.name)


@pytest.mark.requirement("permissions:yes-boundary")
async def test_tools_read_what_commands_can_read(scene: Scene, shared: Path) -> None:
    home, tools = scene.home, scene.home / ".cargo"
    paths = [
        home / ".ssh/id_rsa",
        home / ".bashrc",
        home / "notes.txt",
        home / ".roo/profiles.json",
        tools / "bin/tool",
        tools / "credentials",
        scene.outside / "a.txt",
        scene.workspace / "a.txt",
        scene.workspace / "deep/er/a.txt",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("words", encoding="utf-8")
    (scene.workspace / "link").symlink_to(home / ".ssh/id_rsa")
    settings = Settings(sandbox_readable=(str(scene.outside),))
    seen = [*map(str, paths), "/etc/passwd", "/usr/bin/env", str(scene.workspace / "link")]
    seen.append(str(shared))
    (answer,) = await scene.run(
        "; ".join(f"head -c 5 {path} >/dev/null 2>&1 && echo {path}" for path in seen) + "; true",
        settings=settings,
    )
    files = gate(scene, settings)
    read = [path for path in seen if may_read(files.resolve(path))]
    assert answer.output.split() == read
    assert str(home / ".ssh/id_rsa") not in read
    assert str(tools / "bin/tool") in read


def test_secrets_in_the_workspace_count_as_outside(scene: Scene) -> None:
    (scene.workspace / ".roo").mkdir()
    boundary = boundary_for(
        scene.home,
        scene.home / ".roo",
        {"HOME": str(scene.home)},
        Settings(),
        FileScope(as_sandboxed=True),
    )
    files = LocalFiles(scene.home, boundary=boundary)
    assert not files.resolve(".roo/settings.json").inside
    assert not files.resolve(".roo/settings.json").readable
    assert files.resolve("project/.roo/settings.json").inside


def test_the_temporary_directory_is_for_writing_and_not_for_joeys_own_files(scene: Scene) -> None:
    temp = scene.outside
    files = gate(scene, Settings(), TMPDIR=str(temp))
    made = files.resolve(str(temp / "new.txt"))
    assert (made.inside, made.readable, made.writable) == (False, False, True)
    assert not files.resolve(str(temp / "joey-commands-1-abc/written")).writable
    assert not files.resolve(str(temp)).writable
    assert files.resolve(str(temp / ".bashrc")).protected


def test_names_are_protected_as_seen_from_an_added_directory(scene: Scene) -> None:
    added = scene.home / ".config" / "tool"
    added.mkdir(parents=True)
    files = gate(scene, Settings(), added)
    assert not files.resolve(str(added / "x.toml")).protected
    assert files.resolve(str(added / ".git/hooks/pre-commit")).protected
    assert files.resolve(str(scene.home / ".config/other")).protected
    (scene.workspace / ".roo").symlink_to(added)
    assert files.resolve(".roo/x.toml").protected


def test_settings_that_allow_reading_everywhere_hide_nothing_from_searches(scene: Scene) -> None:
    (scene.home / ".ssh").mkdir()
    key = scene.home / ".ssh/id_rsa"
    root = Place(given="/", path=Path("/"), shown="/", inside=False, readable=True)
    assert not gate(scene, Settings()).shows(root, key)
    everywhere = Settings(always_allow_read_only_outside_workspace=True)
    assert gate(scene, everywhere).shows(root, key)


@pytest.mark.requirement("permissions:add-dir")
async def test_commands_write_in_added_directories_and_nowhere_else(scene: Scene) -> None:
    other = scene.root / "other"
    other.mkdir()
    command = f"touch {scene.outside}/made; touch {other}/made 2>/dev/null; true"
    await scene.run(command, added=(scene.outside,))
    assert (scene.outside / "made").exists()
    assert not (other / "made").exists()
