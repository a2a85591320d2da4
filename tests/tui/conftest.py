"""The screen works in a home and a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cli.binary import Joey


@pytest.fixture
def joey(tmp_path: Path) -> Joey:
    (tmp_path / "work").mkdir()
    joey = Joey(home=tmp_path / "joey-home", workspace=tmp_path / "work")
    joey.settings(sandbox="off")
    return joey
