"""The judge of frames, and a program of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.acp.protocol_schema import ProtocolSchema
from tests.harness.cli.binary import Joey
from tests.harness.server.packages import installed

JS = Path(__file__).parent / "js"


@pytest.fixture(scope="session")
def sdk() -> Path:
    """The folder with the protocol's package for TypeScript, which brings its schema along."""
    return installed(JS)


@pytest.fixture(scope="session")
def schema(request: pytest.FixtureRequest) -> ProtocolSchema | None:
    """None without npm: then only the tests that are about the schema are skipped."""
    try:
        return ProtocolSchema(request.getfixturevalue("sdk"))
    except pytest.skip.Exception:
        return None


@pytest.fixture
def joey(tmp_path: Path) -> Joey:
    (tmp_path / "work").mkdir()
    return Joey(home=tmp_path / "joey-home", workspace=tmp_path / "work")
