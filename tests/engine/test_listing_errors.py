"""A workspace that cannot be listed is told to the model, and is no reason to stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from joey.engine.asks import Unattended
from tests.harness.engine.engine_harness import EngineHarness, finish, list_texts, wait_for_ending


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_directory(path: Path) -> None:
    path.mkdir()


def link_to_endless_file(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_pipe, make_directory, link_to_endless_file])
async def test_a_task_starts_where_rooignore_cannot_be_read(
    engine_harness: EngineHarness, make: Callable[[Path], None]
) -> None:
    make(engine_harness.root / ".rooignore")
    (engine_harness.root / "a.py").write_text("x\n")
    provider = engine_harness.use_script(finish())
    task = await engine_harness.start(policy=Unattended())
    await wait_for_ending(task)
    assert task.error is None
    sent = list_texts(provider.requests[0].messages[-1])[-1]
    assert "(Not available: " in sent
    assert ".rooignore cannot be used, so every file is hidden" in sent
    assert "a.py" not in sent
