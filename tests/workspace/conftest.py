"""A workspace, and a home for what is kept about it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path.resolve() / "work"
    directory.mkdir()
    return directory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"
