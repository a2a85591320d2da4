"""What the model is told of files that somebody else changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from joey.core.file_state import ReadTracker
from joey.core.path_access import ResolvedPath
from joey.engine.asks import Unattended
from joey.engine.environment import find_externally_modified_files
from joey.testing.script import Turn, call
from joey.testing.scripted_provider import ScriptedProvider
from joey.workspace.files import LocalFiles
from tests.harness.engine.engine_harness import EngineHarness, finish, list_texts, wait_for_ending

HEADING = "# Recently Modified Files"


def list_environment_details(provider: ScriptedProvider) -> list[str]:
    return ["".join(list_texts(request.messages[-1])[-1:]) for request in provider.requests]


def then(act: Callable[[], object], turn: Turn) -> Callable[..., Turn]:
    """A turn before which something happens in the world."""

    def play(*_: object) -> Turn:
        act()
        return turn

    return play


@pytest.mark.contract("prompt:environment")
async def test_a_file_that_somebody_else_changed_is_reported_once(
    engine_harness: EngineHarness,
) -> None:
    path = engine_harness.root / "a.py"
    path.write_text("one\n")
    (engine_harness.root / "b.py").write_text("never seen\n")

    def change() -> None:
        path.write_text("two, and more\n")
        (engine_harness.root / "b.py").write_text("changed\n")

    look = call("list_files", {"path": ".", "recursive": False})
    provider = engine_harness.use_script(
        Turn(call("read_file", {"files": [{"path": "a.py"}]})),
        then(change, Turn(look)),
        Turn(call("list_files", {"path": "."})),
        finish(),
    )
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    reported = [HEADING in text for text in list_environment_details(provider)]
    assert reported == [False, False, True, False]
    assert "\na.py\n" in list_environment_details(provider)[2]
    assert "b.py" not in list_environment_details(provider)[2]


@pytest.mark.contract("prompt:environment")
async def test_what_the_model_changes_itself_is_not_reported(engine_harness: EngineHarness) -> None:
    (engine_harness.root / "a.py").write_text("one\n")
    edit = {"file_path": "a.py", "old_string": "one", "new_string": "two"}
    provider = engine_harness.use_script(
        Turn(call("read_file", {"files": [{"path": "a.py"}]})),
        Turn(call("edit", edit)),
        Turn(call("write_to_file", {"path": "a.py", "content": "three\n"})),
        finish(),
    )
    await wait_for_ending(await engine_harness.start(policy=Unattended()))
    assert (engine_harness.root / "a.py").read_text() == "three\n"
    assert not any(HEADING in text for text in list_environment_details(provider))


async def seen(
    files: LocalFiles, memory: ReadTracker, name: str, text: str = "one\n"
) -> ResolvedPath:
    (files.root / name).write_text(text)
    place = files.resolve(name)
    kind = await files.stat(place)
    memory.record_seen(place, kind.stamp, text.encode())
    return place


async def test_a_file_that_says_the_same_again_is_not_reported(tmp_path: Path) -> None:
    files, memory = LocalFiles(tmp_path), ReadTracker()
    await seen(files, memory, "a")
    os.utime(tmp_path / "a", ns=(1, 1))
    assert await find_externally_modified_files(memory, files) == []
    (tmp_path / "a").write_text("two\n")
    assert await find_externally_modified_files(memory, files) == ["a"]
    assert await find_externally_modified_files(memory, files) == []
    (tmp_path / "a").write_text("three\n")
    assert await find_externally_modified_files(memory, files) == ["a"]


async def test_a_file_that_is_gone_is_reported_once(tmp_path: Path) -> None:
    files, memory = LocalFiles(tmp_path), ReadTracker()
    await seen(files, memory, "a")
    (tmp_path / "a").unlink()
    assert await find_externally_modified_files(memory, files) == ["a (deleted)"]
    assert await find_externally_modified_files(memory, files) == []


async def test_only_the_files_that_were_seen_last_are_looked_at(tmp_path: Path) -> None:
    files, memory = LocalFiles(tmp_path), ReadTracker()
    for number in range(230):
        await seen(files, memory, f"{number:03}")
    for number in range(230):
        (tmp_path / f"{number:03}").write_text("changed\n")
    modified = await find_externally_modified_files(memory, files)
    assert modified == [f"{number:03}" for number in range(229, 29, -1)]
