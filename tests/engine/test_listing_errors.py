"""A workspace that cannot be listed is told to the model, and is no reason to stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from joey.engine.asks import Unattended
from tests.engine.engine_harness import EngineHarness, finish, settled, texts


def pipe(path: Path) -> None:
    os.mkfifo(path)


def make_directory(path: Path) -> None:
    path.mkdir()


def without_end(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [pipe, make_directory, without_end])
async def test_a_task_starts_where_rooignore_cannot_be_read(
    workshop: EngineHarness, make: Callable[[Path], None]
) -> None:
    make(workshop.root / ".rooignore")
    (workshop.root / "a.py").write_text("x\n")
    provider = workshop.script(finish())
    task = await workshop.start(policy=Unattended())
    await settled(task)
    assert task.error is None
    sent = texts(provider.requests[0].messages[-1])[-1]
    assert "(Not available: " in sent
    assert ".rooignore cannot be used, so every file is hidden" in sent
    assert "a.py" not in sent
